"""Bytes of many places of a buffer as Arrow columns, copied in blocks: no Python object for each.

A ``binary`` column is offsets and bytes back to back. Where all slices have one size, NumPy gathers them as opaque items, one memcpy each.
Else they are told to Arrow as a ``binary_view``, which it copies together in C++. A view has 16 bytes (int32, little-endian)::

    | size | up to 12 bytes, which the view holds itself        |   size <= 12
    | size | first four bytes | number of buffer, here 0 | start |   size > 12

so a start is below 2 GiB.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

__all__ = [
    "NOT_ASCII",
    "SPARE_BYTES",
    "binary",
    "gathered",
    "is_utf8",
    "laid_out",
    "offsets_of",
    "slices",
    "text",
]

Array = Any  # pyarrow has no type information

# Bytes that must follow the last slice: what a view holds itself is gathered at its full size.
SPARE_BYTES: Final = 12
_INLINE_BYTES: Final = 12
NOT_ASCII: Final = 0x80
_WORD: Final = np.dtype(np.uint64)
_HALF_BITS: Final = np.uint64(32)


def binary(offsets: Any, data: Any, validity: Any = None) -> Array:
    """A ``binary`` column of ``len(offsets) - 1`` rows; ``offsets`` are int32."""
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def text(array: Array) -> Array:
    """A ``binary`` column that is known to be UTF-8 as strings, nothing copied."""
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers(), offset=array.offset)


def is_utf8(array: Array) -> bool:
    """Whether each value of a ``binary`` column is UTF-8."""
    data = array.buffers()[2]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    if not len(content) or content.max() < NOT_ASCII:
        return True
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def offsets_of(sizes: Any) -> Any:
    """Where each of the values of these sizes begins, and the last one ends."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def gathered(data: Any, starts: Any, size: int) -> Any:
    """``size`` bytes of ``data`` from each start, a row each."""
    # Gathered as opaque bytes: one memcpy each.
    blocks = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))[starts]
    return blocks.view(np.uint8).reshape(len(starts), size)


def slices(data: Any, starts: Any, sizes: Any) -> Array:
    """``binary`` array of slices of ``data``, which must reach ``SPARE_BYTES`` beyond the last start."""
    count = len(starts)
    if count and sizes[0] > 0 and (sizes == sizes[0]).all():
        block = gathered(data, starts, int(sizes[0]))
        return binary(np.arange(count + 1, dtype=np.int32) * np.int32(sizes[0]), block.reshape(-1))
    words = np.ndarray((len(data) - _WORD.itemsize + 1,), _WORD, data, strides=(1,))
    places = starts.astype(np.uint64)
    views = np.empty((count, 2), _WORD)
    views[:, 0] = words[starts] << _HALF_BITS | sizes.astype(np.uint64)
    views[:, 1] = np.where(sizes > _INLINE_BYTES, places << _HALF_BITS, words[starts + 4])
    # Arrow copies them in C++.
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), count, buffers).cast(pa.binary())


def laid_out(count: int, parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Blocks of bytes, each row of which belongs to one of ``count`` rows, in the order of rows: offsets, and the bytes.

    Args:
        parts: the numbers of the rows, and a table of as many rows; rows without bytes are in none. None is all rows.
    """
    if len(parts) == 1 and parts[0][0] is None:
        block = np.ascontiguousarray(parts[0][1])
        return np.arange(count + 1, dtype=np.int32) * np.int32(block.shape[1]), block.reshape(-1)
    widths = np.zeros(count, np.int32)
    for rows, block in parts:
        widths[rows] = block.shape[1]
    offsets = offsets_of(widths)
    out = np.empty(int(offsets[-1]), np.uint8)
    for rows, block in parts:
        width = block.shape[1]
        if width and len(block):
            places = np.ndarray((len(out) - width + 1,), f"V{width}", out, strides=(1,))
            places[offsets[rows]] = np.ascontiguousarray(block).view(f"V{width}").reshape(-1)
    return offsets, out
