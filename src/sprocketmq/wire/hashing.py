# SPDX-License-Identifier: Apache-2.0
"""Java's String.hashCode, which tag filters and the message index are built on.

hash = c[0]*31^(n-1) + c[1]*31^(n-2) + ... + c[n-1]     over UTF-16 code units, wrapped to int32
"""

from __future__ import annotations

import struct
from functools import lru_cache
from operator import mul
from typing import Final

__all__ = ["index_hash", "java_hash", "tags_code"]

_MASK: Final = 0xFFFFFFFF
_CHUNK: Final = 64
_POWERS: Final = tuple(pow(31, n, 1 << 32) for n in range(_CHUNK + 1))
# _WEIGHTS[n] are the factors of a text of n units. A sum over map(mul) costs half of a loop that multiplies and masks step by step.
_WEIGHTS: Final = tuple(tuple(reversed(_POWERS[:n])) for n in range(_CHUNK + 1))


def java_hash(text: str) -> int:
    """``text.hashCode()`` as Java computes it: a signed 32-bit number."""
    units: bytes | tuple[int, ...]
    if text.isascii():
        units = text.encode("ascii")
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    size = len(units)
    if size <= _CHUNK:
        value: int = sum(map(mul, units, _WEIGHTS[size]))
    else:
        value = 0
        for at in range(0, size, _CHUNK):
            chunk = units[at : at + _CHUNK]
            value = (value * _POWERS[len(chunk)] + sum(map(mul, chunk, _WEIGHTS[len(chunk)]))) & _MASK
    return ((value + 0x80000000) & _MASK) - 0x80000000


_MAX_CACHED_LENGTH: Final = 128  # characters; tags come from the network, and 4,096 of 32 KiB would be 128 MiB
_cached_hash = lru_cache(maxsize=4096)(java_hash)


def tags_code(tags: str | None) -> int:
    """The number a consume queue keeps for a message's TAGS: 0 without tags. Different tags may share a code."""
    if not tags:
        return 0
    return _cached_hash(tags) if len(tags) <= _MAX_CACHED_LENGTH else java_hash(tags)


def index_hash(text: str) -> int:
    """Hash of ``topic#key`` in an index file: the absolute value, and 0 for the one number that has none (IndexFile.indexKeyHashMethod)."""
    value = abs(java_hash(text))
    return 0 if value == 0x80000000 else value
