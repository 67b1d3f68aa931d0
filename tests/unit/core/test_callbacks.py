# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from sprocketmq.core.callbacks import check_callback, is_async
from sprocketmq.errors import ConfigurationError


def of_one(message: object) -> None: ...


def of_two(message: object, context: object) -> None: ...


def of_one_or_two(message: object, context: object = None) -> None: ...


def of_any(*args: object) -> None: ...


def by_name(message: object, *, context: object) -> None: ...


async def later(message: object) -> None: ...


class Listener:
    def __call__(self, message: object) -> None: ...

    def method(self, message: object) -> None: ...


@functools.wraps(of_two)
def with_a_context(message: object) -> None:
    """A wrapper that adds what the function wants and its caller does not give."""
    of_two(message, None)


TAKES_ONE: list[Callable[..., Any]] = [
    of_one,
    of_one_or_two,
    of_any,
    Listener(),
    Listener().method,
    functools.partial(of_two, context=None),
    lambda message: None,
    [].append,
    print,
    str,
    with_a_context,
    Mock(),
]


@pytest.mark.parametrize("function", TAKES_ONE)
def test_callables_are_accepted(function):
    check_callback("the listener", function, "message")


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (of_two, r"is of_two\(message, context\), a function of \(message\) is allowed: missing a required argument"),
        (lambda: None, r"<lambda>\(\), a function of \(message\) is allowed: too many positional arguments"),
        (by_name, r"by_name\(message, \*, context\).*missing a required (keyword-only )?argument: 'context'"),
        (Listener.method, r"Listener\.method\(self, message\).*missing a required argument: 'message'"),
        (functools.partial(of_one, 1), r"\(\).*too many positional arguments"),
        (functools.partial(of_two), r"\(message, context\)"),
        (5, "is 5, a function"),
        (None, "is None, a function"),
    ],
)
def test_callables_with_other_parameters_are_refused_with_the_allowed_ones(function, sentence):
    with pytest.raises(
        ConfigurationError, match=f"^the listener {sentence}" if sentence.startswith("is") else sentence
    ):
        check_callback("the listener", function, "message")


def test_the_sentence_ends_with_what_to_do():
    with pytest.raises(ConfigurationError, match="; register it elsewhere$"):
        check_callback("the listener", of_two, "message", "register it elsewhere")


def test_a_function_without_a_signature_is_accepted():
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(dict.update)
    check_callback("the listener", dict.update, "message")


async def later_of_two(message: object, context: object) -> None: ...


class AsyncListener:
    async def __call__(self, message: object) -> None: ...


@pytest.mark.parametrize("function", [later, AsyncListener(), functools.partial(later_of_two, context=None)])
def test_an_async_function_is_refused_where_it_would_not_be_awaited(function):
    assert is_async(function)
    check_callback("the listener", function, "message", may_be_async=True)
    with pytest.raises(ConfigurationError, match=r"the listener is async def .* nobody would await; a plain function"):
        check_callback("the listener", function, "message")


@pytest.mark.parametrize("function", [of_one, Listener(), str, print, AsyncListener, 5])
def test_what_runs_when_it_is_called_is_not_async(function):
    assert not is_async(function)
