# SPDX-License-Identifier: Apache-2.0
"""Slices of a buffer as a column are what Python's own slices are, whatever their sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.spark.columns.byte_columns import SPARE_BYTES, gathered, places_of, slices

DATA = bytes(number * 7 % 251 for number in range(3000))
# Around the size of a block, of two, and of what a view holds itself; and many more of the short ones.
SIZES = st.one_of(
    st.integers(0, 12), st.sampled_from([12, 13, 31, 32, 33, 63, 64, 65, 96, 97]), st.integers(0, 100), st.just(700)
)


def assert_they_are_slices(places: list[tuple[int, int]]) -> None:
    starts, sizes = (
        (np.array(column, np.int64) for column in zip(*places, strict=True)) if places else (np.zeros(0, np.int64),) * 2
    )
    data = np.frombuffer(DATA + b"?" * SPARE_BYTES, np.uint8)
    column = slices(data, starts, sizes)
    column.validate(full=True)
    expected = [DATA[start : start + size] for start, size in places]
    assert column.to_pylist() == expected
    heads = gathered(data, starts, SPARE_BYTES // 2)
    assert slices(data, starts, sizes, heads).to_pylist() == expected


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(DATA) - 700), SIZES), max_size=40))
def test_slices_of_any_sizes(places: list[tuple[int, int]]) -> None:
    assert_they_are_slices(places)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from([b"\2", b"\2\2", b"a\1b", b"x" * 9, b""]), max_size=20).map(b"".join))
def test_places_of_a_byte(content: bytes) -> None:
    expected = [place for place, byte in enumerate(content) if byte == 2]
    assert places_of(np.frombuffer(content, np.uint8), 2).tolist() == expected


@pytest.mark.parametrize("sizes", [[5, 1000, 3], [33, 0, 0, 0, 0], [100, 200, 12, 13], [7, 7, 7], [0, 0]])
def test_short_and_long_slices_beside_each_other(sizes: list[int]) -> None:
    assert_they_are_slices([(11 * number, size) for number, size in enumerate(sizes)])


def test_the_last_slices_end_where_the_data_ends() -> None:
    assert_they_are_slices([(len(DATA) - size, size) for size in (1, 40, 64, 0, 13, 2, 3)])
    assert_they_are_slices([(len(DATA) - size, size) for size in (1, 400, 640)])
