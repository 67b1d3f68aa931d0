# SPDX-License-Identifier: Apache-2.0
"""Show parts of a store directory without changing it, also while a broker has it open."""

from __future__ import annotations

import os
from typing import Any

from sprocketmq.errors import ConfigurationError
from sprocketmq.store.index.index_files import index_text
from sprocketmq.store.log.log_walk import LogWalk
from sprocketmq.store.queue.unit import FILLER_SIZE
from sprocketmq.store.services.dispatch import index_texts
from sprocketmq.store.tools.check import open_read_only
from sprocketmq.wire.records.message_id import offset_message_id
from sprocketmq.wire.records.properties import decode_properties
from sprocketmq.wire.records.record import RecordView
from sprocketmq.wire.records.sys_flag import COMPRESSED

_TRANSACTION = {0x0: "none", 0x4: "half", 0x8: "commit", 0xC: "rollback"}
_SHOWN_BYTES = 200


class StoreInspector:
    """Every result consists of plain values, ready for a table or for JSON. Raises StoreCorrupt (``path`` is not a store directory,
    or its files do not fit together at all)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = open_read_only(path)
        for queue in self._store.consume_queues.queues.values():
            queue.min_offset = queue.first_from(self._store.min_physical_offset)

    def close(self) -> None:
        self._store.unmap()

    def overview(self) -> list[dict[str, Any]]:
        return [
            {"topic": topic, "queue_id": queue_id, "min_offset": queue.min_offset, "max_offset": queue.max_offset}
            for (topic, queue_id), queue in sorted(self._store.consume_queues.queues.items())
        ]

    def record(self, physical_offset: int) -> dict[str, Any]:
        record = self._store.commit_log.view_at(physical_offset)
        if record is None:
            log = self._store.commit_log
            raise ConfigurationError(
                f"no record begins at commit log offset {physical_offset}; the log's files hold {log.min_offset} to "
                f"{log.max_offset}, and the entries of a queue show where its records begin"
            )
        sound = self._store.commit_log.view_at(physical_offset, check_crc=True) is not None
        return {**_fields(record), "checksum": "good" if sound else "wrong"}

    def queue(self, topic: str, queue_id: int, begin: int | None, count: int) -> list[dict[str, Any]]:
        """From ``begin`` on (default: the last ``count``). Raises ConfigurationError (there is no such queue)."""
        queue = self._store.consume_queues.queues.get((topic, queue_id))
        if queue is None:
            ids = sorted(number for name, number in self._store.consume_queues.queues if name == topic)
            known = f"its queues are {', '.join(map(str, ids))}" if ids else "it has no queue of that topic"
            raise ConfigurationError(f"queue {queue_id} of topic {topic} is not in this store; {known}")
        first = max(queue.min_offset, queue.max_offset - count if begin is None else begin)
        return [
            self._entry(queue.unit(offset), offset) for offset in range(first, min(first + count, queue.max_offset))
        ]

    def _entry(self, unit: tuple[int, int, int], offset: int) -> dict[str, Any]:
        physical_offset, size_bytes, tags_code = unit
        entry: dict[str, Any] = {
            "queue_offset": offset,
            "physical_offset": physical_offset,
            "size": size_bytes,
            "tags_code": tags_code,
        }
        if size_bytes == FILLER_SIZE:
            return {**entry, "record": "filler"}
        record = self._store.commit_log.view_at(physical_offset)
        return {**entry, "record": "missing" if record is None else _fields(record)}

    def by_key(self, topic: str, key: str, count: int) -> list[dict[str, Any]]:
        """The newest ``count`` records: from the index, and from the part of the log that is not indexed yet. Raises StoreCorrupt."""
        index, log = self._store.index, self._store.commit_log
        if not index.files:
            index.load()
        wanted = index_text(topic, key)
        offsets = index.find(wanted, count, 0, 1 << 62).physical_offsets
        found = [record for offset in offsets if (record := log.view_at(offset)) and _has(record, wanted)]
        behind = LogWalk(log, max(index.end_physical_offset, log.min_offset), log.max_offset).records()
        found += [record for record in behind if _has(record, wanted) and record.physical_offset not in offsets]
        return [_fields(record) for record in found[-count:]]


def _has(record: RecordView, text: str) -> bool:
    topic = record.topic_bytes.decode("utf-8", "replace")
    return text in index_texts(topic, record.raw_properties)


def _readable(body: bytes) -> str:
    text = body.decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _fields(record: RecordView) -> dict[str, Any]:
    return {
        "topic": record.topic_bytes.decode("utf-8", "replace"),
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "physical_offset": record.physical_offset,
        "size": record.size,
        "message_id": offset_message_id(record.store_host, record.physical_offset),
        "born_timestamp_ms": record.born_timestamp_ms,
        "store_timestamp_ms": record.store_timestamp_ms,
        "sys_flag": record.sys_flag,
        "transaction": _TRANSACTION[record.sys_flag & 0xC],
        "compressed": bool(record.sys_flag & COMPRESSED),
        "reconsume_times": record.reconsume_times,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "properties": decode_properties(record.raw_properties),
        "body_bytes": len(record.body),
        "body": _readable(bytes(record.body[:_SHOWN_BYTES])),
    }
