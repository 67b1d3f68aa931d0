# SPDX-License-Identifier: Apache-2.0
"""Copies of messages whose body cannot be opened here: the copy says that it is compressed, as the message does."""

from __future__ import annotations

import sys

import pytest
from recorder import Recorder

import sprocketmq as rmq
from sprocketmq.client.remoting import message_writer
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.records.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK

PLAIN = b"flight 1234 " * 500
LIBRARIES = {"LZ4": "lz4.frame", "ZSTD": "zstandard"}
KINDS = ["ZLIB", "LZ4", "ZSTD", "broken"]


def send(rocketmq: EmbeddedRocketMQ, kind: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """What the stored body is."""
    if kind in LIBRARIES:
        pytest.importorskip(LIBRARIES[kind])
    compress_type = "ZLIB" if kind == "broken" else kind
    with rocketmq.producer("ops", compress_type=compress_type) as producer, monkeypatch.context() as sending:
        if kind == "broken":
            sending.setattr(message_writer, "compress", lambda body, *_: b"not compressed " * 300)
        producer.send(rmq.Message("flights", PLAIN, keys="k"))
    return b"not compressed " * 300 if kind == "broken" else PLAIN


def bits(message: rmq.MessageExt) -> int:
    return message.sys_flag & (COMPRESSED | COMPRESSION_TYPE_MASK)


def refuse(message: rmq.MessageExt) -> None:
    if message.reconsume_times == 0:
        raise ValueError("not now")


@pytest.mark.parametrize("way", ["broker", "client"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_one_member_cannot_open_is_opened_by_another_after_its_retry(
    rocketmq, consumers, monkeypatch, kind, way
):
    whole = send(rocketmq, kind, monkeypatch)
    if way == "client":
        rocketmq.faults.fail(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, times=None)
    recorder = Recorder(refuse)
    with monkeypatch.context() as without:
        if kind in LIBRARIES:
            without.setitem(sys.modules, LIBRARIES[kind], None)
        consumer = consumers(recorder, unreadable_body="DELIVER")
        rocketmq.advance_until(lambda: len(recorder) == 2, limit_ms=60_000)
        consumer.shutdown()
    first, again = recorder.messages
    if kind == "ZLIB":
        assert (first.body, again.body) == (whole, whole)
        return
    assert first.sys_flag & COMPRESSED
    assert (again.body, bits(again)) == (first.body, bits(first))
    if kind == "broken":
        return
    (stored,) = rocketmq.messages("%RETRY%delays")
    assert stored.body == whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_letter_that_cannot_be_opened_is_read_and_replayed_as_it_is_stored(
    rocketmq, consumers, monkeypatch, kind
):
    def die(message: rmq.MessageExt) -> None:
        raise rmq.DeadLetter  # without a reason: the broker copies its own record

    whole = send(rocketmq, kind, monkeypatch)
    consumer = consumers(Recorder(die))
    rocketmq.wait_until(lambda: len(rocketmq.messages("%DLQ%delays")) == 1)
    consumer.shutdown()
    with (
        rmq.DeadLetters("delays", namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock) as letters,
        monkeypatch.context() as without,
    ):
        if kind in LIBRARIES:
            without.setitem(sys.modules, LIBRARIES[kind], None)
        report = letters.replay_all()
    assert (len(report.replayed), report.error) == (1, None)
    first, again = rocketmq.messages("flights")
    assert (again.body, bits(again)) == (first.body, bits(first))
    assert kind == "broken" or again.body == whole
