# SPDX-License-Identifier: Apache-2.0
"""A binary header that is read by its shape is the header that decoding reads."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples
from golden import frames
from golden.pipeline.scenes import binary_frame, pull, send, send_fields
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.frames.acl_signature import signed_fields
from sprocketmq.wire.frames.command import decode_fields, decode_header
from sprocketmq.wire.frames.header_shapes import HeaderShapes
from sprocketmq.wire.headers import PullMessageRequestHeader, SendMessageRequestHeaderV2

SENDS: Any = (SendMessageRequestHeaderV2, ("born_timestamp", "properties"))
PULLS: Any = (PullMessageRequestHeader, ("queue_offset", "commit_offset"))
AT = 21


def header_of(frame: bytes) -> bytes:
    return frame[8 : 8 + int.from_bytes(frame[5:8], "big")]


def decoded(header: bytes, header_type: Any) -> Any:
    """What decoding says of the ext fields, None: it refuses them."""
    try:
        return msgspec.convert(decode_fields(header, AT, len(header)), header_type, strict=False)
    except (ProtocolError, struct.error, UnicodeDecodeError, msgspec.ValidationError):
        return None


def run(*fields: tuple[str, Any]) -> bytes:
    """Ext fields, names twice if they are given twice; a number is a length that lies."""
    parts = []
    for name, value in fields:
        length, raw = value if isinstance(value, tuple) else (len(value.encode()), value)
        parts.append(struct.pack(">h", len(name.encode())) + name.encode() + struct.pack(">i", length) + raw.encode())
    return bytes(AT) + b"".join(parts)


VALUES = st.sampled_from(
    ("", "0", "1", "007", "-1", " 1", "1_0", "+1", "٣", "9" * 18, "9" * 19, "x", "true", "é", "\x00\x01g\x00\x00\x00\x011",
     "\x00\x01i\x00\x00\x00\x01p", "\x00\x01g\x00\x00", "x" * 300, "a\x01b\x02", "\x00\x01i\x00\x00\x00", "\x00" * 7)
)  # fmt: skip
FIELDS = st.one_of(
    st.tuples(st.sampled_from(tuple("abcdefghijkmn")), VALUES),
    st.tuples(st.sampled_from(("zz", "", "g", "i", "Signature", "é")), VALUES),
    st.tuples(st.sampled_from(tuple("agi")), st.tuples(st.integers(-2, 40), VALUES)),
)
ORDINARY = list(send_fields().items())


@st.composite
def headers(draw: Any) -> bytes:
    """Of a send with some fields changed, doubled, left out or put elsewhere."""
    fields = list(ORDINARY)
    for field in draw(st.lists(FIELDS, max_size=3)):
        if draw(st.booleans()):
            fields = [field if field[0] == name else (name, value) for name, value in fields]
        else:
            fields.insert(draw(st.integers(0, len(fields))), field)
    if draw(st.booleans()):
        fields = draw(st.permutations(fields))
    data = run(*fields)
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(AT, len(data) - 1))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + 1 :]
    return data


def changed(**values: Any) -> bytes:
    return run(*{**dict(ORDINARY), **values}.items())


@pytest.mark.slow
@settings(max_examples=examples(1500), deadline=None)
@example([changed(), changed(g="12"), changed(g="9", i="p")])
@example([changed(b="\x00\x01g\x00\x00\x00\x011", g="7"), changed(b="\x00\x01g\x00\x00\x00\x011", g="77")])
@example([run(*ORDINARY, ("g", "5")), changed()])
@example([run(*ORDINARY[::-1]), run(*ORDINARY[::-1])])
@given(st.lists(headers(), min_size=1, max_size=4))
def test_a_shape_gives_what_decoding_gives(found):
    shapes = HeaderShapes(*SENDS)
    for header in [*found, *found[::-1]]:
        typed = shapes.find(header)
        if typed is not None:
            assert type(typed) is SendMessageRequestHeaderV2
            assert typed == decoded(header, SendMessageRequestHeaderV2)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=4), st.booleans())
def test_one_remembered_shape_reads_other_values_as_decoding_does(found, backwards):
    shapes = HeaderShapes(*SENDS)
    for born, properties, tail in [("1795276800000", "p", "0"), *found]:
        fields = list({**dict(ORDINARY), "g": born, "i": properties, "j": tail}.items())
        header = run(*(fields[::-1] if backwards else fields))
        typed = shapes.find(header)
        assert typed is None or typed == decoded(header, SendMessageRequestHeaderV2)


def test_what_clients_send_has_a_shape_and_each_its_own_values():
    sends, pulls = HeaderShapes(*SENDS), HeaderShapes(*PULLS)
    for number in range(20):
        properties = f"UNIQ_KEY\x01{number:032X}\x02KEYS\x01{'k' * number}\x02city\x01Zürich\x02"
        typed = sends.find(header_of(send(binary=True, g=str(1795276800000 + number), i=properties)))
        assert (typed.born_timestamp, typed.properties) == (1795276800000 + number, properties)
        header = header_of(pull(binary=True, queueOffset=str(10**number % 10**18), commitOffset=str(number)))
        assert pulls.find(header) == decoded(header, PullMessageRequestHeader)
    assert len(sends._known) == len(pulls._known) == 1
    first, second = (sends.find(header_of(send(binary=True))) for _ in range(2))
    assert first == second
    assert first is not second


@pytest.mark.parametrize("code", [310, 11])
def test_headers_of_java_clients_have_shapes(code):
    header_type, varying = SENDS if code == 310 else PULLS
    shapes, found = HeaderShapes(header_type, varying), 0
    for frame in frames(code=code, kind="request", serialize="ROCKETMQ"):
        header = header_of(frame.data)
        typed = shapes.find(header)
        if "signed" in frame.shows:
            assert typed is None
        else:
            expected = decode_header(1, header, memoryview(b"")).header(header_type)
            assert typed == expected
            found += 1
    assert found


def test_signed_requests_have_no_shape():
    shapes = HeaderShapes(*SENDS)
    frame = binary_frame(310, signed_fields(send_fields(), b"", "key", "secret"))
    assert shapes.find(header_of(frame)) is None
    assert shapes._known == {}


def test_shapes_from_the_network_take_bounded_memory():
    shapes = HeaderShapes(*SENDS)
    for number in range(3_000):
        assert shapes.find(header_of(send(binary=True, b=f"topic-{number}"))) is not None
    assert len(shapes._known) <= 1024
    shapes._known.clear()
    assert shapes.find(header_of(send(binary=True, b="t" * 5_000))) is not None
    assert shapes._known == {}
