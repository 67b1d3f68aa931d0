# SPDX-License-Identifier: Apache-2.0
"""Keys are nowhere to be read: not in plans, progress, errors, logs, Spark's event log or checkpoints, classic or with Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).with_name("shown_secrets.py")
SECRET = "sesame-open-77"


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_nothing_that_spark_shows_or_keeps_has_a_key_in_it(mq: EmbeddedRocketMQ, tmp_path: Path, kind: str) -> None:
    if kind == "connect":
        pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    with mq.producer() as producer:
        producer.send_batch([rmq.Message("flights", str(number).encode()) for number in range(10)])
    keys = tmp_path / "keys.yml"
    keys.write_text(f"accessKey: key-{SECRET}\nsecretKey: {SECRET}\nsecurityToken: token-{SECRET}\n")
    directory = tmp_path / "job"
    directory.mkdir()
    command = [sys.executable, PROGRAM, kind, str(directory), str(keys), mq.namesrv_addr, SECRET]
    environment = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        command, env={**os.environ, **environment}, cwd=tmp_path, text=True, capture_output=True, timeout=800
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert len(mq.messages("copy")) == 20  # a broker without access control does not mind a signature
    kept = {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}
    assert any(b"SparkListenerSQLExecutionStart" in content for content in kept.values())
    assert any(file.parent.name == "offsets" for file in kept)
    assert done.stdout.count("failed as it should") == 4
    shown = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode(), **kept}
    assert [str(where) for where, content in shown.items() if SECRET.encode() in content] == []
