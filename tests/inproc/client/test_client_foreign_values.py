# SPDX-License-Identifier: Apache-2.0
"""Text and numbers of other classes than Python's own are taken by their value, wherever a name or number goes.

The parameters are read from the signatures, so a new one is tried without being asked for. Each verb is called with a plain value, and then
with each foreign one of the same value: the same requests leave, and the answer is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from public_verbs import PASSED, Verb, caller, valid_value, verbs
from recorder import QUEUE

import sprocketmq as rmq
from sprocketmq.broker import BrokerConfig, NameServer, NameServerConfig
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.pull_settings import PullSettings
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.net.connection import Connection, RequestHandler
from sprocketmq.spark.options.given_options import GivenOptions
from sprocketmq.spark.retry.send_back import SendBackRequest
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command

MARK: Final = "FOREIGN"  # no request contains it


class LooseText(str):
    """As those of ruamel.yaml, tomlkit and NumPy; shown as something else."""

    def __str__(self) -> str:
        return MARK

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return MARK


def _member(value: Any) -> Any:
    return Enum(MARK, {"MEMBER": value}, type=type(value))["MEMBER"]


CLASSES: Final[tuple[tuple[Callable[[str], str], Callable[[int], Any]], ...]] = (
    (_member, _member),
    (LooseText, np.int64),
)
PLAIN: Final = (str, int, bool, float, bytes, type(None))
# These come by themselves, or later.
BY_ITSELF: Final = (
    RequestCode.HEART_BEAT,
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    RequestCode.PULL_MESSAGE,
    RequestCode.END_TRANSACTION,
)


def foreign(value: Any) -> Iterator[Any]:
    """``value`` with its texts and numbers in foreign classes."""
    for text, number in CLASSES:
        yield _replaced(value, text, number)


def _replaced(value: Any, text: Callable[[str], str], number: Callable[[int], Any]) -> Any:
    if type(value) is str and value:
        return text(value)
    if type(value) is int:
        return number(value)
    if isinstance(value, rmq.MessageQueue):
        return rmq.MessageQueue(text(value.topic), text(value.broker_name), number(value.queue_id))
    if type(value) is rmq.Message:
        changed = rmq.Message(value.topic, value.body)
        changed.topic = text(value.topic)
        changed.flag = number(value.flag)
        changed.properties.update(_replaced(dict(value.properties), text, number))
        return changed
    if isinstance(value, list):
        return [_replaced(one, text, number) for one in value]
    if isinstance(value, dict):
        return {_replaced(key, text, number): _replaced(one, text, number) for key, one in value.items()}
    return value


def _values(name: str, annotation: str, server: EmbeddedRocketMQ) -> Any:
    """A value of this type; None: it takes no text and no number."""
    if name in PASSED or not re.search(r"\b(str|int|float|MessageQueue|Message|Any|FilterExpression)\b", annotation):
        return None
    if name == "timeout_ms":
        return 300
    if name == "message" and annotation == "Message":
        return rmq.Message("flights", b"x", properties={"year": "2013"})
    value = valid_value(name, server)
    if annotation.startswith(("Mapping", "dict")) and not isinstance(value, dict):
        return {"year": "2013"} if "str, str" in annotation else {}
    if re.match(r"(Sequence|Collection|Iterable)", annotation) and not isinstance(value, list | dict):
        return [value]
    if type(value) is str and re.match(r"(int|float)\b", annotation):
        return 1
    return value


def _without_ids(text: str) -> str:
    """Without ids and times."""
    return re.sub(r"[0-9a-fA-F-]{6,}", "#", text)


@pytest.fixture
def asked(server: EmbeddedRocketMQ) -> Iterator[list[str]]:
    """What the servers are asked, without what differs from time to time."""
    seen: list[str] = []
    inner = server.broker.intercept, server.namesrv.intercept

    def note(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        text = f"{RequestCode(command.code).name} {sorted(command.ext_fields.items())} {bytes(command.body)!r}"
        if command.code not in BY_ITSELF or MARK in text:
            seen.append(_without_ids(text))
        return handler(connection, command)

    server.broker.intercept = server.namesrv.intercept = note
    yield seen
    server.broker.intercept, server.namesrv.intercept = inner


def _is_slow(verb: Verb) -> bool:
    return verb.owner in ("admin", "dead letters", "transactions") or verb.name in ("request", "request_async", "reply")


@pytest.mark.parametrize(
    "verb",
    [pytest.param(verb, marks=pytest.mark.nightly if _is_slow(verb) else ()) for verb in verbs()],
    ids=lambda verb: f"{verb.owner}-{verb.name}-{len(verb.parameters)}",
)
def test_each_verb_takes_names_and_numbers_by_their_value(server, clients, asked, verb):
    call = caller(verb, clients, server)
    short = {"timeout_ms": 300} if verb.name in ("request", "request_async") else {}

    def told(arguments: dict[str, Any]) -> tuple[str, list[str]]:
        asked.clear()
        try:
            answer = repr(type(call({**short, **arguments})))
        except rmq.ConfigurationError as error:
            answer = f"{error}".partition(" is ")[0]
        except rmq.RocketMQError as error:
            return type(error).__name__, []  # it may come too late
        else:
            if verb.name == "send_oneway":
                server.wait_until(lambda: asked)
        return _without_ids(answer), sorted(set(asked))

    faults: list[str] = []
    for name, annotation in verb.parameters.items():
        plain = _values(name, annotation, server)
        if plain is None or name == "value":
            continue
        told({name: plain})
        expected = told({name: plain})
        for value in foreign(plain):
            got = told({name: value})
            if got != expected or MARK in repr(got):
                faults.append(f"{name}={type(value).__name__} of {plain!r}:\n   {got}\n   {expected}")
    assert not faults, f"{verb.owner}.{verb.name}:\n" + "\n".join(faults)


ADDRESS: Final = "127.0.0.1:9876"
SETTINGS: Final[dict[str, Callable[..., Any]]] = {
    "ClientOptions": lambda **given: ClientOptions(**{"namesrv_addr": ADDRESS, **given}),
    "SendSettings": lambda **given: SendSettings(**{"group": "g", **given}),
    "PushSettings": lambda **given: PushSettings(**{"group": "g", **given}),
    "PullSettings": lambda **given: PullSettings(**{"group": "g", **given}),
    "BrokerConfig": BrokerConfig,
    "NameServerConfig": NameServerConfig,
}
GIVEN: Final[dict[str, Any]] = {
    "namesrv_addr": ADDRESS,
    "group": "g",
    "topics": ["flights"],
    "retry_response_codes": [1],
    "allocate_queues": [rmq.MessageQueue("flights", "broker-a", 0)],
    "allocate_rooms": ["east"],
    "secret_key": None,  # with access_key
}


def _are_plain(value: Any) -> bool:
    if isinstance(value, rmq.MessageQueue):
        return all(type(part) in PLAIN for part in (value.topic, value.broker_name, value.queue_id))
    if isinstance(value, list | tuple | frozenset | set):
        return all(map(_are_plain, value))
    return (
        not isinstance(value, str | int | np.generic)
        or type(value) in PLAIN
        or type(value).__name__ not in (MARK, "LooseText")
    )


@pytest.mark.parametrize("kind", SETTINGS)
def test_each_setting_is_kept_as_a_plain_value(kind):
    make = SETTINGS[kind]
    defaults = make()
    faults: list[str] = []
    for name in defaults.__struct_fields__:
        plain = GIVEN.get(name, getattr(defaults, name))
        annotation = str(type(defaults).__annotations__.get(name, ""))
        if plain is None and annotation == "str | None":
            plain = "20130101000000" if name == "consume_timestamp" else "name"
        if isinstance(plain, Enum) or (name, kind) == ("secret_key_file", "ClientOptions"):
            continue
        more = {"secret_key": "s"} if name == "access_key" else {"access_key": "a"} if name == "secret_key" else {}
        for value in foreign(list(plain) if isinstance(plain, tuple | frozenset) else plain):
            try:
                make(**{name: plain, **more})
            except rmq.ConfigurationError:
                continue  # not alone
            kept = getattr(make(**{name: value, **more}), name)
            if not _are_plain(kept):
                faults.append(f"{name}: {kept!r} of {type(kept)}")
    assert not faults, "\n".join(faults)


def test_what_is_not_a_setting_is_plain_too():
    for text, number in CLASSES:
        with_it = rmq.Message(
            text("flights"),
            b"x",
            tags=text("UA"),
            keys=[text("a"), text("b")],
            properties={text("year"): text("2013")},
            flag=number(3),
            delay_level=number(4),
        )
        with_it.properties[text("more")] = text("text")
        plain = rmq.Message("flights", b"x", tags="UA", keys="a b", properties={"year": "2013"}, flag=3, delay_level=4)
        plain.properties["more"] = "text"
        assert with_it.properties_text == plain.properties_text
        assert rmq.Message("flights", b"x", keys=text("a")).properties_text == "KEYS\x01a\x02"
        assert (type(with_it.topic), type(with_it.flag)) == (str, int)
        assert type(rmq.sql92(text("a > 1")).expression) is str
        assert type(rmq.RetryLater(delay_level=number(3)).delay_level) is int
        assert type(NameServer(host=text("127.0.0.1"), port=number(0)).host) is str
        request = SendBackRequest(text("broker-a"), number(7), text("flights"))
        assert (type(request.topic), type(request.commit_log_offset)) == (str, int)
        assert type(GivenOptions({"topic": text("flights")}).text("topic")) is str


def test_a_send_to_a_member_of_an_enumeration_leaves_the_plain_name_as_it_is(rocketmq):
    for how in ("send", "send_oneway", "send_batch", "send_async", "auto_batch"):
        with rocketmq.producer(f"p-{how}", auto_batch=how == "auto_batch") as producer:
            for topic in (*(text("flights") for text, _ in CLASSES), "flights"):
                message = rmq.Message(topic, b"x")
                if how in ("send_async", "auto_batch"):
                    future = producer.send_async(message)
                    rocketmq.advance_until(future.done)
                    assert future.result().status is rmq.SendStatus.SEND_OK
                else:
                    getattr(producer, how)([message] if how == "send_batch" else message)


@pytest.mark.parametrize("text", [LooseText, np.str_, _member])
def test_a_consumer_with_such_a_group_topic_and_tag_consumes(rocketmq, text):
    server, group = rocketmq, "delays"
    seen: list[bytes] = []
    consumer = server.push_consumer(text(group), consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe(text("flights"), text(group))
    consumer.on_message(lambda message: seen.append(message.body))
    with consumer, server.producer() as producer:
        producer.send(rmq.Message("flights", b"x", tags=group))
        server.advance_until(lambda: seen == [b"x"])


def test_a_time_of_pandas_is_a_time_and_no_time_is_refused_in_a_sentence(clients):
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    pull = clients["pull"]
    assert pull.offset_for_timestamp(QUEUE, pd.Timestamp(moment)) == pull.offset_for_timestamp(QUEUE, moment)
    for none in (pd.NaT, pd.Timestamp("2024-01-01"), np.datetime64("2024-01-01"), np.bool_(True)):
        with pytest.raises(rmq.ConfigurationError, match="^timestamp_ms is .* allowed"):
            pull.offset_for_timestamp(QUEUE, none)
