# SPDX-License-Identifier: Apache-2.0
"""Made-up input to every decoder of the wire: the value, or a ProtocolError; never another exception. `make fuzz` runs these for longer."""

from __future__ import annotations

import contextlib
import json
import random
from functools import cache

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sprocketmq.wire.bodies as all_bodies
import sprocketmq.wire.headers as all_headers
from decoded_frames import decoded
from interop.hostile_requests import spoilt_frames, templates
from record_fields import STORED
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.bodies import RegisterBrokerBody
from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.frames.command import Command, encode_command
from sprocketmq.wire.frames.frame import FrameDecoder
from sprocketmq.wire.headers import ExtHeader
from sprocketmq.wire.recall_handle import RecallHandle
from sprocketmq.wire.records.compression import decompress
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.record import check_record, decode_records, encode_record
from sprocketmq.wire.text import fastjson
from sprocketmq.wire.text.java_properties import format_properties, parse_properties


def types_of(module, base):
    found = [getattr(module, name) for name in module.__all__]
    return sorted(
        (kind for kind in found if isinstance(kind, type) and issubclass(kind, base)), key=lambda kind: kind.__name__
    )


HEADERS = types_of(all_headers, ExtHeader)
BODIES = types_of(all_bodies, Body)
ODD = st.sampled_from(
    ["", "-1", "abc", "9" * 30, "2147483648", "true", "null", "\x00", "🛫", "1.5", " 1", "1e3", "\u0661", "-0", "+1", "1_000"]
)  # fmt: skip
texts = st.one_of(ODD, st.text(max_size=20))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


@cache
def true_frames():
    return [frame for _, frame in spoilt_frames(11, 2_000)]


@cache
def true_bodies():
    return [asked.body for asked in templates() if asked.body]


@st.composite
def damaged(draw, samples):
    """One of the samples with bytes changed, cut off, doubled or put in between."""
    data = bytearray(draw(st.sampled_from(samples())))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.integers(0, 3))
        if kind == 0 and data:
            data[at] = draw(st.integers(0, 255))
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = draw(st.binary(max_size=8))
        else:
            data[at:at] = data[at : at + 50]
    return bytes(data)


@given(st.one_of(st.binary(max_size=200), damaged(true_frames)), st.integers(0, 2**32))
def test_a_stream_is_commands_or_a_protocol_error_however_it_is_cut(data, seed):
    def read(pieces):
        decoder, found = FrameDecoder(), []
        try:
            for piece in pieces:
                found += decoded(decoder, piece)
        except ProtocolError:
            return found, "refused"
        return found, decoder.pending_bytes

    cuts = sorted(random.Random(seed).randrange(len(data) + 1) for _ in range(5))
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    whole, whole_end = read([data])
    cut, cut_end = read(pieces)
    assert cut_end == whole_end
    if whole_end != "refused":
        assert [msgspec.structs.asdict(one) | {"body": bytes(one.body)} for one in cut] == [
            msgspec.structs.asdict(one) | {"body": bytes(one.body)} for one in whole
        ]
    for command in whole:  # what was read can be answered in its own encoding
        with contextlib.suppress(ProtocolError):
            encode_command(msgspec.structs.replace(command, flag=1, body=b""))


@given(st.sampled_from(HEADERS), st.dictionaries(texts, texts, max_size=3), st.data())
def test_ext_fields_are_a_header_or_a_protocol_error(kind, ext, data):
    names = kind.__struct_encode_fields__
    ext = {**ext, **{name: data.draw(texts) for name in names if data.draw(st.booleans())}}
    try:
        header = Command(1, ext_fields=ext).header(kind)
    except ProtocolError:
        return
    assert all(isinstance(text, str) for text in header.to_ext().values())


@given(
    st.sampled_from(BODIES),
    st.one_of(st.binary(max_size=80), json_values.map(lambda value: json.dumps(value).encode()), damaged(true_bodies)),
)
def test_a_body_is_of_its_kind_or_a_protocol_error(kind, data):
    with contextlib.suppress(ProtocolError):
        kind.decode(data).encode()


@given(st.sampled_from(BODIES), st.data())
def test_a_body_with_the_right_names_and_any_values_is_of_its_kind_or_a_protocol_error(kind, data):
    value = {name: data.draw(json_values) for name in kind.__struct_encode_fields__ if data.draw(st.booleans())}
    with contextlib.suppress(ProtocolError):
        kind.decode(json.dumps(value).encode()).encode()


@given(
    st.one_of(
        st.binary(max_size=120), st.text(alphabet="{}[]\",:$ref@.0123456789-eE\\ua '", max_size=60).map(str.encode)
    )
)
def test_json_of_either_dialect_is_a_value_or_a_protocol_error(data):
    with contextlib.suppress(ProtocolError):
        fastjson.loads(data)


@pytest.mark.parametrize("depth", [70, 5_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b"{1:", b"}"), (b"{{}:", b"}")])
def test_no_depth_of_json_runs_out_of_stack(depth, opening, closing):
    for data in (opening * depth, opening * depth + b"1" + closing * depth):
        # A field that is not looked at may be as deep as the JSON library bears.
        with contextlib.suppress(ProtocolError):
            fastjson.decode(data, RegisterBrokerBody)
        with pytest.raises(ProtocolError):
            fastjson.decode(data + b"]", RegisterBrokerBody)


@cache
def true_records():
    inner = encode_record(b"T", b"hello" * 20, b"TAGS\x01A\x02", **STORED)
    odd = [
        encode_record(b"T", inner, b"INNER_NUM\x012\x02", **STORED, sys_flag=flag)
        for flag in (1, 0x101, 0x201, 0x301, 0x80, 0xC0)
    ]
    return [inner, inner * 3, *odd]


@given(st.one_of(st.binary(max_size=150), damaged(true_records)))
def test_bytes_are_records_or_a_protocol_error(data):
    with contextlib.suppress(ProtocolError):
        for message in decode_records(data):  # what was read can be looked at
            repr(message), message.born_host, message.store_host
    with contextlib.suppress(ProtocolError):
        check_record(data).topic  # noqa: B018


@given(st.binary(max_size=120), st.integers(0, 0xFFF))
def test_bytes_are_a_compressed_body_or_a_protocol_error(data, sys_flag):
    with contextlib.suppress(ProtocolError):
        decompress(data, sys_flag)


@given(st.one_of(texts, st.text(alphabet="0123456789abcdefABCDEF", max_size=64)))
def test_any_text_is_an_id_a_handle_or_refused(text):
    with contextlib.suppress(ConfigurationError, ProtocolError):
        decode_offset_message_id(text)
    with contextlib.suppress(ProtocolError):
        RecallHandle.decode(text)


@given(st.one_of(st.text(max_size=60), st.text(alphabet="ab=: \\\n\r\tu0#!", max_size=60)))
def test_any_text_is_java_properties(text):
    parse_properties(format_properties(parse_properties(text)))
