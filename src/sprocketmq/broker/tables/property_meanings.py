# SPDX-License-Identifier: Apache-2.0
"""What a send's properties mean for the broker, in as few searches of their text as possible.

Most mean nothing but their tags, so the meaning of a text without other names is cached by its tags. ``find`` refuses a text whose UNIQ_KEY
is missing, or there twice, or without a separator behind it, and one with marks of another broker; the handler then takes it apart itself.
Tags come from the network: the cache is limited, and long ones are not cached.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records import properties as props

_MOST_MEANINGS: Final = 1024
_MOST_CHARACTERS: Final = 128
_SEPARATOR: Final = "\x02"
_UNIQUE_KEY: Final = f"{props.UNIQ_KEY}\x01"
_TAGS: Final = f"{props.TAGS}\x01"
_LATER_TAGS: Final = f"\x02{_TAGS}"
# Marks of another broker are removed before the own ones are added.
_CLUSTER, _REGION, _TRACE = (f"{name}\x01" for name in (props.CLUSTER, props.MSG_REGION, props.TRACE_ON))
_DELAY, _TIMER, _NO_WAIT = "DELAY", "TIMER_", f"{props.WAIT}\x01false"
_TRAN_MSG, _POP_CK = f"{props.TRAN_MSG}\x01", f"{props.POP_CK}\x01"

_TIMER_TEXTS = tuple(f"{name}\x01" for name in (props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS))
TIMER_MARKS: Final = tuple(text.encode() for text in _TIMER_TEXTS)
"""Each is contained in properties that ask for a delivery time."""


class PropertyMeaning(msgspec.Struct, frozen=True, gc=False):
    """What properties ask for.

    ``added``: the text that the broker appends (marks, a missing separator). ``waits``: the answer waits for the disk. ``is_special``:
    ``special_messages`` decides. ``delay_level``: of properties that ask for a delay level and are nothing else special; else 0.
    """

    added: str
    tags_code: int
    waits: bool
    is_special: bool
    delay_level: int


class PropertyMeanings:
    """The meanings of one broker. ``marks``: the text that it appends to properties."""

    def __init__(self, marks: str) -> None:
        self._marks = marks
        # By the tags; those of texts whose last separator is missing in the second one.
        self._known: tuple[dict[str, PropertyMeaning], dict[str, PropertyMeaning]] = ({}, {})

    def find(self, text: str) -> tuple[str, PropertyMeaning] | None:
        """The unique key of properties and their meaning; None: the handler has to take them apart."""
        before, _, rest = text.partition(_UNIQUE_KEY)
        key, end, behind = rest.partition(_SEPARATOR)
        # ASCII letters and digits. For bytes this takes a third of the time that it takes for a text.
        if not end or not key.encode().isalnum() or (before and before[-1] != _SEPARATOR) or _UNIQUE_KEY in behind:
            return None
        # A letter is found many times as fast as a name: none of the names below is without one of these, and those of other properties
        # that clients write have none.
        may_mean_more = "R" in text or "L" in text or "P" in text
        if may_mean_more and (_CLUSTER in text or _REGION in text or _TRACE in text):
            return None
        begin = text.rfind(_LATER_TAGS) + 1  # the last ones count
        tags = ""
        if begin or text.startswith(_TAGS):
            begin += len(_TAGS)
            stop = text.find(_SEPARATOR, begin)
            tags = text[begin:] if stop < 0 else text[begin:stop]
            if not tags:  # then those before count
                tags = props.get_property(text.encode(), props.TAGS) or ""
        if _NO_WAIT in text or (
            may_mean_more and (_DELAY in text or _TIMER in text or _TRAN_MSG in text or _POP_CK in text)
        ):
            return key, meaning_of(text, tags, self._added(text))
        known = self._known[text[-1] != _SEPARATOR]
        meaning = known.get(tags)
        if meaning is None:
            meaning = meaning_of(text, tags, self._added(text))
            if len(tags) <= _MOST_CHARACTERS:
                if len(known) >= _MOST_MEANINGS:
                    known.clear()
                known[tags] = meaning
        return key, meaning

    def _added(self, text: str) -> str:
        return self._marks if text[-1] == _SEPARATOR else _SEPARATOR + self._marks


def meaning_of(text: str, tags: str | None, added: str = "") -> PropertyMeaning:
    """The meaning of properties with these tags; ``added``: what the broker appends to them."""
    is_delayed, has_other = _DELAY in text, _TRAN_MSG in text or _POP_CK in text
    is_timed = _TIMER in text and any(mark in text for mark in _TIMER_TEXTS)
    level = delay_level(text.encode()) if is_delayed and not (has_other or is_timed) else 0
    waits = _NO_WAIT not in text or waits_for_disk(text.encode())
    return PropertyMeaning(added, tags_code(tags), waits, is_delayed or has_other or _TIMER in text, level)


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
