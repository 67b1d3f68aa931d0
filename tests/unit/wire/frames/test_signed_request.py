# SPDX-License-Identifier: Apache-2.0
"""What a request says of its sender is the same whether it is read from the raw header or from ext fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decoded_frames import read_by_code
from examples import examples
from golden.pipeline.scenes import pull, request, send, send_fields, text_frame
from sprocketmq.wire.frames.acl_signature import SigningKey, signed_fields
from sprocketmq.wire.frames.command import Command, decode_command
from sprocketmq.wire.frames.raw_command import RawCommand
from sprocketmq.wire.frames.signed_request import signed_request
from sprocketmq.wire.requests.readers import READERS

KEY, SECRET = "producer", "12345678"
BODY = b"body"
NAMES = st.sampled_from(
    (*"abcdehimn", "AccessKey", "Signature", "SecurityToken", "ns", "nsd", "lo", "oway", "bname", "zz", "ключ")
)
VALUES = st.sampled_from(("", "x", "1", "producer", "é", "\x00", 7, 1.5, True, None, {"a": [1]}, "token"))


def read(frame: bytes) -> Command:
    return read_by_code(frame) or decode_command(memoryview(frame)[4:])


def both(frame: bytes) -> tuple[Command, Command]:
    """As a connection reads it, and as an ordinary command."""
    return read(frame), decode_command(memoryview(frame)[4:])


def says(command: Command) -> tuple[Any, ...]:
    asked = signed_request(command)
    return asked.access_key, *(asked.is_signed_with(SigningKey(key), command.body) for key in (SECRET, "other-secret"))


@settings(max_examples=examples(500), deadline=None)
@example({"zz": "nobody"}, {}, True)
@example({}, {"e": "2"}, True)
@example({"SecurityToken": "token"}, {}, True)
@example({"i": "a\x01é\x02"}, {}, True)
@example({}, {"_UNIQUE_KEY_QUERY": "true"}, True)
@given(st.dictionaries(NAMES, VALUES, max_size=3), st.dictionaries(NAMES, VALUES, max_size=1), st.booleans())
def test_raw_headers_and_fields_say_the_same(more, changed, signed):
    fields = {**send_fields(), **more}
    if signed:
        texts = {name: value for name, value in fields.items() if isinstance(value, str)}
        fields = {**fields, **signed_fields(texts, BODY, KEY, SECRET)}
    header = {"code": 310, "extFields": {**fields, **changed}, "flag": 0, "language": "JAVA", "opaque": 7}
    raw, ordinary = both(text_frame(header, BODY))
    assert says(raw) == says(ordinary)


@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "binary"])
@pytest.mark.parametrize("code", [310, 11])
def test_the_sender_is_known_and_the_request_keeps_its_typed_header(code, binary):
    fields = send_fields() if code == 310 else decode_command(memoryview(pull())[4:]).ext_fields
    frame = request(code, signed_fields(fields, BODY, KEY, SECRET), BODY, binary=binary)
    command = read(frame)
    assert isinstance(command, RawCommand)
    typed = command.typed_header
    assert says(command) == (KEY, True, False)
    assert command.typed_header is typed is not None
    assert command.raw_header is not None


def test_a_field_that_was_added_after_signing_is_left_out():
    """Java: MixAll.UNIQUE_MSG_QUERY_FLAG."""
    fields = signed_fields({"topic": "t"}, BODY, KEY, SECRET)
    late = Command(12, ext_fields={**fields, "_UNIQUE_KEY_QUERY": "true"}, body=BODY)
    assert says(late) == (KEY, True, False)
    other = Command(12, ext_fields={**fields, "UNIQUE_KEY_QUERY": "true"}, body=BODY)
    assert says(other) == (KEY, False, False)


@pytest.mark.parametrize("more", [{}, {"Signature": ""}, {"Signature": "x"}, {"Signature": "é"}, {"AccessKey": ""}])
def test_a_request_without_a_signature_is_signed_with_no_key(more):
    for asked in both(send(BODY, **more)):
        assert says(asked) == ("", False, False)


def test_the_signature_covers_the_body():
    fields = signed_fields(send_fields(), BODY, KEY, SECRET)
    for asked in both(request(310, fields, b"b0dy")):
        assert says(asked) == (KEY, False, False)


def test_of_two_equal_names_the_last_counts_in_both():
    fields = signed_fields(send_fields(b="second"), BODY, KEY, SECRET)
    text = "".join(f'"{name}":"{value}",' for name, value in {"b": "first"}.items())
    whole = request(310, fields, BODY)
    doubled = whole[8:].replace(b'"extFields":{', b'"extFields":{' + text.encode(), 1)
    header = doubled[: -len(BODY)]
    for asked in both(text_frame(header, BODY)):
        assert says(asked) == (KEY, True, False)


def test_what_was_read_with_more_of_the_stack_left_is_read_with_less():
    """Python's limit of recursion counts for JSON in a field that nobody reads; a check is called deeper than the decode."""

    def deeper(frames: int, command: Command) -> tuple[Any, ...]:
        if frames:
            return deeper(frames - 1, command)
        return says(command), command.fields["b"]

    frame = request(310, send_fields())
    header = frame[8 : 8 + int.from_bytes(frame[5:8], "big")]
    nested = 0
    for depth in range(100, 1_000, 5):
        raw = header[:-1] + b',"zz":' + b"[" * depth + b"]" * depth + b"}"
        command = READERS[raw[8:12]](raw, memoryview(BODY))
        if command is not None:
            nested += 1
            assert deeper(40, command) == (("", False, False), "plain")
    assert nested
