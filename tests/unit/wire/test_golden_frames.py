# SPDX-License-Identifier: Apache-2.0
"""Everything that Apache RocketMQ 4.9 and 5.4 put on the wire in the captures is understood field by field, and written back the same."""

from __future__ import annotations

from typing import Any

import pytest

from decoded_frames import decoded
from golden import GoldenFrame, frames
from interop.remoting import decode_header, split_frame
from sprocketmq.wire import headers, requests
from sprocketmq.wire.bodies import Body
from sprocketmq.wire.frames.command import Command, encode_command
from sprocketmq.wire.frames.frame import FrameDecoder
from sprocketmq.wire.headers import ExtHeader
from sprocketmq.wire.records.batch import encode_batch, split_batch
from sprocketmq.wire.records.message import Message
from sprocketmq.wire.records.properties import decode_properties, encode_properties
from sprocketmq.wire.records.record import RecordView, check_record, decode_records, encode_record
from sprocketmq.wire.requests.declaration import MessageBody, Records
from sprocketmq.wire.text import fastjson

# Ext fields of no header of ours: proxies' and static topics' (bname, lo), 5.x's request type, a signature, and what has no class in Java
# too.
SIGNATURE = {"AccessKey", "Signature"}
BESIDE = {"bname", "lo", "ReqT", "_UNIQUE_KEY_QUERY", "indexType", "lastKey", "MSG_REGION", "TRACE_ON", *SIGNATURE}

FRAMES = frames()
DECLARED = {int(one.code): one for one in requests.declared()}
NO_JSON = (Records, MessageBody)


def _id(frame: GoldenFrame) -> str:
    return frame.file.removeprefix("frames/").removesuffix(".bin")


def _command(frame: GoldenFrame) -> Command:
    (command,) = decoded(FrameDecoder(), frame.data)
    return command


def _said(frame: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and body, by a decoder that is not ours."""
    kind, raw_header, body = split_frame(frame)
    header = decode_header(kind, raw_header)
    # Java writes an empty ext map where a header class has no value. Under ROCKETMQ it reads a value of no bytes as null, which is
    # "not given" (RocketMQSerializable.readStr).
    fields = {name: value for name, value in (header.get("extFields") or {}).items() if value or not kind}
    return {**header, "extFields": fields}, body


def _header_type(frame: GoldenFrame) -> type[ExtHeader] | None:
    """An answer has one when it succeeded, and a pull's in all four outcomes."""
    if frame.kind == "request":
        return DECLARED[frame.code].header
    succeeded = frame.response_code == 0 or (frame.code == 11 and frame.response_code in (19, 20, 21))
    return DECLARED[frame.code].answer_header if succeeded else None


def _body_type(frame: GoldenFrame) -> type[Body] | None:
    return DECLARED[frame.code].body if frame.kind == "request" else DECLARED[frame.code].answer_body


@pytest.mark.parametrize("frame", FRAMES, ids=_id)
def test_a_java_frame_is_read_as_another_decoder_reads_it_and_written_back_equal(frame):
    command = _command(frame)
    header, body = _said(frame.data)
    assert (command.code, command.opaque, command.flag) == (header["code"], header["opaque"], header["flag"])
    assert (command.remark, command.ext_fields) == (header.get("remark"), header["extFields"])
    assert bytes(command.body) == body
    assert _said(encode_command(command)) == (header, body)


@pytest.mark.parametrize("frame", FRAMES, ids=_id)
def test_every_ext_field_of_a_java_frame_is_known(frame):
    command, header_type = _command(frame), _header_type(frame)
    if header_type is None:
        assert set(command.ext_fields) <= BESIDE, "ext fields, but no header type"
        return
    header = command.header(header_type)
    unknown = set(command.ext_fields) - set(header_type.__struct_encode_fields__)
    assert unknown <= BESIDE
    # What Java wrote is what we write for the same header; where Java wrote nothing we may write the default.
    ours = header.to_ext()
    assert {name: ours.get(name) for name in command.ext_fields if name not in unknown} == {
        name: value for name, value in command.ext_fields.items() if name not in unknown
    }
    required = header_type.__struct_fields__[: -len(header_type.__struct_defaults__) or None]
    defaults = header_type(**{name: getattr(header, name) for name in required}).to_ext()
    assert {name: defaults.get(name) for name in ours.keys() - command.ext_fields.keys()} == {
        name: value for name, value in ours.items() if name not in command.ext_fields
    }


@pytest.mark.parametrize("frame", [one for one in FRAMES if _body_type(one) not in (None, *NO_JSON)], ids=_id)
def test_a_java_json_body_is_read_and_written_back_equal(frame):
    body_type = _body_type(frame)
    data = bytes(_command(frame).body)
    if not data:
        assert frame.kind == "response"
        return
    body = body_type.decode(data)
    assert body_type.decode(body.encode()) == body
    assert _missing(fastjson.loads(data), fastjson.loads(body.encode()), frame.code) == []


# Of 5.x only: static topics, POP, and what we have no use for.
_IGNORED = {"topicQueueMappingDetailMap", "topicQueueMappingInfoMap", "mappingDataVersion", "topicQueueMappingByBroker"}


def _missing(java: Any, ours: Any, code: int, path: str = "$") -> list[str]:
    """Every value of the Java body that ours does not say, in whatever order a set came."""
    if isinstance(java, dict) and isinstance(ours, dict):
        ours_by_text = {str(key): value for key, value in ours.items()}
        found: list[str] = []
        for key, value in java.items():
            if key in _IGNORED:
                continue
            place = f"{path}.{key}"
            if str(key) not in ours_by_text:
                found.append(place)
            else:
                found += _missing(value, ours_by_text[str(key)], code, place)
        return found
    if isinstance(java, list) and isinstance(ours, list) and len(java) == len(ours):
        if all(isinstance(item, str | int) for item in java):
            java, ours = sorted(java), sorted(ours)
        return [
            place
            for n, (a, b) in enumerate(zip(java, ours, strict=True))
            for place in _missing(a, b, code, f"{path}[{n}]")
        ]
    return [] if java == ours else [f"{path}: {java!r} != {ours!r}"]


@pytest.mark.parametrize("frame", [frame for frame in FRAMES if _body_type(frame) is Records], ids=_id)
def test_java_records_are_read_and_written_back_byte_for_byte(frame):
    data = bytes(_command(frame).body)
    at, views = 0, list[RecordView]()
    while at < len(data):
        views.append(check_record(data, at))
        at += views[-1].size
    assert b"".join(_encoded(view) for view in views) == data
    messages = decode_records(data)
    assert [message.commit_log_offset for message in messages] == [view.physical_offset for view in views]
    for message in messages:
        assert message.body.startswith((b"number ", b"big ", b"answer", b"yes")) or message.topic.startswith("RMQ_SYS")
        assert message.properties["UNIQ_KEY"] == message.message_id


def _encoded(view: RecordView) -> bytes:
    return encode_record(
        view.topic_bytes,
        view.body,
        view.raw_properties,
        queue_id=view.queue_id,
        flag=view.flag,
        queue_offset=view.queue_offset,
        physical_offset=view.physical_offset,
        sys_flag=view.sys_flag,
        born_timestamp_ms=view.born_timestamp_ms,
        born_host=view.born_host,
        store_timestamp_ms=view.store_timestamp_ms,
        store_host=view.store_host,
        reconsume_times=view.reconsume_times,
        prepared_transaction_offset=view.prepared_transaction_offset,
    )


@pytest.mark.parametrize("frame", frames(code=320, kind="request"), ids=_id)
def test_a_java_batch_is_split_and_written_back_byte_for_byte(frame):
    data = bytes(_command(frame).body)
    elements = split_batch(data)
    assert len(elements) > 1
    messages = []
    for flag, body, raw in elements:
        message = Message("golden", body, flag=flag)
        message.properties.update(decode_properties(raw))
        messages.append(message)
    if frame.version == "4.9.7":  # leaves out the last separator of the properties
        assert [(flag, body, raw + b"\x02") for flag, body, raw in elements] == split_batch(encode_batch(messages))
    else:
        assert encode_batch(messages) == data


@pytest.mark.parametrize("frame", frames(code=310, kind="request"), ids=_id)
def test_java_properties_are_read_and_written_back_byte_for_byte(frame):
    header = _command(frame).header(headers.SendMessageRequestHeaderV2)
    assert header.properties is not None
    properties = decode_properties(header.properties.encode())
    assert "UNIQ_KEY" in properties
    last = "\x02" if frame.version == "4.9.7" else ""  # 4.9 leaves out the last separator
    assert encode_properties(properties).decode() == header.properties + last


def test_no_body_is_left_unread():
    assert [_id(frame) for frame in FRAMES if _command(frame).body and _body_type(frame) is None] == []
