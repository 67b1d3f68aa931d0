"""Listeners that raise RetryLater or DeadLetter, concurrent and orderly, with and without the broker's help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode

Consumers = Callable[..., rmq.PushConsumer]


def _once(signal: BaseException) -> Callable[[rmq.MessageExt], None]:
    """Raises with bodies that begin with "bad" on their first delivery."""

    def answer(message: rmq.MessageExt) -> None:
        if message.body.startswith(b"bad") and message.reconsume_times == 0:
            raise signal

    return answer


def _committed(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> int:
    consumer.persist_offsets()
    return sum(rocketmq.consumer_offset("delays", "flights").values())


def test_retry_later_chooses_the_wait_of_one_message(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    recorder = Recorder(_once(rmq.RetryLater("tower is busy", delay_ms=50_000)))
    consumers(recorder)
    (result,) = send_all(producer, ["bad"])
    rocketmq.wait_until(lambda: len(rocketmq.messages("SCHEDULE_TOPIC_XXXX")) == 1)
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX")[0].delay_level == 5
    assert rocketmq.advance_until(lambda: len(recorder) == 2) in (60_000, 61_000)
    assert recorder.messages[1].message_id == result.message_id


def test_the_fall_back_keeps_the_chosen_wait_too(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    rocketmq.faults.fail(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, times=None)
    recorder = Recorder(_once(rmq.RetryLater(delay_level=6)))
    consumers(recorder)
    send_all(producer, ["bad"])
    rocketmq.wait_until(lambda: len(rocketmq.messages("SCHEDULE_TOPIC_XXXX")) == 1)
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX")[0].delay_level == 6


@pytest.mark.parametrize("refused", [False, True], ids=["by send-back", "by the inner producer"])
def test_dead_letter_goes_straight_to_the_dead_letter_topic(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, refused: bool
) -> None:
    rocketmq.create_topic("flights", queues=1)
    if refused:
        rocketmq.faults.fail(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, times=None)
    recorder = Recorder(_once(rmq.DeadLetter("no such flight")))
    consumer = consumers(recorder)
    (result, _) = send_all(producer, ["bad", "good"])
    rocketmq.wait_until(lambda: len(rocketmq.messages("%DLQ%delays")) == 1)
    (dead,) = rocketmq.messages("%DLQ%delays")
    assert (dead.message_id, dead.properties["RETRY_TOPIC"], dead.reconsume_times) == (result.message_id, "flights", 1)
    rocketmq.wait_until(lambda: _committed(rocketmq, consumer) == 2)
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []
    rocketmq.advance(60_000)
    assert recorder.bodies.count("bad") == 1


def test_an_orderly_queue_gives_a_dead_letter_up_and_goes_on_in_order(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    seen: list[str] = []

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> Any:
        seen.append(messages[0].body.decode())
        if messages[0].body == b"bad":
            raise rmq.DeadLetter("no such flight")
        return rmq.ConsumeOrderlyStatus.SUCCESS

    consumer = consumers(listener, kind="orderly")
    send_all(producer, ["1", "bad", "2"])
    rocketmq.advance_until(lambda: len(seen) == 3)
    assert seen == ["1", "bad", "2"]
    rocketmq.wait_until(lambda: _committed(rocketmq, consumer) == 3)
    (dead,) = rocketmq.messages("%DLQ%delays")
    assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"bad", "flights")


def test_an_orderly_queue_pauses_for_as_long_as_retry_later_says(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    seen: list[tuple[str, int]] = []

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> Any:
        seen.append((messages[0].body.decode(), messages[0].reconsume_times))
        if seen == [("1", 0)]:
            raise rmq.RetryLater(delay_ms=20_000)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    consumers(listener, kind="orderly")
    rocketmq.advance(1_000)
    send_all(producer, ["1", "2"])
    rocketmq.advance_until(lambda: len(seen) == 1)
    assert rocketmq.advance_until(lambda: len(seen) == 3) >= 19_000
    assert seen == [("1", 0), ("1", 1), ("2", 0)]
