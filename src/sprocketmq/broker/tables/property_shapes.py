# SPDX-License-Identifier: Apache-2.0
"""The meaning of a send's properties for the broker, cached by their shape: the text without the values of UNIQ_KEY and KEYS.

A producer sends thousands of messages whose properties differ only in these two, so they are checked once.

Laws
1. A shape has the result that :func:`judged` returns for each of its texts. It is computed with a probe in place of the unique key and
   without KEYS: neither value contains a separator, so they cannot change the meaning of the rest. UNIQ_KEY must be there exactly once,
   because of two the last counts.
2. Shapes come from the network: the cache is limited, and long ones are not cached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records import properties as props

__all__ = ["TIMER_MARKS", "PropertyShapes", "Shape", "delay_level", "judged", "waits_for_disk"]

_MOST_SHAPES: Final = 1024
_MOST_CHARACTERS: Final = 1024
_UNIQUE_KEY: Final = f"{props.UNIQ_KEY}\x01"
_KEYS: Final = f"{props.KEYS}\x01"
_PROBE: Final = "0"
_TRAN_MSG: Final = f"{props.TRAN_MSG}\x01".encode()
_POP_CK: Final = f"{props.POP_CK}\x01".encode()

TIMER_MARKS: Final = tuple(
    f"{name}\x01".encode() for name in (props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS)
)
"""Each is contained in properties that ask for a delivery time."""
_OTHER_MARKS: Final = (*TIMER_MARKS, _TRAN_MSG, _POP_CK)


class Shape(msgspec.Struct, frozen=True, gc=False):
    """The meaning of properties.

    Attributes:
        added: the text that the broker appends: its marks, and a separator if the last one is missing.
        tags_code: for the consume queue.
        waits: whether the answer waits until the message is on the disk.
        is_special: whether the message may need special handling; ``special_messages`` decides.
        delay_level: of properties that ask for a delay level and are nothing else special; 0 for all others.
    """

    added: str
    tags_code: int
    waits: bool
    is_special: bool
    delay_level: int


class PropertyShapes:
    """The shapes of one broker. ``mark`` adds its marks to raw properties."""

    def __init__(self, mark: Callable[[bytes], bytes]) -> None:
        self._mark = mark
        # By the texts before and behind the unique key; mostly the first one is empty.
        self._known: dict[str | tuple[str, str], Shape | None] = {}

    def look(self, text: str) -> tuple[str, Shape] | None:
        """The unique key of properties and their shape; None if they have no shape and are checked one by one."""
        before, _, rest = text.partition(_UNIQUE_KEY)
        key, end, behind = rest.partition("\x02")
        # ASCII letters and digits. For bytes this takes a third of the time that it takes for a text.
        if not end or not key.encode().isalnum():
            return None
        if _KEYS in text:
            before, behind = _without_keys(before), _without_keys(behind)
        around = (before, behind) if before else behind
        shape = self._known.get(around)
        if shape is None:
            if around in self._known:
                return None
            shape = self._judge(around, before, behind)
            if shape is None:
                return None
        return key, shape

    def _judge(self, around: str | tuple[str, str], before: str, behind: str) -> Shape | None:
        text = f"{before}{_UNIQUE_KEY}{_PROBE}\x02{behind}"
        raw = text.encode()
        marked, shape = self._mark(raw), None
        # The key is the only one (``before`` ends at the first) and not that of a longer name, and there are no marks of another broker to
        # remove.
        if _UNIQUE_KEY not in behind and (not before or before[-1] == "\x02") and marked.startswith(raw):
            shape = judged(raw, marked, marked[len(raw) :].decode())
        if len(text) <= _MOST_CHARACTERS:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            self._known[around] = shape
        return shape


def _without_keys(part: str) -> str:
    at = f"\x02{part}".find(f"\x02{_KEYS}")  # where the name is in ``part``, not the end of another name
    if at < 0:
        return part
    begin = at + len(_KEYS)
    end = part.find("\x02", begin)
    if end < 0:
        end = len(part)
    return part if part.find("\x01", begin, end) >= 0 else part[:begin] + part[end:]


def judged(raw: bytes, marked: bytes, added: str = "") -> Shape:
    """The shape of ``raw``; ``marked`` is the same text with the broker's marks."""
    tags = props.get_property(marked, props.TAGS) if b"TAGS\x01" in marked else None
    is_special = _is_special(marked)
    level = delay_level(marked) if is_special and not any(mark in marked for mark in _OTHER_MARKS) else 0
    return Shape(added, tags_code(tags), waits_for_disk(raw), is_special, level)


def waits_for_disk(raw: bytes) -> bool:
    """Whether the answer waits for the disk. Checked twice, because the name of another property may end in the same letters."""
    return b"WAIT\x01false" not in raw or props.get_property(raw, props.WAIT) != "false"


def delay_level(raw: bytes) -> int:
    """The delay level that these properties ask for; 0 for none."""
    text = props.get_property(raw, props.DELAY)
    try:
        return int(text) if text else 0
    except ValueError:
        return 0  # Java's getDelayTimeLevel fails there; a message that cannot be delayed is better delivered than lost


def _is_special(raw: bytes) -> bool:
    """Whether these properties may need special handling: they contain one of these texts. ``special_message`` decides."""
    return b"DELAY" in raw or b"TIMER_" in raw or _TRAN_MSG in raw or _POP_CK in raw
