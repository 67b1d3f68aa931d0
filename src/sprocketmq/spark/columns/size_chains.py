# SPDX-License-Identifier: Apache-2.0
"""Walks of items that follow each other, each beginning with its own size: records of a pull body, or messages of a batch in one record.
NumPy walks many chains at once, one item of each per step. When few are left, Python walks them one by one, and takes several items of
the same size in one step."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sprocketmq.spark.columns.byte_columns import Bytes, Numbers
from sprocketmq.wire.records.record_layout import RECORD

# Big-endian, at every byte.
Sizes = NDArray[np.int32]
# Elements of a batch begin in the same way.
_SIZE: Final = np.dtype(RECORD.numpy_type("size"))
_size_at: Final = RECORD.subset("size").unpack_from
# One step of NumPy over all chains takes about as long as Python takes for this many items.
FEW_CHAINS: Final = 128
# So many items of the same size in sequence are taken as the start of a run.
_ALIKE: Final = 8


class Chains(NamedTuple):
    """The result of a walk. ``starts``: where each item begins, chain after chain. ``counts``: how many items each chain has.
    ``reached``: where the walk of each chain ended: at the end of the chain, or at an item that does not fit."""

    starts: Numbers
    counts: Numbers
    reached: Numbers


def sizes_in(data: Bytes) -> Sizes:
    return np.ndarray((len(data) - _SIZE.itemsize + 1,), _SIZE, data, strides=(1,))


def followed(data: Bytes, begins: Numbers, ends: Numbers, least_bytes: int) -> Chains:
    """Walk from each of ``begins`` to its end; more bytes follow the last one. A smaller item than ``least_bytes`` does not fit."""
    sizes = sizes_in(data)
    reached = begins.copy()
    live = np.flatnonzero(begins < ends)
    at, upto = begins[live], ends[live]
    starts: list[Numbers] = []
    which: list[Numbers] = []
    numbers: list[Numbers] = []  # of each item in its chain
    while len(live) >= FEW_CHAINS:
        own = sizes[at].astype(np.int64)
        after = at + own
        fits = (own >= least_bytes) & (after <= upto)
        if not fits.all():
            reached[live[~fits]] = at[~fits]
            live, at, after, upto = live[fits], at[fits], after[fits], upto[fits]
        numbers.append(np.full(len(at), len(starts)))
        starts.append(at)
        which.append(live)
        going = np.flatnonzero(after < upto)
        if len(going) < len(live):
            # The chains that continue get another place later.
            reached[live] = after
            live, after, upto = live.take(going), after.take(going), upto.take(going)
        at = after
    view, steps = data.data, len(starts)
    for number, begin, end in zip(live.tolist(), at.tolist(), upto.tolist(), strict=True):
        found, reached[number] = _followed_alone(view, sizes, begin, end, least_bytes)
        starts.append(np.sort(np.concatenate(found)))
        which.append(np.full(len(starts[-1]), number))
        numbers.append(np.arange(steps, steps + len(starts[-1])))
    if not starts:
        return Chains(np.empty(0, np.int64), np.zeros(len(begins), np.int64), reached)
    chains = np.concatenate(which)
    counts = np.bincount(chains, minlength=len(begins))
    in_order = np.empty(len(chains), np.int64)
    in_order[(np.cumsum(counts) - counts)[chains] + np.concatenate(numbers)] = np.concatenate(starts)
    return Chains(in_order, counts, reached)


def _followed_alone(view: memoryview, sizes: Sizes, at: int, end: int, least_bytes: int) -> tuple[list[Numbers], int]:
    """Return the starts of one chain in parts, in no particular order, and where it ended."""
    singles: list[int] = []
    runs: list[Numbers] = []
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
        # To look for a run takes as long as a walk of some items, so it is done less often if runs are short.
        patience = _ALIKE if count > patience else 2 * patience
        runs.append(np.arange(at, at + count * size, size))
        at += count * size
        alike = 0
    return [np.array(singles, np.int64), *runs], at


def _run(sizes: Sizes, start: int, end: int, size: int) -> int:
    """Return how many items of ``size`` follow from ``start`` on. Looks in growing steps, so the bytes behind the run are not read."""
    most = (end - start) // size
    known, step = 1, 2 * _ALIKE
    while known < most:
        upto = min(known + step, most)
        same = sizes[start + known * size : start + upto * size : size] == size
        if not same.all():
            return known + int(np.argmin(same))
        known, step = upto, 4 * step
    return most
