# SPDX-License-Identifier: Apache-2.0
"""A queue whose pulls are answered with what cannot be used: it waits, and says so at ERROR, again each minute.

Bodies that cannot be opened go the way that was chosen.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest
from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.client.remoting import message_writer
from sprocketmq.testing import PULLS, EmbeddedRocketMQ
from sprocketmq.wire.records.sys_flag import COMPRESSED

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "cannot be read at offset" in record.getMessage()]


def _of_flights(command: object) -> bool:
    return getattr(command, "ext_fields", {}).get("topic") == "flights"


def test_a_refusal_is_told_at_once_and_each_minute_and_nothing_is_skipped(rocketmq, producer, consumers, caplog):
    refused = rocketmq.faults.fail(PULLS, 16, "topic flights may not be read", times=None, when=_of_flights)
    recorder = Recorder()
    send_all(producer, ["0"])
    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        consumers(recorder)
        rocketmq.advance_until(lambda: len(_told(caplog)) == 1, limit_ms=20_000)
        assert "flights/broker-a/0 cannot be read at offset 0" in _told(caplog)[0]
        assert "may not be read" in _told(caplog)[0]
        first_ms = rocketmq.clock.now_ms()
        rocketmq.advance_until(lambda: len(_told(caplog)) == 2, limit_ms=120_000)
        assert rocketmq.clock.now_ms() - first_ms >= 55_000
    refused.remove()
    rocketmq.advance_until(lambda: recorder.bodies == ["0"])


def test_a_refusal_that_may_pass_is_told_after_a_minute(rocketmq, producer, consumers, caplog):
    rocketmq.faults.fail(PULLS, 1, "not now", times=None, when=_of_flights)
    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        consumers(Recorder())
        begin_ms = rocketmq.clock.now_ms()
        rocketmq.advance_until(lambda: _told(caplog), limit_ms=120_000)
        assert rocketmq.clock.now_ms() - begin_ms >= 55_000


def test_a_missing_library_is_named_with_what_to_install(rocketmq, consumers, caplog, monkeypatch):
    pytest.importorskip("zstandard")
    with rocketmq.producer("zstd", compress_type="ZSTD", compress_msg_body_over_bytes=10) as producer:
        send_all(producer, ["x" * 1000])
    recorder = Recorder()
    with monkeypatch.context() as without, caplog.at_level(logging.ERROR, "sprocketmq.client"):
        without.setitem(sys.modules, "zstandard", None)
        consumers(recorder)
        rocketmq.advance_until(lambda: _told(caplog), limit_ms=20_000)
        assert "pip install 'sprocketmq[compression]'" in _told(caplog)[0]
        assert len(recorder) == 0
    # Its loop goes on: a rebalance would take up a queue whose loop ended after 120 s.
    rocketmq.advance_until(lambda: recorder.bodies == ["x" * 1000], limit_ms=60_000)


def _send_with_a_broken_one_in_the_middle(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three messages of one queue, of which the second says that it is compressed, and is not."""
    send_all(producer, ["0"])
    with monkeypatch.context() as broken, rocketmq.producer("broken", compress_msg_body_over_bytes=10) as other:
        broken.setattr(message_writer, "compress", lambda body, *_: b"not compressed")
        send_all(other, ["x" * 1000])
    send_all(producer, ["2"])


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


CHOICES = [
    (None, ["0", "not compressed", "2"], "it is passed on as it is stored"),
    ("DELIVER", ["0", "not compressed", "2"], "it is passed on as it is stored"),
    (rmq.UnreadableBody.SKIP, ["0", "2"], "it is skipped"),
]


@pytest.mark.parametrize(("choice", "seen", "end"), CHOICES)
@pytest.mark.parametrize("kind", ["message", "orderly"])
def test_a_body_that_cannot_be_opened_is_logged_and_treated_as_the_option_says(
    rocketmq, producer, consumers, caplog, monkeypatch, kind, choice, seen, end
):
    _send_with_a_broken_one_in_the_middle(rocketmq, producer, monkeypatch)
    bodies: list[str] = []

    def listen(given: Any, *_: object) -> Any:
        bodies.extend(message.body.decode() for message in (given if kind == "orderly" else [given]))
        return rmq.ConsumeOrderlyStatus.SUCCESS if kind == "orderly" else None

    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        consumer = consumers(listen, kind=kind, unreadable_body=choice, consume_thread_count=1)
        rocketmq.advance_until(lambda: len(bodies) == len(seen), limit_ms=20_000)
        consumer.shutdown()
    assert bodies == seen
    assert rocketmq.consumer_offset("delays", "flights") == {0: 3}
    (told,) = _errors(caplog)
    assert "at offset 1 of flights/broker-a/0 cannot be opened (a ZLIB body of 14 bytes" in told
    assert end in told


def test_a_queue_that_is_to_stop_at_such_a_body_hands_on_what_lies_before_and_says_where_it_waits(
    rocketmq, producer, consumers, caplog, monkeypatch
):
    _send_with_a_broken_one_in_the_middle(rocketmq, producer, monkeypatch)
    recorder = Recorder()
    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        consumer = consumers(recorder, unreadable_body="STOP")
        rocketmq.advance_until(lambda: len(_told(caplog)) == 2, limit_ms=120_000)
        consumer.shutdown()
    assert recorder.bodies == ["0"]
    assert rocketmq.consumer_offset("delays", "flights") == {0: 1}
    assert "flights/broker-a/0 cannot be read at offset 1, its messages have waited there" in _told(caplog)[0]
    assert "with unreadable_body='SKIP' or 'DELIVER' the queue continues" in _told(caplog)[0]


def test_a_body_that_the_filter_leaves_out_stops_nothing(rocketmq, producer, caplog, monkeypatch):
    # "BB" and "Aa" have one hash in Java, so the broker gives both.
    with monkeypatch.context() as broken, rocketmq.producer("more", compress_msg_body_over_bytes=10) as other:
        broken.setattr(message_writer, "compress", lambda body, *_: b"not compressed")
        other.send(rmq.Message("flights", b"x" * 1000, tags="BB"))
    producer.send(rmq.Message("flights", b"wanted", tags="Aa"))
    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        options = {"unreadable_body": "STOP", "consume_from_where": FIRST}
        with rocketmq.pull_consumer("backfill", **options) as consumer:
            consumer.subscribe("flights", "Aa")
            assert [message.body for message in consumer.poll(timeout_ms=30_000)] == [b"wanted"]
    assert _errors(caplog) == []


@pytest.mark.parametrize(("choice", "count"), [("SKIP", 2), ("DELIVER", 3)])
def test_a_pull_consumer_has_the_choice_too_and_a_missing_library_is_no_other_matter(
    rocketmq, producer, caplog, monkeypatch, choice, count
):
    pytest.importorskip("zstandard")
    send_all(producer, ["0"])
    with rocketmq.producer("zstd", compress_type="ZSTD", compress_msg_body_over_bytes=10) as other:
        send_all(other, ["x" * 1000])
    send_all(producer, ["2"])
    monkeypatch.setitem(sys.modules, "zstandard", None)

    async def main() -> list[rmq.MessageExt]:
        consumer = rocketmq.async_pull_consumer("backfill", consume_from_where=FIRST, unreadable_body=choice)
        found: list[rmq.MessageExt] = []
        async with consumer:
            await consumer.assign([rmq.MessageQueue("flights", "broker-a", 0)])
            while len(found) < count:
                more = await consumer.poll(timeout_ms=30_000)
                assert more
                found += more
        return found

    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        found = asyncio.run(main())
    assert [message.queue_offset for message in found] == ([0, 2] if choice == "SKIP" else [0, 1, 2])
    assert [message.sys_flag & COMPRESSED for message in found] == [0] * 2 if choice == "SKIP" else [0, COMPRESSED, 0]
    (told,) = _errors(caplog)
    assert "pip install 'sprocketmq[compression]'" in told
    assert rocketmq.consumer_offset("backfill", "flights") == {0: 3}
