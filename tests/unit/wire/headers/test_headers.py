# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.errors import ProtocolError
from sprocketmq.wire import headers
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers import (
    ExtHeader,
    PullMessageResponseHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    UnregisterClientRequestHeader,
)

ALL_HEADERS: list[type[ExtHeader]] = [
    value
    for name in headers.__all__
    if isinstance(value := getattr(headers, name), type) and issubclass(value, ExtHeader) and value is not ExtHeader
]


def _strategy(annotation: Any) -> st.SearchStrategy[Any]:
    if typing.get_origin(annotation) is typing.Annotated:
        meta = annotation.__metadata__[0]
        return st.integers(meta.ge, meta.le)
    if annotation is str:
        return st.text(max_size=10)
    if annotation is bool:
        return st.booleans()
    return st.one_of(*[st.none() if part is type(None) else _strategy(part) for part in typing.get_args(annotation)])


@functools.cache
def _instances(header_type: type[ExtHeader]) -> st.SearchStrategy[ExtHeader]:
    hints = typing.get_type_hints(header_type, include_extras=True)
    return st.builds(header_type, **{name: _strategy(hints[name]) for name in header_type.__struct_fields__})


@pytest.mark.parametrize("header_type", ALL_HEADERS, ids=lambda header_type: header_type.__name__)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_every_header_comes_back(header_type, data):
    header = data.draw(_instances(header_type))
    ext = header.to_ext()
    assert all(isinstance(value, str) for value in ext.values())
    assert Command(code=0, ext_fields=ext).header(header_type) == header


@pytest.mark.parametrize("header_type", ALL_HEADERS, ids=lambda header_type: header_type.__name__)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_hand_written_ext_fields_equal_the_generic_ones(header_type, data):
    header = data.draw(_instances(header_type))
    assert header.to_ext() == ExtHeader.to_ext(header)


def _send_ext() -> dict[str, str]:
    v2 = {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000", "h": "0"}
    return {**v2, "i": "TAGS\x01a\x02", "k": "false", "m": "true", "n": "broker-a"}


def test_both_forms_of_a_send_header_give_the_same_object():
    by_letter = Command(code=310, ext_fields=_send_ext()).header(SendMessageRequestHeaderV2)
    values = {name: getattr(by_letter, name) for name in by_letter.__struct_fields__}
    assert isinstance(by_letter, SendMessageRequestHeader)
    assert (by_letter.topic, by_letter.queue_id, by_letter.batch, by_letter.bname) == ("T", 3, True, "broker-a")
    by_name = SendMessageRequestHeader(**values)
    assert by_name.to_ext()["defaultTopicQueueNums"] == "4"
    assert Command(code=10, ext_fields=by_name.to_ext()).header(SendMessageRequestHeader) == by_name
    assert SendMessageRequestHeaderV2(**values).to_ext() == _send_ext()


def test_v2_letters_are_javas():
    kind = SendMessageRequestHeaderV2
    letters = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    assert {letter: letters[letter] for letter in "ajklmn"} == {
        "a": "producer_group", "j": "reconsume_times", "k": "unit_mode", "l": "max_reconsume_times", "m": "batch", "n": "bname",
    }  # fmt: skip


def test_client_id_is_spelled_as_the_wire_spells_it():
    assert UnregisterClientRequestHeader("c", producer_group="p").to_ext() == {"clientID": "c", "producerGroup": "p"}


def test_unknown_fields_are_ignored():
    header = PullMessageResponseHeader(0, 5, 0, 9)
    ext = {**header.to_ext(), "ns": "x", "lo": "false"}
    assert Command(code=0, ext_fields=ext).header(PullMessageResponseHeader) == header


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"e": None}, "missing required field `e`"),
        ({"e": "x"}, r"\$.e"),
        ({"e": ""}, r"\$.e"),
        ({"e": "2147483648"}, "2147483647"),
        ({"g": "9223372036854775808"}, "9223372036854775807"),
        ({"m": "yes"}, r"\$.m"),
    ],
)
def test_an_unreadable_field_is_a_protocol_error_that_names_it(change, words):
    ext = {name: value for name, value in {**_send_ext(), **change}.items() if value is not None}
    with pytest.raises(ProtocolError, match=words):
        Command(code=310, ext_fields=ext).header(SendMessageRequestHeaderV2)


def test_every_header_is_a_struct_with_java_names():
    for header_type in ALL_HEADERS:
        assert issubclass(header_type, msgspec.Struct)
        if header_type is not SendMessageRequestHeaderV2:
            assert all("_" not in name or name.isupper() for name in header_type.__struct_encode_fields__), header_type
