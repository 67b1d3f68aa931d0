# SPDX-License-Identifier: Apache-2.0
"""Bytes of many places of a buffer as Arrow columns, copied in blocks: no Python object for each.

Slices of one size are gathered by NumPy as opaque items, one memcpy each. If they are short on average, a block of ``SPARE_BYTES`` is
copied for each, in order, so that the next block overwrites the surplus of the one before; then the rest of those that are longer. Others
are passed to Arrow as a ``binary_view``, 16 bytes for each (int32, little-endian), so a start is below 2 GiB::

    | size | up to 12 bytes, which the view holds itself        |   size <= 12
    | size | first four bytes | number of buffer, here 0 | start |   size > 12
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = Any  # of pyarrow, which has no type information
Bytes = NDArray[np.uint8]
# Places in bytes, sizes of them, numbers of rows.
Numbers = NDArray[np.int64]
Offsets = NDArray[np.int32]
Mask = NDArray[np.bool_]
Items = NDArray[np.void]
# Some rows: their numbers, a mask, or all of them.
Rows = Numbers | Mask | slice

# The size of a block of a short slice; so many bytes must follow the start of the last slice.
SPARE_BYTES: Final = 32
# Slices that are longer on average are copied faster by Arrow.
_SHORT_BYTES: Final = 40
_INLINE_BYTES: Final = 12
_GROUP_BYTES: Final = 4
_NUMBER_IN_GROUP: Final = np.uint32(0x00010203)
NOT_ASCII: Final = 0x80


def binary(offsets: Offsets, data: Any, validity: Any = None) -> Array:
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def text(array: Array, validity: Any = None) -> Array:
    """A ``binary`` column that is known to be UTF-8 as strings. ``validity``: of ``validity_of``, for a column without nulls."""
    own, *others = array.buffers()
    return pa.Array.from_buffers(pa.string(), len(array), [validity or own, *others], offset=array.offset)


def validity_of(known: Mask) -> Any:
    return pa.py_buffer(np.packbits(known, bitorder="little"))


def is_utf8(array: Array) -> bool:
    data = array.buffers()[2]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    if not len(content) or content.max() < NOT_ASCII:
        return True
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def offsets_of(sizes: NDArray[np.integer]) -> Offsets:
    """Where each of the values of these sizes begins, and the last one ends."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, dtype=np.int32, out=offsets[1:])
    return offsets


def gathered(data: Bytes, starts: NDArray[np.integer], size: int) -> Bytes:
    """``size`` bytes of ``data`` from each start, a row each."""
    block: Bytes = _blocks(data, size)[starts].view(np.uint8)
    return block.reshape(len(starts), size)


def places_of(content: Bytes, byte: int) -> Numbers:
    """Where one byte is found. NumPy tests item by item whether it is zero, so items of four bytes are searched."""
    size = len(content)
    is_it = np.zeros(-(-size // _GROUP_BYTES) * _GROUP_BYTES, bool)
    np.equal(content, byte, out=is_it[:size])
    groups = is_it.view(np.uint32)
    places = np.flatnonzero(groups != 0)
    marks = groups[places]
    several: Any = marks & (marks - 1) != 0
    others = ()
    if several.any():
        found = places[several]
        own = np.flatnonzero(is_it.view(f"V{_GROUP_BYTES}")[found].view(bool))
        others = found[own // _GROUP_BYTES] * _GROUP_BYTES + own % _GROUP_BYTES
        places, marks = places[~several], marks[~several]
    # The byte that is 1 shifts the factor so far that its uppermost byte is the number of that byte.
    marks *= _NUMBER_IN_GROUP
    marks >>= 24
    places *= _GROUP_BYTES
    places += marks
    return np.sort(np.concatenate([places, others]), kind="stable") if len(others) else places


def _blocks(data: Bytes, size: int) -> Items:
    """``size`` bytes from each place of ``data`` as one opaque item, which NumPy copies by one memcpy."""
    return np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))


def slices(data: Bytes, starts: Numbers, sizes: NDArray[np.integer], heads: Bytes | None = None) -> Array:
    """``data`` must reach ``SPARE_BYTES`` beyond the last start. ``heads``: the first bytes of each, if they are gathered already."""
    count = len(starts)
    if count and sizes[0] > 0 and (sizes == sizes[0]).all():
        block = gathered(data, starts, int(sizes[0]))
        return binary(np.arange(count + 1, dtype=np.int32) * np.int32(sizes[0]), block.reshape(-1))
    if sizes.sum() <= _SHORT_BYTES * count:
        offsets = offsets_of(sizes)
        return binary(offsets, _short_slices(data, starts, sizes, offsets, heads))
    views = np.zeros((count, 4), np.int32)
    views[:, 0], views[:, 3] = sizes, starts
    inline = np.flatnonzero(sizes <= _INLINE_BYTES)
    if len(inline):
        views[inline, 1:] = gathered(data, starts[inline], _INLINE_BYTES).view(np.int32)
    # Arrow copies them in C++, and does not look at the first four bytes.
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), count, buffers).cast(pa.binary())


def _short_slices(
    data: Bytes, starts: Numbers, sizes: NDArray[np.integer], offsets: Offsets, heads: Bytes | None
) -> Bytes:
    if not len(starts):
        return np.empty(0, np.uint8)
    heads = gathered(data, starts, SPARE_BYTES) if heads is None else heads
    width, size_bytes = heads.shape[1], int(offsets[-1])
    out = np.empty(size_bytes + width, np.uint8)
    read, written = _blocks(data, width), _blocks(out, width)
    places = offsets[:-1].astype(np.int64)
    written[places] = heads.view(f"V{width}").reshape(-1)
    longer = np.flatnonzero(sizes > width)
    done = width
    while len(longer):
        starts, sizes, places = starts[longer], sizes[longer], places[longer]
        # A block that would reach beyond its slice ends with it.
        at = np.minimum(sizes - width, done)
        written[places + at] = read[starts + at]
        done += width
        longer = np.flatnonzero(sizes > done)
    return out[:size_bytes]


def laid_out(count: int, parts: Sequence[tuple[Rows, Bytes]]) -> tuple[Offsets, Bytes]:
    """Blocks of bytes, each of one of ``count`` rows, in the order of rows. ``parts``: rows, and a table of as many rows."""
    if len(parts) == 1 and isinstance(parts[0][0], slice):
        block = parts[0][1]
        laid = np.ascontiguousarray(_rows_of(block)).view(np.uint8) if block.size else np.empty(0, np.uint8)
        return np.arange(count + 1, dtype=np.int32) * np.int32(block.shape[1]), laid
    widths = np.zeros(count, np.int32)
    for rows, block in parts:
        widths[rows] = block.shape[1]
    offsets = offsets_of(widths)
    out = np.empty(int(offsets[-1]), np.uint8)
    for rows, block in parts:
        width = block.shape[1]
        if width and len(block):
            _blocks(out, width)[offsets[:-1][rows]] = _rows_of(block)
    return offsets, out


def _rows_of(table: Bytes) -> Items:
    return table.view(f"V{table.shape[1]}")[:, 0]
