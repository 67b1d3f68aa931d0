"""Where each record of some pull bodies starts: a record is found only by the size of the one before it.

Three ways; all give the same, and none believes more than it has seen. The first is tried first; where it does not fit, the third for few
bodies of small records whose first ones differ in size, and then the second.

1. Records of one body are often all of one size. The places where they then would start are looked at together: if each holds that size,
   and the last one ends with its body, they are the records (by induction from the first).
2. Many bodies do not depend on each other: all of them are walked in step, one record of each at a time, until few are left. Those are
   walked by Python, each alone, which takes a run of records of one size at once.
3. Few bodies of small records of many sizes: the first byte of the magic word is searched for. If what is found makes a chain (each
   record ends where the next begins, from the first byte to the last, and bodies begin with one), these are the records: the chain is
   what a walk would have followed. Bodies may hold the magic word, too: then there is no chain, and Python walks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.records.record_layout import MAGIC_V1, MIN_RECORD_BYTES, RECORD

if TYPE_CHECKING:
    from sprocketmq.spark.columns.pull_body import PullBody

__all__ = ["record_starts"]

_MAGIC_AT: Final = RECORD.at["magic"]
_MAGIC_BYTES: Final = MAGIC_V1.to_bytes(RECORD.width("magic"), "big")
_MAGIC_AS_SIZE: Final = int.from_bytes(_MAGIC_BYTES, "big", signed=True)
_SIZE_BYTES: Final = RECORD.width("size")
# One step over all bodies costs NumPy about as much as Python takes for this many records.
_FEW_BODIES: Final = 64
# A search costs by the byte, a walk by the record: beyond this size the walk is cheaper.
_WALKED_BYTES: Final = 800
# So many of one size after each other are the beginning of a run.
_ALIKE: Final = 8
# Among so many first records sizes are compared.
_SAMPLE: Final = 32
_size_at: Final = RECORD.subset("size").unpack_from


def record_starts(raw: bytes, data: Any, bodies: Sequence[PullBody]) -> tuple[Any, Any]:
    """Where each record starts, and how many each body holds.

    Args:
        raw: all bodies one after the other, and some bytes more.
        data: the same as an array of bytes.

    Raises:
        ProtocolError: these are no records; the sentence names the body.
    """
    ends = np.cumsum([len(entry.body) for entry in bodies], dtype=np.int64)
    sizes = np.ndarray((len(data) - _SIZE_BYTES + 1,), RECORD.numpy_type("size"), data, strides=(1,))
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends
    filled = ends > begins
    if not filled.any():
        return np.empty(0, np.int64), np.zeros(len(bodies), np.int64)
    starts = _of_equal_size(sizes, begins[filled], ends[filled])
    if (
        starts is None
        and len(bodies) < _FEW_BODIES
        and _are_small_and_unlike(sizes, int(begins[filled][0]), int(ends[-1]))
    ):
        starts = _by_magic(data, sizes, begins[filled], int(ends[-1]))
    if starts is None:
        starts = _walked(raw, sizes, begins, ends, bodies)
    return starts, np.diff(np.searchsorted(starts, ends), prepend=0)


def _of_equal_size(sizes: Any, begins: Any, ends: Any) -> Any:
    """Way 1; None where it does not fit."""
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


def _are_small_and_unlike(sizes: Any, at: int, end: int) -> bool:
    """Judged by the first records."""
    size = int(sizes[at])
    if size >= _WALKED_BYTES:
        return False
    next_ones = range(at, min(end, at + _SAMPLE * max(size, 1)), max(size, 1))
    return any(sizes[place] != size for place in next_ones)


def _by_magic(data: Any, sizes: Any, begins: Any, end: int) -> Any:
    """Way 3; None where there is no chain."""
    found = np.flatnonzero(data[:end] == _MAGIC_BYTES[0])
    found = found[found <= end - len(_MAGIC_BYTES)]
    starts = found[sizes[found] == _MAGIC_AS_SIZE] - _MAGIC_AT
    if not len(starts) or starts[0]:
        return None
    own = sizes[starts].astype(np.int64)
    behind = starts + own
    if (own < MIN_RECORD_BYTES).any() or (behind[:-1] != starts[1:]).any() or behind[-1] != end:
        return None
    at = np.searchsorted(starts, begins)
    return starts if (starts[np.minimum(at, len(starts) - 1)] == begins).all() else None


def _walked(raw: bytes, sizes: Any, begins: Any, ends: Any, bodies: Sequence[PullBody]) -> Any:
    """Way 2, and Python's walk over what is left."""
    at, upto = begins, ends
    found = []
    while True:
        live = at < upto
        if not live.all():
            at, upto = at[live], upto[live]
        if len(at) < _FEW_BODIES:
            break
        after = at + sizes[at]
        wrong = (after - at < MIN_RECORD_BYTES) | (after > upto)
        if wrong.any():
            raise _misfit(bodies, ends, int(at[wrong][0]), int((after - at)[wrong][0]))
        found.append(at)
        at = after
    for start, end in zip(at.tolist(), upto.tolist(), strict=True):
        found += _walked_alone(raw, sizes, start, end, lambda place, size: _misfit(bodies, ends, place, size))
    return np.sort(np.concatenate(found))  # steps went across the bodies, runs were left out of the singles


def _walked_alone(raw: bytes, sizes: Any, at: int, end: int, misfit: Callable[[int, int], ProtocolError]) -> list[Any]:
    """One body: record after record, and runs of one size at once."""
    singles: list[int] = []
    runs: list[Any] = []
    last = alike = 0
    patience = _ALIKE
    while at < end:
        (size,) = _size_at(raw, at)
        if size < MIN_RECORD_BYTES or at + size > end:
            raise misfit(at, size)
        alike = alike + 1 if size == last else 0
        last = size
        if alike < patience:
            singles.append(at)
            at += size
            continue
        count = _run(sizes, at, end, size)
        # Looking for a run costs as much as a walk of some records: where they are short, it is looked for less often.
        patience = _ALIKE if count > patience else 2 * patience
        runs.append(np.arange(at, at + count * size, size))
        at += count * size
        alike = 0
    return [np.array(singles, np.int64), *runs]


def _run(sizes: Any, start: int, end: int, size: int) -> int:
    """How many records of ``size`` follow from ``start`` on. Looked for in growing steps: what is behind the run costs nothing."""
    most = (end - start) // size
    known, step = 1, 2 * _ALIKE
    while known < most:
        upto = min(known + step, most)
        same = sizes[start + known * size : start + upto * size : size] == size
        if not same.all():
            return known + int(np.argmin(same))
        known, step = upto, 4 * step
    return most


def _misfit(bodies: Sequence[PullBody], ends: Any, at: int, size: int) -> ProtocolError:
    number = int(np.searchsorted(ends, at, side="right"))
    return ProtocolError(
        f"a record of {size} bytes at {at} of a pull body of {bodies[number].queue} does not fit its remaining "
        f"{int(ends[number]) - at} bytes"
    )
