# SPDX-License-Identifier: Apache-2.0
"""Finds where each record of some pull bodies starts. Only the size of the record before it says so.

If all records of a body have one size, their starts are checked together; if not, bodies are walked record by record (``size_chains``),
many at once. A few large bodies of small records are too few chains, so further starts are guessed at the magic word of a record. A body
may contain that word, so a guess counts only if the walk before it ends exactly there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.errors import ProtocolError
from sprocketmq.spark.columns.byte_columns import Bytes, Numbers, gathered
from sprocketmq.spark.columns.size_chains import FEW_CHAINS, Sizes, followed, sizes_in
from sprocketmq.wire.records.record_layout import MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, RECORD

_MAGIC_AT: Final = RECORD.at["magic"]
_MAGICS: Final = [
    int.from_bytes(magic.to_bytes(RECORD.width("magic"), "big"), "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2)
]
_MAGIC_BYTE: Final = MAGIC_V1.to_bytes(RECORD.width("magic"), "big")[0]
# Guesses are made in the first bytes of every few kilobytes. For larger records there are few guesses, and Python walks them as fast.
_APART: Final = 6144
_SEEN: Final = 512
_SMALL_RECORD: Final = 800


def record_starts(data: Bytes, pulls: Sequence[PulledChunk]) -> tuple[Numbers, Numbers]:
    """``data``: the bodies of all ``pulls`` one after the other, with some more bytes at the end. Raises ProtocolError (the bytes are not
    records)."""
    ends = np.cumsum([len(pull.body) for pull in pulls], dtype=np.int64)
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends
    filled = ends > begins
    if not filled.any():
        return np.empty(0, np.int64), np.zeros(len(pulls), np.int64)
    starts = _of_equal_size(sizes_in(data), begins[filled], ends[filled])
    if starts is None:
        starts = _walked(data, begins[filled], ends, pulls)
    return starts, np.diff(np.searchsorted(starts, ends), prepend=0)


def _of_equal_size(sizes: Sizes, begins: Numbers, ends: Numbers) -> Numbers | None:
    own = sizes[begins].astype(np.int64)
    lengths = ends - begins
    if (own < MIN_RECORD_BYTES).any() or (lengths % own).any():
        return None
    counts = lengths // own
    # The number of each record in its body: 0, 1, 2, ...
    numbers = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    expected = np.repeat(own, counts)
    starts = np.repeat(begins, counts) + numbers * expected
    return starts if (sizes[starts] == expected).all() else None


def _walked(data: Bytes, begins: Numbers, ends: Numbers, pulls: Sequence[PulledChunk]) -> Numbers:
    end = ends[-1:]
    points = np.sort(np.concatenate([begins, _guesses(data, begins, int(end[0]))]))
    while True:
        upto = np.append(points[1:], end)
        starts, _, reached = followed(data, points, upto, MIN_RECORD_BYTES)
        astray = np.flatnonzero(reached != upto)
        if not len(astray):
            return starts
        # In each body, everything before the first walk that ended elsewhere is certain, and so is the start of that walk.
        numbers = np.searchsorted(ends, points, side="right")
        first_of, firsts = np.unique(numbers[astray], return_index=True)
        first_astray = np.full(len(pulls), len(points))
        first_astray[first_of] = astray[firsts]
        doubtful = np.arange(len(points)) > first_astray[numbers]
        if not doubtful.any():
            at = int(reached[astray[0]])
            raise _misfit(pulls, ends, at, int(sizes_in(data)[at]))
        points = points[~doubtful]


def _guesses(data: Bytes, begins: Numbers, end: int) -> Numbers:
    sizes = sizes_in(data)
    spots = np.arange(int(begins[0]) + _APART, end - _SEEN, _APART)
    is_worth_it = len(begins) < FEW_CHAINS <= len(begins) + len(spots)
    if not len(spots) or not is_worth_it or np.median(sizes[begins]) >= _SMALL_RECORD:
        return np.empty(0, np.int64)
    found = np.flatnonzero(gathered(data, spots, _SEEN).reshape(-1) == _MAGIC_BYTE)
    numbers = found // _SEEN
    places = spots[numbers] + found % _SEEN
    words = sizes[places]
    is_magic = (words == _MAGICS[0]) | (words == _MAGICS[1])
    numbers, places = numbers[is_magic], places[is_magic]
    firsts: Numbers = places[np.flatnonzero(np.diff(numbers, prepend=-1))]
    return firsts - _MAGIC_AT


def _misfit(pulls: Sequence[PulledChunk], ends: Numbers, at: int, size: int) -> ProtocolError:
    number = int(np.searchsorted(ends, at, side="right"))
    return ProtocolError(
        f"a record of {size} bytes at {at} of a pull body of {pulls[number].queue} does not fit its remaining "
        f"{int(ends[number]) - at} bytes"
    )
