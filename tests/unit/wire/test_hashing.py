# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.wire import hashing
from sprocketmq.wire.hashing import index_hash, java_hash, tags_code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("标签", 857175),
        ("T#key1", -1854506879),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_hash_codes_are_those_of_a_jdk(text, value):
    assert java_hash(text) == value


def test_index_hash_is_never_negative():
    assert index_hash("T#key1") == 1854506879
    assert index_hash("polygenelubricants") == 0


def test_no_tags_have_code_zero():
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA") == 2598919


def by_definition(text: str) -> int:
    """Letter by letter, as an int of Java."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


@given(st.text(max_size=300))
def test_hash_is_the_definition_step_by_step(text):
    assert java_hash(text) == by_definition(text)


def test_long_tags_are_not_remembered():
    before = hashing._cached_hash.cache_info().currsize
    assert tags_code("a" * 30_000) == java_hash("a" * 30_000)
    assert hashing._cached_hash.cache_info().currsize == before


@pytest.mark.parametrize("letter", ["a", "\uffff", "\ud800", "\U0001f600"])
@pytest.mark.parametrize("size", [65, 1_023, 1_024, 1_025, 5_000])
def test_a_long_text_is_hashed_without_a_step_for_each_letter(monkeypatch, letter, size):
    text = "x" + letter * size
    value = by_definition(text)
    monkeypatch.delattr(hashing, "mul")
    assert java_hash(text) == value
