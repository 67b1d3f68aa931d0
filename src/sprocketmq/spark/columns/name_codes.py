"""Names as numbers: which of few names each of many slices of a buffer is."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from sprocketmq.spark.columns.byte_columns import slices, words_of

__all__ = ["coded"]

_WORD_BYTES: Final = 8
# The bytes of a word that belong to a name of so many bytes.
_OWN_BYTES: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD_BYTES + 1)], np.uint64)
# Odd numbers with bits everywhere: words of a name that change places give another sum.
_OF_TAIL, _OF_SIZE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


def coded(data: Any, starts: Any, sizes: Any) -> tuple[Any, list[str]]:
    """Numbers, and the names by number. The names are UTF-8; ``data`` reaches ``SPARE_BYTES`` beyond the last start.

    A name of up to 16 bytes is its first word, its last word and its size. Arrow numbers one sum of these three, which costs half of what
    it takes for texts. Where a sum stands for two names, and for longer names, Arrow compares texts.
    """
    codes = np.empty(len(starts), np.int32)
    is_long = sizes > 2 * _WORD_BYTES
    if is_long.any():
        short = np.flatnonzero(~is_long)
        codes[short], names, unknown = _by_words(data, starts[short], sizes[short])
        left = np.concatenate([short[unknown], np.flatnonzero(is_long)])
    else:
        codes[:], names, left = _by_words(data, starts, sizes)
    if len(left):
        encoded = slices(data, starts[left], sizes[left]).dictionary_encode()
        codes[left] = encoded.indices.to_numpy(zero_copy_only=False) + len(names)
        names += [name.decode() for name in encoded.dictionary.to_pylist()]
    return codes, names


def _by_words(data: Any, starts: Any, sizes: Any) -> tuple[Any, list[str], Any]:
    """Numbers and names of short names, and the places where another name has the same sum."""
    words = words_of(data)
    own = _OWN_BYTES[np.minimum(sizes, _WORD_BYTES)]
    first = words[starts] & own
    last = words[starts + np.maximum(sizes - _WORD_BYTES, 0)] & own
    sums = first ^ last * _OF_TAIL ^ sizes.astype(np.uint64) * _OF_SIZE
    encoded = pa.array(sums).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    examples = np.empty(len(encoded.dictionary), np.int64)
    examples[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    same = (first == first[examples][codes]) & (last == last[examples][codes]) & (sizes == sizes[examples][codes])
    names = [
        data[at : at + size].tobytes().decode() for at, size in zip(starts[examples], sizes[examples], strict=True)
    ]
    return codes, names, np.flatnonzero(~same)
