# SPDX-License-Identifier: Apache-2.0
"""One side of a transactional stream, a process of its own: ``python month_process.py task|driver NAMESRV``, a line in and out for each
batch.

task      "7"            --> the messages of its tasks
driver    "7 messages"   --> the decisions that its ledger holds
"""

from __future__ import annotations

import base64
import pickle
import sys

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_task import Task, leave_group
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions import transactional_write
from sprocketmq.spark.transactions.responder import Responder

GROUP, TOPIC = "month", "flights"
ROWS = 3


def main(role: str, namesrv_addr: str) -> None:
    transactional_write.TaskContext = Task  # type: ignore[attr-defined, assignment]
    given = {"namesrvaddr": namesrv_addr, "topic": TOPIC, "group": GROUP, "delivery": "transactional"}
    schema = StructType([StructField("body", BinaryType())])
    print("ready", flush=True)
    for line in sys.stdin:
        batch, _, messages = line.strip().partition(" ")
        Task.batch = int(batch)
        writer = RocketMQDataSource(given).streamWriter(schema, overwrite=False)
        if role == "task":
            rows = pa.record_batch([pa.array([f"{batch}/{row}".encode() for row in range(ROWS)])], names=["body"])
            print(base64.b64encode(pickle.dumps([writer.write(iter([rows]))])).decode(), flush=True)
        else:
            writer.commit(pickle.loads(base64.b64decode(messages)), Task.batch)
            (responder,) = Responder.shared.values()
            (topic,) = responder._ledgers.values()
            assert topic._ledger is not None
            print(topic._ledger.held, flush=True)
    leave_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
