# SPDX-License-Identifier: Apache-2.0
"""Rows that cannot be messages: the write fails, they are left out, or they become dead letters; and how long rows travel."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from inproc.spark.as_spark import batch_rows
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.send.row_ids import TaskId
from sprocketmq.spark.write.message_sender import MessageSender
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import BrokerData, ClusterInfo

BAD: list[dict[str, Any]] = [
    {"body": None, "topic": "flights", "keys": "none"},
    {"body": "", "topic": "flights", "keys": "empty"},
    {"body": "x" * 2_001, "topic": "flights", "keys": "long"},
    {"body": "x", "topic": None, "keys": "nowhere"},
    {"body": "x", "topic": "flights", "keys": "odd", "properties": [("year", "20\x0213")]},
    {"body": "x", "topic": "flights", "keys": "wide", "properties": [("year", "2" * 40_000)]},
    {"body": "x", "topic": "flights", "keys": "blank", "shardingKey": " "},
    {"body": "x", "topic": "no such!", "keys": "characters"},
    {"body": "x", "topic": "flights", "delayLevel": 19, "keys": "level"},
    {"body": "x", "topic": "SCHEDULE_TOPIC_XXXX", "keys": "system"},
    {"body": "x", "topic": "\x01" + "t" * 300, "keys": "endless"},
]
SCHEMA = pa.schema(
    {
        "body": pa.string(),
        "topic": pa.string(),
        "keys": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()),
        "shardingKey": pa.string(),
        "queueId": pa.int32(),
        "delayLevel": pa.int32(),
    }
)


def send(mq: EmbeddedRocketMQ, rows: list[dict[str, Any]], **options: str) -> MessageSender:
    sender = MessageSender(sink_options({"namesrvAddr": mq.namesrv_addr, "maxMessageBytes": "2000", **options}))
    given = {name for row in rows for name, value in row.items() if value is not None}
    sender.send(pa.RecordBatch.from_pylist(rows, pa.schema([field for field in SCHEMA if field.name in given])))
    return sender


def among_good_ones(*bad: dict[str, Any]) -> list[dict[str, Any]]:
    good = [{"body": f"good {number}", "topic": "flights"} for number in range(20)]
    return [*good[:10], *bad, *good[10:]]


def test_with_dlq_they_are_dead_letters_with_topic_and_reason(mq: EmbeddedRocketMQ) -> None:
    sender = send(mq, among_good_ones(*BAD), onError="dlq", group="loads")
    assert (sender.sent, sender.refused.count) == (20, len(BAD))
    letters = {" ".join(letter.keys): letter for letter in mq.messages("%DLQ%loads")}
    assert letters.keys() == {row["keys"] for row in BAD}
    reasons = {name: letter.properties["RETRY_REASON"] for name, letter in letters.items()}
    assert reasons["long"].startswith("a row for topic 'flights' has a body of 2001 bytes, maxMessageBytes allows 2000")
    assert (len(letters["long"].body), letters["none"].body, letters["odd"].body) == (2_000, b" ", b"x")
    known = {letter.message_id for letter in letters.values()}
    assert len(known) == len(BAD)

    given = {"namesrvaddr": mq.namesrv_addr, "deadlettersof": "loads"}
    mq.wait_until(lambda: batch_rows(**given))
    topics = {row["keys"]: row["topic"] for row in batch_rows(**given)}
    assert topics["characters"] == "no such!"
    assert topics["endless"] == "?" + "t" * 254, "no topic that there may be, so nobody sends it anywhere by mistake"
    assert {topics[name] for name in ("none", "empty", "long", "odd", "wide", "blank")} == {"flights"}


def test_many_rows_of_a_topic_that_cannot_be_are_refused_one_by_one(mq: EmbeddedRocketMQ) -> None:
    sender = send(mq, [{"body": f"{number}", "topic": "no such!"} for number in range(40)], onError="drop")
    assert (sender.sent, sender.refused.count) == (0, 40)


def test_a_queue_that_no_broker_has_now_fails_the_write_whatever_is_to_become_of_bad_rows(mq: EmbeddedRocketMQ) -> None:
    """Its broker may only be away: the row is as good as any."""
    with pytest.raises(ConfigurationError, match="queueId is 99, and topic 'flights' has the writable queues"):
        send(mq, among_good_ones({"body": "x", "topic": "flights", "queueId": 99}), onError="drop")
    assert mq.messages("flights") == []


def test_keys_with_a_null_among_them_are_a_letter_with_the_others(mq: EmbeddedRocketMQ) -> None:
    sender = MessageSender(
        sink_options({"namesrvAddr": mq.namesrv_addr, "topic": "flights", "group": "loads", "onError": "dlq"})
    )
    schema = pa.schema({"body": pa.string(), "keys": pa.list_(pa.string())})
    sender.send(
        pa.RecordBatch.from_pylist([{"body": "x", "keys": ["a", None, "b"]}, {"body": "", "keys": [None]}], schema)
    )
    assert [letter.keys for letter in mq.messages("%DLQ%loads")] in ([["a", "b"], []], [[], ["a", "b"]])


def letters_of(mq: EmbeddedRocketMQ, count: int, task_id: TaskId | None = None) -> MessageSender:
    options = sink_options(
        {"namesrvAddr": mq.namesrv_addr, "topic": "flights", "group": "loads", "onError": "dlq", "retryTimeoutMs": "2s"}
    )
    sender = MessageSender(options, task_id)
    for _ in range(2):
        sender.send(pa.RecordBatch.from_pylist([{"body": ""}] * (count // 2), pa.schema({"body": pa.string()})))
    return sender


def test_the_brokers_are_asked_for_once_however_many_letters_there_are(
    mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    cluster_info = NameServers.cluster_info
    monkeypatch.setattr(NameServers, "cluster_info", lambda self: asked.append(self) or cluster_info(self))
    letters_of(mq, 40)
    assert len(mq.messages("%DLQ%loads")) == 40
    assert len(asked) == 3, "which brokers there are, and for each batch where the chosen one is now"


def test_letters_go_to_another_broker_when_the_first_one_is_dead(
    mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name server still lists it, as it does for two minutes; and one that has a slave alone."""
    info = Cluster.at(mq.namesrv_addr).run(Cluster.at(mq.namesrv_addr).name_servers.cluster_info)
    dead = BrokerData(broker_name="a-dead", broker_addrs={0: "127.0.0.1:1"})
    slave = BrokerData(broker_name="a-slave", broker_addrs={1: mq.broker_addr})
    table = {**info.broker_addr_table, "a-dead": dead, "a-slave": slave}

    async def cluster_info(self: NameServers) -> ClusterInfo:
        return ClusterInfo(table, info.cluster_addr_table)

    monkeypatch.setattr(NameServers, "cluster_info", cluster_info)
    letters_of(mq, 4)
    assert len(mq.messages("%DLQ%loads")) == 4


def test_a_write_that_runs_again_gives_its_letters_the_ids_they_had(mq: EmbeddedRocketMQ) -> None:
    for _ in range(2):
        letters_of(mq, 4, ("q-1", "7", 0))
    letters_of(mq, 4, ("q-1", "8", 0))
    assert sorted(Counter(letter.message_id for letter in mq.messages("%DLQ%loads")).values()) == [1] * 4 + [2] * 4


@pytest.mark.parametrize("key", [None, "N14228"])
def test_long_bodies_are_compressed_and_come_as_they_were(mq: EmbeddedRocketMQ, key: str | None) -> None:
    rows = [
        {"body": str(number % 10) * (number * 100 + 1), "topic": "flights", "shardingKey": key} for number in range(20)
    ]
    sender = send(mq, rows, compressType="zlib", compressOverBytes="1000")
    assert sender.sent == 20
    stored = mq.messages("flights")
    assert sorted(message.body for message in stored) == sorted(row["body"].encode() for row in rows)
    small = [message for message in stored if message.store_size_bytes < len(message.body)]
    assert {len(message.body) for message in small} == {len(row["body"]) for row in rows if len(row["body"]) >= 1_000}
    if key:
        assert [message.body for message in stored] == [row["body"].encode() for row in rows]


def test_more_delay_levels_are_allowed_where_brokers_have_them(mq: EmbeddedRocketMQ) -> None:
    send(mq, [{"body": "x", "topic": "flights", "delayLevel": 19}], maxDelayLevel="19")
    assert [message.delay_level for message in mq.messages("SCHEDULE_TOPIC_XXXX")] == [18], "this one has 18"
