# SPDX-License-Identifier: Apache-2.0
"""Functions that cannot be called as a client would call them are refused when they are handed over, each in a sentence that says how."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

import sprocketmq as rmq
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.spark import foreach_batch
from sprocketmq.testing import FaultInjector

ADDRESS: Final = {"namesrv_addr": "127.0.0.1:9876"}
UNKNOWN: Final = rmq.LocalTransactionState.UNKNOWN


def consumer() -> rmq.PushConsumer:
    return rmq.PushConsumer("delays", **ADDRESS)


class Resolver:
    def __init__(self, room_of_broker: Callable[..., str]) -> None:
        self.broker_deploy_in = room_of_broker

    def consumer_deploy_in(self, client_id: str) -> str:
        return "room"


class SendHook:
    def __init__(self, before_send: Callable[..., None]) -> None:
        self.before_send = before_send

    def after_send(self, context: rmq.SendMessageContext) -> None: ...


class ConsumeHook:
    def __init__(self, after_consume: Callable[..., None]) -> None:
        self.after_consume = after_consume

    def before_consume(self, context: rmq.ConsumeMessageContext) -> None: ...


class FilterHook:
    def __init__(self, filter_messages: Callable[..., None]) -> None:
        self.filter_messages = filter_messages


def subscribed_by_hand(listener: Any) -> None:
    asyncio.run(rmq.AsyncPullConsumer("g", **ADDRESS).subscribe("flights", on_queues_changed=listener))


def registered_by_hand(listener: Any) -> None:
    puller = rmq.AsyncPullConsumer("g", **ADDRESS)
    asyncio.run(puller.register_topic_message_queue_change_listener("flights", listener))


# What takes the function, the arguments that it is called with, and whether an async def function is awaited.
TAKERS: Final[dict[str, tuple[Callable[[Any], object], str, bool]]] = {
    "on_message": (lambda f: consumer().on_message(f), "message", True),
    "concurrent_listener": (lambda f: consumer().concurrent_listener(f), "messages, context", True),
    "orderly_listener": (lambda f: consumer().orderly_listener(batch_size=2)(f), "messages, context", True),
    "on_consume_timeout": (lambda f: consumer().on_consume_timeout(f), "stuck", True),
    "check": (lambda f: rmq.TransactionProducer("t", check=f, **ADDRESS), "message", True),
    "execute": (
        lambda f: rmq.TransactionProducer("t", check=lambda half: UNKNOWN, execute=f, **ADDRESS),
        "message",
        True,
    ),
    "hook of sends": (lambda f: rmq.Producer("p", **ADDRESS).add_hook(SendHook(f)), "context", False),
    "hook of listeners": (lambda f: consumer().add_hook(ConsumeHook(f)), "context", False),
    "hook of filters": (lambda f: consumer().add_hook(FilterHook(f)), "context", False),
    "allocate_strategy": (
        lambda f: rmq.PushConsumer("g", allocate_strategy=f, **ADDRESS),
        "group, client_id, queues, client_ids",
        False,
    ),
    "of a pull consumer": (
        lambda f: rmq.PullConsumer("g", allocate_strategy=f, **ADDRESS),
        "group, client_id, queues, client_ids",
        False,
    ),
    "of an administrator": (
        lambda f: asyncio.run(rmq.AsyncAdmin(**ADDRESS).allocate("flights", ["a"], strategy=f)),
        "group, client_id, queues, client_ids",
        False,
    ),
    "machine_room_resolver": (
        lambda f: rmq.PushConsumer("g", machine_room_resolver=Resolver(f), **ADDRESS),
        "queue",
        False,
    ),
    "on_queues_changed": (subscribed_by_hand, "topic, queues, own_queues", True),
    "a listener for queues": (registered_by_hand, "topic, queues", True),
    "on_offset_moved": (lambda f: rmq.QueueReader(on_offset_moved=f, **ADDRESS), "queue, wanted, min, max", False),
    "process of Spark": (
        lambda f: foreach_batch(f, write=lambda rows, batch_id: None, group="g", **ADDRESS),
        "rows, batch_id",
        False,
    ),
    "write of Spark": (
        lambda f: foreach_batch(lambda rows, batch_id: rows, write=f, group="g", **ADDRESS),
        "good_rows, batch_id",
        False,
    ),
    "when of a fault": (lambda f: FaultInjector(ManualClock()).drop(10, when=f), "command", False),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_a_function_of_other_parameters_is_refused(taker):
    take, parameters, _ = TAKERS[taker]

    def of_five(a: object, b: object, c: object, d: object, e: object) -> None: ...

    wanted = re.escape(f"(a, b, c, d, e), a function of ({parameters}) is allowed: missing a required argument: ")
    for wrong in (of_five, lambda: None):
        with pytest.raises(rmq.ConfigurationError, match=wanted if wrong is of_five else "too many positional"):
            take(wrong)


@pytest.mark.parametrize("taker", TAKERS)
def test_no_function_at_all_is_refused(taker):
    take, _, _ = TAKERS[taker]
    with pytest.raises(rmq.ConfigurationError, match="(?: is 5, a function .*allowed|has no method|without)"):
        take(5)


@pytest.mark.parametrize("taker", [taker for taker, (_, _, is_awaited) in TAKERS.items() if not is_awaited])
def test_an_async_function_that_would_not_be_awaited_is_refused(taker):
    take, _, _ = TAKERS[taker]

    async def later(*args: object) -> None: ...

    with pytest.raises(rmq.ConfigurationError, match="is async def .*later, which nobody would await"):
        take(later)


def test_a_listener_of_the_other_kind_is_refused_with_the_right_method():
    def one(message: rmq.MessageExt) -> None: ...

    def several(messages: list[rmq.MessageExt], context: object) -> None: ...

    with pytest.raises(rmq.ConfigurationError, match=r"; concurrent_listener and orderly_listener take one of"):
        consumer().on_message(several)  # type: ignore[type-var]
    for register in (consumer().concurrent_listener, consumer().orderly_listener):
        with pytest.raises(rmq.ConfigurationError, match=r"; on_message takes one of \(message\)$"):
            register(one)  # type: ignore[type-var]
