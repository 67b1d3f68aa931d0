"""Things that lie back to back, each of which begins with its own size: records of a pull body, messages of a batch in one record.

One is found only by the size of the one before it, so a chain is walked. Chains do not depend on each other: many are walked in step by
NumPy, one thing of each at a time. What is left when few still go on is walked by Python, each alone, which takes a run of things of one
size at once.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from sprocketmq.wire.records.record_layout import RECORD

__all__ = ["FEW_CHAINS", "Chains", "followed", "sizes_in"]

# Elements of a batch have the same.
_SIZE: Final = np.dtype(RECORD.numpy_type("size"))
_size_at: Final = RECORD.subset("size").unpack_from
# One step over all chains costs NumPy about as much as Python takes for this many things.
FEW_CHAINS: Final = 128
# So many of one size after each other are the beginning of a run.
_ALIKE: Final = 8


class Chains(NamedTuple):
    """What was found.

    Attributes:
        starts: where each thing begins, in no order.
        which: the number of its chain.
        reached: where each chain ended: at its end, or at what does not fit.
    """

    starts: Any
    which: Any
    reached: Any


def sizes_in(data: Any) -> Any:
    """The size of what would begin at each byte."""
    return np.ndarray((len(data) - _SIZE.itemsize + 1,), _SIZE, data, strides=(1,))


def followed(data: Any, begins: Any, ends: Any, least_bytes: int) -> Chains:
    """Walks from each of ``begins`` to its end.

    Args:
        data: bytes, of which some follow the last end.
        least_bytes: what is smaller does not fit.
    """
    sizes = sizes_in(data)
    reached = begins.copy()
    live = np.flatnonzero(begins < ends)
    at, upto = begins[live], ends[live]
    starts, which = [], []
    while len(live) >= FEW_CHAINS:
        own = sizes[at].astype(np.int64)
        after = at + own
        fits = (own >= least_bytes) & (after <= upto)
        if not fits.all():
            reached[live[~fits]] = at[~fits]
            live, at, after, upto = live[fits], at[fits], after[fits], upto[fits]
        starts.append(at)
        which.append(live)
        going = np.flatnonzero(after < upto)
        if len(going) < len(live):
            # Of those that go on another place will be told.
            reached[live] = after
            live, after, upto = live.take(going), after.take(going), upto.take(going)
        at = after
    view = memoryview(data)
    for number, begin, end in zip(live.tolist(), at.tolist(), upto.tolist(), strict=True):
        found, reached[number] = _followed_alone(view, sizes, begin, end, least_bytes)
        starts += found
        which.append(np.full(sum(map(len, found)), number))
    empty = np.empty(0, np.int64)
    return Chains(np.concatenate([empty, *starts]), np.concatenate([empty, *which]), reached)


def _followed_alone(view: memoryview, sizes: Any, at: int, end: int, least_bytes: int) -> tuple[list[Any], int]:
    """The starts of one chain, and where it ended."""
    singles: list[int] = []
    runs: list[Any] = []
    last = alike = 0
    patience = _ALIKE
    while at < end:
        (size,) = _size_at(view, at)
        if size < least_bytes or at + size > end:
            break
        alike = alike + 1 if size == last else 0
        last = size
        if alike < patience:
            singles.append(at)
            at += size
            continue
        count = _run(sizes, at, end, size)
        # Looking for a run costs as much as a walk of some things: where they are short, it is looked for less often.
        patience = _ALIKE if count > patience else 2 * patience
        runs.append(np.arange(at, at + count * size, size))
        at += count * size
        alike = 0
    return [np.array(singles, np.int64), *runs], at


def _run(sizes: Any, start: int, end: int, size: int) -> int:
    """How many things of ``size`` follow from ``start`` on. Looked for in growing steps: what is behind the run costs nothing."""
    most = (end - start) // size
    known, step = 1, 2 * _ALIKE
    while known < most:
        upto = min(known + step, most)
        same = sizes[start + known * size : start + upto * size : size] == size
        if not same.all():
            return known + int(np.argmin(same))
        known, step = upto, 4 * step
    return most
