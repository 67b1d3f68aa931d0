# SPDX-License-Identifier: Apache-2.0
"""A request that is decoded straight into its typed header is the request that ``decode_command`` reads."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from decoded_frames import read_by_code
from golden.pipeline.scenes import pull, send, send_fields, text_frame
from sprocketmq.net.connection import bytes_while_waiting, text_bytes
from sprocketmq.wire.frames import raw_command
from sprocketmq.wire.frames.command import Command, decode_command, encode_command
from sprocketmq.wire.frames.raw_command import RawCommand, raw_answer
from sprocketmq.wire.headers import PullMessageRequestHeader, SendMessageRequestHeaderV2
from sprocketmq.wire.requests.readers import READERS

WHOLE = b'"extFields":{"a":"p","b":"t","c":"d","d":"4","e":"0","f":"0","g":"1","h":"0"'


def parts(command: Command) -> tuple[Any, ...]:
    return (
        command.code, command.opaque, command.flag, command.version, command.language, command.remark,
        dict(command.ext_fields), bytes(command.body), command.serialize_type,
    )  # fmt: skip


@pytest.mark.parametrize(
    "frame", [send(), send(flag=1), send(flag=2), send(binary=True), send(zz="nobody"), pull(), pull(binary=True)]
)
def test_a_typed_decode_makes_the_same_request(frame):
    found, expected = read_by_code(frame), decode_command(memoryview(frame)[4:])
    assert isinstance(found, RawCommand)
    header_type = SendMessageRequestHeaderV2 if expected.code == 310 else PullMessageRequestHeader
    assert found.header(header_type) is found.typed_header
    assert found.header(header_type) == expected.header(header_type)
    assert parts(found) == parts(expected)


@pytest.mark.parametrize(
    "header",
    [
        {"code": 310, "extFields": {**send_fields(), "b": 7}, "opaque": 7},
        {"code": 310, "extFields": {**send_fields(), "b": None}, "opaque": 7},
        {"code": 310, "extFields": None, "opaque": 7},
        {"code": 310, "extFields": send_fields(), "opaque": None},
        b'{"code":310,"code":11,' + WHOLE + b"}}",
        b'{"code":310,' + WHOLE + b',"zz":"\xff"}}',
        b'{"code":310,"extFields":{"zz":' + b"[" * 100_000 + b"}}",
        b'{"code":310,"extFields":{',
    ],
)
def test_what_a_typed_decode_does_not_understand_is_left_to_the_other(header):
    assert read_by_code(text_frame(header, b"body")) is None


@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "binary"])
def test_no_dictionary_is_made_of_a_plain_send_until_somebody_asks(monkeypatch, binary):
    asked: list[int] = []
    fields_of = raw_command._fields_of
    monkeypatch.setattr(raw_command, "_fields_of", lambda *args: asked.append(1) or fields_of(*args))
    command = read_by_code(send(binary=binary))
    assert command is not None
    command.header(SendMessageRequestHeaderV2)
    assert not asked
    assert command.ext_fields == send_fields()
    assert command.ext_fields == send_fields()
    assert len(asked) == 1


@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "binary"])
@pytest.mark.parametrize("more", [{}, {"zz": "nobody"}], ids=["", "unknown"])
def test_reading_the_fields_leaves_the_headers_unchanged(more, binary):
    frame = send(binary=binary, **more)
    command = read_by_code(frame)
    assert isinstance(command, RawCommand)
    typed, raw = command.typed_header, command.raw_header
    assert command.fields == decode_command(memoryview(frame)[4:]).ext_fields
    assert command.typed_header is typed is not None
    assert command.raw_header is raw is not None
    command.ext_fields["b"] = "other"  # and who changes them afterwards is obeyed
    assert command.header(SendMessageRequestHeaderV2).topic == "other"
    assert command.fields["b"] == "other"


def test_fields_that_were_replaced_are_what_the_header_says():
    command = read_by_code(send())
    assert command is not None
    command.ext_fields = send_fields(b="third")
    assert command.header(SendMessageRequestHeaderV2).topic == "third"


def test_a_nested_value_of_a_field_that_nobody_declares_is_its_text_as_in_java():
    """As fastjson reads a map of texts (StringCodec)."""
    frame = text_frame({"code": 310, "extFields": {**send_fields(), "zz": {"a": [1, "b"]}}, "opaque": 7}, b"body")
    typed, other = read_by_code(frame), decode_command(memoryview(frame)[4:])
    assert typed is not None
    assert typed.header(SendMessageRequestHeaderV2) == other.header(SendMessageRequestHeaderV2)
    assert typed.ext_fields["zz"] == other.ext_fields["zz"] == '{"a":[1,"b"]}'


def test_a_number_beyond_all_bounds_in_a_field_that_nobody_declares_costs_that_field():
    command = read_by_code(text_frame(b'{"code":310,' + WHOLE + b',"zz":1e999}}'))
    assert command is not None
    assert "zz" not in command.ext_fields
    assert command.ext_fields["b"] == "t"


def test_a_request_that_waits_keeps_neither_its_read_nor_its_raw_header():
    frame = send(b"body" * 10)
    whole = bytearray(frame * 10)
    command = READERS[b"310,"](bytes(whole[8 : 8 + int.from_bytes(frame[5:8], "big")]), memoryview(whole)[300:310])
    assert isinstance(command, RawCommand)
    before = sys.getrefcount(whole)
    size = bytes_while_waiting(command)
    assert command.raw_header is None
    assert sys.getrefcount(whole) < before
    assert size > sum(len(value) for value in send_fields().values())


def test_an_answer_that_is_changed_is_written_as_it_was_changed():
    plain = Command(0, 7, 1, ext_fields={"msgId": "1"})
    header = plain.header_bytes()
    assert encode_command(raw_answer(7, header)) == encode_command(plain)
    answer = raw_answer(7, header)
    assert text_bytes(answer) == len(header)
    answer.code = plain.code = 10
    assert encode_command(answer) == encode_command(plain)
    answer = raw_answer(7, header)
    answer.ext_fields["more"] = "2"
    assert decode_command(memoryview(encode_command(answer))[4:]).ext_fields == {"msgId": "1", "more": "2"}
