# SPDX-License-Identifier: Apache-2.0
"""The check of a user's function when it is registered.

A function with the wrong parameters fails at each call. Where a failure means a retry, this is expensive: with a listener of two parameters
given to ``on_message``, each message goes through all its retries.

Rules
    1. A function is refused only if it cannot be called with the arguments that it will get. A function without a signature (some C
       functions) is accepted.
    2. A decorated function is checked by its wrapper, because that is what will be called. A wrapper with ``*args`` accepts anything.
    3. An ``async def`` function is refused where its coroutine would not be awaited.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeGuard

from sprocketmq.errors import ConfigurationError


def check_callback(name: str, value: object, parameters: str, advice: str = "", *, may_be_async: bool = False) -> None:
    """Check that ``value`` can be called with the arguments that it will get, all by position.

    Args:
        name: its name in the error.
        parameters: names of the arguments, as in ``"messages, context"``.
        advice: what to do, for the error.
        may_be_async: whether the caller awaits the result of an ``async def`` function.

    Raises ConfigurationError (it is not a function, has other parameters, or is async where nobody awaits it).
    """
    todo = f"; {advice}" if advice else ""
    if not callable(value):
        raise ConfigurationError(f"{name} is {value!r}, a function of ({parameters}) is allowed{todo}")
    given = getattr(value, "__qualname__", None) or repr(value)
    if not may_be_async and is_async(value):
        raise ConfigurationError(f"{name} is async def {given}, which nobody would await; a plain function is allowed")
    try:
        signature = inspect.signature(value, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * len(parameters.split(",")))
    except TypeError as error:
        raise ConfigurationError(
            f"{name} is {given}{_without_types(signature)}, a function of ({parameters}) is allowed: {error}{todo}"
        ) from None


def is_async(value: object) -> TypeGuard[Callable[..., Coroutine[Any, Any, Any]]]:
    """Whether a call returns a coroutine: ``async def``, a partial of it, or an object with ``async def __call__``."""
    return callable(value) and any(inspect.iscoroutinefunction(call) for call in (value, type(value).__call__))


def _without_types(signature: inspect.Signature) -> str:
    shown = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(shown))
