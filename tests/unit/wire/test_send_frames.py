# SPDX-License-Identifier: Apache-2.0
"""The frames of a send from a template are those of ``encode_command``, and its answers are read as by ``decode_command``."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import example, given

from decoded_frames import decoded
from golden import VERSIONS, frames
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.frames.acl_signature import Credentials, signed_fields
from sprocketmq.wire.frames.command import FLAG_RESPONSE, Command, decode_command, encode_command
from sprocketmq.wire.frames.frame import FrameDecoder
from sprocketmq.wire.headers import PullMessageResponseHeader
from sprocketmq.wire.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from sprocketmq.wire.send_frames import STORED_ANSWER_BEGINS, SendTemplate, StoredAnswer, read_stored_answer

# Any text but lone surrogates, which no header can carry.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
int32 = st.integers(-(2**31), 2**31 - 1)


# Keys and token, or none; the fields of a namespace, or none.
signed_with = st.one_of(
    st.none(), st.builds(Credentials, texts.filter(bool), texts.filter(bool), st.none() | texts.filter(bool))
)
namespaces = st.one_of(st.just({}), st.builds(lambda name: {"nsd": "true", "ns": name}, texts))


@given(
    st.sampled_from([310, 320, 325]),
    st.tuples(texts, texts, texts, texts),
    st.lists(st.tuples(int32, st.integers(0, 2**63 - 1), int32, texts, st.binary(max_size=9), int32), min_size=1),
    st.booleans(),
    st.booleans(),
    signed_with,
    namespaces,
)
@example(310, ("100%d", "%DLQ%a", "%%", 'b"r\\o'), [(8, 1, 7, "a\x01%s\x02ü", b"", 2**31 - 1)], True, False, None, {})
@example(
    310,
    ("100%d", "%DLQ%a", "%%", 'b"r\\o'),
    [(8, 1, 7, "a\x01%s\x02ü", b"", 2**31 - 1), (0, 0, 0, "", b"%d", 0)],
    True,
    False,
    Credentials("%s", "%d", 'to"ken%'),
    {"nsd": "true", "ns": "%d"},
)
def test_a_template_writes_what_the_command_would_be(code, names, messages, unit_mode, batch, keys, added):
    group, topic, default_topic, broker = names

    def header(sys_flag: int, born_ms: int, flag: int, properties: str) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            group, topic, default_topic, 4, 3, sys_flag, born_ms, flag, properties, 0, unit_mode, None, batch, broker
        )

    template = SendTemplate(code, header(1, 2, 3, "of another message"), added, keys)
    for sys_flag, born_ms, flag, properties, body, opaque in messages:
        fields = {**header(sys_flag, born_ms, flag, properties).to_ext(), **added}
        if keys is not None:
            fields = signed_fields(fields, body, keys.access_key, keys.secret_key, keys.security_token)
        command = Command(code, opaque, ext_fields=fields, body=body)
        assert template.frame(opaque, sys_flag, born_ms, flag, properties, body) == encode_command(command)


SIGNED_SENDS = [frame for frame in frames(kind="request", sender="client") if frame.shows.endswith("signed")]


@pytest.mark.parametrize("sent", SIGNED_SENDS, ids=lambda frame: frame.file.removeprefix("frames/"))
def test_a_template_signs_a_java_clients_send_as_that_client_did(sent):
    """The access control of Apache's brokers took these frames."""
    (java,) = decoded(FrameDecoder(), sent.data)
    header = java.header(SendMessageRequestHeaderV2)
    assert {*header.to_ext(), "AccessKey", "Signature"} == {*java.ext_fields}, (
        "the template has all fields that were signed"
    )
    other = msgspec.structs.replace(header, sys_flag=8, born_timestamp=1, flag=7, properties="of another message")
    template = SendTemplate(java.code, other, credentials=Credentials("someone", "12345678"))
    of_header = header.sys_flag, header.born_timestamp, header.flag, header.properties or ""
    (ours,) = decoded(FrameDecoder(), template.frame(java.opaque, *of_header, bytes(java.body)))
    assert ours.ext_fields == java.ext_fields
    assert (ours.code, ours.opaque, ours.body) == (java.code, java.opaque, java.body)


def framed(header: bytes, body: bytes = b"", kind: int = 0) -> memoryview:
    return memoryview(bytes([kind]) + len(header).to_bytes(3, "big") + header + body)


def read_alone(frame: memoryview) -> StoredAnswer | None:
    """As from the middle of a read."""
    return read_stored_answer(memoryview(b"before" + frame + b"behind"), 6, 6 + len(frame))


def read_the_long_way(frame: memoryview) -> SendMessageResponseHeader | None:
    """The header of a stored answer; None for anything else."""
    try:
        command = decode_command(frame)
        if command.code or not command.flag & FLAG_RESPONSE:
            return None
        return command.header(SendMessageResponseHeader)
    except ProtocolError:
        return None


values = st.one_of(texts, int32.map(str), int32, st.booleans(), st.none())
fields = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ["msgId", "queueId", "queueOffset", "transactionId", "batchUniqId", "recallHandle", "TRACE_ON"], values
    ),
)


@given(
    st.fixed_dictionaries(
        {"code": st.sampled_from([0, 10, None])},
        optional={
            "extFields": fields,
            "flag": st.sampled_from([0, 1, 3, None]),
            "opaque": st.one_of(int32, st.none(), texts),
            "language": texts,
            "remark": texts | st.none(),
        },
    ),
    st.binary(max_size=2),
    st.sampled_from([0, 0, 0, 1]),
)
def test_an_answer_is_read_as_by_decode_command_or_not_at_all(header, body, kind):
    frame = framed(msgspec.json.encode(header), body, kind)
    answer = read_alone(frame)
    if answer is not None:
        assert answer.extFields == read_the_long_way(frame)
        assert answer.opaque == decode_command(frame).opaque


def stored(**more: str) -> Command:
    ext = {
        "queueId": "3",
        "TRACE_ON": "true",
        "MSG_REGION": "DefaultRegion",
        "msgId": "0A",
        "queueOffset": "77",
        **more,
    }
    return Command(0, 5, flag=1, ext_fields=ext)


@pytest.mark.parametrize("language", ["JAVA", "PYTHON"])
def test_the_answers_of_brokers_are_read_here(language):
    command = stored(transactionId="T1", recallHandle="again")
    command.language = language
    frame = encode_command(command)
    assert frame[16:20] == STORED_ANSWER_BEGINS
    header = SendMessageResponseHeader("0A", 3, 77, "T1", None, "again")
    assert read_alone(memoryview(frame)[4:]) == StoredAnswer(0, header, 1, 5)


@pytest.mark.parametrize(
    "command",
    [
        Command(10, 5, flag=1, ext_fields=stored().ext_fields),
        Command(0, 5, flag=0, ext_fields=stored().ext_fields),
        Command(0, 5, flag=1, ext_fields=stored().ext_fields, body=b"x"),
        Command(0, 5, flag=1, ext_fields=stored().ext_fields, serialize_type=1),
        Command(0, 5, flag=1, ext_fields=PullMessageResponseHeader(0, 1, 2, 3).to_ext()),
        stored(queueOffset="many"),
    ],
    ids=["stored, but", "a request", "with a body", "a binary header", "of a pull", "no number"],
)
def test_any_other_frame_is_left_to_decode_command(command):
    assert read_alone(memoryview(encode_command(command))[4:]) is None


def test_bytes_that_are_no_frame_are_left_to_decode_command():
    for frame in (
        framed(b'{"code":0,"extFields":{'),
        framed(b"\xff\xff"),
        memoryview(b"\0\0\1\0{}"),
        memoryview(b"\0\0"),
    ):
        assert read_alone(frame) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_what_apaches_brokers_answered_to_sends_is_read_here(version):
    answers = [
        frame for code in (310, 320) for frame in frames(version=version, code=code, kind="response", serialize="JSON")
    ]
    read = 0
    for answered in answers:
        frame = memoryview(answered.data)[4:]
        header = read_the_long_way(frame)
        if header is None:
            continue
        assert bytes(frame[12:16]) == STORED_ANSWER_BEGINS
        answer = read_alone(frame)
        assert answer is not None
        assert answer.extFields == header
        read += 1
    assert read >= 2, "a plain send and a batch"
