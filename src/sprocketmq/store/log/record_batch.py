# SPDX-License-Identifier: Apache-2.0
"""Many records of one commit log file at once, as NumPy columns: a tenth of a microsecond for each, where an object would take
several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sprocketmq.wire.hashing import java_hash
from sprocketmq.wire.records.record_layout import (
    HOSTS_V6,
    LAYOUTS,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    RECORD,
    V6_SHIFT,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

HEAD = np.dtype(RECORD.columns())
_SIZE = RECORD.subset("size")
_SIZE_TYPE = RECORD.numpy_type("size")
# By the IPv6 bits of sysFlag: the fields behind the hosts, and the length of the head.
_AFTER_HOSTS = tuple(
    layout.subset("store_timestamp_ms", "prepared_transaction_offset", "body_length").unpack_from for layout in LAYOUTS
)
_HEAD_SIZES = np.array([layout.size for layout in LAYOUTS], np.int64)


class RecordBatch:
    """Columns with one element for each record. ``starts``, ``body_at``, ``topic_at`` and ``properties_at`` are positions in the
    file; ``end``: the position behind the last record."""

    __slots__ = (
        "body_at", "body_bytes", "body_crc", "data", "end", "physical_offset", "prepared", "properties_at", "properties_bytes", "queue_id",
        "queue_offset", "size", "starts", "store_timestamp", "sys_flag", "topic_at", "topic_bytes",
    )  # fmt: skip

    data: memoryview
    starts: Ints
    size: Ints
    physical_offset: Ints
    queue_id: Ints
    queue_offset: Ints
    sys_flag: Ints
    store_timestamp: Ints
    body_crc: Ints
    prepared: Ints
    body_at: Ints
    body_bytes: Ints
    topic_at: Ints
    topic_bytes: Ints
    properties_at: Ints
    properties_bytes: Ints
    end: int

    def __len__(self) -> int:
        return len(self.starts)

    def topic(self, index: int) -> bytes:
        at = int(self.topic_at[index])
        return bytes(self.data[at : at + int(self.topic_bytes[index])])

    def cut(self, count: int) -> None:
        if count == len(self.starts):
            return
        for name in self.__slots__:
            column = getattr(self, name)
            if isinstance(column, np.ndarray):
                setattr(self, name, column[:count])
        self.end = int(self.starts[-1] + self.size[-1]) if count else self.end


def read_records(data: memoryview, at: int, end: int, file_start: int, max_records: int) -> RecordBatch:
    """The valid records that follow each other from position ``at`` on: at most ``max_records``, and none that ends after ``end``.
    A record is valid if its magic, its lengths and its physical offset (``file_start`` + position) are right; checksums are not
    checked."""
    first = at
    alike = _equal_sizes(data, at, end, max_records)
    starts: Ints = np.empty(0, np.int64)
    if alike:
        (size,) = _SIZE.unpack_from(data, at)
        starts = np.arange(at, at + alike * size, size)
        at += alike * size
    found: list[int] = []
    add, size_at, last, most = found.append, _SIZE.unpack_from, end - MIN_RECORD_BYTES, max_records - alike
    while at <= last and len(found) < most:
        (size,) = size_at(data, at)
        if size < MIN_RECORD_BYTES or at + size > end:
            break
        add(at)
        at += size
    if found:
        starts = np.concatenate((starts, np.array(found, np.int64)))
    batch = RecordBatch()
    batch.data, batch.starts, batch.end = data, starts, first
    _fill(batch, file_start)
    return batch


def _equal_sizes(data: memoryview, at: int, end: int, max_records: int) -> int:
    """How many records of the same size follow each other. Messages of one producer often have the same size."""
    if at + MIN_RECORD_BYTES > end:
        return 0
    (size,) = _SIZE.unpack_from(data, at)
    count = min(max_records, (end - at) // size) if size >= MIN_RECORD_BYTES else 0
    if count < 2:
        return 0
    sizes: Ints = np.ndarray((count,), _SIZE_TYPE, buffer=data, offset=at, strides=(size,)) == size
    return count if sizes.all() else int(np.argmin(sizes))


def _fill(batch: RecordBatch, file_start: int) -> None:
    data, starts = batch.data, batch.starts
    octets = np.frombuffer(data, np.uint8)
    head = _windows(data, HEAD.itemsize)[starts].view(HEAD)[:, 0] if len(starts) else np.empty(0, HEAD)
    batch.size = head["size"].astype(np.int64)
    batch.body_crc = head["body_crc"].astype(np.int64)
    batch.queue_id = head["queue_id"].astype(np.int64)
    batch.queue_offset = head["queue_offset"].astype(np.int64)
    batch.physical_offset = head["physical_offset"].astype(np.int64)
    batch.sys_flag = head["sys_flag"].astype(np.int64)
    batch.store_timestamp = head["store_timestamp_ms"].astype(np.int64)
    batch.prepared = head["prepared_transaction_offset"].astype(np.int64)
    body_bytes = head["body_length"].astype(np.int64)
    last = len(octets) - 1
    head_bytes: Ints | int = RECORD.size
    if (batch.sys_flag & HOSTS_V6).any():
        head_bytes = _read_after_hosts(batch, body_bytes)
    v2 = (head["magic"] == MAGIC_V2).astype(np.int64)
    ends = starts + batch.size
    batch.body_at = starts + head_bytes
    batch.body_bytes = body_bytes
    length_at = batch.body_at + body_bytes
    sound = (
        ((head["magic"] == MAGIC_V1) | (v2 == 1))
        & (batch.physical_offset == starts + file_start)
        & (body_bytes >= 0)
        & (length_at + v2 + 3 <= ends)
    )
    length_at = np.minimum(np.maximum(length_at, 0), last - 1)
    topic_bytes = octets[length_at].astype(np.int64)
    if v2.any():
        topic_bytes = np.where(v2 == 1, (topic_bytes << 8) | octets[length_at + 1], topic_bytes)
    batch.topic_at, batch.topic_bytes = length_at + 1 + v2, topic_bytes
    length_at = batch.topic_at + topic_bytes
    sound &= length_at + 2 <= ends
    length_at = np.minimum(np.maximum(length_at, 0), last - 1)
    batch.properties_bytes = (octets[length_at].astype(np.int64) << 8) | octets[length_at + 1]
    batch.properties_at = length_at + 2
    sound &= batch.properties_at + batch.properties_bytes == ends
    batch.cut(len(starts) if sound.all() else int(np.argmin(sound)))
    if len(batch):
        batch.end = int(batch.starts[-1] + batch.size[-1])


def _read_after_hosts(batch: RecordBatch, body_bytes: Ints) -> Ints:
    """Read the fields behind IPv6 hosts at their actual places. Returns the length of each record's head."""
    hosts = (batch.sys_flag & HOSTS_V6) >> V6_SHIFT
    head_bytes: Ints = _HEAD_SIZES[hosts]
    for index in np.flatnonzero(hosts).tolist():
        at = int(batch.starts[index])
        if at + int(head_bytes[index]) <= len(batch.data):
            behind = _AFTER_HOSTS[int(hosts[index])](batch.data, at)
            batch.store_timestamp[index], batch.prepared[index], body_bytes[index] = behind
        else:
            body_bytes[index] = -1
    return head_bytes


def _windows(data: memoryview, width: int) -> NDArray[np.uint8]:
    """An array whose row n is ``data[n : n + width]``; it shares the memory of ``data``."""
    windows: NDArray[np.uint8] = np.ndarray((len(data) - width + 1, width), np.uint8, buffer=data, strides=(1, 1))
    return windows


def rows(data: memoryview, at: Ints, width: int) -> NDArray[np.uint8]:
    if not width:
        return np.empty((len(at), 0), np.uint8)
    picked: NDArray[np.uint8] = _windows(data, width)[at]
    return picked


@lru_cache(maxsize=512)
def _powers(count: int) -> NDArray[np.uint32]:
    return np.array([pow(31, power, 1 << 32) for power in range(count - 1, -1, -1)], np.uint32)


def _hash_rows(octets: NDArray[np.uint8]) -> NDArray[np.uint32]:
    hashes: NDArray[np.uint32] = octets.astype(np.uint32) @ _powers(octets.shape[1])
    return hashes


def topic_hashes(batch: RecordBatch) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Java's String.hashCode of each record's topic, as an unsigned number; and whether the topic is valid UTF-8."""
    hashes, is_text = np.zeros(len(batch), np.uint32), np.ones(len(batch), bool)
    for length, indexes in groups(batch.topic_bytes):
        octets = rows(batch.data, batch.topic_at[indexes], length)
        hashes[indexes] = _hash_rows(octets)
        beyond_ascii = octets >= 0x80
        for index in indexes[beyond_ascii.any(axis=1)].tolist() if beyond_ascii.any() else ():
            try:
                hashes[index] = java_hash(batch.topic(index).decode()) & 0xFFFFFFFF
            except UnicodeDecodeError:
                is_text[index] = False
    return hashes, is_text


def groups(values: Ints, among: Ints | None = None) -> Iterator[tuple[int, Ints]]:
    """Each distinct value with the indexes that have it, in ascending order."""
    indexes = np.arange(len(values)) if among is None else among
    if not len(indexes):
        return
    picked = values if among is None else values[among]
    if (picked == picked[0]).all():
        yield int(picked[0]), indexes
        return
    order = np.argsort(picked, kind="stable")
    ordered = picked[order]
    bounds = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    for begin, end in itertools.pairwise(bounds):
        yield int(ordered[begin]), indexes[order[begin:end]]
