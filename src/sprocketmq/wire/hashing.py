# SPDX-License-Identifier: Apache-2.0
"""Java's String.hashCode, which tag filters and the message index are built on.

hash = c[0]*31^(n-1) + c[1]*31^(n-2) + ... + c[n-1]     over UTF-16 code units, wrapped to int32
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from typing import Final

_MASK: Final = 0xFFFFFFFF
_SHORT: Final = 64
_POWERS: Final = tuple(pow(31, n, 1 << 32) for n in range(_SHORT + 1))
# _WEIGHTS[n] are the factors of a text of n units. A sum over map(mul) costs half of a loop that multiplies and masks step by step.
_WEIGHTS: Final = tuple(tuple(reversed(_POWERS[:n])) for n in range(_SHORT + 1))
# A long text comes from the network, too, and must not hold the loop: a chunk of it is an integer with a unit in each lane of 16 bits. Each
# step adds neighbours, the earlier one times a power of 31; half as many lanes remain, twice as wide.
_CHUNK: Final = 1024  # units; a power of 2
_STEPS: Final = tuple(
    (16 * units, int.from_bytes((b"\xff" * min(2 * units, 4)).rjust(4 * units, b"\0") * (_CHUNK // 2 // units)), power)
    for units, power in ((1 << step, pow(31, 1 << step, 1 << 32)) for step in range(_CHUNK.bit_length() - 1))
)


def java_hash(text: str) -> int:
    if text.isascii() and len(text) <= _SHORT:
        value: int = sum(map(mul, text.encode("ascii"), _WEIGHTS[len(text)]))
    else:
        value, units = 0, text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2 * _CHUNK):
            chunk = units[at : at + 2 * _CHUNK]
            value = (value * pow(31, len(chunk) // 2, 1 << 32) + _hash_of_chunk(chunk)) & _MASK
    return ((value + 0x80000000) & _MASK) - 0x80000000


def _hash_of_chunk(units: bytes) -> int:
    """The sum of up to ``_CHUNK`` big-endian UTF-16 units times their powers of 31, perhaps with bits above the 32nd."""
    lanes = int.from_bytes(units)
    for lane_bits, right_lanes, factor in _STEPS:
        if lane_bits >= 8 * len(units):
            break
        lanes = (lanes & right_lanes) + ((lanes >> lane_bits) & right_lanes) * factor
    return lanes


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
