# SPDX-License-Identifier: Apache-2.0
"""Properties as columns: by template or by separators, both give what decoding one text after the other gives."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.spark.columns import property_separators
from sprocketmq.spark.columns.byte_columns import SPARE_BYTES
from sprocketmq.spark.columns.property_columns import PropertyColumns, property_columns
from sprocketmq.spark.columns.property_separators import PropertiesBySeparator
from sprocketmq.spark.columns.property_templates import PropertiesByTemplate, alike_texts
from sprocketmq.spark.columns.property_texts import texts_of
from sprocketmq.wire.records.properties import decode_properties

KIND = pa.map_(pa.string(), pa.field("value", pa.string(), True))
# Some of 15 to 40 bytes, which end differently or not at all: 16 bytes of a name are in its print.
NAMES = (
    "KEYS",
    "TAGS",
    "a",
    "caf\u00e9",
    "a\0",
    *("n" * size + end for size in (14, 15, 30, 31, 39) for end in ("1", "2")),
)
VALUES = st.text("xy\u00e9", min_size=1, max_size=3)
TEXTS = st.lists(
    st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
    ),
    max_size=30,
)
# Whatever bytes a text can be made of: names that repeat, empty names and values, separators that stray or lack, zeros, no UTF-8.
PIECES = st.sampled_from([b"KEYS", b"TAGS", b"a", b"\x01", b"\x02", b"\0", b"\xff", b"\xc3", b"\xa9", b"x" * 20])
ANY_TEXTS = st.lists(st.lists(PIECES, max_size=9).map(b"".join), max_size=30)


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


def assert_both_ways_read(texts: list[bytes]) -> None:
    whole = texts_of(*laid_out(texts))
    alike = alike_texts(whole)
    if alike is not None:
        assert_they_are(PropertiesByTemplate(len(texts), alike), texts)
    assert_they_are(PropertiesBySeparator(whole), texts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(property_separators, "_MOST_CELLS", 8)
        patched.setattr(property_separators, "_NEIGHBOURS", 1)
        assert_they_are(PropertiesBySeparator(whole), texts)
        # Names whose prints are equal are not taken for each other, nor are those of two messages.
        patched.setattr(property_separators, "_ROW", np.uint64(0))
        patched.setattr(property_separators, "_prints", lambda heads, sizes: np.zeros(len(heads), np.uint64))
        assert_they_are(PropertiesBySeparator(whole), texts)


@settings(max_examples=examples(300), deadline=None)
@given(st.one_of(TEXTS, ANY_TEXTS))
def test_both_ways_read_whatever_bytes_there_are(texts: list[bytes]) -> None:
    assert_both_ways_read(texts)


def test_texts_of_one_template_with_and_without_filled_words() -> None:
    for length in range(1, 20):
        texts = [f"KEYS\x01{number:0{length}d}\x02TAGS\x01t\x02".encode() for number in range(9)]
        assert_they_are(property_columns(*laid_out(texts)), texts)


@pytest.mark.parametrize(
    "other",
    [b"aa\x01bbbb\x02", b"a\x01b\x02a2\x012", b"a\x01b\x02c\x01d\x02", b"b\x01bbbbb\x02", b"a\x02bbbbb\x01"],
    ids=["place", "no end", "one more", "name", "turned round"],
)
def test_a_text_of_the_same_length_and_another_template_is_not_taken_for_the_first(other: bytes) -> None:
    assert_both_ways_read([b"a\x01bbbbb\x02", other, b"a\x01ccccc\x02"])


def test_a_message_with_hundreds_of_properties_that_repeat_is_read_beside_others() -> None:
    many = b"".join(b"p%d\x01%d\x02" % (number % 150, number) for number in range(400))
    assert_both_ways_read([b"TAGS\x01x\x02", many, b"TAGS\x01y\x02KEYS\x01k\x02TAGS\x01z\x02", b""])


def test_texts_of_very_many_templates_are_read_by_their_separators() -> None:
    texts = [b"TAGS\x01" + b"x" * number + b"\x02" for number in range(1, 100)]
    columns = property_columns(*laid_out(texts))
    assert isinstance(columns, PropertiesBySeparator)
    assert_they_are(columns, texts)


def test_a_text_without_its_last_separator_has_the_template_of_one_with_it() -> None:
    alike = alike_texts(texts_of(*laid_out([b"a\x01b\x02", b"a\x01c"])))
    assert alike is not None
    assert len(alike) == 1


def test_the_search_for_templates_ends_though_all_texts_have_one_size() -> None:
    texts = [b"%04d\x01v\x02" % number for number in range(1000)]
    assert alike_texts(texts_of(*laid_out(texts))) is None
    assert_they_are(property_columns(*laid_out(texts)), texts)


@pytest.mark.parametrize(
    "odd",
    [
        b"a\x01\x02",
        b"\x01a\x02",
        b"a\x02",
        b"a\x01b",
        b"a\x01b\x02a\x01c\x02",
        b"a\x01b\x02KEYS\x01k\x02a\x01c\x02KEYS\x01\x02",
        b"a\x01b\x01c\x02",
        b"a\x01\xff\x02",
        b"\xff\x01a\x02",
        b"\xfe\x01a\x02\xff\x01b",
        b"a\x01b\0\x02",
        b"\x02",
        b"",
    ],
)
@pytest.mark.parametrize("times", [1, 5])
def test_an_odd_text_is_read_beside_others(odd: bytes, times: int) -> None:
    texts = [b"TAGS\x01x\x02", *[odd] * times, b"TAGS\x01y"]
    columns = property_columns(*laid_out(texts))
    assert isinstance(columns, PropertiesByTemplate)
    assert_they_are(columns, texts)
    assert_both_ways_read(texts)
