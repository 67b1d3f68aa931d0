# SPDX-License-Identifier: Apache-2.0
"""Half messages that Apache's brokers gave up: a batch of them is not decided, and decided ones are taken up again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import sprocketmq as rmq
from interop.peers import VERSIONS, ApacheCluster, poll_until
from interop.send_ledger import bodies_of
from spark_task import Died, Task, dies, leave_group
from sprocketmq.cli.frame.target import Target
from sprocketmq.cli.settle import settle_half_messages
from sprocketmq.core.resource_names import TRANS_CHECK_MAX_TIME_TOPIC
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions import transactional_write
from sprocketmq.spark.write.writer import StreamWriter

SCHEMA = StructType([StructField("body", BinaryType())])
# Rounds each second in 5.4, each minute in 4.9: a half is asked about once, and given up in the round after that.
CONF = {"transactionTimeOut": 6_000, "transactionCheckInterval": 1_000, "transactionCheckMax": 1}
THREE_ROUNDS_S = 240


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Task.begin(monkeypatch, f"q-{time.time_ns()}")
    yield
    leave_group()


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_apache_drops_a_transaction_that_is_never_ended(servers, version, monkeypatch):
    apache = servers.apache(version, **CONF)
    topic = f"long-{time.time_ns()}"
    apache.create_topic(topic, 2)

    def writer() -> StreamWriter:
        given = {"namesrvaddr": apache.namesrv_addr, "topic": topic, "group": topic, "delivery": "transactional"}
        return RocketMQDataSource(given).streamWriter(SCHEMA, overwrite=False)

    def write(*rows: int) -> list[Any]:
        bodies = pa.array([b"%d" % row for row in rows], pa.binary())
        return [writer().write(iter([pa.record_batch([bodies], names=["body"])]))]

    before = given_up(apache)
    decided = write(*range(10))
    with monkeypatch.context() as patched:
        patched.setattr(transactional_write.TransactionalWrite, "_end", dies)
        with pytest.raises(Died):
            writer().commit(decided, 0)
    Task.batch = 1
    undecided = write(*range(10, 15))
    leave_group()
    poll_until(lambda: given_up(apache) >= before + 15, "all halves are given up", THREE_ROUNDS_S)
    with pytest.raises(ConfigurationError, match="batch 1 is not decided: its oldest row was sent"):
        writer().commit(undecided, 1)
    assert settle_half_messages(topic, (topic,), Target(apache.namesrv_addr), THREE_ROUNDS_S) == 0
    poll_until(lambda: len(bodies_of(apache.namesrv_addr, topic)) >= 10, "the rows")
    assert bodies_of(apache.namesrv_addr, topic) == [str(row) for row in range(10)]


def given_up(apache: ApacheCluster) -> int:
    with rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin:
        if TRANS_CHECK_MAX_TIME_TOPIC not in admin.topics():
            return 0
        return sum(admin.max_offset(queue) for queue in admin.queues(TRANS_CHECK_MAX_TIME_TOPIC))
