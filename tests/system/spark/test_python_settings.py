# SPDX-License-Identifier: Apache-2.0
"""Spark's settings about Python: how its workers are started, used again, watched and talked to. With them all kinds of work are
done in one session: a batch read, a stream, both sinks, and a row that is sent back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]

JOB = Path(__file__).with_name("job_of_all_kinds.py")
SETTINGS: Final = (
    ("spark.python.use.daemon=false",),
    ("spark.python.worker.reuse=false",),
    ("spark.python.worker.faulthandler.enabled=true",),
    ("spark.python.unix.domain.socket.enabled=true",),
    ("spark.sql.pyspark.worker.logging.enabled=true",),
    ("spark.sql.execution.arrow.useLargeVarTypes=true",),
    (
        "spark.python.use.daemon=false",
        "spark.python.unix.domain.socket.enabled=true",
        "spark.python.worker.reuse=false",
    ),
    (
        "spark.executor.pyspark.memory=1g",
        "spark.python.factory.idleWorkerMaxPoolSize=1",
        "spark.python.worker.killOnIdleTimeout=true",
        "spark.sql.ansi.enabled=false",
        "spark.sql.caseSensitive=true",
        "spark.sql.execution.arrow.maxRecordsPerBatch=1",
        "spark.sql.execution.pyspark.binaryAsBytes=false",
        "spark.sql.planner.pythonExecution.memory=512m",
        "spark.sql.pyspark.dataSource.profiler=perf",
        "spark.sql.python.filterPushdown.enabled=true",
    ),
)


@pytest.mark.parametrize("settings", SETTINGS, ids=", ".join)
def test_every_kind_of_work_is_done_with_them(mq: EmbeddedRocketMQ, tmp_path: Path, settings: tuple[str, ...]) -> None:
    for topic in ("flights", "copy", "again"):
        mq.create_topic(topic, queues=2)
    with mq.producer() as producer:
        producer.send_batch([rmq.Message("flights", b"%d" % number) for number in range(6)])
    command = [sys.executable, JOB, mq.namesrv_addr, str(tmp_path), *settings]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environment, cwd=tmp_path, text=True, capture_output=True, timeout=500)
    assert done.returncode == 0, done.stderr[-4_000:]
    numbers = list(range(6))
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {
        "read": numbers,
        "good": [0, 1, 2, 4, 5],
        "copy": numbers,
    }
    assert sorted(int(message.body) for message in mq.messages("again")) == numbers
    assert [(dead.body, dead.properties["RETRY_REASON"]) for dead in mq.messages("%DLQ%delays")] == [(b"3", "three")]
