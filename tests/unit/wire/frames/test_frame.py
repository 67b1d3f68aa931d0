# SPDX-License-Identifier: Apache-2.0
"""Frames and commands, in both header encodings: whole, in pieces, cut short, with a tail, and as garbage."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoded_frames import decoded
from sprocketmq.errors import FrameTooLarge, ProtocolError
from sprocketmq.wire.codes import LANGUAGE_CODES
from sprocketmq.wire.frames.command import (
    FLAG_RESPONSE,
    Command,
    decode_command,
    encode_command,
    request,
    response,
)
from sprocketmq.wire.frames.frame import FrameDecoder
from sprocketmq.wire.headers import GetRouteInfoRequestHeader

ROUTE_JSON = (
    b"\x00\x00\x00\x81\x00\x00\x00\x7d"
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":1,"serializeTypeCurrentRPC":"JSON","version":401}'
)
ROUTE_BINARY = bytes.fromhex("0000002501000021006903019100000001000000000000000000" + "00000c0005746f7069630000000154")

_int32 = st.integers(-(2**31), 2**31 - 1)
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_filled = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_languages = st.sampled_from(sorted(LANGUAGE_CODES))


def _commands(serialize_type: int) -> st.SearchStrategy[Command]:
    binary = serialize_type == 1
    return st.builds(
        Command,
        code=st.integers(-(2**15), 2**15 - 1) if binary else _int32,
        opaque=_int32,
        flag=_int32,
        version=st.integers(0, 2**15 - 1) if binary else _int32,
        language=_languages,
        remark=st.none() | (_filled if binary else _text),
        ext_fields=st.dictionaries(_filled, _filled, max_size=5),
        body=st.binary(max_size=50),
        serialize_type=st.just(serialize_type),
    )


_any_command = _commands(0) | _commands(1)


def _route(serialize_type: int) -> Command:
    return Command(105, opaque=1, version=401, ext_fields={"topic": "T"}, serialize_type=serialize_type)


@pytest.mark.parametrize(("serialize_type", "frame"), [(0, ROUTE_JSON), (1, ROUTE_BINARY)])
def test_frames_are_the_known_bytes(serialize_type, frame):
    assert encode_command(_route(serialize_type)) == frame
    (command,) = decoded(FrameDecoder(), frame)
    assert command == _route(serialize_type)
    assert command.header(GetRouteInfoRequestHeader) == GetRouteInfoRequestHeader("T")


@given(_any_command)
def test_a_command_comes_back(command):
    (again,) = decoded(FrameDecoder(), encode_command(command))
    assert again == command


@given(st.lists(_any_command, min_size=1, max_size=4), st.data())
def test_frames_do_not_depend_on_how_the_stream_is_cut(commands, data):
    stream = b"".join(encode_command(command) for command in commands)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    decoder, found = FrameDecoder(), list[Command]()
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += decoded(decoder, stream[start:end])
    assert found == commands
    assert decoder.pending_bytes == 0


@given(_any_command)
def test_a_beginning_of_the_next_frame_is_kept(command):
    stream = encode_command(command)
    decoder = FrameDecoder()
    for tail in range(1, len(stream)):
        assert decoded(decoder, stream + stream[:tail]) == [command]
        assert decoder.pending_bytes == tail
        assert decoded(decoder, stream[tail:]) == [command]
        assert decoder.pending_bytes == 0


@given(_any_command)
def test_a_header_cut_short_is_a_protocol_error(command):
    frame = encode_command(command)[4:]
    header_bytes = int.from_bytes(frame[1:4], "big")
    for end in range(4 + header_bytes):
        with pytest.raises(ProtocolError):
            decode_command(memoryview(frame[:end]))
        # The same with a header length that fits what is left.
        cut = frame[:1] + max(end - 4, 0).to_bytes(3, "big") + frame[4:end]
        with pytest.raises(ProtocolError):
            decode_command(memoryview(cut))


@given(st.lists(st.sampled_from([1, 7, 8191, 8192, 20_000, 70_000]), min_size=1, max_size=40))
def test_large_frames_do_not_depend_on_how_the_stream_is_cut(reads):
    commands = [Command(code=10, opaque=number, body=bytes([number]) * (50_000 + number)) for number in range(4)]
    stream = b"".join(map(encode_command, commands))
    decoder, found, at = FrameDecoder(), [], 0
    for size in [*reads, len(stream)]:
        found += decoded(decoder, stream[at : at + size])
        at += size
    assert found == commands
    assert decoder.pending_bytes == 0


def test_bytes_that_come_one_by_one_take_no_object_each():
    stream = encode_command(Command(code=10, body=b"x" * 50_000))[:-1]
    tracemalloc.start()
    try:
        decoder = FrameDecoder()
        for byte in stream:
            decoded(decoder, bytes([byte]))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoder.pending_bytes == len(stream)
    assert held_bytes < 2 * len(stream)


def test_a_length_over_the_limit_is_refused_before_it_is_gathered():
    decoder = FrameDecoder(max_frame_bytes=100)
    with pytest.raises(FrameTooLarge):
        decoded(decoder, (97).to_bytes(4, "big"))
    with pytest.raises(ProtocolError):
        decoded(FrameDecoder(), b"\xff\xff\xff\xff")
    with pytest.raises(ProtocolError):
        decoded(FrameDecoder(), b"\x00\x00\x00\x03abc")


def test_a_frame_of_exactly_the_limit_is_taken():
    frame = encode_command(Command(1, body=bytes(100)))
    assert decoded(FrameDecoder(max_frame_bytes=len(frame)), frame)[0].body == bytes(100)
    with pytest.raises(FrameTooLarge):
        decoded(FrameDecoder(max_frame_bytes=len(frame) - 1), frame)


def test_a_peer_may_write_nulls_and_unknown_fields():
    header = b'{"code":1,"extFields":{"a":null,"b":"c"},"flag":null,"language":null,"opaque":7,"remark":null,"new":{"x":[1]}}'
    command = decode_command(memoryview(len(header).to_bytes(4, "big") + header))
    assert command.ext_fields == {"b": "c"}
    assert (command.code, command.opaque, command.flag, command.language, command.remark) == (1, 7, 0, "OTHER", None)


@pytest.mark.parametrize("remark", ["", ',"remark":null', ',"extFields":{"a":null}', ',"opaque":null'])
def test_a_header_without_a_language_is_from_java_as_apache_has_it(remark):
    header = b'{"code":1%s}' % remark.encode()
    assert decode_command(memoryview(len(header).to_bytes(4, "big") + header)).language == "JAVA"


def test_values_that_are_no_texts_become_the_texts_that_java_makes_of_them():
    # Apache's C++ client writes numbers and truth values into extFields.
    header = b'{"code":10,"extFields":{"a":12,"b":true,"c":"12","d":null,"e":-1.5},"flag":0,"language":"CPP","opaque":7,"version":63}'
    command = decode_command(memoryview(len(header).to_bytes(4, "big") + header))
    assert command.ext_fields == {"a": "12", "b": "true", "c": "12", "e": "-1.5"}


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{}",
        b"[]",
        b'{"code":"x"}',
        b'{"code":1,"extFields":[]}',
        b'{"code":1e99}',
        b"\xff",
        b'{"code":1,"opaque":4294967296}',
    ],
)
def test_a_json_header_that_is_none_is_a_protocol_error(header):
    with pytest.raises(ProtocolError):
        decode_command(memoryview(len(header).to_bytes(4, "big") + header))


def test_deep_nesting_in_a_header_is_a_protocol_error():
    header = b'{"code":1,"x":' + b"[" * 100_000
    with pytest.raises(ProtocolError):
        decode_command(memoryview(len(header).to_bytes(4, "big") + header))


def test_codes_beyond_16_bits_are_not_written_in_binary():
    with pytest.raises(ProtocolError):
        encode_command(Command(200050, serialize_type=1))


def test_a_response_mirrors_opaque_and_encoding():
    asked = request(105, GetRouteInfoRequestHeader("T"), oneway=True)
    asked.opaque, asked.serialize_type = 9, 1
    answer = response(asked, 17, "no route")
    assert asked.is_oneway
    assert not asked.flag & FLAG_RESPONSE
    assert answer.flag & FLAG_RESPONSE
    assert (answer.opaque, answer.serialize_type, answer.code, answer.remark) == (9, 1, 17, "no route")


def test_a_server_of_http2_is_told_by_its_first_frame():
    settings = bytes.fromhex("000012040000000000")
    for size in (1, 4, 9):
        decoder = FrameDecoder()
        for at in range(0, 9, size):
            assert not decoder.begins_as_http2
            decoder.cut(settings[at : at + size])
        assert decoder.begins_as_http2
    ours = FrameDecoder()
    ours.cut(bytes.fromhex("000012040000008900"))  # a header of 0x89 bytes
    assert not ours.begins_as_http2
