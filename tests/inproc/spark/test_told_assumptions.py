"""What exactly-once writing assumes and does not hold itself is told in a sentence, when it is broken (docs/spark/exactly-once.md)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyspark.sql.types import BinaryType, StructField, StructType
from transactional_sink import ASKED_AT_ONCE, GROUP, LEDGER, rocketmq, stream_writer, write

import sprocketmq as rmq
from spark_task import Task, leave_group
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ

RIGHTS = ["flights=PUB|SUB", f"{LEDGER}=PUB|SUB"]


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    Task.begin(monkeypatch)


def nothing_is_known(_: rmq.Message) -> rmq.LocalTransactionState:
    return rmq.LocalTransactionState.UNKNOWN


def test_a_half_message_of_another_program_is_not_answered_for(caplog: pytest.LogCaptureFixture) -> None:
    with rocketmq(**ASKED_AT_ONCE) as mq:
        stream_writer(mq).commit(write(stream_writer(mq), range(3)), 0)
        with rmq.TransactionProducer(GROUP, check=nothing_is_known, namesrv_addr=mq.namesrv_addr) as other:
            sent = other.send_in_transaction(rmq.Message("flights", b"theirs"), execute=nothing_is_known)
        mq.wait_until(lambda: "is no half message of a Spark write; use another group" in caplog.text)
        assert f"group {GROUP}: {sent.message_id} is no half message" in caplog.text
        assert len(mq.messages("flights")) == 3


def keys(directory: Path, access_key: str) -> str:
    path = directory / f"{access_key}.yml"
    path.write_text(f"accessKey: {access_key}\nsecretKey: {access_key}-secret\n")
    return str(path)


def secured(directory: Path, rights: list[str], **config: object) -> EmbeddedRocketMQ:
    """Knows ``spark777``, who has ``rights``."""
    accounts = [
        {"accessKey": "spark777", "secretKey": "spark777-secret", "topicPerms": rights, "defaultGroupPerm": "SUB"}
    ]
    (directory / "acl.yml").write_text(yaml.safe_dump({"accounts": accounts}))
    return EmbeddedRocketMQ(clock="system", aclEnable="true", aclFile=f"{directory}/acl.yml", **config)


def commit(mq: EmbeddedRocketMQ, key_file: str, batch: int, *bodies: bytes) -> None:
    Task.batch = batch
    given = {"namesrvAddr": mq.namesrv_addr, "topic": "flights", "group": GROUP, "delivery": "transactional"}
    source = RocketMQDataSource({**given, "secretKeyFile": key_file})
    writer = source.streamWriter(StructType([StructField("body", BinaryType())]), overwrite=False)
    writer.commit([writer.write(iter([pa.record_batch({"body": list(bodies)})]))], batch)


def test_a_group_that_may_not_look_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with secured(tmp_path, RIGHTS, **ASKED_AT_ONCE) as mq:
        for topic in ("flights", LEDGER):
            mq.create_topic(topic, queues=1)
        try:
            commit(mq, keys(tmp_path, "spark777"), 0, b"1", b"2")
        finally:
            leave_group()
    assert f"does not let group {GROUP} see what is settled" in caplog.text
