# SPDX-License-Identifier: Apache-2.0
"""A cache of binary (ROCKETMQ) headers of one request by their shape: the ext fields without two values that differ each time (a producer's
time and properties, a puller's offsets). The rest is decoded once.

    | fields ... | name of one | length, value | fields ... | name of the other | length, value | fields ... |
      `------- before -------'                  `------------ between --------'                  `- behind -'

1. A shape has the same result as decoding each of its headers. ``before`` and ``between``, without the names at their ends, and ``behind``
   are whole fields, and none of them is one of the two. So the two values cannot change the meaning of the others.
2. Shapes come from the network: the cache is limited and has no long ones. Signed requests have another signature each time, so they
   have no shape.
"""

from __future__ import annotations

import struct
from typing import Any, Final, get_args, get_type_hints

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.frames.command import BINARY_HEAD, SIGNATURE, binary_field, decode_fields

_MOST_SHAPES: Final = 1024
_MOST_BYTES: Final = 1024
_FIELDS_AT: Final = BINARY_HEAD.size
_MOST_DIGITS: Final = 18  # with so many digits a number always fits a Long
_SIGNED: Final = binary_field(SIGNATURE, b"")[:-4]

_Runs = tuple[bytes, bytes, bytes]


class _Varying:
    __slots__ = ("attribute", "begin", "is_text", "name", "size")

    def __init__(self, header_type: type[Any], attribute: str) -> None:
        hint = get_type_hints(header_type)[attribute]
        self.attribute, self.is_text = attribute, hint is str or str in get_args(hint)
        fields = zip(header_type.__struct_fields__, header_type.__struct_encode_fields__, strict=True)
        self.name = dict(fields)[attribute]
        self.begin = binary_field(self.name, b"")[
            :-2
        ]  # with the upper half of the value's length: it has less than 64 KB
        self.size = len(self.begin)

    def value(self, raw: bytes) -> str | int | None:
        """The value for these bytes; None if they have to be decoded, or refused."""
        if self.is_text:
            try:
                return raw.decode() or None
            except UnicodeDecodeError:
                return None
        digits = raw if raw.isdigit() else raw.removeprefix(b"-")
        if not digits.isdigit() or len(digits) > _MOST_DIGITS or (digits.startswith(b"0") and len(raw) > 1):
            return None
        return int(raw)


class HeaderShapes:
    """The shapes of headers of one type. The two values that are left out are those of ``varying``, attributes of the type."""

    def __init__(self, header_type: type[Any], varying: tuple[str, str]) -> None:
        self._header_type = header_type
        self._one, self._other = (_Varying(header_type, attribute) for attribute in varying)
        self._known: dict[_Runs, Any] = {}

    def find(self, header: bytes) -> Any | None:
        """The typed header of a header without remark whose ext fields end where it ends; None: it has no shape, decode it."""
        first, second = self._one, self._other
        first_at, second_at = header.find(first.begin, _FIELDS_AT), header.find(second.begin, _FIELDS_AT)
        if first_at > second_at:
            first, second, first_at, second_at = second, first, second_at, first_at
        if first_at < 0:
            return None
        first_at += first.size  # from here on where the lower half of the length is
        second_at += second.size
        if max(first_at, second_at) + 2 > len(header):
            return None
        first_end = first_at + 2 + (header[first_at] << 8 | header[first_at + 1])
        second_end = second_at + 2 + (header[second_at] << 8 | header[second_at + 1])
        if second_end > len(header):
            return None
        one = first.value(header[first_at + 2 : first_end])
        other = second.value(header[second_at + 2 : second_end])
        if one is None or other is None:
            return None
        runs = (header[_FIELDS_AT:first_at], header[first_end:second_at], header[second_end:])
        known = self._known.get(runs)
        if known is None:
            known = None if _SIGNED in header else self._judge(runs, first, second)
            if known is None:
                return None
        found = known.__copy__()
        setattr(found, first.attribute, one)
        setattr(found, second.attribute, other)
        return found

    def _judge(self, runs: _Runs, first: _Varying, second: _Varying) -> Any | None:
        before, between, behind = runs
        if not between.endswith(second.begin):  # the name was found inside of the first value
            return None
        try:
            fields: dict[str, str] = {}
            for run in (before[: -first.size], between[: -second.size], behind):
                fields.update(decode_fields(run, 0, len(run)))
            if first.name in fields or second.name in fields:
                return None
            fields[first.name] = fields[second.name] = "1"
            known = msgspec.convert(fields, self._header_type, strict=False)
        except (ProtocolError, UnicodeDecodeError, msgspec.ValidationError, struct.error):
            return None
        if sum(map(len, runs)) <= _MOST_BYTES:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            self._known[runs] = known
        return known
