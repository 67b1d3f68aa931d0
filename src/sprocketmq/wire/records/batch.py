# SPDX-License-Identifier: Apache-2.0
"""The body of SEND_BATCH_MESSAGE (Java: MessageDecoder.encodeMessages / decodeMessages). An element is ``ELEMENT``, the body, the length
of the properties as in a record, and the properties, without padding. Topic, sysFlag and born timestamp are in the request header.
Bodies of elements are never compressed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.layout import Layout
from sprocketmq.wire.records.message import Message
from sprocketmq.wire.records.properties import encode_text
from sprocketmq.wire.records.record_layout import PROPERTIES_LENGTH

ELEMENT: Final = Layout(
    ("size", "i"),  # of the whole element
    ("magic", "i"),  # 0, not read
    ("body_crc", "i"),  # 0, not read
    ("flag", "i"),
    ("body_length", "i"),
)
_HEAD: Final = ELEMENT.struct
_INT16: Final = PROPERTIES_LENGTH
EMPTY_ELEMENT_BYTES: Final = _HEAD.size + _INT16.size
"""What an element takes beside body and properties."""
_SIZE: Final = ELEMENT.subset("size").unpack_from
_PACK_HEAD: Final = _HEAD.pack
_PACK_INT16: Final = _INT16.pack

Buffer = bytes | bytearray | memoryview


def batch_element_size(body_bytes: int, properties_bytes: int) -> int:
    """Return the bytes that one message takes in a batch body, so that a sender can keep its batches below the broker's limit."""
    return EMPTY_ELEMENT_BYTES + body_bytes + properties_bytes


def encode_batch(messages: Iterable[Message]) -> bytes:
    """Return the batch body. The producer checks whether the messages may be in one batch (one topic, no delay, ...)."""
    rows = [(message.flag, message.body, encode_text(message.properties_text)) for message in messages]
    return join_elements(*zip(*rows, strict=True)) if rows else b""


def join_elements(flags: Iterable[int], bodies: Sequence[bytes], properties: Sequence[bytes]) -> bytes:
    """The body of a batch of messages with these flags, bodies and encoded properties (at most 32,767 bytes each). By columns: a loop
    takes several times as long."""
    body_bytes, properties_bytes = list(map(len, bodies)), list(map(len, properties))
    sizes = [EMPTY_ELEMENT_BYTES + one + other for one, other in zip(body_bytes, properties_bytes, strict=True)]
    parts = [b""] * (4 * len(sizes))
    parts[0::4] = map(_PACK_HEAD, sizes, repeat(0), repeat(0), flags, body_bytes)
    parts[1::4] = bodies
    parts[2::4] = map(_PACK_INT16, properties_bytes)
    parts[3::4] = properties
    return b"".join(parts)


def has_more_elements(body: Buffer, most: int) -> bool:
    """Whether a batch has more than ``most`` elements. Reads only as many sizes as needed; an invalid element ends the count:
    ``split_batch`` refuses it."""
    at, end = 0, len(body)
    if end <= most * EMPTY_ELEMENT_BYTES:
        return False
    for _ in range(most):
        if at > end - EMPTY_ELEMENT_BYTES:
            return False
        (size,) = _SIZE(body, at)
        if size < EMPTY_ELEMENT_BYTES:
            return False
        at += size
    return at < end


def split_batch(body: Buffer) -> list[tuple[int, bytes, bytes]]:
    """``(flag, body, raw properties)`` of each element. Raises ProtocolError, before anything is returned: the elements do not fill the
    body exactly."""
    data = body if isinstance(body, bytes) else bytes(body)
    elements: list[tuple[int, bytes, bytes]] = []
    at, end = 0, len(data)
    while at < end:
        if end - at < EMPTY_ELEMENT_BYTES:
            raise ProtocolError(f"{end - at} bytes follow the last whole element of a batch")
        size, _, _, flag, body_bytes = _HEAD.unpack_from(data, at)
        body_at = at + _HEAD.size
        properties_at = body_at + body_bytes + 2
        if body_bytes < 0 or properties_at > end:
            raise ProtocolError(f"a batch element at {at} has a body of {body_bytes} bytes, {end - body_at} are left")
        element_end = properties_at + ((data[properties_at - 2] << 8) | data[properties_at - 1])
        if element_end > end or element_end - at != size:
            raise ProtocolError(f"the parts of the batch element at {at} do not add up to its {size} bytes")
        elements.append((flag, data[body_at : properties_at - 2], data[properties_at:element_end]))
        at = element_end
    return elements
