"""Properties as columns: by shape or by separators, both give what decoding one text after the other gives."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.spark.columns.byte_columns import SPARE_BYTES
from sprocketmq.spark.columns.property_columns import (
    OddProperties,
    PropertyColumns,
    ShapedProperties,
    SplitProperties,
    property_columns,
)
from sprocketmq.wire.records.properties import decode_properties

KIND = pa.map_(pa.string(), pa.field("value", pa.string(), True))
NAMES = ("KEYS", "TAGS", "a", "caf\u00e9")
VALUES = st.text("xy\u00e9", min_size=1, max_size=3)
TEXTS = st.lists(
    st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
    ),
    max_size=30,
)


def laid_out(texts: list[bytes]) -> tuple[object, object, object]:
    """As a batch holds them: with other bytes between and behind them."""
    data = b"".join(b"\x02" + text for text in texts) + b"\x01" * 2 * SPARE_BYTES
    sizes = np.array([len(text) for text in texts], np.int64)
    starts = np.array([1 + end - len(text) + number for number, (text, end) in enumerate(
        zip(texts, accumulate(map(len, texts)), strict=True))], np.int64)  # fmt: skip
    return np.frombuffer(data, np.uint8), starts, sizes


def assert_they_are(columns: PropertyColumns, texts: list[bytes]) -> None:
    expected = [decode_properties(text) for text in texts]
    maps = columns.maps(KIND)
    maps.validate(full=True)
    assert maps.to_pylist() == [list(pairs.items()) for pairs in expected]
    for name in (*NAMES, "nobody"):
        column = columns.column(name)
        column.validate(full=True)
        assert column.to_pylist() == [pairs.get(name) for pairs in expected]


@settings(deadline=None)
@given(TEXTS)
def test_both_ways_give_what_one_by_one_gives(texts: list[bytes]) -> None:
    columns = property_columns(*laid_out(texts))
    assert isinstance(columns, ShapedProperties)
    assert_they_are(columns, texts)
    assert_they_are(SplitProperties(*laid_out(texts)), texts)


def test_texts_of_one_shape_with_and_without_filled_words() -> None:
    for length in range(1, 20):
        texts = [f"KEYS\x01{number:0{length}d}\x02TAGS\x01t\x02".encode() for number in range(9)]
        assert_they_are(property_columns(*laid_out(texts)), texts)


@pytest.mark.parametrize(
    "other",
    [b"aa\x01bbbb\x02", b"a\x01b\x02a2\x012", b"a\x01b\x02c\x01d\x02", b"b\x01bbbbb\x02", b"a\x02bbbbb\x01"],
    ids=["place", "no end", "one more", "name", "turned round"],
)
def test_a_text_of_the_same_length_and_another_shape_is_not_taken_for_the_first(other: bytes) -> None:
    texts = [b"a\x01bbbbb\x02", other, b"a\x01ccccc\x02"]
    try:
        columns = property_columns(*laid_out(texts))
    except OddProperties:
        assert other in (b"a\x01b\x02a2\x012", b"a\x02bbbbb\x01")
    else:
        assert_they_are(columns, texts)


def test_very_many_shapes_are_read_by_their_separators() -> None:
    texts = [b"TAGS\x01" + b"x" * number + b"\x02" for number in range(1, 100)]
    columns = property_columns(*laid_out(texts))
    assert isinstance(columns, SplitProperties)
    assert_they_are(columns, texts)


@pytest.mark.parametrize(
    "odd",
    [
        b"a\x01\x02",
        b"\x01a\x02",
        b"a\x02",
        b"a\x01b",
        b"a\x01b\x02a\x01c\x02",
        b"a\x01b\x01c\x02",
        b"a\x01\xff\x02",
        b"\xff\x01a\x02",
    ],
)
def test_odd_texts_are_left_to_one_by_one(odd: bytes) -> None:
    with pytest.raises(OddProperties):
        property_columns(*laid_out([b"TAGS\x01x\x02", odd])).maps(KIND)
