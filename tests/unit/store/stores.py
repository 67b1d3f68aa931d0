# SPDX-License-Identifier: Apache-2.0
"""Small stores for tests, messages for them, and a crash: what a killed process leaves is what its files read as now."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from golden.pipeline.scenes import element
from sprocketmq.errors import StoreNotWritable
from sprocketmq.store import DiskMessageStore, MessageStore, StoreConfig, StoredBatch, StoredMessage
from sprocketmq.store.tools.check import check_store
from sprocketmq.store.tools.check_auxiliary_files import check_index
from sprocketmq.store.tools.check_report import StoreSummary
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.batch_elements import BatchElements
from sprocketmq.wire.records.record import RecordView

# Files so small that every test rolls over.
SMALL = StoreConfig(
    mapped_file_size_commit_log=2048, mapped_file_size_consume_queue=100, max_hash_slot_num=31, max_index_num=20
)
NOW_MS = 1_700_000_000_000


def message(
    topic: str = "T", queue_id: int = 0, body: bytes = b"hello", tag: str | None = None, **fields: object
) -> StoredMessage:
    properties = b"UNIQ_KEY\x010A0B\x02" + (f"TAGS\x01{tag}\x02".encode() if tag else b"")
    return StoredMessage(topic, queue_id, body, properties, tags_code=tags_code(tag), **fields)  # type: ignore[arg-type]


def batch_of(messages: Sequence[StoredMessage]) -> StoredBatch:
    """The messages as a batch: what its messages have in common is the first one's."""
    first = messages[0]
    data = b"".join([element(each.body, each.properties, each.flag) for each in messages])
    return StoredBatch(
        first.topic,
        first.queue_id,
        BatchElements.of(data),
        [each.tags_code for each in messages],
        first.sys_flag,
        first.born_timestamp_ms,
        first.born_host,
        first.store_host,
        first.reconsume_times,
    )


def records_of(chunks: Iterable[memoryview]) -> list[RecordView]:
    """The records that a read returned."""
    found: list[RecordView] = []
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            found.append(RecordView(chunk, at))
            at += found[-1].size
    return found


def records(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[RecordView]:
    """Every record of a queue, read as a consumer would."""
    found: list[RecordView] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.read(topic, queue_id, offset)
        assert result.next_offset > offset
        found += records_of(result.chunks)
        offset = result.next_offset
    return found


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [bytes(record.body) for record in records(store, topic, queue_id)]


def crash(store: DiskMessageStore, to: Path) -> Path:
    """A copy of the store's files as they are at this moment, the abort file included."""
    shutil.copytree(store.path, to)
    return to


def crashed(store: DiskMessageStore) -> Path:
    """``crash``, beside the store, which is closed then."""
    path = crash(store, Path(f"{store.path}-crashed"))
    store.close()
    return path


def patch(path: Path, at: int, data: bytes) -> None:
    """Damage a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def kill(store: DiskMessageStore) -> None:
    """What ``kill -9`` leaves: the files as the page cache has them, ``abort`` among them; nothing is synced."""
    flusher = store._flusher
    assert flusher is not None
    assert flusher._thread is not None
    with flusher._condition:
        flusher._closed = True
        flusher._condition.notify()
    flusher._thread.join()
    store._flusher = None
    store._release()


def problems(store: MessageStore) -> list[str]:
    """What the checker has to say about an open store, its index brought up to date first; notes left out."""
    with contextlib.suppress(StoreNotWritable):
        while store.dispatch(1_000):
            pass
    found = [*check_store(store), *check_index(store, StoreSummary())]
    return [str(problem) for problem in found if not problem.note]


opened: list[DiskMessageStore] = []


def open_disk(path: Path, config: StoreConfig = SMALL) -> DiskMessageStore:
    """It is closed after the test, if it is open then."""
    store = DiskMessageStore(path, config)
    store.load()
    opened.append(store)
    return store


def open_memory(config: StoreConfig = SMALL) -> MessageStore:
    store = MessageStore(config)
    store.load()
    return store
