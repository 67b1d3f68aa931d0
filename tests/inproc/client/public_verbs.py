# SPDX-License-Identifier: Apache-2.0
"""The public verbs with their parameters, read from the signatures, started clients of each class, and values that parameters take."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

# For who knows the package from within.
PASSED: Final = frozenset({"engine", "cluster", "credentials", "ssl_context"})


@dataclass
class Verb:
    """A public method, and where its clients come from."""

    owner: str
    name: str
    parameters: dict[str, str]


OWNERS: Final[dict[str, type]] = {
    "producer": rmq.Producer,
    "transactions": rmq.TransactionProducer,
    "push": rmq.PushConsumer,
    "pull": rmq.PullConsumer,
    "dead letters": rmq.DeadLetters,
    "admin": rmq.Admin,
}
_SKIPPED: Final = frozenset({"after_fork_in_child", "start", "shutdown", "run_forever"})


def parameters_of(function: Callable[..., Any]) -> dict[str, str]:
    return {
        name: str(parameter.annotation)
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", *PASSED) and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }


def verbs() -> Iterator[Verb]:
    for owner, cls in OWNERS.items():
        source = rmq.AsyncPushConsumer if owner == "push" else cls
        for name in dir(source):
            function = inspect.getattr_static(source, name)
            function = getattr(function, "__func__", function)
            if name.startswith("_") or name in _SKIPPED or not inspect.isfunction(function):
                continue
            if parameters := parameters_of(function):
                yield Verb(owner, name, parameters)
            if name in ("send_async", "request_async"):
                own = {**parameters_of(rmq.Producer.send if name == "send_async" else rmq.Producer.request)}
                yield Verb(owner, name, own)


def _asked() -> rmq.Message:
    """A request as a consumer receives it."""
    message = rmq.MessageExt("flights", b"x", broker_name="broker-a")
    message.properties.update({"CLUSTER": "DefaultCluster", "REPLY_TO_CLIENT": "nobody", "CORRELATION_ID": "1"})
    return message


def valid_value(name: str, server: EmbeddedRocketMQ) -> Any:
    """What a parameter may be given that has no default."""
    known: dict[str, Any] = {
        "message": rmq.MessageExt("flights", b"x", broker_name="broker-a"),
        "messages": [rmq.Message("flights", b"x")],
        "request": _asked(),
        "subject": "User:name",
        "body": b"x",
        "topic": "flights",
        "queue": rmq.MessageQueue("flights", "broker-a", 0),
        "queues": [rmq.MessageQueue("flights", "broker-a", 0)],
        "positions": {rmq.MessageQueue("flights", "broker-a", 0): 0},
        "broker": "broker-a",
        "listener": print,
        "callback": print,
        "hook": object(),
        "execute": lambda message: rmq.LocalTransactionState.COMMIT_MESSAGE,
        "namesrv_addr": server.namesrv_addr,
        "letter": None,
        "perm": 6,
        "configs": [],
        "client_ids": ["a"],
        "queues_by_broker": {"broker-a": 1},
        "settings": {},
        "resources": ["Topic:flights"],
        "actions": ["Pub"],
        "addresses": [],
        "mode": "PULL",
        "timestamp_ms": 0,
    }
    if name in known:
        return known[name]
    return 1 if re.search("_ms$|offset$|count$|limit|num", name) else "name"


def caller(verb: Verb, clients: dict[str, Any], server: EmbeddedRocketMQ) -> Callable[[dict[str, Any]], Any]:
    """Calls the verb with these arguments, and with valid ones for those that it needs."""
    client = clients[verb.owner]
    if verb.name in ("on_message", "concurrent_listener", "orderly_listener", "messages", "add_hook", "assign"):
        new: Any = {"push": server.push_consumer, "pull": server.pull_consumer}.get(verb.owner, server.producer)
        client = new("new")  # these are for clients that do not run, or that were not subscribed
    function = getattr(client, verb.name)
    signature = inspect.signature(function).parameters
    positional = [name for name, parameter in signature.items() if parameter.kind is parameter.POSITIONAL_ONLY]
    required = {
        name: valid_value(name, server)
        for name in verb.parameters
        if (parameter := signature.get(name)) is None or parameter.default is parameter.empty
        if name != "how" and (parameter is not None or name in ("message",))
    }

    def call(arguments: dict[str, Any]) -> Any:
        given = {**required, **arguments}
        if verb.name == "send_in_transaction":
            given.setdefault("execute", lambda message: rmq.LocalTransactionState.COMMIT_MESSAGE)
        answer = function(*[given.pop(one) for one in positional if one in given], **given)
        if hasattr(answer, "result"):
            answer = answer.result(20)
        return list(answer) if inspect.isgenerator(answer) else answer

    return call
