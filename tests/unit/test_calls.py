# SPDX-License-Identifier: Apache-2.0
"""Calls whose arguments do not fit: one sentence with the right name or form, for each public class, method and function."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import sprocketmq as rmq
import sprocketmq.broker
import sprocketmq.testing
from sprocketmq import calls
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.pull_settings import PullSettings
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.client.settings.send_settings import SendSettings

FIXED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# What ours call, or what Python makes: hooks, results, errors, clocks, (de)serializers, the servers' requests.
NOT_CALLED = {
    name
    for module in (rmq, sprocketmq.broker, sprocketmq.testing)
    for name in module.__all__
    if name.endswith(("Hook", "serializer", "Clock"))
    or (
        inspect.isclass(found := getattr(module, name))
        and issubclass(found, (*(msgspec.Struct, enum.Enum, dict), rmq.RocketMQError))
    )
    or dataclasses.is_dataclass(found)
} | {"Fault", "MessageExt"}
ONLY_MADE = {"Broker", "NameServer", "OpenTelemetryHook", "QueueReader"}
NOT_OFTEN = {
    "ClientMetrics": ("__init__", "watch", "serve"),
    "ReceivedMessage": ("nack", "dead_letter"),
    "Message": ("__init__",),
}


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """What a user calls."""
    for module in (rmq, sprocketmq.broker, sprocketmq.testing):
        for name in module.__all__:
            found = getattr(module, name)
            if name in NOT_CALLED - ONLY_MADE:
                continue
            if inspect.isfunction(found):
                yield name, found
            if not inspect.isclass(found):
                continue
            for verb in NOT_OFTEN.get(name, ("__init__",) if name in ONLY_MADE else dir(found)):
                function = inspect.getattr_static(found, verb)
                is_public = verb == "__init__" or not verb.startswith("_")
                if is_public and inspect.isfunction(function) and function.__module__.startswith("sprocketmq"):
                    yield f"{name}.{verb}", function


CALLS = dict(public_calls())


def positions(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [one for one in inspect.signature(function).parameters.values() if one.kind in FIXED]


def takes(function: Callable[..., Any], kind: Any) -> bool:
    """Any number of values, or any name."""
    return any(
        one.kind is kind and one.annotation != "Never" for one in inspect.signature(function).parameters.values()
    )


def refusal(function: Callable[..., Any], *more: object, **named: object) -> str:
    """The sentence; the text of another error."""
    try:
        coroutine = function(*[None for _ in positions(function)], *more, **named)
        coroutine.send(None)  # the checks of administrative requests are in the coroutine
    except rmq.ConfigurationError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - the test shows it
        return repr(error)
    return "none"


def test_each_call_tells_a_wrong_name() -> None:
    asked = {name: call for name, call in CALLS.items() if not takes(call, inspect.Parameter.VAR_KEYWORD)}
    assert len(asked) > 300
    told = {name: refusal(call, no_such_name=1) for name, call in asked.items()}
    assert {name: text for name, text in told.items() if "has no argument 'no_such_name'" not in text} == {}


def test_each_call_tells_too_many_values() -> None:
    asked = {name: call for name, call in CALLS.items() if not takes(call, inspect.Parameter.VAR_POSITIONAL)}
    assert len(asked) > 300
    told = {name: refusal(call, 1) for name, call in asked.items()}
    assert {name: text for name, text in told.items() if "by position" not in text} == {}


PRODUCER = rmq.Producer("ops", namesrv_addr="127.0.0.1:9876")
ASYNC_PRODUCER = rmq.AsyncProducer("ops", namesrv_addr="127.0.0.1:9876")
CONSUMER = rmq.PushConsumer("delays", namesrv_addr="127.0.0.1:9876")
MESSAGE = rmq.Message("flights", b"x")
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "dots": (lambda: rmq.Producer(**{"bootstrap.servers": "a:1"}), "did you mean 'namesrv_addr'"),
    "dots, group": (lambda: rmq.Producer("ops", **{"bootstrap.servers": "a:1"}), "did you mean 'namesrv_addr'"),
    "camel": (lambda: rmq.Producer("ops", namesrvAddr="a:1"), "did you mean 'namesrv_addr'"),
    "group_id": (lambda: rmq.PushConsumer(group_id="g"), "the group is the first argument"),
    "group.id": (lambda: rmq.AsyncPushConsumer(**{"group.id": "g"}), "the group is the first argument"),
    "no group": (lambda: rmq.PullConsumer(), "PullConsumer needs 'group'"),
    "check": (lambda: rmq.TransactionProducer("ops"), "TransactionProducer needs 'check'"),
    "two groups": (lambda: rmq.Producer("ops", group="ops"), "'group' twice"),
    "key": (lambda: rmq.Message("t", b"", key="a"), "did you mean 'keys'"),
    "headers": (lambda: rmq.Message("t", b"", headers={}), "did you mean 'properties'"),
    "delay": (lambda: rmq.Message("t", b"", delay=3), "did you mean 'delay_level'"),
    "value": (lambda: rmq.Message("t", b"", value=b""), "did you mean 'body'"),
    "tag by position": (lambda: rmq.Message("t", b"", "tag"), "topic, body by position.*tags="),
    "no message": (lambda: PRODUCER.send("orders", b"x"), r"takes a Message, as in send\(Message\(topic, body\)\)"),
    "no message, async": (lambda: asyncio.run(ASYNC_PRODUCER.send("orders", b"x")), "takes a Message"),
    "no message, later": (lambda: PRODUCER.send_async("orders", b"x"), "takes a Message"),
    "key of a send": (lambda: PRODUCER.send(MESSAGE, key="a"), "belongs to the message"),
    "topic of a send": (lambda: PRODUCER.send(topic="orders", body=b"x"), "belongs to the message"),
    "delay of a send": (lambda: PRODUCER.send(MESSAGE, delay=3), "did you mean 'delay_ms'"),
    "partition": (lambda: asyncio.run(ASYNC_PRODUCER.send(MESSAGE, partition=3)), "did you mean 'queue'"),
    "partition, later": (lambda: PRODUCER.send_async(MESSAGE, partition=3), "did you mean 'queue'"),
    "seconds": (lambda: rmq.RetryLater(delay_seconds=3), "did you mean 'delay_ms'"),
    "filter": (lambda: CONSUMER.subscribe("flights", filter="UA"), "did you mean 'expression'"),
    "misspelt": (lambda: CONSUMER.subscribe("flights", expresion="UA"), "did you mean 'expression'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_other_clients_call_it_is_told_by_its_name_here(name: str) -> None:
    call, sentence = WRONG[name]
    with pytest.raises(rmq.ConfigurationError, match=sentence) as told:
        call()
    shown = "".join(traceback.format_exception(told.value))
    assert "TypeError" not in shown


def test_no_option_is_taken_for_one_of_another_client() -> None:
    fields = {
        name for kind in (ClientOptions, SendSettings, PushSettings, PullSettings) for name in kind.__struct_fields__
    }
    assert fields.isdisjoint(calls._ELSEWHERE)


def test_a_type_error_within_a_call_stays_one() -> None:
    @calls.checked_call
    def call(value: int) -> int:
        return value + "1"  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand"):
        call(1)


def test_an_error_of_a_blocking_call_shows_one_frame_of_ours_and_its_cause() -> None:
    with rmq.Producer("ops", namesrv_addr="127.0.0.1:1") as producer, pytest.raises(rmq.ConnectFailed) as failed:
        producer.send(MESSAGE)
    frames = [frame for frame in traceback.extract_tb(failed.value.__traceback__) if "/sprocketmq/" in frame.filename]
    assert len(frames) == 1
    assert isinstance(failed.value.__cause__, ConnectionRefusedError)
    assert failed.value.__cause__.__traceback__ is None


def test_a_users_function_keeps_its_place_in_the_traceback() -> None:
    @calls.checked_call
    def call(selector: Callable[[], None]) -> None:
        selector()

    def selector() -> None:
        raise rmq.ConfigurationError("of the user")

    with pytest.raises(rmq.ConfigurationError) as failed:
        call(selector)
    assert "selector" in [frame.name for frame in traceback.extract_tb(failed.value.__traceback__)]
