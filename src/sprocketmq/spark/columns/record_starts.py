"""Where each record of some pull bodies starts: a record is found only by the size of the one before it.

Records of one body are often all of one size. The places where they then would start are looked at together: if each holds that size, and
the last one ends with its body, they are the records (by induction from the first). Otherwise they are walked (``size_chains``).

Many bodies are walked in step. Few large bodies of small records have too few chains for that, so more beginnings are guessed: where the
magic word is seen, a record seems to begin. A walk begins at each guess, too, and a guess is believed only if the walk from what is before
it ends exactly there: then it is a place that a walk of the whole body would have come to. Bodies of messages may hold the magic word:
what is guessed behind a walk that went astray is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sprocketmq.errors import ProtocolError
from sprocketmq.spark.columns.byte_columns import gathered
from sprocketmq.spark.columns.size_chains import FEW_CHAINS, followed, sizes_in
from sprocketmq.wire.records.record_layout import MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, RECORD

if TYPE_CHECKING:
    from sprocketmq.spark.columns.pull_body import PullBody

__all__ = ["record_starts"]

_MAGIC_AT: Final = RECORD.at["magic"]
_MAGICS: Final = [
    int.from_bytes(magic.to_bytes(RECORD.width("magic"), "big"), "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2)
]
_MAGIC_BYTE: Final = MAGIC_V1.to_bytes(RECORD.width("magic"), "big")[0]
# A beginning is guessed in the first bytes of every few kilobytes. Of larger records few are seen there, and Python walks as fast.
_APART: Final = 6144
_SEEN: Final = 512
_SMALL_RECORD: Final = 800


def record_starts(data: Any, bodies: Sequence[PullBody]) -> tuple[Any, Any]:
    """Where each record starts, and how many each body holds.

    Args:
        data: all bodies one after the other as an array of bytes, and some bytes more.

    Raises:
        ProtocolError: these are no records; the sentence names the body.
    """
    ends = np.cumsum([len(entry.body) for entry in bodies], dtype=np.int64)
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends
    filled = ends > begins
    if not filled.any():
        return np.empty(0, np.int64), np.zeros(len(bodies), np.int64)
    starts = _of_equal_size(sizes_in(data), begins[filled], ends[filled])
    if starts is None:
        starts = _walked(data, begins[filled], ends, bodies)
    return starts, np.diff(np.searchsorted(starts, ends), prepend=0)


def _of_equal_size(sizes: Any, begins: Any, ends: Any) -> Any:
    """None where the records of a body are of several sizes."""
    own = sizes[begins].astype(np.int64)
    lengths = ends - begins
    if (own < MIN_RECORD_BYTES).any() or (lengths % own).any():
        return None
    counts = lengths // own
    # Of each record its place among those of its body: 0, 1, 2, ... in each.
    numbers = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    expected = np.repeat(own, counts)
    starts = np.repeat(begins, counts) + numbers * expected
    return starts if (sizes[starts] == expected).all() else None


def _walked(data: Any, begins: Any, ends: Any, bodies: Sequence[PullBody]) -> Any:
    end = ends[-1:]
    points = np.sort(np.concatenate([begins, _guesses(data, begins, int(end[0]))]))
    while True:
        upto = np.append(points[1:], end)
        starts, _, reached = followed(data, points, upto, MIN_RECORD_BYTES)
        astray = np.flatnonzero(reached != upto)
        if not len(astray):
            return np.sort(starts)
        # What is before the first of a body that went astray is certain, and so is where this one began.
        numbers = np.searchsorted(ends, points, side="right")
        first_of, firsts = np.unique(numbers[astray], return_index=True)
        first_astray = np.full(len(bodies), len(points))
        first_astray[first_of] = astray[firsts]
        doubtful = np.arange(len(points)) > first_astray[numbers]
        if not doubtful.any():
            at = int(reached[astray[0]])
            raise _misfit(bodies, ends, at, int(sizes_in(data)[at]))
        points = points[~doubtful]


def _guesses(data: Any, begins: Any, end: int) -> Any:
    """Places where a record seems to begin, if there are few bodies, but many records."""
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
    return places[np.flatnonzero(np.diff(numbers, prepend=-1))] - _MAGIC_AT


def _misfit(bodies: Sequence[PullBody], ends: Any, at: int, size: int) -> ProtocolError:
    number = int(np.searchsorted(ends, at, side="right"))
    return ProtocolError(
        f"a record of {size} bytes at {at} of a pull body of {bodies[number].queue} does not fit its remaining "
        f"{int(ends[number]) - at} bytes"
    )
