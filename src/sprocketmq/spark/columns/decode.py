# SPDX-License-Identifier: Apache-2.0
"""Pull bodies (raw commit log records back to back) into Arrow record batches, without a Python object per message.

What is odd about a record is made ordinary before columns are made, for that record alone: a body is decompressed, a batch in one record
unwrapped, a text that is not UTF-8 written anew. The rows are those of ``wire.records.record``; the tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.core.resource_names import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.spark.columns.byte_columns import (
    Array,
    Bytes,
    Items,
    Mask,
    Numbers,
    Rows,
    binary,
    laid_out,
    slices,
    text,
)
from sprocketmq.spark.columns.opened_bodies import opened
from sprocketmq.spark.columns.property_columns import PropertyColumns, property_columns
from sprocketmq.spark.columns.records import HOST_BITS, Records, located
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import format_host
from sprocketmq.wire.records.record_layout import LAYOUTS

# What is not known before a body is opened.
_OF_BODIES: Final = frozenset({"body", "sysFlag"})
_V6_HOST: Final = LAYOUTS[-1].single("born_host").unpack
# Two hexadecimal digits for each byte.
_HEX: Final = np.frombuffer(bytes(range(256)).hex().upper().encode(), np.uint16)
# Topics of copies, and where a copy says which topic it came from, the surest first.
_COPIES: Final = (RETRY_PREFIX, DLQ_PREFIX)
_ORIGIN_NAMES: Final = (props.RETRY_TOPIC, props.DLQ_ORIGIN_TOPIC)


class BatchDecoder:
    """``schema`` is the Arrow schema that Spark expects, of names out of ``source_columns.COLUMNS``. ``tags``: keep only messages with one
    of these tags (brokers compare hash codes, so others slip through); empty keeps all. Retry topics are not filtered, as in Java."""

    def __init__(self, schema: pa.Schema, tags: frozenset[str] = frozenset()) -> None:
        self.schema = schema
        self._tags = pa.array(sorted(tags), pa.string()) if tags else None

    def decode(self, pulls: Sequence[PulledChunk]) -> Iterator[pa.RecordBatch]:
        """The wanted messages of all ``pulls``, in order: in one batch, or in several when compressed bodies grow too large for one.
        Raises ProtocolError (the bytes are not records; no message of the first batch is to be used)."""
        for records in opened(located(pulls), self._needs_bodies):
            rows = _Rows(records)
            columns = [_BUILDERS[field.name](rows, field) for field in self.schema]
            batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
            keep = self._wanted(rows)
            yield batch if keep is None else batch.filter(keep)

    @property
    def _needs_bodies(self) -> bool:
        return any(name in _OF_BODIES for name in self.schema.names)

    def _wanted(self, rows: _Rows) -> Array | None:
        if self._tags is None or not len(rows):
            return None
        keep = pc.fill_null(pc.is_in(rows.property(props.TAGS), value_set=self._tags), False)
        retry = np.array([pull.queue.topic.startswith(RETRY_PREFIX) for pull in rows.pulls], bool)
        if retry.any():
            keep = pc.or_(keep, pa.array(retry[rows.pull_numbers]))
        return None if pc.all(keep).as_py() else keep


class _Rows:
    def __init__(self, records: Records) -> None:
        self.records, self.head = records, records.head
        self.pulls, self.pull_numbers = records.pulls, records.pull_numbers

    def __len__(self) -> int:
        return len(self.head)

    @cached_property
    def properties(self) -> PropertyColumns:
        records = self.records
        return property_columns(records.data, records.property_starts, records.property_sizes)

    def property(self, name: str) -> Array:
        return self.properties.column(name)

    def v6_rows(self, name: str) -> Mask | None:
        return self.head["sys_flag"] & HOST_BITS[name] != 0 if name in self.records.hosts_v6 else None


def _hosts(rows: _Rows, name: str) -> Array:
    values, is_v6 = rows.head[name], rows.v6_rows(name)
    if is_v6 is None:
        return _v4_hosts(values)
    hosts = np.ascontiguousarray(rows.records.hosts_v6[name][is_v6])
    stored = pa.Array.from_buffers(pa.binary(hosts.dtype.itemsize), len(hosts), [None, pa.py_buffer(hosts)])
    encoded = stored.dictionary_encode()
    names = [format_host(*_V6_HOST(host)) for host in encoded.dictionary.to_pylist()]
    v6_hosts = pa.array(names, pa.string()).take(encoded.indices)
    if is_v6.all():
        return v6_hosts
    at = np.empty(len(rows), np.int64)
    at[~is_v6], at[is_v6] = np.arange(len(rows) - len(hosts)), np.arange(len(rows) - len(hosts), len(rows))
    return pa.concat_arrays([_v4_hosts(values[~is_v6]), v6_hosts]).take(pa.array(at))


def _v4_hosts(values: NDArray[np.uint64]) -> Array:
    if len(values) and (values == values[0]).all():
        host = int(values[0])
        return pa.repeat(pa.scalar(format_host((host >> 32).to_bytes(4, "big"), host & 0xFFFFFFFF)), len(values))
    encoded = pa.array(values.astype(np.uint64)).dictionary_encode()
    names = [format_host((host >> 32).to_bytes(4, "big"), host & 0xFFFFFFFF) for host in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices)


def _per_pull(rows: _Rows, texts: Iterable[str]) -> Array:
    by_pull = list(texts)
    if len(set(by_pull)) == 1:
        return pa.repeat(pa.scalar(by_pull[0], pa.string()), len(rows))
    return pa.array(by_pull, pa.string()).take(pa.array(rows.pull_numbers))


def _topic(rows: _Rows, _: Any) -> Array:
    """Retried messages and dead letters go by the name of the topic they were first sent to."""
    copied = [pull.queue.topic.startswith(_COPIES) for pull in rows.pulls]
    topics = _per_pull(rows, (pull.queue.topic for pull in rows.pulls))
    found = [rows.property(name) for name in _ORIGIN_NAMES] if any(copied) else []
    found = [column for column in found if column.null_count < len(column)]
    if not found:
        return topics
    origin = pc.coalesce(*found) if len(found) > 1 else found[0]
    if all(copied):
        return pc.coalesce(origin, topics) if origin.null_count else origin
    return pc.if_else(pc.and_(pa.array(copied).take(pa.array(rows.pull_numbers)), pc.is_valid(origin)), origin, topics)


def _message_id(rows: _Rows, _: Any) -> Array:
    ids = rows.property(props.UNIQ_KEY)
    if not ids.null_count:
        return ids
    where = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))
    mask = np.zeros(len(rows), bool)
    mask[where] = True
    return pc.replace_with_mask(ids, pa.array(mask), _offset_message_ids(rows, where))


def _offset_message_ids(rows: _Rows, where: Numbers) -> Array:
    """Of some rows: the store host and the commit log offset in hex (``wire.records.message_id``)."""
    host, is_v6 = "store_host", rows.v6_rows("store_host")
    hosts: list[tuple[Rows, Items]] = [
        (slice(None) if is_v6 is None else np.flatnonzero(~is_v6[where]), rows.head[host])
    ]
    if is_v6 is not None:
        hosts.append((np.flatnonzero(is_v6[where]), rows.records.hosts_v6[host]))
    parts = []
    for own, column in hosts:
        stored = [_bytes_of(values[where[own]]) for values in (column, rows.head["physical_offset"])]
        parts.append((own, _HEX[np.concatenate(stored, axis=1)].view(np.uint8)))
    return text(binary(*laid_out(len(where), parts)))


def _bytes_of(values: NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)


def _body(rows: _Rows, _: Any) -> Array:
    records = rows.records
    return slices(records.data, records.body_starts, records.body_sizes)


def _integers(name: str, kind: Any) -> Callable[[_Rows, Any], Array]:
    return lambda rows, field: pa.array(rows.head[name].astype(kind))


def _timestamps(name: str) -> Callable[[_Rows, Any], Array]:
    return lambda rows, field: pa.array(rows.head[name].astype(np.int64) * 1000).cast(field.type)


_BUILDERS: Final[dict[str, Callable[[_Rows, Any], Array]]] = {
    "topic": _topic,
    "brokerName": lambda rows, field: _per_pull(rows, (pull.queue.broker_name for pull in rows.pulls)),
    "queueId": _integers("queue_id", np.int32),
    "queueOffset": _integers("queue_offset", np.int64),
    "commitLogOffset": _integers("physical_offset", np.int64),
    "messageId": _message_id,
    "keys": lambda rows, field: rows.property(props.KEYS),
    "tags": lambda rows, field: rows.property(props.TAGS),
    "properties": lambda rows, field: rows.properties.maps(field.type),
    "body": _body,
    "bornTimestamp": _timestamps("born_timestamp_ms"),
    "storeTimestamp": _timestamps("store_timestamp_ms"),
    "bornHost": lambda rows, field: _hosts(rows, "born_host"),
    "storeHost": lambda rows, field: _hosts(rows, "store_host"),
    "reconsumeTimes": _integers("reconsume_times", np.int32),
    "sysFlag": _integers("sys_flag", np.int32),
}
