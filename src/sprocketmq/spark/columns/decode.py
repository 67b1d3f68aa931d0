"""Pull bodies (raw commit log records back to back) into Arrow record batches, without a Python object per message.

The fields of a record are those of ``wire.records.record_layout`` (Java: MessageDecoder).

Theory. ``record_starts`` finds where records start. All fixed fields then come out of one strided gather: a NumPy structured type laid
over every byte position, indexed by the starts. Bodies are slices of the buffer that Arrow or NumPy copies in C. ``property_columns`` reads
the properties of all records together.

Records that do not fit this mould (IPv6 hosts, magic V2 of long topics, inner batches, odd properties) send their whole batch through
``wire.records.record.decode_records``, one object per message. Both ways give the same rows; the tests hold them against each other.
Compressed bodies are common and only cost themselves; a batch has as many as unpack to a bounded size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocketmq.core.retry.retry_schedule import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.errors import ProtocolError
from sprocketmq.spark.columns.byte_columns import slices
from sprocketmq.spark.columns.property_columns import OddProperties, PropertyColumns, property_columns
from sprocketmq.spark.columns.pull_body import PullBody
from sprocketmq.spark.columns.record_starts import record_starts
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records import sys_flag as flags
from sprocketmq.wire.records.compression import decompress
from sprocketmq.wire.records.message import MessageExt, format_host
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.records.record_layout import (
    MAGIC_V1,
    MIN_RECORD_BYTES,
    PROPERTIES_LENGTH,
    PROPERTIES_LENGTH_TYPE,
    RECORD,
    TOPIC_LENGTH_V1,
)

__all__ = ["BatchDecoder"]

Array = Any  # pyarrow has no type information

_HEAD: Final = np.dtype(RECORD.columns(born_host=">u8", store_host=">u8"))  # hosts as one number: few differ
_HEAD_BYTES: Final = RECORD.size
# Heads, slices and properties are gathered by reads that may go a little beyond the last record: heads the farthest.
_SPARE: Final = b"\0" * _HEAD_BYTES
# Bodies of one batch, unpacked: a few kilobytes of records may hold gigabytes, and Arrow counts with 32 bits.
_MOST_BYTES: Final = 64 * 1024 * 1024
# Topics of copies, and where a copy says which topic it came from, the surest first.
_COPIES: Final = (RETRY_PREFIX, DLQ_PREFIX)
_ORIGIN_NAMES: Final = (props.RETRY_TOPIC, props.DLQ_ORIGIN_TOPIC)


class _OddRecord(Exception):
    """This batch needs the plain way; a signal inside this file only."""


class BatchDecoder:
    """Decodes pull bodies into batches of one schema.

    Args:
        schema: the exact Arrow schema that Spark expects (``to_arrow_schema(schema, "UTC")``); names out of ``source_columns.COLUMNS``.
        tags: keep only messages with one of these tags (brokers compare hash codes, so others slip through); empty keeps all.
            Retry topics are not filtered, as in Java.
    """

    def __init__(self, schema: pa.Schema, tags: frozenset[str] = frozenset()) -> None:
        self.schema = schema
        self._tags = pa.array(sorted(tags), pa.string()) if tags else None

    def decode(self, bodies: Sequence[PullBody]) -> Iterator[pa.RecordBatch]:
        """The wanted messages of all bodies, in order: in one batch, or in several when compressed bodies grow too large for one.

        Raises:
            ProtocolError: the bytes are not records; nothing of the first batch is to be used.
        """
        try:
            rows, columns = self._decode_vectors(bodies)  # what is odd may show as late as in the making of a column
        except (_OddRecord, OddProperties):
            yield from self.decode_plain(bodies)
            return
        for piece in rows.pieces() if self._unpacks else (_Piece(0, len(rows), {}),):
            arrays = [
                _UNPACKERS[field.name](rows, piece)
                if field.name in _UNPACKERS
                else columns[field.name].slice(piece.start, piece.count)
                for field in self.schema
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            yield batch if rows.keep is None else batch.filter(rows.keep.slice(piece.start, piece.count))

    @property
    def _unpacks(self) -> bool:
        return any(name in _UNPACKERS for name in self.schema.names)

    # -- the fast way ----------------------------------------------------------------------------------------------------------

    def _decode_vectors(self, bodies: Sequence[PullBody]) -> tuple[_Rows, dict[str, Array]]:
        """The rows, and all of their columns that need no unpacked body."""
        raw = b"".join([*(entry.body for entry in bodies), _SPARE])
        data = np.frombuffer(raw, np.uint8)
        starts, counts = record_starts(raw, data, bodies)
        which = np.repeat(np.arange(len(bodies), dtype=np.int32), counts)
        # Gathered as opaque bytes: NumPy copies a structured item field by field, twenty times slower.
        heads = np.ndarray((len(data) - _HEAD_BYTES + 1,), f"V{_HEAD_BYTES}", data, strides=(1,))[starts]
        head = heads.view(_HEAD)
        if len(head) and ((head["magic"] != MAGIC_V1).any() or (head["sys_flag"] & _ODD_FLAGS).any()):
            raise _OddRecord
        offsets = head["queue_offset"]
        first = np.array([entry.start for entry in bodies], np.int64)[which]
        upto = np.array([entry.end for entry in bodies], np.int64)[which]
        wanted = (offsets >= first) & (offsets < upto)
        if not wanted.all():
            head, starts, which = heads[wanted].view(_HEAD), starts[wanted], which[wanted]
        rows = _Rows(data, starts, head, which, bodies)
        rows.keep = self._kept(rows)
        return rows, {
            field.name: _BUILDERS[field.name](rows, field) for field in self.schema if field.name in _BUILDERS
        }

    def _kept(self, rows: _Rows) -> Array | None:
        """Which rows pass the filter; None for all."""
        if self._tags is None or not len(rows):
            return None
        keep = pc.fill_null(pc.is_in(rows.property(props.TAGS), value_set=self._tags), False)
        retry = np.array([entry.queue.topic.startswith(RETRY_PREFIX) for entry in rows.bodies], bool)
        if retry.any():
            keep = pc.or_(keep, pa.array(retry[rows.which]))
        return None if pc.all(keep).as_py() else keep

    # -- the plain way ---------------------------------------------------------------------------------------------------------

    def decode_plain(self, bodies: Sequence[PullBody]) -> Iterator[pa.RecordBatch]:
        """The same rows by way of one MessageExt per message. Raises as :meth:`decode`."""
        found: list[tuple[MessageExt, PullBody]] = []
        tags = set(self._tags.to_pylist()) if self._tags is not None else set()
        size_bytes = 0
        for entry in bodies:
            unfiltered = self._tags is None or entry.queue.topic.startswith(RETRY_PREFIX)
            for message in decode_records(entry.body, entry.queue.broker_name):
                if entry.start <= message.queue_offset < entry.end and (unfiltered or message.tags in tags):
                    if found and size_bytes + len(message.body) > _MOST_BYTES:
                        yield self._plain_batch(found)
                        found, size_bytes = [], 0
                    found.append((message, entry))
                    size_bytes += len(message.body)
        yield self._plain_batch(found)

    def _plain_batch(self, found: Sequence[tuple[MessageExt, PullBody]]) -> pa.RecordBatch:
        columns = []
        for field in self.schema:
            values = [_PLAIN[field.name](message, entry) for message, entry in found]
            columns.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True, slots=True)
class _Piece:
    """``count`` rows from ``start`` on, and the original bodies of those that are compressed."""

    start: int
    count: int
    unpacked: dict[int, bytes]


# Longer hosts, and a batch stored as one record, which is several messages.
_ODD_FLAGS: Final = flags.BORNHOST_V6 | flags.STOREHOSTADDRESS_V6 | flags.NEED_UNWRAP


class _Rows:
    """The wanted records of one batch: fixed fields gathered, variable ones as (start, length) into ``data``."""

    def __init__(self, data: Any, starts: Any, head: Any, which: Any, bodies: Sequence[PullBody]) -> None:
        self.data, self.starts, self.head, self.which, self.bodies = data, starts, head, which, bodies
        self.keep: Array | None = None
        self.body_starts = starts + _HEAD_BYTES
        self.body_sizes = head["body_length"].astype(np.int64)
        sizes = head["size"].astype(np.int64)
        # A body length that lies would make the gathers below read outside the buffer.
        if ((self.body_sizes < 0) | (self.body_sizes > sizes - MIN_RECORD_BYTES)).any():
            raise ProtocolError("a record's body length exceeds its total size")
        topic_at = self.body_starts + self.body_sizes
        properties_at = topic_at + TOPIC_LENGTH_V1.size + data[topic_at]
        if (properties_at + PROPERTIES_LENGTH.size > starts + sizes).any():
            raise ProtocolError("a record's topic length exceeds its total size")
        self.property_starts = properties_at + PROPERTIES_LENGTH.size
        self.property_sizes = _lengths_of_properties(data)[properties_at].astype(np.int64)
        if (self.property_starts + self.property_sizes != starts + sizes).any():
            raise ProtocolError("a record's field sizes do not sum to its total size")

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def properties(self) -> PropertyColumns:
        return property_columns(self.data, self.property_starts, self.property_sizes)

    def pieces(self) -> Iterator[_Piece]:
        """All rows, as many at a time as unpack to no more than ``_MOST_BYTES``. A body that is broken stays as it is, COMPRESSED still
        set."""
        start, size_bytes = 0, 0
        unpacked: dict[int, bytes] = {}
        for row in np.flatnonzero(self.head["sys_flag"] & flags.COMPRESSED).tolist():
            at = int(self.body_starts[row])
            raw = self.data[at : at + int(self.body_sizes[row])].tobytes()
            try:
                body = decompress(raw, int(self.head["sys_flag"][row]))
            except ProtocolError:
                continue
            if unpacked and size_bytes + len(body) > _MOST_BYTES:
                yield _Piece(start, row - start, unpacked)
                start, size_bytes, unpacked = row, 0, {}
            unpacked[row] = body
            size_bytes += len(body)
        yield _Piece(start, len(self) - start, unpacked)

    @cached_property
    def packed_bodies(self) -> Array:
        """As they are in the records."""
        return slices(self.data, self.body_starts, self.body_sizes)

    def property(self, name: str) -> Array:
        """One property as a column, null where a message has it not."""
        return self.properties.column(name)


def _lengths_of_properties(data: Any) -> Any:
    """Of properties that would begin behind each byte."""
    return np.ndarray((len(data) - PROPERTIES_LENGTH.size + 1,), PROPERTIES_LENGTH_TYPE, data, strides=(1,))


def _hosts(values: Any) -> Array:
    """``ip:port`` of 8 host bytes each; hosts are few, mostly one."""
    if len(values) and (values == values[0]).all():
        host = int(values[0])
        return pa.repeat(pa.scalar(format_host((host >> 32).to_bytes(4, "big"), host & 0xFFFFFFFF)), len(values))
    encoded = pa.array(values.astype(np.uint64)).dictionary_encode()
    names = [format_host((host >> 32).to_bytes(4, "big"), host & 0xFFFFFFFF) for host in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices)


def _per_body(rows: _Rows, texts: Iterable[str]) -> Array:
    by_body = list(texts)
    if len(set(by_body)) == 1:
        return pa.repeat(pa.scalar(by_body[0], pa.string()), len(rows))
    return pa.array(by_body, pa.string()).take(pa.array(rows.which))


def _topic(rows: _Rows, _: Any) -> Array:
    """Retried messages and dead letters go by the name of the topic they were first sent to."""
    topics = _per_body(rows, (entry.queue.topic for entry in rows.bodies))
    if not any(entry.queue.topic.startswith(_COPIES) for entry in rows.bodies):
        return topics
    origin = pc.coalesce(*(rows.property(name) for name in _ORIGIN_NAMES))
    copied = pa.array([entry.queue.topic.startswith(_COPIES) for entry in rows.bodies], pa.bool_())
    return pc.if_else(pc.and_(copied.take(pa.array(rows.which)), pc.is_valid(origin)), origin, topics)


def _message_id(rows: _Rows, _: Any) -> Array:
    ids = rows.property(props.UNIQ_KEY)
    if not ids.null_count:
        return ids
    where = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))
    hosts, offsets = rows.head["store_host"][where], rows.head["physical_offset"][where]
    mask = np.zeros(len(rows), bool)
    mask[where] = True
    stored = [f"{int(host):016X}{int(offset):016X}" for host, offset in zip(hosts, offsets, strict=True)]
    return pc.replace_with_mask(ids, pa.array(mask), pa.array(stored, pa.string()))


def _properties(rows: _Rows, field: Any) -> Array:
    return rows.properties.maps(field.type)


def _body(rows: _Rows, piece: _Piece) -> Array:
    bodies = rows.packed_bodies.slice(piece.start, piece.count)
    if not piece.unpacked:
        return bodies
    at = np.arange(piece.count, dtype=np.int64)
    at[np.array(list(piece.unpacked)) - piece.start] = piece.count + np.arange(len(piece.unpacked))
    return pa.concat_arrays([bodies, pa.array(list(piece.unpacked.values()), pa.binary())]).take(pa.array(at))


def _sys_flag(rows: _Rows, piece: _Piece) -> Array:
    sys_flags = rows.head["sys_flag"][piece.start : piece.start + piece.count].astype(np.int32)
    sys_flags[np.array(list(piece.unpacked), np.int64) - piece.start] &= ~flags.COMPRESSED
    return pa.array(sys_flags)


def _integers(name: str, kind: Any) -> Callable[[_Rows, Any], Array]:
    return lambda rows, field: pa.array(rows.head[name].astype(kind))


def _timestamps(name: str) -> Callable[[_Rows, Any], Array]:
    return lambda rows, field: pa.array(rows.head[name].astype(np.int64) * 1000).cast(field.type)


_BUILDERS: Final[dict[str, Callable[[_Rows, Any], Array]]] = {
    "topic": _topic,
    "brokerName": lambda rows, field: _per_body(rows, (entry.queue.broker_name for entry in rows.bodies)),
    "queueId": _integers("queue_id", np.int32),
    "queueOffset": _integers("queue_offset", np.int64),
    "commitLogOffset": _integers("physical_offset", np.int64),
    "messageId": _message_id,
    "keys": lambda rows, field: rows.property(props.KEYS),
    "tags": lambda rows, field: rows.property(props.TAGS),
    "properties": _properties,
    "bornTimestamp": _timestamps("born_timestamp_ms"),
    "storeTimestamp": _timestamps("store_timestamp_ms"),
    "bornHost": lambda rows, field: _hosts(rows.head["born_host"]),
    "storeHost": lambda rows, field: _hosts(rows.head["store_host"]),
    "reconsumeTimes": _integers("reconsume_times", np.int32),
}
# What is not known before a body is unpacked.
_UNPACKERS: Final[dict[str, Callable[[_Rows, _Piece], Array]]] = {"body": _body, "sysFlag": _sys_flag}


def _plain_topic(message: MessageExt, entry: PullBody) -> str:
    topic = entry.queue.topic
    if topic.startswith(_COPIES):
        return next((message.properties[name] for name in _ORIGIN_NAMES if name in message.properties), topic)
    return topic


def _microseconds(time_ms: int) -> int:
    """As NumPy computes it, modulo 2**64: the time of a damaged record may be any number, and must not cost its batch."""
    return (time_ms * 1000 + (1 << 63)) % (1 << 64) - (1 << 63)


_PLAIN: Final[dict[str, Callable[[MessageExt, PullBody], Any]]] = {
    "topic": _plain_topic,
    "brokerName": lambda message, entry: entry.queue.broker_name,
    "queueId": lambda message, entry: message.queue_id,
    "queueOffset": lambda message, entry: message.queue_offset,
    "commitLogOffset": lambda message, entry: message.commit_log_offset,
    "messageId": lambda message, entry: message.message_id,
    "keys": lambda message, entry: message.properties.get(props.KEYS),
    "tags": lambda message, entry: message.properties.get(props.TAGS),
    "properties": lambda message, entry: list(message.properties.items()),
    "body": lambda message, entry: bytes(message.body),
    "bornTimestamp": lambda message, entry: _microseconds(message.born_timestamp_ms),
    "storeTimestamp": lambda message, entry: _microseconds(message.store_timestamp_ms),
    "bornHost": lambda message, entry: message.born_host,
    "storeHost": lambda message, entry: message.store_host,
    "reconsumeTimes": lambda message, entry: message.reconsume_times,
    "sysFlag": lambda message, entry: message.sys_flag,
}
