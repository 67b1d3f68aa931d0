# SPDX-License-Identifier: Apache-2.0
"""Retry copies of rows whose stored copies the broker has lost: the broker takes them as it would have made them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import sprocketmq as rmq
from inproc.spark.as_spark import batch_rows
from sprocketmq.core.backoff import Backoff
from sprocketmq.errors import ConfigurationError, RemoteError, RequestTimeout
from sprocketmq.spark.options.source_columns import COLUMNS
from sprocketmq.spark.retry import retry_copies
from sprocketmq.spark.retry.bad_row_sender import BadRowSender
from sprocketmq.spark.retry.bad_rows import BadRow, bad_row
from sprocketmq.spark.retry.retry_copies import send_with_content, with_content
from sprocketmq.spark.retry.send_back import RetryGroup, SendBackRequest
from sprocketmq.spark.send.row_messages import replayed_rows
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.records.message import MessageExt
from sprocketmq.wire.records.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)

Row = dict[str, Any]


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    """On the manual clock: the delays are Apache's own."""
    with EmbeddedRocketMQ() as embedded:
        yield embedded


def rows_of(mq: EmbeddedRocketMQ, topic: str = "flights", **options: str) -> list[Row]:
    """What Spark would hand to foreachBatch."""
    rows = batch_rows(namesrvaddr=mq.namesrv_addr, topic=topic, **options)
    return [{**row, "properties": dict(row["properties"])} for row in rows]


def lost_row(mq: EmbeddedRocketMQ) -> Row:
    """A row whose stored copy is gone from the broker."""
    with mq.producer() as producer:
        producer.send(rmq.Message("flights", b"late", tags="UA", keys="N14228", properties={"year": "2013"}))
    (row,) = rows_of(mq)
    mq.restart_broker()
    return row


def hand_back(
    mq: EmbeddedRocketMQ,
    row: Row,
    *,
    delay_level: int = 0,
    max_reconsume: int = 16,
    copied: bool = True,
    action: str = "retry",
    reason: str = "",
) -> None:
    """The broker is asked first, then a copy is sent, as a batch does."""
    bad = bad_row({**row, "reason": reason}, action, delay_level=delay_level, max_reconsume=max_reconsume)
    hand = BadRowSender(RetryGroup("delays", mq.namesrv_addr, max_reconsume=max_reconsume))
    refused = hand.send_back([BadRow(bad.message)] if not reason else [])
    assert [lost.message for lost, _ in refused] == ([bad.message] if copied and not reason else [])
    if copied or reason:
        assert hand.send_back([bad]) == []


def only(messages: list[MessageExt]) -> MessageExt:
    (message,) = messages
    return message


def test_without_its_store_host_a_copy_is_named_by_its_senders_id(mq: EmbeddedRocketMQ) -> None:
    row = lost_row(mq)
    del row["storeHost"]
    hand_back(mq, row, delay_level=1)
    mq.advance(1_000)
    assert only(mq.messages("%RETRY%delays")).properties["ORIGIN_MESSAGE_ID"] == row["messageId"]


def test_a_copy_is_taken_where_no_topic_is_made_by_itself_and_the_group_never_had_a_member() -> None:
    with EmbeddedRocketMQ(autoCreateTopicEnable=False) as mq:
        mq.create_topic("flights", queues=1)
        row = sent_row(mq)
        hand_back(mq, row, reason="late", delay_level=1)
        mq.advance(1_000)
        assert only(mq.messages("%RETRY%delays")).properties["RETRY_REASON"] == "late"


def test_a_copy_is_tried_until_the_timeout_of_its_user(mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sprocketmq.client.remoting.retrying.Backoff", lambda: Backoff(longest_s=0.1))
    row = sent_row(mq)
    busy = mq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, "too many", times=9)
    hand_back(mq, row, reason="late", delay_level=1)
    assert busy.hits == 9
    mq.advance(1_000)
    assert only(mq.messages("%RETRY%delays")).reconsume_times == 1
    never = mq.faults.drop(SENDS, times=None)
    monkeypatch.setattr(retry_copies, "_TRY_MS", 200)
    bad = bad_row({**row, "reason": "late"}, "retry", delay_level=1, max_reconsume=16)
    with pytest.raises(RequestTimeout):
        BadRowSender(RetryGroup("delays", mq.namesrv_addr, retry_timeout_ms=50)).send_back([bad])
    assert never.hits == 1


def test_every_further_copy_counts_up_waits_longer_and_keeps_its_origin(mq: EmbeddedRocketMQ) -> None:
    row = first = lost_row(mq)
    origin = None
    for times, delay_ms in ((1, 10_000), (2, 30_000), (3, 60_000)):
        hand_back(mq, row)
        mq.advance(delay_ms - 1)
        assert mq.messages("%RETRY%delays") == []
        mq.advance(1)
        copy = only(mq.messages("%RETRY%delays"))
        origin = origin or copy.properties["ORIGIN_MESSAGE_ID"]
        assert copy.properties["ORIGIN_MESSAGE_ID"] == origin
        (row,) = rows_of(mq, "%RETRY%delays", group="delays")
        assert (row["topic"], row["messageId"], row["reconsumeTimes"]) == ("flights", first["messageId"], times)
        mq.restart_broker()


def test_a_row_at_its_last_try_becomes_a_dead_letter_at_once(mq: EmbeddedRocketMQ) -> None:
    row = lost_row(mq)
    row["reconsumeTimes"] = 3
    hand_back(mq, row, max_reconsume=3)
    dead = only(mq.messages("%DLQ%delays"))
    assert (dead.body, dead.message_id, dead.reconsume_times) == (b"late", row["messageId"], 4)
    assert mq.messages("SCHEDULE_TOPIC_XXXX") == []


def test_a_refused_row_that_is_not_there_again_stops_the_batch() -> None:
    lost = BadRow(SendBackRequest("broker-a", 4711, topic="flights", message_id="ID7"))
    with pytest.raises(ConfigurationError, match=r"1 bad rows .* not found when fetched again.*4711"):
        list(with_content([], {lost.place: lost}))
    there = ("brokerName", "commitLogOffset", "topic", "body", "reconsumeTimes")
    without_properties: Any = SimpleNamespace(dtypes=[(name, COLUMNS[name]) for name in there])
    with pytest.raises(ConfigurationError, match="1 bad rows cannot be sent back.*the rows lack properties"):
        send_with_content(without_properties, [(lost, RemoteError(1, "gone", ""))], list)


# -- reasons -----------------------------------------------------------------------------------------------------------------------


def sent_row(mq: EmbeddedRocketMQ, **properties: str) -> Row:
    with mq.producer() as producer:
        producer.send(rmq.Message("flights", b"late", tags="UA", keys="N14228", properties=properties))
    (row,) = rows_of(mq)
    return row


@pytest.mark.parametrize("reason", ["", "no departure\x02 time"], ids=["lost", "with a reason"])
def test_a_copy_is_what_the_broker_itself_would_have_made_with_the_reason(mq: EmbeddedRocketMQ, reason: str) -> None:
    row = sent_row(mq, year="2013")
    hand_back(mq, row, copied=False)
    mq.advance(10_000)
    theirs = mq.messages("%RETRY%delays")
    if not reason:  # with one the broker is not asked, though its record is there
        mq.restart_broker()
    hand_back(mq, row, reason=reason)
    mq.advance(10_000)
    ours = mq.messages("%RETRY%delays")
    assert len(theirs) == 1
    assert len(ours) == (2 if reason else 1)
    assert ours[-1].properties.get("RETRY_REASON") == (reason.replace("\x02", " ") or None)
    assert (ours[-1].body, ours[-1].message_id, ours[-1].reconsume_times) == (b"late", row["messageId"], 1)
    for name in ("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "TAGS", "KEYS", "UNIQ_KEY", "year", "DELAY", "REAL_TOPIC"):
        assert ours[-1].properties.get(name) == theirs[0].properties.get(name), name


def test_the_last_reason_stays_with_the_dead_letter(mq: EmbeddedRocketMQ) -> None:
    hand_back(mq, sent_row(mq), reason="first")
    mq.advance(10_000)
    (again,) = rows_of(mq, "%RETRY%delays")
    hand_back(mq, again, copied=False)  # no reason this time: the broker's own copy keeps the one it has
    mq.advance(30_000)
    again = max(rows_of(mq, "%RETRY%delays"), key=lambda row: row["reconsumeTimes"])
    assert (again["reconsumeTimes"], again["properties"]["RETRY_REASON"]) == (2, "first")
    hand_back(mq, again, reason="second", max_reconsume=2)
    dead = only(mq.messages("%DLQ%delays"))
    assert (dead.properties["RETRY_REASON"], dead.properties["RETRY_TOPIC"]) == ("second", "flights")


def test_a_reason_that_is_too_long_is_cut_and_never_fails_its_row(mq: EmbeddedRocketMQ) -> None:
    hand_back(mq, sent_row(mq, note="x" * 32_000), reason="ä" * 5_000, action="dlq")
    dead = only(mq.messages("%DLQ%delays"))
    assert dead.properties["RETRY_REASON"] in ("ä" * 512, "?")
    mq.restart_broker()
    hand_back(mq, sent_row(mq), reason="ä" * 5_000, action="dlq")
    assert only(mq.messages("%DLQ%delays")).properties["RETRY_REASON"] == "ä" * 512


# -- dead letters ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["%DLQ%delays", "%RETRY%delays", None])
def test_a_letter_that_does_not_say_where_it_came_from_is_not_replayed(topic: str | None) -> None:
    columns = {"body": [b"late"], "topic": [topic], "properties": [{}]}
    with pytest.raises(ConfigurationError, match="is not its original topic"):
        list(replayed_rows(columns, None))
    assert [row.message.topic for row in replayed_rows(columns, "flights")] == ["flights"]


@pytest.mark.parametrize("body", [b"not zlib at all", b"x" * 10_000])
def test_a_body_that_cannot_be_decompressed_is_sent_back_unchanged_with_its_flags(
    mq: EmbeddedRocketMQ, body: bytes
) -> None:
    row = {**lost_row(mq), "body": body, "sysFlag": COMPRESSED | 0x300}
    hand_back(mq, row, reason="packed in a way that is unknown here")
    mq.advance(10_000)
    copy = only(mq.messages("%RETRY%delays"))
    assert copy.body == body
    assert copy.sys_flag & (COMPRESSED | COMPRESSION_TYPE_MASK) == COMPRESSED | 0x300


def test_a_reason_does_not_stand_in_the_way_of_a_copy(mq: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture) -> None:
    row = sent_row(mq)
    mq.faults.fail(SENDS, ResponseCode.MESSAGE_ILLEGAL, "too large", times=1)
    hand_back(mq, row, reason="late", delay_level=1)
    mq.advance(1_000)
    copy = only(mq.messages("%RETRY%delays"))
    assert (copy.body, "RETRY_REASON" in copy.properties) == (row["body"], False)
    assert f"the copy of {row['messageId']} with its reason is not stored safely" in caplog.text


def test_copies_that_are_at_no_slave_yet_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sends them again until a slave is there has them hundreds of times."""
    caplog.set_level(logging.DEBUG, "sprocketmq.spark")  # one line a minute is a warning
    with EmbeddedRocketMQ(clock="system", brokerRole="SYNC_MASTER", messageDelayLevel="1s") as mq:
        row = sent_row(mq)
        hand_back(mq, row, reason="late", delay_level=1)
        assert f"the copy of {row['messageId']} is stored with SLAVE_NOT_AVAILABLE" in caplog.text
        mq.wait_until(lambda: [copy.reconsume_times for copy in mq.messages("%RETRY%delays")] == [1])
        mq.restart_broker()  # which loses the record
        caplog.clear()
        hand_back(mq, row, delay_level=1)
        assert f"the copy of {row['messageId']} is stored with SLAVE_NOT_AVAILABLE" in caplog.text
        mq.wait_until(lambda: len(mq.messages("%RETRY%delays")) == 1)


def test_a_row_does_not_double_with_each_try_while_a_slave_is_away(
    mq: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache stores the copy of a send-back and refuses the request by the name of the PutMessageStatus."""
    caplog.set_level(logging.DEBUG, "sprocketmq.spark")
    row = sent_row(mq)
    for status in ("SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT", "FLUSH_DISK_TIMEOUT"):
        with mq.faults.fail(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, status):
            hand_back(mq, row, copied=False)
        assert f"the copy of {row['messageId']} is stored with {status}, and lost if that machine" in caplog.text
    assert mq.messages("SCHEDULE_TOPIC_XXXX") == []


def test_a_dead_letter_with_its_reason_that_is_at_no_slave_is_made_once_more() -> None:
    with EmbeddedRocketMQ(clock="system", brokerRole="SYNC_MASTER") as mq:
        hand_back(mq, sent_row(mq), reason="late", action="dlq")
        assert sorted("RETRY_REASON" in letter.properties for letter in mq.messages("%DLQ%delays")) == [False, True]


def test_the_log_names_dead_letters_and_counts_what_comes_again(
    mq: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture
) -> None:
    with mq.producer() as producer:
        for number in range(10):
            producer.send(rmq.Message("flights", b"%d" % number, keys=f"k{number}"))
    sender = BadRowSender(RetryGroup("delays", mq.namesrv_addr, max_reconsume=2))
    bad = [
        bad_row({**row, "reason": f"why {at}"}, "dlq" if at < 7 else "retry", delay_level=0, max_reconsume=2)
        for at, row in enumerate(rows_of(mq))
    ]
    sender.send_back(sender.first_of_each_message(bad))
    with caplog.at_level("INFO", "sprocketmq.spark"):
        sender.log_result("batch 3", dropped=1)
    warning, info = [record for record in caplog.records if record.getMessage().startswith("batch 3")]
    first = bad[0].message.message_id
    assert warning.levelname == "WARNING"
    assert warning.getMessage().startswith(f"batch 3 of group delays: 7 rows became dead letters: {first} (keys k")
    assert f"try 1 of 3: {bad[0].reason})" in warning.getMessage()
    assert warning.getMessage().endswith(" and 2 more")
    assert info.getMessage() == (
        "batch 3 of group delays: 3 again at delay level 3 (10s by default, try 1 of 3), 1 rows dropped"
    )
