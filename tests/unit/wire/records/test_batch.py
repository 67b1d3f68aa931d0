# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.records.batch import encode_batch, split_batch
from sprocketmq.wire.records.message import Message
from sprocketmq.wire.records.properties import decode_properties, encode_properties

_words = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=8
)
_messages = st.builds(
    Message,
    topic=st.just("T"),
    body=st.binary(max_size=30),
    tags=st.none() | _words,
    properties=st.dictionaries(_words.map(lambda word: "p" + word), _words, max_size=3),
    flag=st.integers(-(2**31), 2**31 - 1),
)


def test_a_batch_is_the_known_bytes():
    body = encode_batch([Message("T", b"hi", tags="a", flag=7)])
    assert body.hex() == "0000001f" + "00000000" * 2 + "00000007" + "00000002" + "6869" + "0007" + "54414753016102"
    assert split_batch(body) == [(7, b"hi", b"TAGS\x01a\x02")]


def test_lone_surrogates_in_a_batch_are_refused():
    message = Message("T", b"x", tags="Zürich")
    message.properties["notes"] = "\ud800"
    with pytest.raises(ConfigurationError):
        encode_batch([message])


@given(st.lists(_messages, max_size=5))
def test_a_batch_comes_back(messages):
    body = encode_batch(messages)
    for data in (body, bytearray(body), memoryview(body)):
        elements = split_batch(data)
        assert [(flag, body, decode_properties(raw)) for flag, body, raw in elements] == [
            (message.flag, message.body, message.properties) for message in messages
        ]
    assert [raw for _, _, raw in split_batch(body)] == [encode_properties(message.properties) for message in messages]
    sizes = [len(encode_batch([message])) for message in messages]
    assert sum(sizes) == len(body)


@given(st.lists(_messages, min_size=1, max_size=3))
def test_a_batch_cut_anywhere_is_a_protocol_error(messages):
    body = encode_batch(messages)
    whole = {0}
    for message in messages:
        whole.add(max(whole) + len(encode_batch([message])))
    for end in range(len(body)):
        if end in whole:
            assert len(split_batch(body[:end])) == sorted(whole).index(end)
        else:
            with pytest.raises(ProtocolError):
                split_batch(body[:end])


@pytest.mark.parametrize("claimed", [0, 25, 27, 1 << 20])
def test_a_batch_whose_sizes_contradict_each_other_is_a_protocol_error(claimed):
    body = encode_batch([Message("t", b"body")])
    assert int.from_bytes(body[:4], "big") == len(body) == 26
    with pytest.raises(ProtocolError):
        split_batch(claimed.to_bytes(4, "big") + body[4:])
