# SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of administrative requests against their annotations before anything is sent: types, text that can be
encoded, numbers that fit a Java long, and collections of these. Requests check ranges and names themselves."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import structs

from sprocketmq.client.settings.validators import check_queue, check_range, check_text, check_topic
from sprocketmq.core.callbacks import check_callback
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.core.resource_names import control_character_problem
from sprocketmq.errors import ConfigurationError
from sprocketmq.plain_values import plain_text, plain_value
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message import MessageExt

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
    """``request`` with its arguments checked and plain. Raises ConfigurationError, which names the parameter."""
    signature = inspect.signature(request)
    kinds = {
        name: "Mapping[str, Any]" if parameter.kind is parameter.VAR_KEYWORD else str(parameter.annotation)
        for name, parameter in signature.parameters.items()
        if name != "self"
    }

    def check(args: tuple[Any, ...], named: dict[str, Any]) -> inspect.BoundArguments:
        given = signature.bind(*args, **named)
        given.arguments.update(
            {name: _checked(name, kinds[name], value) for name, value in given.arguments.items() if name in kinds}
        )
        return given

    if inspect.iscoroutinefunction(request):

        @functools.wraps(request)
        async def ask(*args: Any, **named: Any) -> Any:
            given = check(args, named)
            return await request(*given.args, **given.kwargs)

        return ask  # type: ignore[return-value]

    @functools.wraps(request)
    def begin(*args: Any, **named: Any) -> Any:
        given = check(args, named)
        return request(*given.args, **given.kwargs)

    return begin  # type: ignore[return-value]


def _checked(name: str, kind: str, value: Any) -> Any:
    kinds = kind.split(" | ")
    if value is None and "None" in kinds:
        return None
    if "int" in kinds and not isinstance(value, datetime):
        return check_range(name, value, 0, _LONG)
    if "str" in kinds and (isinstance(value, str) or len(kinds) - ("None" in kinds) == 1):
        return _checked_name(name, value)
    if kinds[0] == "MessageQueue":
        return check_queue(value, name)
    if kinds[0] == "allocation.AllocationStrategy":
        check_callback(name, value, "group, client_id, queues, client_ids", "or name one, such as 'AVG'")
        return value
    if (many := _MANY.fullmatch(kinds[0])) is not None:
        if isinstance(value, str | bytes) or not isinstance(value, Collection):
            raise ConfigurationError(f"{name} is {value!r}, a list is allowed")
        return [_checked(f"one of {name}", many[1], one) for one in value]
    if (pairs := _PAIRS.fullmatch(kinds[0])) is not None:
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"{name} is {value!r}, a mapping such as a dict is allowed")
        plain = {}
        for key, one in value.items():
            # "" removes a setting
            is_checked = one != "" and pairs[2] != "Any"
            plain[_checked(f"a key of {name}", pairs[1], key)] = (
                _checked(f"{name}[{key!r}]", pairs[2], one) if is_checked else plain_value(one)
            )
        return plain
    if not isinstance(value, tuple(_CLASSES[one] for one in kinds if one in _CLASSES)):
        allowed = " or ".join(one.rpartition(".")[2] for one in kinds if one != "None")
        raise ConfigurationError(f"{name} is {value!r}, {allowed} is allowed")
    if isinstance(value, bodies.TopicConfig | bodies.SubscriptionGroupConfig):
        return structs.replace(value, **{field: plain_value(one) for field, one in structs.asdict(value).items()})
    return value


def _checked_name(name: str, value: Any) -> str:
    if _SECRET.search(name):
        if not isinstance(value, str) or control_character_problem(name, value) is not None or not value.strip():
            raise ConfigurationError(
                f"{name} is not shown here; text (str) that is not blank, without control characters, is allowed"
            )
        return plain_text(value)
    if name in _TOPICS:
        return check_topic(value, name)
    return "" if value == "" and name in _MAY_BE_EMPTY else check_text(name, value)
