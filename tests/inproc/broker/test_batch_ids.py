# SPDX-License-Identifier: Apache-2.0
"""Batches as Java clients of both generations send them (golden frames) keep the id of each message, whatever they look like.

What Apache 5.4.0 makes of such a batch is in its golden commit log: each message with the properties that it came with, and nothing else.
4.9.7 appends the properties of the request's header to each; with those of a 5.4.0 client that is one UNIQ_KEY for all (Apache's 9416).
"""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from golden import GoldenFrame, frames
from inproc.broker.written_to import NOW_MS, Side
from interop.remoting import decode_header, split_frame
from sprocketmq.wire.records.batch import split_batch
from sprocketmq.wire.records.properties import UNIQ_KEY, get_property
from sprocketmq.wire.records.record import RecordView

BATCHES = frames(code=320, kind="request")


def name_of(frame: GoldenFrame) -> str:
    return frame.file.removeprefix("frames/").removesuffix("-320-request.bin")


def parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    kind, header, body = split_frame(data)
    return decode_header(kind, header), body


def with_body(data: bytes, body: bytes) -> bytes:
    """The frame with another body."""
    kind, header, _ = split_frame(data)
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def as_captured(body: bytes) -> bytes:
    return body


def long_and_mixed(body: bytes) -> bytes:
    return body * 40


def long_and_alike(body: bytes) -> bytes:
    """Messages that differ in body, UNIQ_KEY and KEYS alone."""
    return re.sub(rb"number\x01\d", b"number\x010", body.replace(b"TAGS\x01B", b"TAGS\x01A")) * 40


@pytest.mark.parametrize("bodies", [as_captured, long_and_mixed, long_and_alike])
@pytest.mark.parametrize("frame", BATCHES, ids=name_of)
def test_each_message_is_stored_with_the_properties_it_came_with(loop, frame, bodies):
    side = Side(loop)
    side.broker.topics.create_if_absent("golden", 4, NOW_MS)
    request, body = parts(frame.data)
    body = bodies(body)
    peer = side.feed(with_body(frame.data, body))
    assert not peer.closed
    stored = [RecordView(entry[3]) for entry in side.stored()]
    sent = split_batch(body)
    keys = [get_property(record.raw_properties, UNIQ_KEY) for record in stored]
    assert keys == [get_property(raw, UNIQ_KEY) for _, _, raw in sent]
    assert len(set(keys)) == len(split_batch(parts(frame.data)[1])) > 1
    assert [(record.flag, bytes(record.body), record.raw_properties) for record in stored] == sent
    assert [record.queue_offset for record in stored] == list(range(len(sent)))
    # The answer is about the batch: its own key, if it has one, not that of its first message.
    own = get_property(request["extFields"]["i"].encode(), UNIQ_KEY)
    assert (own is not None) is (frame.version == "5.4.0")
    [answer] = peer.answers()
    assert answer.ext_fields.get("transactionId") == own
