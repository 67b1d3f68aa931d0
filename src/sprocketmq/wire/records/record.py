# SPDX-License-Identifier: Apache-2.0
"""The message record: the bytes of the commit log and of the answers to pull, view and query (Java: CommitLog, MessageDecoder). Where
each field is: ``wire.records.record_layout``. Each function that writes stands next to the one that reads the same. Every decoder is
safe for hostile bytes: it raises only ProtocolError, and allocates no more than the size of its input (a compressed body:
``wire.records.compression``)."""

from __future__ import annotations

import copy
from typing import Any, Final

from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.records.batch import split_batch
from sprocketmq.wire.records.checksum import crc32
from sprocketmq.wire.records.compression import decompress as decompress_body
from sprocketmq.wire.records.message import MessageExt
from sprocketmq.wire.records.properties import MAX_PROPERTIES_BYTES
from sprocketmq.wire.records.record_layout import (
    BLANK_BYTES,
    BODY_CRC_MASK,
    HOSTS_V6,
    IPV6_BYTES,
    LAYOUTS,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_TOPIC_V1_BYTES,
    MAX_TOPIC_V2_BYTES,
    MIN_RECORD_BYTES,
    PROPERTIES_LENGTH,
    RECORD,
    SIZE_AND_MAGIC,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    V6_SHIFT,
    layout_of,
)
from sprocketmq.wire.records.sys_flag import BORNHOST_V6, COMPRESSED, NEED_UNWRAP, STOREHOSTADDRESS_V6, WRAPPED

_OPEN_FIRST: Final = COMPRESSED | NEED_UNWRAP

Buffer = bytes | bytearray | memoryview
Host = tuple[bytes, int]

_SIZE, _MAGIC, _SYS_FLAG = RECORD.index["size"], RECORD.index["magic"], RECORD.index["sys_flag"]
_BODY_LENGTH = RECORD.index["body_length"]
_SYS_FLAG_OF: Final = RECORD.subset("sys_flag").unpack_from
_STRUCTS: Final = tuple(layout.struct for layout in LAYOUTS)
_HEAD_SIZES: Final = tuple(layout.size for layout in LAYOUTS)
_BORN_V6, _STORE_V6 = BORNHOST_V6 >> V6_SHIFT, STOREHOSTADDRESS_V6 >> V6_SHIFT
_UNPACK_V4 = RECORD.struct.unpack_from
# The fields of a record with IPv4 hosts that a consumer always needs.
_FIRST_FIELDS: Final = ("size", "magic", "queue_id", "queue_offset", "sys_flag", "body_length")
_UNPACK_FIRST_FIELDS = RECORD.subset(*_FIRST_FIELDS).unpack_from
_BODY_AT: Final = RECORD.size
_TOPIC_AT: Final = RECORD.size + TOPIC_LENGTH_V1.size  # plus the body's length; V1
_BEHIND_MAGIC: Final = SIZE_AND_MAGIC.size
_PACK_AFTER_MAGIC = RECORD.after("magic").pack_into
_PACK_SIZE_MAGIC = SIZE_AND_MAGIC.pack_into
_LEAST_TAIL_BYTES: Final = MIN_RECORD_BYTES - RECORD.size
_PACK_PROPERTIES_LENGTH = PROPERTIES_LENGTH.pack
_new = object.__new__


def record_size(
    topic_bytes: int,
    body_bytes: int,
    properties_bytes: int,
    *,
    born_host_v6: bool = False,
    store_host_v6: bool = False,
) -> int:
    """Return the size of the record that :func:`encode_record` makes from parts of these sizes."""
    size = MIN_RECORD_BYTES + topic_bytes + body_bytes + properties_bytes + (topic_bytes > MAX_TOPIC_V1_BYTES)
    return size + _HEAD_SIZES[born_host_v6 * _BORN_V6 | store_host_v6 * _STORE_V6] - _BODY_AT


def encode_record(
    topic: bytes,
    body: Buffer,
    properties: bytes,
    *,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    born_timestamp_ms: int,
    born_host: Host,
    store_timestamp_ms: int,
    store_host: Host,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    version: int | None = None,
) -> bytes:
    """Return one record. The v6 bits of ``sys_flag`` are set according to the given hosts (address bytes, port). ``version``: 1 or
    2; None means 2 only if the topic needs it, as in a broker. Raises ProtocolError (topic or properties are too long for their
    length field)."""
    topic_bytes, properties_bytes, body_bytes = len(topic), len(properties), len(body)
    v2 = topic_bytes > MAX_TOPIC_V1_BYTES if version is None else version == 2
    most_topic_bytes = MAX_TOPIC_V2_BYTES if v2 else MAX_TOPIC_V1_BYTES
    if properties_bytes > MAX_PROPERTIES_BYTES or topic_bytes > most_topic_bytes:
        raise ProtocolError(
            f"a topic of {topic_bytes} and properties of {properties_bytes} bytes do not fit a record: at most "
            f"{most_topic_bytes} and {MAX_PROPERTIES_BYTES} are allowed"
        )
    born_ip, born_port = born_host
    store_ip, store_port = store_host
    v6 = (_BORN_V6 if len(born_ip) == IPV6_BYTES else 0) | (_STORE_V6 if len(store_ip) == IPV6_BYTES else 0)
    head = _STRUCTS[v6]
    topic_length = (TOPIC_LENGTH_V2 if v2 else TOPIC_LENGTH_V1).pack(topic_bytes)
    size = head.size + body_bytes + len(topic_length) + topic_bytes + PROPERTIES_LENGTH.size + properties_bytes
    return b"".join(
        (
            head.pack(
                size,
                MAGIC_V2 if v2 else MAGIC_V1,
                crc32(body) & BODY_CRC_MASK,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                (sys_flag & ~HOSTS_V6) | (v6 << V6_SHIFT),
                born_timestamp_ms,
                born_ip,
                born_port,
                store_timestamp_ms,
                store_ip,
                store_port,
                reconsume_times,
                prepared_transaction_offset,
                body_bytes,
            ),
            body,
            topic_length,
            topic,
            _PACK_PROPERTIES_LENGTH(properties_bytes),
            properties,
        )
    )


def write_ipv4_record(
    view: memoryview,
    at: int,
    size: int,
    topic_part: bytes,
    body: Buffer,
    properties: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: Host,
    store_timestamp_ms: int,
    store_host: Host,
    reconsume_times: int,
    prepared_transaction_offset: int,
) -> None:
    """Write the record of :func:`encode_record` into ``view`` at ``at``, its first eight bytes last: without them there is no
    record. Only for the common case, which the caller has checked: V1, both hosts IPv4 and no v6 bit in ``sys_flag``, all sizes
    within their limits. ``size`` is the ``record_size`` of these parts; ``topic_part`` is the length byte and the topic."""
    body_bytes = len(body)
    born_ip, born_port = born_host
    store_ip, store_port = store_host
    _PACK_AFTER_MAGIC(
        view,
        at + _BEHIND_MAGIC,
        crc32(body) & BODY_CRC_MASK,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp_ms,
        born_ip,
        born_port,
        store_timestamp_ms,
        store_ip,
        store_port,
        reconsume_times,
        prepared_transaction_offset,
        body_bytes,
    )
    body_at = at + _BODY_AT
    body_end = body_at + body_bytes
    view[body_at:body_end] = body
    view[body_end : at + size] = topic_part + _PACK_PROPERTIES_LENGTH(len(properties)) + properties
    _PACK_SIZE_MAGIC(view, at, size, MAGIC_V1)


def encode_blank(remaining_bytes: int) -> bytes:
    """Return the head of the blank that ends a commit log file. The rest of the ``remaining_bytes`` may have any content."""
    return SIZE_AND_MAGIC.pack(remaining_bytes, MAGIC_BLANK)


def blank_size(buffer: Buffer, at: int = 0) -> int:
    """Return the size of the blank at ``at``, 0 if there is none."""
    if at < 0 or len(buffer) - at < BLANK_BYTES:
        return 0
    size, magic = SIZE_AND_MAGIC.unpack_from(buffer, at)
    return size if magic == MAGIC_BLANK and size > 0 else 0


class RecordView:
    """One record in a buffer. The fixed fields are read at once; body, topic and properties when they are needed. The constructor checks
    that the lengths add up to the record's size, so nothing is read beyond it. Hosts are address bytes and port. Raises ProtocolError:
    there is no complete record at ``at``."""

    __slots__ = (
        "_body_at",
        "_body_end",
        "_buffer",
        "_properties_at",
        "_topic_at",
        "at",
        "body_crc",
        "born_host",
        "born_timestamp_ms",
        "flag",
        "magic",
        "physical_offset",
        "prepared_transaction_offset",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "size",
        "store_host",
        "store_timestamp_ms",
        "sys_flag",
    )

    def __init__(self, buffer: Buffer, at: int = 0) -> None:
        self._buffer, self.at = buffer, at
        end = len(buffer)
        if at < 0 or end - at < MIN_RECORD_BYTES:
            raise ProtocolError(
                f"{end - at} bytes at {at} cannot hold a record, which takes at least {MIN_RECORD_BYTES}"
            )
        (sys_flag,) = _SYS_FLAG_OF(buffer, at)
        head = _STRUCTS[(sys_flag & HOSTS_V6) >> V6_SHIFT]
        if end - at < head.size + _LEAST_TAIL_BYTES:
            raise ProtocolError(f"{end - at} bytes at {at} cannot hold a record with IPv6 hosts")
        (
            self.size,
            self.magic,
            self.body_crc,
            self.queue_id,
            self.flag,
            self.queue_offset,
            self.physical_offset,
            self.sys_flag,
            self.born_timestamp_ms,
            born_ip,
            born_port,
            self.store_timestamp_ms,
            store_ip,
            store_port,
            self.reconsume_times,
            self.prepared_transaction_offset,
            body_bytes,
        ) = head.unpack_from(buffer, at)
        self.born_host, self.store_host = (born_ip, born_port), (store_ip, store_port)
        self._body_at = at + head.size
        self._body_end, self._topic_at, self._properties_at = _tail(
            buffer, at, self.size, self.magic, self._body_at, body_bytes
        )

    @property
    def body(self) -> memoryview:
        """A view into the buffer; copy it with ``bytes()`` to keep it."""
        return memoryview(self._buffer)[self._body_at : self._body_end]

    @property
    def topic_bytes(self) -> bytes:
        return bytes(self._buffer[self._topic_at : self._properties_at - 2])

    @property
    def topic(self) -> str:
        """The topic. Raises ProtocolError if it is not UTF-8."""
        return _topic_text(self.topic_bytes)

    @property
    def raw_properties(self) -> bytes:
        """The properties in their text form: see ``wire.records.properties.get_property`` and ``decode_properties``."""
        return bytes(self._buffer[self._properties_at : self.at + self.size])

    @property
    def raw(self) -> memoryview:
        return memoryview(self._buffer)[self.at : self.at + self.size]

    def __repr__(self) -> str:
        return (
            f"RecordView(at={self.at}, size={self.size}, topic={self.topic_bytes!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, physical_offset={self.physical_offset})"
        )


def _tail(buffer: Buffer, at: int, size: int, magic: int, body_at: int, body_bytes: int) -> tuple[int, int, int]:
    """Return where the body ends, and where topic and properties start. Checks that these parts fill the record exactly."""
    if magic == MAGIC_V1:
        length_bytes = 1
    elif magic == MAGIC_V2:
        length_bytes = 2
    else:
        raise ProtocolError(f"magic {magic:#010x} at {at + 4} is not of a record ({MAGIC_V1:#x} or {MAGIC_V2:#x})")
    record_end = at + size
    if size < MIN_RECORD_BYTES or record_end > len(buffer):
        raise ProtocolError(f"a record of {size} bytes at {at} does not fit the {len(buffer) - at} bytes from there")
    topic_at = body_at + body_bytes + length_bytes
    if body_bytes < 0 or topic_at + 2 > record_end:
        raise ProtocolError(f"a body of {body_bytes} bytes does not fit the record of {size} bytes at {at}")
    topic_bytes = buffer[topic_at - 1] if length_bytes == 1 else (buffer[topic_at - 2] << 8) | buffer[topic_at - 1]
    properties_at = topic_at + topic_bytes + 2
    if properties_at > record_end:
        raise ProtocolError(f"a topic of {topic_bytes} bytes does not fit the record of {size} bytes at {at}")
    properties_bytes = (buffer[properties_at - 2] << 8) | buffer[properties_at - 1]
    if properties_at + properties_bytes != record_end:
        raise ProtocolError(f"the parts of the record at {at} do not add up to its {size} bytes")
    return topic_at - length_bytes, topic_at, properties_at


def record_parts(buffer: Buffer, at: int = 0) -> tuple[tuple[Any, ...], memoryview, bytes]:
    """Head, body (a view) and raw properties of the record at ``at``, in a third of the time of a RecordView. The head: the fixed fields
    in their order, each host as address bytes and port. Raises ProtocolError: there is no complete record at ``at``."""
    end = len(buffer) - at
    if at >= 0 and end >= MIN_RECORD_BYTES:
        head = _UNPACK_V4(buffer, at)
        size, topic_at = head[_SIZE], _TOPIC_AT + head[_BODY_LENGTH]
        # As in decode_records: records of the common form; RecordView handles the others.
        if (
            head[_MAGIC] == MAGIC_V1
            and not head[_SYS_FLAG] & HOSTS_V6
            and _BODY_AT < topic_at <= size - 2
            and size <= end
            and (properties_at := topic_at + buffer[at + topic_at - 1] + 2) <= size
            and properties_at + (buffer[at + properties_at - 2] << 8 | buffer[at + properties_at - 1]) == size
        ):
            view = memoryview(buffer)
            return head, view[at + _BODY_AT : at + topic_at - 1], bytes(view[at + properties_at : at + size])
    record = RecordView(buffer, at)
    head = layout_of(record.sys_flag).struct.unpack_from(buffer, at)
    return head, record.body, record.raw_properties


def _topic_text(topic: bytes) -> str:
    try:
        return topic.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the topic {topic!r} is not UTF-8") from error


def check_record(buffer: Buffer, at: int = 0, check_crc: bool = True) -> RecordView:
    """Check the record at ``at`` (magic, sizes and, if requested, the body's checksum) and return it. Raises ProtocolError: the
    record is invalid; the message says why."""
    view = RecordView(buffer, at)
    if check_crc:
        crc = crc32(view.body) & BODY_CRC_MASK
        # Java writes the masked value, and accepts only that.
        if crc != view.body_crc:
            raise ProtocolError(
                f"the body of the record at {at} has checksum {crc:#x}, the record says {view.body_crc:#x}"
            )
    return view


def decode_record(buffer: Buffer, broker_name: str = "", decompress: bool = True) -> MessageExt:
    """Decode the record at the beginning of ``buffer`` into a message. See :func:`decode_records`."""
    return decode_records(RecordView(buffer, 0).raw, broker_name, decompress)[0]


def decode_records(
    buffer: Buffer,
    broker_name: str = "",
    decompress: bool = True,
    *,
    queue_id: int | None = None,
    more_properties: bytes = b"",
    unreadable: list[tuple[MessageExt, Exception]] | None = None,
) -> list[MessageExt]:
    """Decode consecutive records, as in the answer to a pull, into messages. Checksums are not checked: TCP and the broker have done so.

    Args:
        broker_name: set in each message; a record does not contain it.
        decompress: decompress bodies, and clear COMPRESSED (not the type bits) in ``sys_flag``; return the messages of an inner batch (5.x
            topics of queue.type BatchCQ) one by one, and clear NEED_UNWRAP. A body that cannot be opened stays as it is, with its bit set,
            so that one bad message does not stop the others of its queue.
        queue_id: set in each message instead of the record's; None keeps the record's.
        more_properties: appended to the properties of each message, in their text form, when they are first read.
        unreadable: called with each message whose body cannot be opened, and the reason.
    Raises:
        ProtocolError: the bytes are not complete records, or other bytes follow them. Nothing is skipped.
        ConfigurationError: a body needs a decompressor that is not installed, and there is no ``unreadable``.
    """
    # A slice of bytes takes half the time of a slice of a view.
    data = buffer if isinstance(buffer, bytes) else bytes(buffer)
    messages: list[MessageExt] = []
    at, end = 0, len(data)
    topic_part, topic_part_bytes, topic = b"\0", 1, ""  # length byte and topic of the record before
    while end - at >= MIN_RECORD_BYTES:
        size, magic, own_queue_id, queue_offset, sys_flag, body_bytes = _UNPACK_FIRST_FIELDS(data, at)
        record_end, topic_at = at + size, at + _TOPIC_AT + body_bytes
        # Records of the common form: V1, IPv4, complete, parts that add up. RecordView handles the others.
        if (
            magic == MAGIC_V1
            and not sys_flag & HOSTS_V6
            and body_bytes >= 0
            and topic_at <= record_end - 2
            and record_end <= end
            and (properties_at := topic_at + data[topic_at - 1] + 2) <= record_end
            and properties_at + (data[properties_at - 2] << 8 | data[properties_at - 1]) == record_end
        ):
            if properties_at - topic_at - 1 != topic_part_bytes or not data.startswith(topic_part, topic_at - 1):
                topic_part, topic_part_bytes = data[topic_at - 1 : properties_at - 2], properties_at - topic_at - 1
                topic = _topic_text(topic_part[1:])
            message = _new(MessageExt)
            message.topic = topic
            message.body = data[at + _BODY_AT : topic_at - 1]
            message._raw_properties = data[properties_at:record_end]
            message._head = data[at : at + _BODY_AT]
            message.queue_offset = queue_offset
            message.transaction_id = message._text = None
        else:
            message = _decode_any_record(data, at)
        message.queue_id = own_queue_id if queue_id is None else queue_id
        message.broker_name = broker_name
        message._more_properties = more_properties
        if sys_flag & _OPEN_FIRST and decompress:
            messages += _opened(message, unreadable)
        else:
            messages.append(message)
        at += size
    if at != end:
        raise ProtocolError(f"{end - at} bytes follow the last whole record")
    return messages


def _decode_any_record(data: bytes, at: int) -> MessageExt:
    view = RecordView(data, at)
    message = _new(MessageExt)
    message.topic = view.topic
    message.body = bytes(view.body)
    message._raw_properties = view.raw_properties
    message._head = data[at : at + layout_of(view.sys_flag).size]
    message.queue_offset = view.queue_offset
    message.transaction_id = message._text = None
    return message


def _opened(message: MessageExt, unreadable: list[tuple[MessageExt, Exception]] | None) -> list[MessageExt]:
    try:
        if message.sys_flag & COMPRESSED:
            message.body = decompress_body(message.body, message.sys_flag)
            message.sys_flag &= ~COMPRESSED
        if message.sys_flag & WRAPPED == WRAPPED:
            return _unwrapped(message)
    except (ProtocolError, ConfigurationError) as error:
        if unreadable is not None:
            unreadable.append((message, error))
        elif isinstance(error, ConfigurationError):
            raise
    return [message]  # its bit is still set: the body is not opened


def _unwrapped(batch: MessageExt) -> list[MessageExt]:
    """Return the messages of an inner batch: consecutive queue offsets, all other fields from the record (MessageDecoder.decodeMessage)."""
    messages = []
    for index, (flag, body, raw_properties) in enumerate(split_batch(batch.body)):
        message = copy.copy(batch)
        message.flag, message.body, message._raw_properties = flag, body, raw_properties
        message.queue_offset = batch.queue_offset + index
        message.sys_flag = batch.sys_flag & ~NEED_UNWRAP
        messages.append(message)
    return messages
