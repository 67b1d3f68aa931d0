# SPDX-License-Identifier: Apache-2.0
"""The public API explains itself: what can be raised can be caught by name, and what a client can do ``help()`` shows."""

from __future__ import annotations

import builtins
import inspect
import re
import typing
from functools import cache
from pathlib import Path

import pytest

import sprocketmq as rmq
import sprocketmq.spark
import sprocketmq.testing.simulation
from sprocketmq.testing import EmbeddedRocketMQ, FaultInjector, ManualClock
from unit.client.help_text import entries, members, missing_in_class, missing_in_verb, said_of_every_method, sections

SOURCE = Path(rmq.__file__).parent
ADDRESS = "127.0.0.1:9876"


# -- exceptions ------------------------------------------------------------------------------------------------------------------


@cache
def texts() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}


@cache
def exception_classes() -> dict[str, Path]:
    """Every class of the package that is an exception, by name: it has an exception of Python, or one of these, among its bases."""
    builtin = {
        name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
    }
    classes = [
        (name, set(re.findall(r"\w+", bases)), path)
        for path, text in texts().items()
        for name, bases in re.findall(r"^ *class (\w+)\((.*?)\):", text, re.MULTILINE | re.DOTALL)
    ]
    found: dict[str, Path] = {}
    while more := {
        name: path for name, bases, path in classes if bases & (builtin | found.keys()) and name not in found
    }:
        found |= more
    return found


def raised() -> set[str]:
    """The names that stand behind a ``raise``."""
    return {name for text in texts().values() for name in re.findall(r"\braise (\w+)\b", text)}


# Raised and caught inside: no program of a user meets them.
CAUGHT_INSIDE = {
    "Refused": "the console shows it on a page",
    "ChildFailed": "the demo's own",
    "ApplicationFailed": "sprocketmq run makes an exit code of it",
    "ClusterFailed": "sprocketmq cluster makes an exit code of it",
    "PartlyDone": "the command line makes an exit code of it",
    "RegistryUnavailable": "it fails a task of Spark",
    "UnfitSchema": "it is the reason of a row",
    "UnknownSchema": "it is the reason of a row",
}


def test_every_exception_that_can_be_raised_is_exported():
    ours = exception_classes()
    exported = {*rmq.__all__, *sprocketmq.spark.__all__, *sprocketmq.testing.simulation.__all__}
    met = {name for name in raised() & ours.keys() if not name.startswith("_")} - CAUGHT_INSIDE.keys()
    assert {"ConfigurationError", "RequestTimeout", "StoreCorrupt", "DataLoss"} <= met, "the search finds them"
    assert met - exported == set()


def test_the_whole_tree_of_exceptions_is_exported():
    """Also those that are chosen by a code of the remoting protocol, such as NoPermission."""
    tree = {name for name, path in exception_classes().items() if path == SOURCE / "errors.py"}
    assert {"NoPermission", "SystemBusy", "GroupNotExist"} <= tree
    assert tree - set(rmq.__all__) == set()
    for name in tree:
        assert issubclass(getattr(rmq, name), rmq.RocketMQError)


# -- methods -----------------------------------------------------------------------------------------------------------------------


def check(message: rmq.MessageExt) -> rmq.LocalTransactionState:
    return rmq.LocalTransactionState.UNKNOWN


@pytest.mark.parametrize(
    "name", ["Producer", "PushConsumer", "PullConsumer", "DeadLetters", "TransactionProducer", "Admin"]
)
@pytest.mark.parametrize("prefix", ["", "Async"])
def test_what_a_client_can_do_is_of_its_class(name, prefix):
    """``help(PushConsumer)`` and editors look at the class: nothing public is put into the object alone."""
    made = getattr(rmq, prefix + name)
    more = {"check": check} if name == "TransactionProducer" else {}
    client = made(**more, namesrv_addr=ADDRESS) if name == "Admin" else made("flights", **more, namesrv_addr=ADDRESS)
    assert [attribute for attribute in vars(client) if not attribute.startswith("_")] == []


@pytest.mark.parametrize(
    "name", ["Producer", "PushConsumer", "PullConsumer", "DeadLetters", "TransactionProducer", "Admin"]
)
def test_the_blocking_class_has_every_verb_of_its_async_twin(name):
    def public(kind: type) -> set[str]:
        return {attribute for attribute in dir(kind) if not attribute.startswith("_")}

    inside = {
        *("is_stopped", "wait"),  # for a loop
        *("encoded_batch_sender", "begin_prepared", "prepared", "send_prepared"),  # for the Spark sink, which has one
    }
    assert public(getattr(rmq, f"Async{name}")) - inside <= public(getattr(rmq, name))


# -- help() ------------------------------------------------------------------------------------------------------------------------

CLIENTS = tuple(
    prefix + name
    for name in ("Producer", "TransactionProducer", "PushConsumer", "PullConsumer", "DeadLetters", "Admin")
    for prefix in ("", "Async")
)
CLASSES = {name: getattr(rmq, name) for name in rmq.__all__ if isinstance(getattr(rmq, name), type)}
OF_TESTS = {"EmbeddedRocketMQ": EmbeddedRocketMQ, "FaultInjector": FaultInjector, "ManualClock": ManualClock}
# Verbs that wait, and end well whatever happens.
CANNOT_FAIL = {"shutdown", "wait", "sleep"} | {
    f"{name}.start" for name in CLIENTS if name.endswith(("Admin", "DeadLetters"))
}


def says_what_it_raises(kind: type, name: str) -> bool:
    """Whether a verb has to: it is a coroutine, here or in the async twin, so it can fail."""
    verb = getattr(getattr(rmq, f"Async{kind.__name__}", kind), name, None)
    waits = inspect.iscoroutinefunction(verb) or inspect.isasyncgenfunction(verb)
    return waits and not {name, f"{kind.__name__}.{name}"} & CANNOT_FAIL


@pytest.mark.parametrize("name", [*CLASSES, *OF_TESTS])
def test_help_of_a_class_says_everything(name):
    kind = {**CLASSES, **OF_TESTS}[name]
    missing = {name: missing_in_class(kind, with_example=name in CLIENTS)}
    for verb_name, verb in members(kind):
        missing[f"{name}.{verb_name}"] = missing_in_verb(
            verb, asks=says_what_it_raises(kind, verb_name), of_class=said_of_every_method(kind)
        )
    assert {where: what for where, what in missing.items() if what} == {}


def test_help_of_a_function_says_everything():
    assert missing_in_verb(rmq.sql92, asks=False) == []


@pytest.mark.parametrize(
    "name",
    [name for name, kind in CLASSES.items() if typing.is_typeddict(kind)],
)
def test_help_of_options_names_each_with_unit_and_default(name):
    said = entries(sections(inspect.getdoc(CLASSES[name]) or "")["Keyword Args"])
    common = {} if name == "CommonOptions" else inspect.get_annotations(rmq.CommonOptions)
    assert said.keys() == inspect.get_annotations(CLASSES[name]).keys() - common.keys()
    for option, text in said.items():
        assert re.search(r"default|none", text, re.IGNORECASE), f"{option}: {text}"
        if option.endswith("_ms"):
            assert re.search("milliseconds", text), f"{option}: {text}"
        if option.endswith("_bytes"):
            assert re.search("bytes|[KM]iB", text), f"{option}: {text}"


@pytest.mark.parametrize("name", [name for name in CLIENTS if not name.startswith("Async")])
def test_help_of_a_blocking_class_awaits_nothing(name):
    kind = CLASSES[name]
    texts = {name: inspect.getdoc(kind) or ""} | {
        verb_name: inspect.getdoc(verb) or "" for verb_name, verb in members(kind)
    }
    assert [where for where, text in texts.items() if re.search(r"\bawait\b|\basync (?:with|for)\b", text)] == []


# -- the rules themselves ------------------------------------------------------------------------------------------------------------
