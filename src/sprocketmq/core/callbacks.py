"""Functions that users hand over, looked at when they are handed over.

One with other parameters would fail each time it is called, and many a caller takes a failure for something to be tried again: a listener
of two parameters given to ``on_message`` costs each message all its retries.

Laws
    1. Only what cannot be called as it will be called is refused. What says nothing of its parameters (some functions of C) is taken.
    2. A decorated function is judged by its wrapper, which is what is called. A wrapper of ``*args`` takes anything.
    3. An ``async def`` function is refused where nobody would await it: a call would run nothing of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeGuard

from sprocketmq.errors import ConfigurationError

__all__ = ["check_callback", "is_async"]


def check_callback(name: str, value: object, parameters: str, advice: str = "", *, may_be_async: bool = False) -> None:
    """Check that ``value`` can be called with the arguments that it will get, all by position.

    Args:
        name: what the sentence calls it.
        parameters: names for the arguments, as in ``"messages, context"``.
        advice: what to do, for the sentence.
        may_be_async: whether the caller awaits what an ``async def`` function returns.

    Raises:
        ConfigurationError: it is no function, one of other parameters, or one that nobody would await.
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
    """Whether a call gives something to await: ``async def``, a partial of one, or an object with ``async def __call__``."""
    return callable(value) and any(inspect.iscoroutinefunction(call) for call in (value, type(value).__call__))


def _without_types(signature: inspect.Signature) -> str:
    shown = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(shown))
