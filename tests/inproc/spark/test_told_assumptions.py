# SPDX-License-Identifier: Apache-2.0
"""What exactly-once writing assumes and does not hold itself is told in a sentence, when it is broken (docs/spark/exactly-once.md)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyspark.sql.types import BinaryType, StructField, StructType

import sprocketmq as rmq
from inproc.spark.transactional_sink import ASKED_AT_ONCE, GROUP, LEDGER, rocketmq, stream_writer, write
from spark_task import Died, Task, dies, leave_group
from sprocketmq.core.access.users import UserTable
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions import transactional_write
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import PolicyEntryInfo, PolicyInfo, UserInfo

HALVES, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
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


def commit(mq: EmbeddedRocketMQ, key_file: str, *bodies: bytes) -> None:
    given = {"namesrvAddr": mq.namesrv_addr, "topic": "flights", "group": GROUP, "delivery": "transactional"}
    source = RocketMQDataSource({**given, "settleTimeoutMs": "5s", "secretKeyFile": key_file})
    writer = source.streamWriter(StructType([StructField("body", BinaryType())]), overwrite=False)
    writer.commit([writer.write(iter([pa.record_batch({"body": list(bodies)})]))], 0)


def test_a_warning_is_logged_if_a_group_may_not_read_what_is_settled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with secured(tmp_path, RIGHTS, **ASKED_AT_ONCE) as mq:
        for topic in ("flights", LEDGER):
            mq.create_topic(topic, queues=1)
        commit(mq, keys(tmp_path, "spark777"), b"1", b"2")
    assert f"does not let group {GROUP} see what is settled" in caplog.text


@pytest.mark.slow
def test_a_warning_is_logged_if_a_group_may_not_resume_half_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users as 5.x has them: taking up is an administrator's right there."""
    users = {
        "authenticationEnabled": True,
        "authorizationEnabled": True,
        "initAuthenticationUser": '{"username":"boss777","password":"boss777-secret"}',
    }
    asked_twice = {"transactionTimeOut": 3_000, "transactionCheckInterval": 500, "transactionCheckMax": 2}
    with EmbeddedRocketMQ(clock="system", **users, **asked_twice) as mq:
        for topic in ("flights", LEDGER):
            mq.create_topic(topic, queues=1)
        mq._on_loop(lambda: a_user_who_may_write_and_look(mq.broker.users.table))
        with monkeypatch.context() as patched:
            patched.setattr(transactional_write.TransactionalWrite, "_end", dies)
            with pytest.raises(Died):
                commit(mq, keys(tmp_path, "spark777"), b"1", b"2")
        leave_group()
        mq.wait_until(
            lambda: mq._on_loop(lambda: mq.broker.topics.get(GIVEN_UP)) and len(mq.messages(GIVEN_UP)) == 2, 60_000
        )
        commit(mq, keys(tmp_path, "spark777"), b"1", b"2")
    assert f"holds decided rows of group {GROUP} in {GIVEN_UP} and refuses to take them up again" in caplog.text
    assert "run 'sprocketmq settle' with the account of an administrator" in caplog.text


def a_user_who_may_write_and_look(table: UserTable) -> None:
    table.create_user(UserInfo("spark777", "spark777-secret"))
    topics = {"flights": ["Pub", "Sub"], LEDGER: ["Pub", "Sub", "Get"], HALVES: ["Sub"], GIVEN_UP: ["Sub"]}
    entries = [PolicyEntryInfo(f"Topic:{topic}", rights, None, "Allow") for topic, rights in topics.items()]
    entries.append(PolicyEntryInfo("Cluster:DefaultCluster", ["Get"], None, "Allow"))
    entries += [PolicyEntryInfo(f"Group:{name}", ["Sub"], None, "Allow") for name in (GROUP, "CID_RMQ_SYS_TRANS")]
    table.update_acl("spark777", [PolicyInfo("Custom", entries)])
