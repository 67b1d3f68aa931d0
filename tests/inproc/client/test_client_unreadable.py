"""A queue whose pulls are answered with what cannot be used: it waits, and says so at ERROR, again each minute."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import pytest
from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.testing import PULLS, EmbeddedRocketMQ

Consumers = Callable[..., rmq.PushConsumer]


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "cannot be read at offset" in record.getMessage()]


def _of_flights(command: object) -> bool:
    return getattr(command, "ext_fields", {}).get("topic") == "flights"


def test_a_refusal_is_told_at_once_and_each_minute_and_nothing_is_skipped(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    rocketmq.create_topic("flights", queues=1)
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


def test_a_refusal_that_may_pass_is_told_after_a_minute(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    rocketmq.create_topic("flights", queues=1)
    rocketmq.faults.fail(PULLS, 1, "not now", times=None, when=_of_flights)
    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        consumers(Recorder())
        begin_ms = rocketmq.clock.now_ms()
        rocketmq.advance_until(lambda: _told(caplog), limit_ms=120_000)
        assert rocketmq.clock.now_ms() - begin_ms >= 55_000


def test_a_missing_library_is_named_with_what_to_install(
    rocketmq: EmbeddedRocketMQ,
    consumers: Consumers,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("zstandard")
    rocketmq.create_topic("flights", queues=1)
    with rocketmq.producer("zstd", compress_type="ZSTD", compress_msg_body_over_bytes=10) as producer:
        send_all(producer, ["x" * 1000])
    recorder = Recorder()
    with monkeypatch.context() as without, caplog.at_level(logging.ERROR, "sprocketmq.client"):
        without.setitem(sys.modules, "zstandard", None)
        consumers(recorder)
        rocketmq.advance_until(lambda: _told(caplog), limit_ms=20_000)
        assert "pip install sprocketmq[compression]" in _told(caplog)[0]
        assert len(recorder) == 0
    rocketmq.advance_until(lambda: recorder.bodies == ["x" * 1000])
