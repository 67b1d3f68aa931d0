"""Retry copies of rows whose stored copies the broker has lost: the broker takes them as it would have made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.cluster import SendBack
from sprocketmq.spark.retry_copies import retry_copies, send_copies
from sprocketmq.spark.row_retry import DEAD_LETTER_LEVEL, as_send_back, send_back
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.message import MessageExt

Row = dict[str, Any]


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    """On the manual clock: the delays are Apache's own."""
    with EmbeddedRocketMQ() as embedded:
        yield embedded


def rows_of(mq: EmbeddedRocketMQ, topic: str = "flights", **options: str) -> list[Row]:
    """What Spark would hand to foreachBatch."""
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": topic, **options})
    reader = source.reader(source.schema())
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [{**row, "properties": dict(row["properties"])} for batch in batches for row in batch.to_pylist()]


def lost_row(mq: EmbeddedRocketMQ) -> Row:
    """A row whose stored copy is gone from the broker."""
    with mq.producer() as producer:
        producer.send(rmq.Message("flights", b"late", tags="UA", keys="N14228", properties={"year": "2013"}))
    (row,) = rows_of(mq)
    mq.restart_broker()
    return row


def hand_back(
    mq: EmbeddedRocketMQ, row: Row, *, delay_level: int = 0, max_reconsume: int = 16, copied: bool = True
) -> None:
    """Ask the broker first, then send a copy, as a batch does."""
    message = as_send_back(row, delay_level)
    refused = send_back([message], group="delays", namesrv_addr=mq.namesrv_addr, max_reconsume=max_reconsume)
    assert [sent for sent, _ in refused] == ([message] if copied else [])
    if copied:
        places = {(sent.broker_name, sent.commit_log_offset): sent for sent, _ in refused}
        send_copies(retry_copies([row], places, "delays", max_reconsume), "delays", mq.namesrv_addr)


def only(messages: list[MessageExt]) -> MessageExt:
    (message,) = messages
    return message


def test_a_copy_comes_after_ten_seconds_with_the_name_and_the_id_of_its_origin(mq: EmbeddedRocketMQ) -> None:
    row = lost_row(mq)
    hand_back(mq, row)
    assert mq.messages("%RETRY%delays") == []
    mq.advance(9_999)
    assert mq.messages("%RETRY%delays") == []
    mq.advance(1)
    copy = only(mq.messages("%RETRY%delays"))
    assert (copy.body, copy.tags, copy.reconsume_times, copy.message_id) == (b"late", "UA", 1, row["messageId"])
    assert copy.properties["RETRY_TOPIC"] == "flights"
    assert (copy.properties["KEYS"], copy.properties["year"]) == ("N14228", "2013")


def test_the_origin_message_id_names_the_copy_that_was_lost(mq: EmbeddedRocketMQ) -> None:
    with mq.producer() as producer:
        sent = producer.send(rmq.Message("flights", b"late"))
    (row,) = rows_of(mq)
    mq.restart_broker()
    hand_back(mq, row, delay_level=1)
    mq.advance(1_000)
    assert only(mq.messages("%RETRY%delays")).properties["ORIGIN_MESSAGE_ID"] == sent.offset_message_id


def test_without_its_store_host_a_copy_is_named_by_its_senders_id(mq: EmbeddedRocketMQ) -> None:
    row = lost_row(mq)
    del row["storeHost"]
    hand_back(mq, row, delay_level=1)
    mq.advance(1_000)
    assert only(mq.messages("%RETRY%delays")).properties["ORIGIN_MESSAGE_ID"] == row["messageId"]


def test_a_copy_takes_the_delay_level_that_the_row_asked_for(mq: EmbeddedRocketMQ) -> None:
    hand_back(mq, lost_row(mq), delay_level=5)
    mq.advance(59_999)
    assert mq.messages("%RETRY%delays") == []
    mq.advance(1)
    assert only(mq.messages("%RETRY%delays")).reconsume_times == 1


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


def test_a_row_below_its_last_try_is_retried_once_more(mq: EmbeddedRocketMQ) -> None:
    row = lost_row(mq)
    row["reconsumeTimes"] = 2
    hand_back(mq, row, max_reconsume=3)
    assert mq.messages("%DLQ%delays") == []
    mq.advance(60_000)
    assert only(mq.messages("%RETRY%delays")).reconsume_times == 3


def test_a_row_that_asks_for_the_dead_letters_goes_there_on_its_first_try(mq: EmbeddedRocketMQ) -> None:
    row = lost_row(mq)
    hand_back(mq, row, delay_level=DEAD_LETTER_LEVEL)
    dead = only(mq.messages("%DLQ%delays"))
    assert (dead.body, dead.tags, dead.message_id) == (b"late", "UA", row["messageId"])
    assert mq.messages("SCHEDULE_TOPIC_XXXX") == []


def test_a_copy_is_what_the_broker_itself_would_have_made(mq: EmbeddedRocketMQ) -> None:
    with mq.producer() as producer:
        producer.send(rmq.Message("flights", b"late", tags="UA", keys="N14228", properties={"year": "2013"}))
    (row,) = rows_of(mq)
    hand_back(mq, row, copied=False)
    mq.advance(10_000)
    theirs = only(mq.messages("%RETRY%delays"))
    mq.restart_broker()
    hand_back(mq, row)
    mq.advance(10_000)
    ours = only(mq.messages("%RETRY%delays"))
    assert (ours.body, ours.message_id, ours.reconsume_times) == (
        theirs.body,
        theirs.message_id,
        theirs.reconsume_times,
    )
    for name in ("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "TAGS", "KEYS", "UNIQ_KEY", "year", "DELAY", "REAL_TOPIC"):
        assert ours.properties.get(name) == theirs.properties.get(name), name


def test_a_refused_row_that_is_not_there_again_stops_the_batch(mq: EmbeddedRocketMQ) -> None:
    lost = SendBack("broker-a", 4711, topic="flights", message_id="ID7")
    with pytest.raises(ConfigurationError, match=r"1 bad rows .* not there when asked for again.*4711"):
        list(retry_copies([], {("broker-a", 4711): lost}, "delays", 16))
