# SPDX-License-Identifier: Apache-2.0
"""Attributes of topics and groups, and the changes of them that tools send (5.x; Java: AttributeParser, AttributeUtil, TopicAttributes).

    "+message.type=FIFO,-reserve.time"  --parse_changes-->  {"+message.type": "FIFO", "-reserve.time": ""}  --alter-->  the new attributes

Rules
1. A change list is applied completely or not at all.
2. What is not in the list stays; "+" sets, "-" removes what is there; a new topic takes "+" only.
3. An attribute that decides the form of the topic's files (queue.type, cleanup.policy) is set once, when the topic is created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from sprocketmq.errors import ConfigurationError


class Attribute(Struct, frozen=True):
    """What a value may be, and whether it may change later."""

    allowed: str
    is_fine: Callable[[str], bool]
    changeable: bool = True


def _one_of(*values: str, changeable: bool = True) -> Attribute:
    return Attribute(", ".join(values), values.__contains__, changeable)


def _is_reserve_time(text: str) -> bool:
    try:
        return -1 <= int(text) < 2**63
    except ValueError:
        return False


TOPIC_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "queue.type": _one_of("SimpleCQ", "BatchCQ", changeable=False),
    "cleanup.policy": _one_of("DELETE", "COMPACTION", changeable=False),
    "message.type": _one_of("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED"),
    "reserve.time": Attribute("-1 or a number of milliseconds", _is_reserve_time),
}
GROUP_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}


def parse_changes(text: str | None) -> dict[str, str]:
    """A change list as a mapping of signed names to values, "" for a removal. Raises ConfigurationError (an element is neither
    ``+name=value`` nor ``-name``, or a name comes twice)."""
    changes: dict[str, str] = {}
    for element in (text or "").split(",") if text else ():
        name, equals, value = element.partition("=")
        wanted = "+" if equals else "-"
        if not name.startswith(wanted) or (equals and not value):
            raise ConfigurationError(f"attribute change {element!r} is given, +name=value or -name is allowed")
        if name in changes:
            raise ConfigurationError(f"attribute {name[1:]} is changed twice in one list; change it once")
        changes[name] = value
    return changes


def alter(
    current: Mapping[str, str] | None, changes: Mapping[str, str], known: Mapping[str, Attribute]
) -> dict[str, str]:
    """The attributes after ``changes``. ``current``: the attributes of today; None when the topic or group is being made.
    ``changes``: signed names to values, as :func:`parse_changes` gives them. ``known``: :data:`TOPIC_ATTRIBUTES` or
    :data:`GROUP_ATTRIBUTES`. Raises ConfigurationError: a change that is not allowed; nothing of the list counts then (rule
    1)."""
    before = current or {}
    after, seen = dict(before), set[str]()
    for signed, value in changes.items():
        sign, name = signed[:1], signed[1:]
        if sign not in ("+", "-") or not name or "+" in name or "-" in name:
            raise ConfigurationError(f"attribute change {signed!r} is given, +name or -name is allowed")
        if name in seen:
            raise ConfigurationError(f"attribute {name} is changed twice in one list; change it once")
        seen.add(name)
        if current is None and sign == "-":
            raise ConfigurationError(
                f"attribute {name} cannot be removed from a topic that is being created; leave it out"
            )
        if sign == "-" and name not in before:
            raise ConfigurationError(f"attribute {name} cannot be removed, it is not set")
        attribute = known.get(name)
        if attribute is None:
            raise ConfigurationError(
                f"attribute {name} is unknown, {', '.join(known) or 'no attribute'} is allowed here"
            )
        if current is not None and not attribute.changeable:
            raise ConfigurationError(f"attribute {name} is set when the topic is created and cannot be changed")
        if sign == "-":
            del after[name]
        elif not attribute.is_fine(value):
            raise ConfigurationError(f"attribute {name} is {value!r}, {attribute.allowed} is allowed")
        else:
            after[name] = value
    return after
