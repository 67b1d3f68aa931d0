# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message

_words = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12)
_maps = st.dictionaries(_words, _words, max_size=8)


@given(_maps)
def test_properties_come_back(properties):
    assert props.decode_properties(props.encode_properties(properties)) == properties


def test_encoding_is_javas():
    assert props.encode_properties({"TAGS": "TagA", "WAIT": "true"}) == b"TAGS\x01TagA\x02WAIT\x01true\x02"


def test_last_separator_may_be_missing_and_empty_pairs_are_dropped():
    raw = b"\x02A\x01\x02\x01v\x02nothing\x02B\x01x\x01y\x02C\x01z"
    assert props.decode_properties(raw) == {"B": "x\x01y", "C": "z"}


def test_malformed_utf8_does_not_make_a_message_unreadable():
    raw = b"A\x01\xff\x02B\x01b\x02"
    assert props.decode_properties(raw) == {"A": "\ufffd", "B": "b"}
    assert props.get_property(raw, "A") == "\ufffd"


_raw_parts = st.lists(st.sampled_from([b"A", b"AB", b"B", b"\x01", b"\x02", b"x", "é".encode(), b"\xff"]), max_size=25)


@given(_raw_parts, st.sampled_from(["A", "AB", "B"]))
def test_scan_agrees_with_the_dict_on_any_bytes(parts, name):
    raw = b"".join(parts)
    assert props.get_property(raw, name) == props.decode_properties(raw).get(name)


@pytest.mark.parametrize("last", [b"A\x013\x02", b"A\x013", b"A\x013\x02A\x01\x02"])
def test_of_a_name_that_occurs_twice_the_last_value_that_is_not_empty_counts(last):
    raw = b"A\x011\x02BA\x01x\x02A\x012\x02" + last
    assert props.get_property(raw, "A") == props.decode_properties(raw)["A"] == "3"


@given(_raw_parts, st.sampled_from(["A", "AB", "B"]), _words)
def test_set_and_remove_touch_nothing_else(parts, name, value):
    raw = b"".join(parts)
    expected = props.decode_properties(raw)
    expected.pop(name, None)
    assert props.decode_properties(props.remove_property(raw, name)) == expected
    assert props.decode_properties(props.set_property(raw, name, value)) == {**expected, name: value}


def test_a_property_that_is_set_stands_once_and_last():
    raw = b"A\x011\x02AB\x012\x02A\x013\x02B\x014"
    assert props.set_property(raw, "A", "5") == b"AB\x012\x02B\x014\x02A\x015\x02"


def test_a_property_between_others_is_removed():
    raw = b"A\x01a\x02B\x01b\x02C\x01c\x02"
    assert props.remove_property(raw, "B") == b"A\x01a\x02C\x01c\x02"
    assert props.remove_property(raw, "C") == b"A\x01a\x02B\x01b\x02"


@pytest.mark.parametrize("pair", [("A", "x\ud800y"), ("x\udfffy", "a"), ("A", "two\nlines \ud83d")])
def test_half_of_a_character_is_refused_and_not_replaced(pair):
    """Java writes "?" for it."""
    name, value = pair
    makes: tuple[Callable[[dict[str, str]], object], ...] = (
        props.encode_properties,
        props.properties_text,
        props.user_properties_text,
        lambda properties: Message("flights", b"x", properties=properties),
    )
    for make in makes:
        with pytest.raises(ConfigurationError):
            make({name: value})
    for word in pair:
        if not word.isascii():
            for wrong in ({"tags": word}, {"keys": word}, {"keys": ["a", word.replace(" ", "").replace("\n", "")]}):
                with pytest.raises(ConfigurationError):
                    Message("flights", b"x", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", [{"": "v"}, {"A": ""}])
def test_a_pair_without_name_or_value_is_left_out(pair):
    assert props.encode_properties(pair) == b""
    assert props.joined_properties({**pair, "B": "b"}) == "B\x01b\x02"


@pytest.mark.parametrize("pair", [{"A": 1}, {1: "a"}, {"A": None}])
def test_a_pair_that_is_not_text_is_refused(pair):
    with pytest.raises(ConfigurationError):
        props.encode_properties(pair)


@pytest.mark.parametrize("properties", [{"A": "a"}, {"A": "ä"}, {"A": "x\U0001f600"}])
def test_the_text_for_a_header_is_what_is_encoded(properties):
    assert props.properties_text(properties) == props.encode_properties(properties).decode()


def test_the_text_for_a_header_has_the_same_limit():
    longest = "a" * (props.MAX_PROPERTIES_BYTES - 3)
    assert len(props.properties_text({"A": longest})) == props.MAX_PROPERTIES_BYTES
    with pytest.raises(ConfigurationError):
        props.properties_text({"A": longest + "a"})


def test_remove_of_an_absent_name_copies_nothing():
    raw = b"A\x01b\x02"
    assert props.remove_property(raw, "B") is raw


def test_too_many_properties_are_refused_with_the_limit():
    assert len(props.encode_properties({"a": "x" * 32_764})) == 32_767
    with pytest.raises(ConfigurationError):
        props.encode_properties({"a": "x" * 32_765})


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"TAGS": "a"}, "'TAGS' is reserved"),
        ({"": "a"}, "is empty"),
        ({"a\x01b": "a"}, "separate properties"),
        ({"a\x02": "a"}, "separate properties"),
        ({"a": "b\x02"}, "separate properties"),
        ({"a": " "}, "is blank"),
        ({"a": 5}, r"property 'a' is 5 \(int\)"),
        ({5: "a"}, "property name 5 is int"),
    ],
)
def test_a_users_mistake_is_named(properties, words):
    with pytest.raises(ConfigurationError, match=words):
        props.user_properties_text(properties)


_not_blank = _words.filter(lambda word: not word.isspace())


@given(st.dictionaries(_not_blank.filter(lambda name: name not in props.RESERVED), _not_blank, max_size=5))
def test_the_text_of_user_properties_is_what_the_dict_would_be_sent_as(given_properties):
    text = props.user_properties_text(given_properties)
    assert text == props.joined_properties(given_properties)
    assert props.pairs_of_text(text) == given_properties


def test_a_subclass_of_str_counts_with_its_characters():
    class Loud(str):
        def __format__(self, spec: str) -> str:
            return "LOUD"

    assert props.user_properties_text({Loud("year"): Loud("2013")}) == "year\x012013\x02"
    assert type(props.checked_value("tags", Loud("UA"))) is str


def test_a_text_takes_one_more_property_and_replaces_one_that_it_has():
    assert props.text_with("", "a", "1") == "a\x011\x02"
    assert props.text_with("a\x011\x02", "b", "2") == "a\x011\x02b\x012\x02"
    assert props.text_with("b\x011\x02a\x012\x02", "b", "3") == "b\x013\x02a\x012\x02"
    assert props.pairs_of_text(props.text_with("x\x01b\x012\x02", "b", "3")) == {"x": "b\x012", "b": "3"}


def test_keys_are_joined_by_one_blank():
    assert props.join_keys("one") == "one"
    assert props.join_keys(" one  two ") == "one two"
    assert props.join_keys(["one", "two"]) == "one two"
    assert props.join_keys([]) == ""
    with pytest.raises(ConfigurationError):
        props.join_keys(["one two"])
    with pytest.raises(ConfigurationError):
        props.join_keys([5])  # type: ignore[list-item]


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x01\x02 \t\x1f\x85\u3000"), max_size=4))
def test_a_value_is_taken_when_a_reader_would_see_it_whole(value):
    if not value.strip() or "\x01" in value or "\x02" in value:
        with pytest.raises(ConfigurationError):
            props.checked_value("tags", value)
        with pytest.raises(ConfigurationError):
            props.join_keys(value)
    else:
        assert props.checked_value("tags", value) == value
        assert props.join_keys(value) == " ".join(value.split())


def test_int_property_falls_back():
    assert props.int_property({"DELAY": "3"}, "DELAY", 0) == 3
    assert props.int_property({"DELAY": "x"}, "DELAY", 0) == 0
    assert props.int_property({}, "DELAY", 7) == 7


PIECES = st.lists(st.sampled_from(["TAGS", "a", "ü", "\x01", "\x02", " "]), max_size=4).map("".join)


@given(st.dictionaries(PIECES, PIECES, max_size=4))
def test_what_is_encoded_is_read_as_it_was_or_refused(properties):
    kept = {name: value for name, value in properties.items() if name and value}
    forges = any("\x01" in name or "\x02" in name + value for name, value in kept.items())
    if forges:
        with pytest.raises(ConfigurationError):
            props.encode_properties(properties)
    else:
        assert props.decode_properties(props.encode_properties(properties)) == kept


def test_every_name_that_is_not_the_users_belongs_to_one_message():
    names = {value for name, value in vars(props).items() if name.isupper() and isinstance(value, str)}
    assert names - {props.KEY_SEPARATOR} - props.OF_ONE_MESSAGE == set()
