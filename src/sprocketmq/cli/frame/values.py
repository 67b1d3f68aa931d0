# SPDX-License-Identifier: Apache-2.0
"""Types of option values, and how such values are printed.

duration   10s  5m  2h  1d  500ms  1h30m                                  milliseconds
moment     2026-11-22T08:30:00 (local time unless it names a zone), milliseconds since 1970, or a duration before (after) now
queue      BROKER/NUMBER                                                  of the topic that the command names
permission rw  r  w  none                                                 6  4  2  0
pair       NAME=VALUE
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from sprocketmq.wire.records.message import MessageQueue

T = TypeVar("T")

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+")
_PERMISSIONS: Final = {"rw": 6, "wr": 6, "r": 4, "w": 2, "none": 0, "6": 6, "4": 4, "2": 2, "0": 0}
_PERMISSION_TEXTS: Final = {6: "rw", 7: "rw", 4: "r", 5: "r", 2: "w", 3: "w", 0: "none", 1: "none"}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _duration(value: Any) -> int:
    found = value if isinstance(value, int) else duration_ms(value)
    if found is None:
        raise ValueError(f"the duration is {value!r}; a number with ms, s, m, h or d is allowed, as in 10s or 1h30m")
    return found


def duration_ms(text: str) -> int | None:
    """The milliseconds of a duration; None if ``text`` is none."""
    if _DURATION.fullmatch(text) is None:
        return None
    return int(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))


def _moment(value: Any) -> int:
    return moment_ms(value, -1)


def _moment_ahead(value: Any) -> int:
    return moment_ms(value, 1)


def moment_ms(value: Any, sign: int, more: str = "") -> int:
    """A time in milliseconds since 1970. A duration counts from now: forward if ``sign`` is 1, back if it is -1. ``more``: what
    else is allowed, for the sentence. Raises ValueError."""
    if isinstance(value, int):
        return value
    if value.isdigit():
        return int(value)
    span = duration_ms(value.removeprefix("+"))
    if span is not None:
        return now_ms() + sign * span
    try:
        return int(datetime.fromisoformat(value).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        ago = "from now" if sign > 0 else "ago"
        allowed = f"2026-11-22, 2026-11-22T08:30:00, milliseconds since 1970, or 5m for 5 minutes {ago}"
        raise ValueError(f"the time is {value!r}; {allowed}{more} are allowed") from error


def _queue(value: Any) -> tuple[str, int]:
    if isinstance(value, tuple):
        return value
    broker, _, number = value.rpartition("/")
    if not broker or not number.isdigit():
        raise ValueError(f"the queue is {value!r}; BROKER/NUMBER is allowed, as in broker-a/0")
    return broker.rpartition("/")[2], int(number)


def _permission(value: Any) -> int:
    found = value if isinstance(value, int) else _PERMISSIONS.get(value.lower())
    if found is None:
        raise ValueError(f"the permission is {value!r}; rw, r, w or none is allowed")
    return found


def _pair(value: Any) -> tuple[str, str]:
    if isinstance(value, tuple):
        return value
    name, equals, text = value.partition("=")
    if not (name.strip() and equals):
        raise ValueError(f"{value!r} is given; NAME=VALUE is allowed")
    return name.strip(), text


def _limit(value: Any) -> tuple[str, int]:
    if isinstance(value, tuple):
        return value
    if value.isdigit():
        return "messages", int(value)
    span = duration_ms(value)
    if span is None:
        raise ValueError(f"the limit is {value!r}; a number of messages or a duration is allowed, as in 1000 or 5m")
    return "ms", span


def value_type(name: str, convert: Callable[[Any], T]) -> click.types.FuncParamType[Any, T]:
    """A type for click options. ``convert`` raises ValueError with a sentence; it must accept its own results, too."""
    made = click.types.FuncParamType(convert)
    made.name = name
    return made


DURATION: Final = value_type("duration", _duration)
LIMIT: Final = value_type("limit", _limit)
"""A number of messages ("messages", N), or a duration ("ms", N)."""
MOMENT: Final = value_type("time", _moment)
MOMENT_AHEAD: Final = value_type("time", _moment_ahead)
PAIR: Final = value_type("name=value", _pair)
PERMISSION: Final = value_type("permission", _permission)
QUEUE: Final = value_type("queue", _queue)


def queue_of(topic: str, queue: tuple[str, int]) -> MessageQueue:
    from sprocketmq.wire.records.message import MessageQueue

    return MessageQueue(topic, *queue)


# -- printed ---------------------------------------------------------------------------------------------------------------------


def permission_text(perm: int) -> str:
    return _PERMISSION_TEXTS.get(perm, str(perm))


def time_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")
