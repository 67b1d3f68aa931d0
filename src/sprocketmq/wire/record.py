"""The message record: the bytes of the commit log and of the answers to pull, view and query (Java: CommitLog, MessageDecoder).

All integers are big-endian; offsets are those with both hosts IPv4, an IPv6 host (sysFlag 0x10 born, 0x20 store) adds 12 bytes each::

     0 size          i32   of the whole record            40 born timestamp   i64  ms
     4 magic         u32   V1 or V2                       48 born host        4 or 16 address bytes, i32 port
     8 body crc      i32   crc32 & 0x7FFFFFFF             56 store timestamp  i64  ms
    12 queue id      i32                                  64 store host       4 or 16 address bytes, i32 port
    16 flag          i32   the application's              72 reconsume times  i32
    20 queue offset  i64                                  76 prepared transaction offset  i64
    28 physical      i64   offset of this record          84 body length      i32, body
    36 sysFlag       i32                                   - topic length     u8 (V1) or i16 (V2), topic
                                                           - properties length  i16, properties

V2 exists for topics longer than 127 bytes and is unknown to 4.9. A filler ends a commit log file: ``i32 what remains, u32 BLANK``.

Every decoder here takes hostile bytes: ProtocolError is all that comes out of them, and nothing larger than the input is allocated
(a compressed body is limited by ``wire.compression``).
"""

from __future__ import annotations

import copy
import struct
import zlib
from typing import Any, Final
from zlib import crc32

from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.batch import split_batch
from sprocketmq.wire.compression import decompress as decompress_body
from sprocketmq.wire.message import MessageExt
from sprocketmq.wire.record_head import HEADS, HOSTS_V6
from sprocketmq.wire.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP

__all__ = [
    "BLANK_BYTES",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "MIN_RECORD_BYTES",
    "Host",
    "RecordFields",
    "RecordView",
    "blank_size",
    "check_record",
    "decode_record",
    "decode_records",
    "encode_blank",
    "encode_record",
    "record_parts",
    "record_size",
    "write_plain_record",
]

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
MIN_RECORD_BYTES: Final = 91
BLANK_BYTES: Final = 8
MAX_TOPIC_V1_BYTES: Final = 127
_MAX_INT16: Final = 32_767
_WRAPPED: Final = NEED_UNWRAP | INNER_BATCH
_OPEN_FIRST: Final = COMPRESSED | NEED_UNWRAP
_CRC_MASK: Final = 0x7FFFFFFF
_IPV6_EXTRA: Final = 12

Buffer = bytes | bytearray | memoryview
Host = tuple[bytes, int]


class RecordFields:
    """Byte offsets of the fixed fields, for code that reads or patches them in place. From STORE_TIMESTAMP on: both hosts IPv4."""

    SIZE: Final = 0
    MAGIC: Final = 4
    BODY_CRC: Final = 8
    QUEUE_ID: Final = 12
    FLAG: Final = 16
    QUEUE_OFFSET: Final = 20
    PHYSICAL_OFFSET: Final = 28
    SYS_FLAG: Final = 36
    BORN_TIMESTAMP: Final = 40
    BORN_HOST: Final = 48
    STORE_TIMESTAMP: Final = 56
    STORE_HOST: Final = 64
    RECONSUME_TIMES: Final = 72
    PREPARED_TRANSACTION_OFFSET: Final = 76
    BODY_LENGTH: Final = 84
    BODY: Final = 88


_SIZE_MAGIC: Final = struct.Struct(">iI")
_TOPIC_V1: Final = struct.Struct(">B")
_INT16: Final = struct.Struct(">H")
_SYS_FLAG: Final = struct.Struct(">i")
_UNPACK_V4 = HEADS[0].unpack_from
# Of a V1 record with IPv4 hosts what a consumer needs at once: size, magic, queue id, queue offset, sysFlag, length of the body.
_UNPACK_BRIEFLY = struct.Struct(">iI4xi4xq8xi44xi").unpack_from
_PACK_BEHIND_MAGIC = struct.Struct(">Iiiqqiq4sIq4sIiqi").pack_into
_PACK_SIZE_MAGIC = _SIZE_MAGIC.pack_into
_new = object.__new__


def record_size(
    topic_bytes: int,
    body_bytes: int,
    properties_bytes: int,
    *,
    born_host_v6: bool = False,
    store_host_v6: bool = False,
) -> int:
    """Bytes of the record that :func:`encode_record` makes of parts of these sizes."""
    size = MIN_RECORD_BYTES + topic_bytes + body_bytes + properties_bytes + (topic_bytes > MAX_TOPIC_V1_BYTES)
    return size + (_IPV6_EXTRA if born_host_v6 else 0) + (_IPV6_EXTRA if store_host_v6 else 0)


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
    """One record. The v6 bits of ``sys_flag`` are set by the hosts (address bytes, port) given, whatever they were.

    Args:
        version: 1 or 2; None takes 2 only where the topic needs it, as a broker does.

    Raises:
        ProtocolError: topic or properties do not fit their length field.
    """
    topic_bytes, properties_bytes, body_bytes = len(topic), len(properties), len(body)
    v2 = topic_bytes > MAX_TOPIC_V1_BYTES if version is None else version == 2
    if properties_bytes > _MAX_INT16 or topic_bytes > (_MAX_INT16 if v2 else MAX_TOPIC_V1_BYTES):
        raise ProtocolError(
            f"a topic of {topic_bytes} and properties of {properties_bytes} bytes do not fit a record: at most "
            f"{_MAX_INT16 if v2 else MAX_TOPIC_V1_BYTES} and {_MAX_INT16} are allowed"
        )
    born_ip, born_port = born_host
    store_ip, store_port = store_host
    v6 = (1 if len(born_ip) == 16 else 0) | (2 if len(store_ip) == 16 else 0)
    head = HEADS[v6]
    topic_length = _INT16.pack(topic_bytes) if v2 else _TOPIC_V1.pack(topic_bytes)
    size = head.size + body_bytes + len(topic_length) + topic_bytes + 2 + properties_bytes
    return b"".join(
        (
            head.pack(
                size,
                MAGIC_V2 if v2 else MAGIC_V1,
                zlib.crc32(body) & _CRC_MASK,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                (sys_flag & ~HOSTS_V6) | (v6 << 4),
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
            _INT16.pack(properties_bytes),
            properties,
        )
    )


def write_plain_record(
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
) -> None:
    """The record of :func:`encode_record` straight into ``view`` at ``at``, its first eight bytes last: before them it does not exist.

    For the common case, known to the caller: V1, both hosts IPv4 and no v6 bit in ``sys_flag``, no prepared transaction, everything
    within its limit, ``size`` = ``record_size`` of these parts; ``topic_part`` is the topic behind its length byte.
    """
    body_bytes = len(body)
    born_ip, born_port = born_host
    store_ip, store_port = store_host
    _PACK_BEHIND_MAGIC(
        view,
        at + 8,
        crc32(body) & 0x7FFFFFFF,
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
        0,
        body_bytes,
    )
    body_end = at + 88 + body_bytes
    view[at + 88 : body_end] = body
    view[body_end : at + size] = topic_part + _INT16.pack(len(properties)) + properties
    _PACK_SIZE_MAGIC(view, at, size, 0xDAA320A7)


def encode_blank(remaining_bytes: int) -> bytes:
    """The head of the filler that ends a commit log file; the rest of the ``remaining_bytes`` may hold anything."""
    return _SIZE_MAGIC.pack(remaining_bytes, MAGIC_BLANK)


def blank_size(buffer: Buffer, at: int = 0) -> int:
    """Size of the filler at ``at``, 0 when there is none."""
    if at < 0 or len(buffer) - at < BLANK_BYTES:
        return 0
    size, magic = _SIZE_MAGIC.unpack_from(buffer, at)
    return size if magic == MAGIC_BLANK and size > 0 else 0


class RecordView:
    """One record in place: the fixed fields read at once, body, topic and properties on demand.

    Constructing it checks that the lengths inside add up to the record's size, so the properties below cannot fail on structure.

    Attributes: ``size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms, born_host,
    store_timestamp_ms, store_host`` (hosts as address bytes and port), ``reconsume_times, prepared_transaction_offset``.

    Raises:
        ProtocolError: no whole record is at ``at``.
    """

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
        (sys_flag,) = _SYS_FLAG.unpack_from(buffer, at + RecordFields.SYS_FLAG)
        head = HEADS[(sys_flag & HOSTS_V6) >> 4]
        if end - at < head.size + 3:
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
        """A view into the buffer; take ``bytes()`` of it to keep it."""
        return memoryview(self._buffer)[self._body_at : self._body_end]

    @property
    def topic_bytes(self) -> bytes:
        return bytes(self._buffer[self._topic_at : self._properties_at - 2])

    @property
    def topic(self) -> str:
        """Raises ProtocolError when it is not UTF-8."""
        return _topic_text(self.topic_bytes)

    @property
    def raw_properties(self) -> bytes:
        """The properties in their text form: see ``wire.properties.get_property`` and ``decode_properties``."""
        return bytes(self._buffer[self._properties_at : self.at + self.size])

    @property
    def raw(self) -> memoryview:
        """The whole record, a view into the buffer."""
        return memoryview(self._buffer)[self.at : self.at + self.size]

    def __repr__(self) -> str:
        return (
            f"RecordView(at={self.at}, size={self.size}, topic={self.topic_bytes!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, physical_offset={self.physical_offset})"
        )


def _tail(buffer: Buffer, at: int, size: int, magic: int, body_at: int, body_bytes: int) -> tuple[int, int, int]:
    """Where the body ends, the topic starts and the properties start; checks that these parts fill the record exactly."""
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
    """Head, body and raw properties of the record at ``at``, for who copies many: a third of the price of a RecordView.

    The head holds the fixed fields in their order, and has each host as address bytes, then port; the body is a view into the buffer.

    Raises:
        ProtocolError: no whole record is at ``at``.
    """
    end = len(buffer) - at
    if at >= 0 and end >= MIN_RECORD_BYTES:
        head = _UNPACK_V4(buffer, at)
        size, topic_at = head[0], 89 + head[16]
        # As in decode_records: only what is beyond doubt takes the short way.
        if (
            head[1] == MAGIC_V1
            and not head[7] & HOSTS_V6
            and 88 < topic_at <= size - 2
            and size <= end
            and (properties_at := topic_at + buffer[at + topic_at - 1] + 2) <= size
            and properties_at + (buffer[at + properties_at - 2] << 8 | buffer[at + properties_at - 1]) == size
        ):
            view = memoryview(buffer)
            return head, view[at + 88 : at + topic_at - 1], bytes(view[at + properties_at : at + size])
    record = RecordView(buffer, at)
    head = HEADS[(record.sys_flag & HOSTS_V6) >> 4].unpack_from(buffer, at)
    return head, record.body, record.raw_properties


def _topic_text(topic: bytes) -> str:
    try:
        return topic.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the topic {topic!r} is not UTF-8") from error


def check_record(buffer: Buffer, at: int = 0, check_crc: bool = True) -> RecordView:
    """The record at ``at``, found sound: magic, sizes and (if wanted) the body's checksum.

    Raises:
        ProtocolError: it is not; the message says why.
    """
    view = RecordView(buffer, at)
    if check_crc:
        crc = zlib.crc32(view.body) & _CRC_MASK
        # Java writes the masked value; a writer that did not mask is forgiven nothing, as Java forgives nothing.
        if crc != view.body_crc:
            raise ProtocolError(
                f"the body of the record at {at} has checksum {crc:#x}, the record says {view.body_crc:#x}"
            )
    return view


def decode_record(buffer: Buffer, at: int = 0, broker_name: str = "", decompress: bool = True) -> MessageExt:
    """The record at ``at`` as the message a user sees. Bytes after it are ignored. See :func:`decode_records`."""
    view = RecordView(buffer, at)
    return decode_records(view.raw, broker_name, decompress)[0]


def decode_records(
    buffer: Buffer,
    broker_name: str = "",
    decompress: bool = True,
    *,
    queue_id: int | None = None,
    more_properties: bytes = b"",
    unreadable: list[tuple[MessageExt, Exception]] | None = None,
) -> list[MessageExt]:
    """Records back to back, as a pull answers them, as messages. The checksum is not looked at: TCP and the broker have done that.

    Args:
        broker_name: noted in each message; a record does not know it.
        decompress: give the original bodies, and clear COMPRESSED (not the type bits) in ``sys_flag``; give the messages inside an
            inner batch (5.x topics of queue.type BatchCQ) one by one, and clear NEED_UNWRAP. A body that cannot be opened stays as it
            is with its bit still set: one bad message must not take its neighbours or its queue down.
        queue_id: noted in each message in place of the record's; None keeps that.
        more_properties: put behind the properties of each message, in their text form, once somebody looks at them.
        unreadable: gets each message whose body cannot be opened, and why, a decompressor that is not installed included.

    Raises:
        ProtocolError: anything else than whole records, trailing bytes included. Nothing is skipped.
        ConfigurationError: a body needs a decompressor that is not installed, and there is no ``unreadable``.
    """
    # Slices of bytes are half the price of slices of a view.
    data = buffer if isinstance(buffer, bytes) else bytes(buffer)
    messages: list[MessageExt] = []
    at, end = 0, len(data)
    topic_part, topic_part_bytes, topic = b"\0", 1, ""  # a topic behind its length byte, as the record before had it
    while end - at >= MIN_RECORD_BYTES:
        size, magic, own_queue_id, queue_offset, sys_flag, body_bytes = _UNPACK_BRIEFLY(data, at)
        record_end, topic_at = at + size, at + 89 + body_bytes
        # Only what is beyond doubt takes the short way: V1, IPv4, inside the buffer, parts that add up. RecordView judges the rest.
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
            message.body = data[at + 88 : topic_at - 1]
            message._raw_properties = data[properties_at:record_end]
            message._head = data[at : at + 88]
            message.queue_offset = queue_offset
            message.transaction_id = None
        else:
            message = _slow_record(data, at)
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


def _slow_record(data: bytes, at: int) -> MessageExt:
    view = RecordView(data, at)
    message = _new(MessageExt)
    message.topic = view.topic
    message.body = bytes(view.body)
    message._raw_properties = view.raw_properties
    message._head = data[at : at + HEADS[(view.sys_flag & HOSTS_V6) >> 4].size]
    message.queue_offset = view.queue_offset
    message.transaction_id = None
    return message


def _opened(message: MessageExt, unreadable: list[tuple[MessageExt, Exception]] | None) -> list[MessageExt]:
    try:
        if message.sys_flag & COMPRESSED:
            message.body = decompress_body(message.body, message.sys_flag)
            message.sys_flag &= ~COMPRESSED
        if message.sys_flag & _WRAPPED == _WRAPPED:
            return _unwrapped(message)
    except (ProtocolError, ConfigurationError) as error:
        if unreadable is not None:
            unreadable.append((message, error))
        elif isinstance(error, ConfigurationError):
            raise
    return [message]  # a bit that is still set says that it is not opened


def _unwrapped(batch: MessageExt) -> list[MessageExt]:
    """The messages of an inner batch: consecutive queue offsets, all else from the record (MessageDecoder.decodeMessage)."""
    messages = []
    for index, (flag, body, raw_properties) in enumerate(split_batch(batch.body)):
        message = copy.copy(batch)
        message.flag, message.body, message._raw_properties = flag, body, raw_properties
        message.queue_offset = batch.queue_offset + index
        message.sys_flag = batch.sys_flag & ~NEED_UNWRAP
        messages.append(message)
    return messages
