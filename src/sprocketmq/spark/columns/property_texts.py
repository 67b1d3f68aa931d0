# SPDX-License-Identifier: Apache-2.0
"""The texts of the properties of many messages: each ends with its last separator, and all of it is UTF-8.

Apache 4.9 leaves out the last separator (Java: MessageDecoder.string2messageProperties takes both). What is broken becomes U+FFFD, as in
Java.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from sprocketmq.spark.columns.byte_columns import (
    SPARE_BYTES,
    Bytes,
    Mask,
    Numbers,
    Offsets,
    binary,
    is_utf8,
    slices,
    text,
)

MIDDLE: Final = 1
END: Final = 2
# So many texts are checked by one call, which copies them if one is wrong.
_CHECKED_TEXTS: Final = 256


class Texts(NamedTuple):
    """``sizes``: with the last separator, which is to be written behind those that lack it. ``is_cut``: some lack it."""

    data: Bytes
    starts: Numbers
    sizes: Numbers
    is_cut: bool

    def mended(self, rows: Numbers) -> Texts:
        """The texts of ``rows`` alone, which are not UTF-8, written anew."""
        raw = [
            self.data[at : at + size].tobytes() for at, size in zip(self.starts[rows], self.sizes[rows], strict=True)
        ]
        own = [text[:-1].decode("utf-8", "replace").encode() + bytes((END,)) for text in raw]
        sizes = np.array([len(text) for text in own], np.int64)
        data = np.frombuffer(b"".join([*own, bytes(SPARE_BYTES)]), np.uint8)
        return Texts(data, np.cumsum(sizes) - sizes, sizes, False)

    def with_mended(self, rows: Numbers) -> Texts:
        own = self.mended(rows)
        starts, sizes = self.starts.copy(), self.sizes.copy()
        starts[rows], sizes[rows] = own.starts + len(self.data), own.sizes
        return Texts(np.concatenate([self.data, own.data]), starts, sizes, self.is_cut)


def texts_of(data: Bytes, starts: Numbers, sizes: Numbers) -> Texts:
    lacking: Mask = (data[starts + sizes - 1] != END) & (sizes > 0)
    is_cut = bool(lacking.any())
    return Texts(data, starts, sizes + lacking if is_cut else sizes, is_cut)


def broken(raw: Bytes, offsets: Offsets) -> Numbers:
    """Which of the texts in ``raw``, one after the other, are not UTF-8. Each ends with its separator: no character spans two texts."""
    if is_utf8(binary(offsets, raw)):
        return np.empty(0, np.int64)
    suspects = np.flatnonzero(~pc.string_is_ascii(text(binary(offsets, raw))).to_numpy(zero_copy_only=False))
    own = slices(raw, offsets[suspects].astype(np.int64), np.diff(offsets)[suspects])
    bounds = np.frombuffer(own.buffers()[1], np.int32)[: len(own) + 1]
    rows, view, row, count = [], memoryview(own.buffers()[2]), 0, len(own)
    while row < count:
        upto = min(row + _CHECKED_TEXTS, count)
        try:
            str(view[bounds[row] : bounds[upto]], "utf-8")
        except UnicodeDecodeError as error:
            # The first byte that is wrong; the search continues behind its text.
            row = int(np.searchsorted(bounds, bounds[row] + error.start, side="right"))
            rows.append(row - 1)
        else:
            row = upto
    return suspects[rows]


def is_separator(content: Bytes) -> Mask:
    return (content - np.uint8(MIDDLE)) < END
