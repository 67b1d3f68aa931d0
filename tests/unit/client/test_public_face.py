"""The public face explains itself: what can be raised can be caught by name, and what a client can do ``help()`` shows."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import sprocketmq as rmq
import sprocketmq.spark

SOURCE = Path(rmq.__file__).parent
ADDRESS = "127.0.0.1:9876"


# -- exceptions ------------------------------------------------------------------------------------------------------------------


@cache
def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def exception_classes() -> dict[str, Path]:
    """Every class of the package that is an exception, by name: it has an exception of Python, or one of these, among its bases."""
    builtin = {
        name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
    }
    classes = [
        (node.name, {base.id for base in node.bases if isinstance(base, ast.Name)}, path)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    found: dict[str, Path] = {}
    while more := {
        name: path for name, bases, path in classes if bases & (builtin | found.keys()) and name not in found
    }:
        found |= more
    return found


def raised() -> Iterator[tuple[str, Path]]:
    """Each name of an exception in a ``raise``, and the file."""
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and node.exc is not None:
                what = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                if isinstance(what, ast.Name):
                    yield what.id, path


# Raised and caught inside: no program of a user meets them.
CAUGHT_INSIDE = {
    "MemberDied": "the demo's own",
    "NotText": "a column of a Spark batch that is looked at row by row then",
    "OddProperties": "properties of a Spark batch that are read one by one then",
}


def test_every_exception_that_can_be_raised_is_exported() -> None:
    ours = exception_classes()
    exported = {*rmq.__all__, *sprocketmq.spark.__all__}
    met = {name for name, _ in raised() if name in ours and not name.startswith("_")} - CAUGHT_INSIDE.keys()
    assert {"ConfigurationError", "RequestTimeout", "StoreCorrupt", "DataLoss"} <= met, "the search finds them"
    assert met - exported == set()


def test_the_whole_tree_of_exceptions_is_exported() -> None:
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
def test_what_a_client_can_do_is_of_its_class(name: str, prefix: str) -> None:
    """``help(PushConsumer)`` and editors look at the class: nothing public is put into the object alone."""
    made = getattr(rmq, prefix + name)
    more = {"check": check} if name == "TransactionProducer" else {}
    client = made(**more, namesrv_addr=ADDRESS) if name == "Admin" else made("flights", **more, namesrv_addr=ADDRESS)
    assert [attribute for attribute in vars(client) if not attribute.startswith("_")] == []


@pytest.mark.parametrize(
    "name", ["Producer", "PushConsumer", "PullConsumer", "DeadLetters", "TransactionProducer", "Admin"]
)
def test_the_blocking_class_has_every_verb_of_its_async_twin(name: str) -> None:
    def public(kind: type) -> set[str]:
        return {attribute for attribute in dir(kind) if not attribute.startswith("_")}

    inside = {
        # What blocking classes take an async twin apart by, and what only a loop needs.
        *(
            "holds_nothing",
            "is_limited",
            "take_permit",
            "send_permitted",
            "takes_into_batches",
            "send_into",
            "send_begun",
        ),
        *(
            "elements_sender",
            "wait",
            "begin_prepared",
            "prepared",
            "send_prepared",
            "chosen_execute",
            "send_half",
            "state_of",
            "end",
        ),
    }
    assert public(getattr(rmq, f"Async{name}")) - inside <= public(getattr(rmq, name))
