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

__all__ = ["SPARE_BYTES", "NotText", "binary", "gathered", "slices", "strings"]

Array = Any  # pyarrow has no type information

# Bytes that must follow the last slice: what a view holds itself is gathered at its full size.
SPARE_BYTES: Final = 12
_INLINE_BYTES: Final = 12
_NOT_ASCII: Final = 0x80


class NotText(Exception):
    """These bytes are not UTF-8."""


def binary(offsets: Any, data: Any, validity: Any = None) -> Array:
    """A ``binary`` column of ``len(offsets) - 1`` rows; ``offsets`` are int32."""
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


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
    views = np.empty((count, 4), np.int32)
    views[:, 0] = sizes
    views[:, 1:] = gathered(data, starts, _INLINE_BYTES).view(np.int32).reshape(-1, 3)
    long: Any = sizes > _INLINE_BYTES
    if long.all():
        long = slice(None)
    elif not long.any():
        long = slice(0)
    views[long, 2] = 0
    views[long, 3] = starts[long]
    # Arrow copies them in C++.
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), count, buffers).cast(pa.binary())


def strings(array: Array) -> Array:
    """A ``binary`` column as strings, nothing copied where all of it is ASCII.

    Raises:
        NotText: not UTF-8.
    """
    count, (validity, offsets, data) = len(array), array.buffers()
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    if not len(content) or content.max() < _NOT_ASCII:
        return pa.Array.from_buffers(pa.string(), count, [validity, offsets, data], offset=array.offset)
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise NotText from error
