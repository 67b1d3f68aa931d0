# SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of administrative requests against their annotations before anything is sent.

A hundred requests have some three hundred parameters of few kinds. This module checks what applies to all: types, text that can be
encoded, numbers that fit a Java long, and collections of these. Requests check ranges and names themselves.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from sprocketmq.client.settings.validators import check_queue, check_range, check_text, check_topic
from sprocketmq.core.callbacks import check_callback
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message import MessageExt

__all__ = ["checked"]

F = TypeVar("F", bound=Callable[..., Any])

_LONG: Final = (1 << 63) - 1
_SECRET: Final = re.compile("password|secret")
_MAY_BE_EMPTY: Final = frozenset(
    {
        "white_remote_address",
        "default_topic_perm",
        "default_group_perm",
        "name_filter",
        "subject_filter",
        "resource_filter",
    }
)
_TOPICS: Final = frozenset({"topic", "to_topic", "trace_topic"})
_CLASSES: Final[dict[str, type]] = {
    "bool": bool,
    "datetime": datetime,
    "MessageExt": MessageExt,
    "DeadLetterMessage": object,  # checked where it is used
    "FilterExpression": FilterExpression,
    "bodies.TopicConfig": bodies.TopicConfig,
    "bodies.SubscriptionGroupConfig": bodies.SubscriptionGroupConfig,
}
_MANY: Final = re.compile(r"(?:Collection|Iterable|Sequence)\[(.*)\]")
_PAIRS: Final = re.compile(r"Mapping\[(.*), (.*)\]")


def checked(request: F) -> F:
    """``request`` with its arguments checked. Raises ConfigurationError, which names the parameter."""
    signature = inspect.signature(request)
    kinds = {
        name: str(parameter.annotation)
        for name, parameter in signature.parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    }

    def check(args: tuple[Any, ...], named: dict[str, Any]) -> None:
        for name, value in signature.bind(*args, **named).arguments.items():
            if name in kinds:
                _check(name, kinds[name], value)

    if inspect.iscoroutinefunction(request):

        @functools.wraps(request)
        async def ask(*args: Any, **named: Any) -> Any:
            check(args, named)
            return await request(*args, **named)

        return ask  # type: ignore[return-value]

    @functools.wraps(request)
    def begin(*args: Any, **named: Any) -> Any:
        check(args, named)
        return request(*args, **named)

    return begin  # type: ignore[return-value]


def _check(name: str, kind: str, value: Any) -> None:
    kinds = kind.split(" | ")
    if value is None and "None" in kinds:
        return
    if "int" in kinds and not isinstance(value, datetime):
        check_range(name, value, 0, _LONG)
    elif "str" in kinds and (isinstance(value, str) or len(kinds) - ("None" in kinds) == 1):
        _check_name(name, value)
    elif kinds[0] == "MessageQueue":
        check_queue(value, name)
    elif kinds[0] == "allocation.AllocationStrategy":
        check_callback(name, value, "group, client_id, queues, client_ids", "or name one, such as 'AVG'")
    elif (many := _MANY.fullmatch(kinds[0])) is not None:
        if isinstance(value, str | bytes) or not isinstance(value, Collection):
            raise ConfigurationError(f"{name} is {value!r}, a list is allowed")
        for one in value:
            _check(f"one of {name}", many[1], one)
    elif (pairs := _PAIRS.fullmatch(kinds[0])) is not None:
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"{name} is {value!r}, a mapping such as a dict is allowed")
        for key, one in value.items():
            _check(f"a key of {name}", pairs[1], key)
            if one != "" and pairs[2] != "Any":  # "" removes a setting
                _check(f"{name}[{key!r}]", pairs[2], one)
    elif not isinstance(value, tuple(_CLASSES[one] for one in kinds if one in _CLASSES)):
        allowed = " or ".join(one.rpartition(".")[2] for one in kinds if one != "None")
        raise ConfigurationError(f"{name} is {value!r}, {allowed} is allowed")


def _check_name(name: str, value: Any) -> None:
    if _SECRET.search(name):
        if not isinstance(value, str) or not value.isprintable() or not value.strip():
            raise ConfigurationError(
                f"{name} is not shown here; text (str) that is not blank, without control characters, is allowed"
            )
    elif name in _TOPICS:
        check_topic(value, name)
    elif value != "" or name not in _MAY_BE_EMPTY:
        check_text(name, value)
