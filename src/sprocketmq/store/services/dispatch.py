# SPDX-License-Identifier: Apache-2.0
"""Building the index by key after the appends. Java: DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildIndex.

``dispatch`` reads the records between its offset and the end of the log again, many at once, and adds an entry for the UNIQ_KEY,
for each word of the KEYS and (as Apache 5.4 does) for the TAGS of each record that is not a rollback. A query dispatches first and
sees everything.

``offset`` starts where the newest index file ends. The checkpoint's mark (offset, newest file) moves it on over records without
keys, and shows that the newest files are lost: then the index is completed from the remaining files, in the background.

1. Every record before ``offset`` that has keys has its entries, each at least once: a crash or a full file may add some twice.
2. ``dispatch`` does at most the requested amount of work; a record may count as several (``_indexing_costs``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sprocketmq.store.files.checkpoint import Checkpoint, IndexProgress
from sprocketmq.store.index.index_files import TAG_TYPE, IndexFiles, index_text
from sprocketmq.store.log.commit_log import CommitLog
from sprocketmq.wire.records.properties import KEY_SEPARATOR, KEYS, TAGS, UNIQ_KEY, get_property
from sprocketmq.wire.records.record_layout import BLANK_BYTES
from sprocketmq.wire.records.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK_TYPE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sprocketmq.store.log.property_columns import PropertyTexts
    from sprocketmq.store.log.record_batch import RecordBatch

    Ints = NDArray[np.int64]
    Hashes = NDArray[np.uint32]

_log = logging.getLogger("sprocketmq.store")


def index_texts(topic: str, raw_properties: bytes, *, tags: bool = True) -> list[str]:
    """The texts whose hashes are in a record's index entries: of its UNIQ_KEY, of the words of its KEYS, of its TAGS."""
    unique, keys = get_property(raw_properties, UNIQ_KEY), get_property(raw_properties, KEYS)
    texts = [index_text(topic, unique)] if unique else []
    if keys:
        texts += [index_text(topic, word) for word in keys.split(KEY_SEPARATOR) if word]
    tag = get_property(raw_properties, TAGS) if tags else None
    return [*texts, index_text(topic, tag, TAG_TYPE)] if tag else texts


class Dispatcher:
    def __init__(self, log: CommitLog, index: IndexFiles, checkpoint: Checkpoint) -> None:
        self._log, self._index, self._checkpoint = log, index, checkpoint
        self._offset: int | None = None
        self.tags = True
        self.progress: IndexProgress | None = None

    @property
    def offset(self) -> int:
        """-1 before the first dispatch."""
        return -1 if self._offset is None else self._offset

    @property
    def backlog_bytes(self) -> int:
        if self._offset is None:
            return self._log.max_offset - self._log.min_offset
        return self._log.max_offset - max(self._offset, self._log.min_offset) or int(self._index.has_pending)

    def dispatch(self, max_records: int) -> int:
        """As ``MessageStore.dispatch``; raises StoreCorrupt, too: an index file cannot be used."""
        log = self._log
        self.make_ready()
        if self._offset is None:
            return 0
        self._index.put_pending()
        at, end = max(self._offset, log.min_offset), log.max_offset
        file = log.files.file_at(at)
        if file is None or at >= end:
            return 0
        from sprocketmq.store.log.property_columns import PropertyTexts
        from sprocketmq.store.log.record_batch import read_records

        time_ms = self.progress.store_timestamp_ms if self.progress is not None else 0
        position, last = at - file.start, min(end - file.start, file.size_bytes)
        batch = read_records(file.readable, position, last, file.start, max_records)
        work = 1
        if len(batch):
            # Without the spaces first: the texts of a thousand records may take 32 MB.
            batch.cut(_count_within(_indexing_costs(batch.properties_bytes, 0), max_records))
            texts = PropertyTexts(batch)
            costs = _indexing_costs(batch.properties_bytes, texts.spaces)
            batch.cut(_count_within(costs, max_records))
            work = int(costs[: len(batch)].sum())
            time_ms = int(batch.store_timestamp[-1])
            self._raise_index_timestamp(batch.store_timestamp)
            self._offset = file.start + batch.end  # before the entries: the index keeps those that a full disk refuses
            self._put(batch, texts)
        else:
            self._offset = self._offset_after_gap(at, file.end, end)
        index = self._index
        self.progress = IndexProgress(index.newest_name, self._offset, index.newest_count, time_ms)
        return work

    def make_ready(self) -> None:
        """Before the first use, and before a clean stop: repair the index after a crash. Raises as ``dispatch``."""
        if self._offset is None and self._log.files.files:
            self._index.make_ready(self._log.max_offset)
            self._offset = self._begin()

    @property
    def has_changes(self) -> bool:
        """Whether the index was repaired and has anything that may not be on the disk yet."""
        return self._offset is not None and self._index.has_changes

    def _raise_index_timestamp(self, store_timestamps: Ints) -> None:
        if len(store_timestamps):
            self._checkpoint.raise_index_timestamp(int(store_timestamps.max()))

    def _offset_after_gap(self, at: int, file_end: int, end: int) -> int:
        if self._log.offset_after_blank(at) is None and file_end - at >= BLANK_BYTES:
            found = self._log.offset_after_damage(at, check_crc=False)
            if found is not None and found < end:
                return found
            _log.error(
                "no valid record begins at physical offset %d; the records up to %d get no index entries", at, file_end
            )
        return min(file_end, end)

    def _begin(self) -> int:
        log, index = self._log, self._index
        newest = index.end_physical_offset
        begin = log.min_offset
        if newest >= log.min_offset:
            record = log.view_at(newest)
            # A full file may have taken only some keys of its last record.
            begin = newest if record is None or index.files[-1].is_full else newest + record.size
        if self._checkpoint.index_mark is not None:
            name, offset = self._checkpoint.index_mark[:2]
            at_record = offset == log.max_offset or (
                log.min_offset <= offset < log.max_offset and log.view_at(offset) is not None
            )
            if name == index.newest_name and offset > begin and at_record:
                begin = offset
        return begin

    # -- keys to entries -------------------------------------------------------------------------------------------------------

    def _put(self, batch: RecordBatch, texts: PropertyTexts) -> None:
        records, hashes = keys_of(batch, texts, tags=self.tags)
        kept = (batch.sys_flag[records] & TRANSACTION_MASK) != TRANSACTION_ROLLBACK_TYPE
        if not kept.all():
            records, hashes = records[kept], hashes[kept]
        if len(records):
            self._index.put(hashes, batch.physical_offset[records], batch.store_timestamp[records])


def _indexing_costs(properties_bytes: Ints, spaces: Ints | int) -> Ints:
    """In ordinary records: the properties of one may hold sixteen thousand keys."""
    costs: Ints = 1 + properties_bytes // 1024 + spaces // 4
    return costs


def _count_within(costs: Ints, most: int) -> int:
    return max(1, int(costs.cumsum().searchsorted(most, "right")))


def keys_of(batch: RecordBatch, texts: PropertyTexts | None = None, *, tags: bool = True) -> tuple[Ints, Ints]:
    """The record and the index hash of every key of the records, in the order of the records and of ``index_texts``."""
    import numpy as np

    from sprocketmq.store.log.property_columns import PropertyTexts
    from sprocketmq.store.log.record_batch import topic_hashes

    if not batch.properties_bytes.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    topics, has_topic = topic_hashes(batch)
    before_key = topics * np.uint32(31) + np.uint32(ord("#"))
    before_tag = (before_key * np.uint32(31) + np.uint32(ord(TAG_TYPE))) * np.uint32(31) + np.uint32(ord("#"))
    parts: list[tuple[Ints, Hashes]] = []
    for columns in (texts or PropertyTexts(batch)).columns(len(batch)):
        found = [columns.values(UNIQ_KEY), columns.split(columns.values(KEYS))]
        before = [before_key[values.records] for values in found]
        if tags:
            found.append(columns.values(TAGS))
            before.append(before_tag[found[-1].records])
        records, begins, ends = map(np.concatenate, zip(*found, strict=True))
        parts.append((records, columns.hashes(begins, ends, np.concatenate(before))))
    records, hashes = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    order = records.argsort(kind="stable")
    records, hashes = records[order], hashes[order]
    if not has_topic.all():  # no query can name such a key
        kept = has_topic[records]
        records, hashes = records[kept], hashes[kept]
    return records, _positive(hashes)


def _positive(hashes: Hashes) -> Ints:
    """The last step of ``wire.hashing.index_hash``, for wrapped sums."""
    import numpy as np

    signed = np.abs(hashes.view(np.int32).astype(np.int64))
    signed[signed == 0x80000000] = 0
    return signed
