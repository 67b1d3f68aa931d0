# SPDX-License-Identifier: Apache-2.0
"""Listeners that raise RetryLater or DeadLetter, concurrent and orderly, with and without the broker's help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from recorder import Recorder, committed, send_all

import sprocketmq as rmq
from sprocketmq.testing import SENDS
from sprocketmq.wire.codes import ResponseCode


def _once(signal: BaseException) -> Callable[[rmq.MessageExt], None]:
    """Raises with bodies that begin with "bad" on their first delivery."""

    def answer(message: rmq.MessageExt) -> None:
        if message.body.startswith(b"bad") and message.reconsume_times == 0:
            raise signal

    return answer


def test_dead_letter_goes_straight_to_the_dead_letter_topic(rocketmq, producer, consumers):
    recorder = Recorder(_once(rmq.DeadLetter()))
    consumer = consumers(recorder)
    (result, _) = send_all(producer, ["bad", "good"])
    rocketmq.wait_until(lambda: len(rocketmq.messages("%DLQ%delays")) == 1)
    (dead,) = rocketmq.messages("%DLQ%delays")
    assert (dead.message_id, dead.properties["RETRY_TOPIC"], dead.reconsume_times) == (result.message_id, "flights", 1)
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 2)
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []
    rocketmq.advance(60_000)
    assert recorder.bodies.count("bad") == 1


def test_an_orderly_queue_pauses_for_as_long_as_retry_later_says(rocketmq, producer, consumers):
    seen: list[tuple[str, int]] = []
    called_ms: list[int] = []

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> Any:
        called_ms.append(rocketmq.clock.now_ms())
        seen.append((messages[0].body.decode(), messages[0].reconsume_times))
        if seen == [("1", 0)]:
            raise rmq.RetryLater(delay_ms=20_000)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    consumers(listener, kind="orderly")
    rocketmq.advance(1_000)
    send_all(producer, ["1", "2"])
    rocketmq.advance_until(lambda: len(seen) == 3)
    assert called_ms[1] - called_ms[0] >= 20_000
    assert seen == [("1", 0), ("1", 1), ("2", 0)]


@pytest.mark.parametrize("kind", ["message", "concurrent", "orderly"])
def test_the_reason_of_a_dead_letter_is_kept_with_it(rocketmq, producer, consumers, kind):
    reason = f"no such\x02flight: {'x' * 2_000}"

    def several(messages: list[rmq.MessageExt], context: Any) -> Any:
        raise rmq.DeadLetter(reason)

    def one(message: rmq.MessageExt) -> None:
        raise rmq.DeadLetter(reason)

    sent = producer.send(rmq.Message("flights", b"x", tags="UA", keys="N1", properties={"year": "2013"}))
    born_ms = rocketmq.messages("flights")[0].born_timestamp_ms
    rocketmq.advance(60_000)
    consumer = consumers(one if kind == "message" else several, kind=kind)
    with rmq.DeadLetters("delays", namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock) as letters:
        rocketmq.advance_until(lambda: letters.count() == 1)
        (letter,) = letters.read()
        assert letter.reason == f"no such flight: {'x' * 1_008}"
        assert (letter.message_id, letter.origin_topic, letter.deliveries) == (sent.message_id, "flights", 1)
        assert (letter.message.tags, letter.message.keys, letter.message.properties["year"]) == ("UA", ["N1"], "2013")
        assert letter.origin_offset_message_id == sent.offset_message_id
        assert letter.message.born_timestamp_ms == born_ms
        assert "BORN_TIMESTAMP" not in letter.message.properties
        rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 1)
        letters.replay(letter)
    assert "RETRY_REASON" not in rocketmq.messages("flights")[1].properties


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ValueError("card refused"), "ValueError: card refused"),
        (rmq.RetryLater("the tower is silent"), "the tower is silent"),
        (rmq.RetryLater(), None),
    ],
)
@pytest.mark.parametrize("kind", ["message", "concurrent", "orderly"])
def test_the_last_failure_is_the_reason_of_a_dead_letter(rocketmq, producer, consumers, kind, failure, reason):
    def one(message: rmq.MessageExt) -> None:
        raise failure

    def several(messages: list[rmq.MessageExt], context: Any) -> Any:
        raise failure

    consumers(one if kind == "message" else several, kind=kind, max_reconsume_times=1)
    send_all(producer, ["bad"])
    rocketmq.advance_until(lambda: rocketmq.messages("%DLQ%delays"))
    (dead,) = rocketmq.messages("%DLQ%delays")
    assert (dead.properties.get("RETRY_REASON"), dead.reconsume_times) == (reason, 2)


def test_a_dead_letter_whose_copy_is_refused_is_made_by_the_broker_without_its_reason(
    rocketmq, producer, consumers, caplog
):
    copies = rocketmq.faults.fail(
        SENDS,
        ResponseCode.MESSAGE_ILLEGAL,
        "too large",
        times=None,
        when=lambda command: command.ext_fields.get("b") == "%RETRY%delays",
    )
    consumer = consumers(Recorder(_once(rmq.DeadLetter("no such flight"))))
    send_all(producer, ["bad"])
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 1)
    (dead,) = rocketmq.messages("%DLQ%delays")
    assert (copies.hits, "RETRY_REASON" in dead.properties) == (1, False)
    assert "could not be sent with its reason, the broker makes it without: code 13" in caplog.text


def test_a_signal_of_the_users_own_class_gives_its_message_up_too(rocketmq, producer, consumers):
    class Unknown(rmq.DeadLetter):
        """Says nothing to its base."""

        def __init__(self) -> None: ...

    consumer = consumers(Recorder(_once(Unknown())))
    send_all(producer, ["bad"])
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 1)
    assert [message.body for message in rocketmq.messages("%DLQ%delays")] == [b"bad"]
