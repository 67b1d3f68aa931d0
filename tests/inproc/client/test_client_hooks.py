# SPDX-License-Identifier: Apache-2.0
"""Hooks of producers and consumers: who is called, with what, and what they may change."""

from __future__ import annotations

import time
from typing import Any

import pytest
from recorder import Recorder

import sprocketmq as rmq
from sprocketmq.client.hooks import ConsumeMessageContext, FilterMessageContext, SendMessageContext
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.trace import ConsumeReturnType, MessageType


class SendLog:
    """Remembers the calls; ``name`` tells several apart."""

    def __init__(self, calls: list[str], name: str = "hook") -> None:
        self.calls, self.name = calls, name
        self.contexts: list[SendMessageContext] = []

    def before_send(self, context: SendMessageContext) -> None:
        self.calls.append(f"{self.name} before")
        context.notes[self.name] = len(self.calls)
        for properties in context.properties:
            properties["stamp"] = self.name

    def after_send(self, context: SendMessageContext) -> None:
        self.calls.append(f"{self.name} after")
        assert self.name in context.notes
        self.contexts.append(context)


def test_send_hooks_surround_each_send_and_their_properties_travel(rocketmq):
    calls: list[str] = []
    outer, inner = SendLog(calls, "outer"), SendLog(calls, "inner")
    producer = rocketmq.producer("ops")
    producer.add_hook(outer)
    producer.add_hook(inner)
    with producer:
        message = rmq.Message("flights", b"UA1", keys="k1")
        sent = producer.send(message)
        assert calls == ["outer before", "inner before", "inner after", "outer after"]
        (context,) = outer.contexts
        assert context.result == sent
        assert (context.producer_group, context.client_id) == ("ops", producer.client_id)
        assert context.broker_address == rocketmq.broker_addr
        assert (context.region_id, context.trace_on, context.is_oneway) == ("DefaultRegion", True, False)
        assert context.message is message
        assert "stamp" not in message.properties, "the message itself is not touched"
        producer.send_batch([rmq.Message("flights", b"UA2"), rmq.Message("flights", b"UA3")])
        producer.send_oneway(rmq.Message("flights", b"UA4"))
        producer.send(rmq.Message("flights", b"UA5"), delay_level=1)
        batch, oneway, late = outer.contexts[1:]
        assert [one.body for one in batch.messages] == [b"UA2", b"UA3"]
        assert oneway.is_oneway
        assert oneway.result is None
        assert late.message_type is MessageType.DELAY
    with rocketmq.pull_consumer("readers", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET) as reader:
        reader.subscribe("flights")
        found: dict[bytes, str | None] = {}
        rocketmq.wait_until(
            lambda: (
                found.update({one.body: one.properties.get("stamp") for one in reader.poll(timeout_ms=100)})
                or len(found) == 4
            )
        )
    assert found == dict.fromkeys((b"UA1", b"UA2", b"UA3", b"UA4"), "inner")


def test_each_try_of_a_send_is_seen_by_its_hooks(rocketmq):
    hook = SendLog([])
    producer = rocketmq.producer("ops")
    producer.add_hook(hook)
    with producer:
        rocketmq.faults.fail(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY, times=1)
        producer.send(rmq.Message("flights", b"second try"))
    failed, stored = hook.contexts
    assert isinstance(failed.failure, rmq.RemoteError)
    assert failed.result is None
    assert stored.failure is None
    assert stored.result is not None


def test_a_check_forbids_a_send_and_other_hooks_change_nothing_by_raising(rocketmq):
    class Check:
        def check_forbidden(self, context: SendMessageContext) -> None:
            if context.message.body == b"secret":
                raise rmq.ConfigurationError("secrets stay here")

    class Broken:
        def before_send(self, context: SendMessageContext) -> None:
            raise ValueError("before")

        def after_send(self, context: SendMessageContext) -> None:
            raise ValueError("after")

    log = SendLog([])
    producer = rocketmq.producer("ops")
    for hook in (Check(), Broken(), log):
        producer.add_hook(hook)
    with producer:
        with pytest.raises(rmq.ConfigurationError):
            producer.send(rmq.Message("flights", b"secret"))
        assert log.calls == [], "nothing is called around a send that is forbidden"
        assert producer.send(rmq.Message("flights", b"plain")).status is rmq.SendStatus.SEND_OK
        assert len(log.contexts) == 1
        with pytest.raises(rmq.ConfigurationError):
            producer.add_hook(log)


def test_an_object_without_a_hook_method_is_refused(rocketmq):
    class Half:
        def before_send(self, context: SendMessageContext) -> None: ...

    producer = rocketmq.producer("ops")
    with pytest.raises(rmq.ConfigurationError):
        producer.add_hook(Half())  # type: ignore[arg-type]
    with pytest.raises(rmq.ConfigurationError, match="no method that is called here; the methods are before_send with"):
        producer.add_hook(object())  # type: ignore[arg-type]
    with pytest.raises(rmq.ConfigurationError):
        rocketmq.push_consumer("delays").add_hook(SendLog([]))  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "answer", "expected"), [
    ("concurrent", rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS, ConsumeReturnType.SUCCESS),
    ("concurrent", rmq.ConsumeConcurrentlyStatus.RECONSUME_LATER, ConsumeReturnType.FAILED),
    ("concurrent", None, ConsumeReturnType.RETURN_NULL),
    ("concurrent", ValueError("no"), ConsumeReturnType.EXCEPTION),
    ("orderly", rmq.ConsumeOrderlyStatus.SUCCESS, ConsumeReturnType.SUCCESS),
    ("orderly", rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, ConsumeReturnType.FAILED),
    ("orderly", None, ConsumeReturnType.RETURN_NULL),
])  # fmt: skip
def test_consume_hooks_see_how_a_call_ended(rocketmq, consumers, producer, kind, answer, expected):
    ended: list[ConsumeMessageContext] = []

    class Hook:
        def before_consume(self, context: ConsumeMessageContext) -> None:
            context.notes["seen"] = True

        def after_consume(self, context: ConsumeMessageContext) -> None:
            assert context.notes["seen"]
            ended.append(context)

    def listen(messages: Any, context: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    producer.send(rmq.Message("flights", b"UA1"))
    consumer = consumers(listen, kind=kind, start=False)
    consumer.add_hook(Hook())
    consumer.start()
    rocketmq.wait_until(lambda: ended)
    context = ended[0]
    assert context.return_type is expected
    assert context.success is (expected is ConsumeReturnType.SUCCESS)
    assert (context.group, context.client_id) == ("delays", consumer.client_id)
    assert [message.body for message in context.messages] == [b"UA1"]
    assert context.spent_ms >= 0


@pytest.mark.parametrize(
    ("limit_ms", "return_type"), [(1, ConsumeReturnType.TIME_OUT), (0, ConsumeReturnType.SUCCESS)], ids=["limit", "off"]
)
def test_a_call_that_took_longer_than_the_consume_timeout_has_timed_out(
    rocketmq, consumers, producer, limit_ms, return_type
):
    ended: list[ConsumeReturnType] = []

    class Hook:
        def before_consume(self, context: ConsumeMessageContext) -> None: ...

        def after_consume(self, context: ConsumeMessageContext) -> None:
            ended.append(context.return_type)

    def listen(message: rmq.MessageExt) -> None:
        until_s = time.perf_counter() + 0.002
        while time.perf_counter() < until_s:
            pass

    producer.send(rmq.Message("flights", b"UA1"))
    consumer = consumers(listen, start=False, consume_timeout_ms=limit_ms)
    consumer.add_hook(Hook())
    consumer.start()
    rocketmq.wait_until(lambda: ended == [return_type])


def test_a_filter_hook_takes_messages_out_for_good(rocketmq, consumers, producer):
    class Odd:
        def filter_messages(self, context: FilterMessageContext) -> None:
            context.messages[:] = [message for message in context.messages if int(message.body) % 2]

    class Broken:
        def filter_messages(self, context: FilterMessageContext) -> None:
            raise ValueError("no filter")

    seen = Recorder()
    consumer = consumers(seen, start=False)
    consumer.add_hook(Odd())
    consumer.add_hook(Broken())
    for number in range(8):
        producer.send(rmq.Message("flights", str(number).encode()))
    consumer.start()
    rocketmq.wait_until(lambda: len(seen) == 4)
    assert sorted(seen.bodies) == ["1", "3", "5", "7"]
