"""Building the index by key after the appends. Java: DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildIndex.

    records of the log ---- appended ----|---- not yet dispatched ----|
                                     ``offset``                     log end

An append does nothing for the index. ``dispatch`` reads the records between its own offset and the end of the log again, many at once
(``record_batch``), and adds an entry for the UNIQ_KEY, for each word of the KEYS and (as Apache 5.4 does) for the TAGS of each record
that is not a rollback. So the index is a little late, as Apache's is; a query dispatches first and sees everything.

``offset`` starts where the newest index file ends. The checkpoint's mark (offset, newest file) moves it on over records without keys. It
also shows that the newest files are lost: then the index is completed from the remaining files, in the background.

Laws
1. Every record before ``offset`` that has keys has its entries, each at least once (a crash or a full file in the middle of a record
   may add some twice; queries return each record once).
2. ``dispatch`` does at most the requested amount of work. A record with many keys, or with long properties, counts as several records
   (``indexing_cost``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sprocketmq.store.files.checkpoint import Checkpoint, IndexProgress
from sprocketmq.store.index.index_files import TAG_TYPE, IndexFiles, index_text, indexing_cost
from sprocketmq.store.log.commit_log import CommitLog
from sprocketmq.wire.hashing import index_hash, java_hash
from sprocketmq.wire.records.properties import KEY_SEPARATOR, KEYS, TAGS, UNIQ_KEY, get_property
from sprocketmq.wire.records.record_layout import BLANK_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sprocketmq.store.log.record_batch import RecordBatch

    Ints = NDArray[np.int64]
    Hashes = NDArray[np.uint32]

__all__ = ["Dispatcher", "index_texts", "keys_of"]

_TRANSACTION_MASK, _ROLLBACK = 0xC, 0xC
_UNIQ_KEY, _KEYS, _TAGS = UNIQ_KEY.encode(), KEYS.encode(), TAGS.encode()
_NAMES = (_UNIQ_KEY, _KEYS, _TAGS)
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
    """See the module's docstring. Belongs to the thread that owns the store."""

    def __init__(self, log: CommitLog, index: IndexFiles, checkpoint: Checkpoint | None) -> None:
        self._log, self._index, self._checkpoint = log, index, checkpoint
        self._offset: int | None = None
        self.tags = True
        self.progress: IndexProgress | None = None

    @property
    def offset(self) -> int:
        """The offset before which everything is in the index; -1 before the first dispatch."""
        return -1 if self._offset is None else self._offset

    @property
    def backlog_bytes(self) -> int:
        """How many bytes the index is behind the log."""
        if self._offset is None:
            return self._log.max_offset - self._log.min_offset
        return self._log.max_offset - max(self._offset, self._log.min_offset) or int(self._index.has_pending)

    def dispatch(self, max_records: int) -> int:
        """Index up to ``max_records`` records, fewer if they have many keys (law 2), but at least one. Returns how many; 0 = none are left.

        Raises:
            StoreNotWritable: the disk is full; the next call continues where this one stopped.
            StoreCorrupt: an index file cannot be used.
        """
        log = self._log
        if self._offset is None:
            if not log.files.files:
                return 0
            self._index.make_ready(log.max_offset)
            self._offset = self._begin()
        self._index.put_pending()
        at, end = max(self._offset, log.min_offset), log.max_offset
        file = log.files.file_at(at)
        if file is None or at >= end:
            return 0
        from sprocketmq.store.log.record_batch import read_records
        from sprocketmq.store.services.uniform_records import uniform_keys

        time_ms = self.progress.store_timestamp_ms if self.progress is not None else 0
        position, last = at - file.start, min(end - file.start, file.size_bytes)
        run = uniform_keys(file.readable, position, last, file.start, max_records, tags=self.tags)
        if run is not None:
            work = run.record_count  # of one each
            time_ms = run.last_store_timestamp
            self._raise_index_timestamp(run.store_timestamps)
            self._offset = file.start + run.end  # before the entries: the index keeps those that a full disk refuses
            if len(run.hashes):
                self._index.put(run.hashes, run.physical_offsets, run.store_timestamps)
        else:
            batch = read_records(file.readable, position, last, file.start, max_records)
            work = _cut_to(batch, max_records)
            if work:
                time_ms = int(batch.store_timestamp[-1])
                self._raise_index_timestamp(batch.store_timestamp)
                self._offset = file.start + batch.end
                self._put(batch)
            else:
                self._offset = self._offset_after_gap(at, file.start + file.size_bytes, end)
        index = self._index
        self.progress = IndexProgress(index.newest_name, self._offset, index.newest_count, time_ms)
        return work or 1

    def _raise_index_timestamp(self, store_timestamps: Ints) -> None:
        """Raise the checkpoint's third timestamp, before the entries of records that were stored then are added."""
        if self._checkpoint is not None and len(store_timestamps):
            self._checkpoint.raise_index_timestamp(int(store_timestamps.max()))

    @property
    def index_numbers(self) -> tuple[int, int]:
        """Slots and entries of each index file."""
        return self._index.slot_count, self._index.entry_limit

    def sync(self) -> None:
        """Flush thread: write the index to the disk.

        Raises:
            OSError: the disk reported an error.
        """
        self._index.sync()

    def _offset_after_gap(self, at: int, file_end: int, end: int) -> int:
        if self._log.offset_after_filler(at) is None and file_end - at >= BLANK_BYTES:
            found = self._log.offset_after_damage(at, check_crc=False)
            if found is not None and found < end:
                return found
            _log.error(
                "no valid record begins at physical offset %d; the records up to %d get no index entries", at, file_end
            )
        return min(file_end, end)

    def _begin(self) -> int:
        """Where to continue: behind the newest record with entries, or further, if the checkpoint says so."""
        log, index = self._log, self._index
        newest = index.end_physical_offset
        begin = log.min_offset
        if newest >= log.min_offset:
            record = log.view_at(newest, check_crc=False)
            # A full file may have taken only some keys of its last record.
            begin = newest if record is None or index.files[-1].is_full else newest + record.size
        if self._checkpoint is not None and self._checkpoint.index_mark is not None:
            name, offset = self._checkpoint.index_mark[:2]
            at_record = offset == log.max_offset or (
                log.min_offset <= offset < log.max_offset and log.view_at(offset, check_crc=False) is not None
            )
            if name == index.newest_name and offset > begin and at_record:
                begin = offset
        return begin

    # -- keys to entries -------------------------------------------------------------------------------------------------------

    def _put(self, batch: RecordBatch) -> None:
        import numpy as np

        records, hashes, orders = keys_of(batch, tags=self.tags)
        if not len(records):
            return
        kept = (batch.sys_flag[records] & _TRANSACTION_MASK) != _ROLLBACK
        if not kept.all():
            records, hashes, orders = records[kept], hashes[kept], orders[kept]
        order = np.lexsort((orders, records))
        if len(order) > 1 and not (order[1:] > order[:-1]).all():
            records, hashes = records[order], hashes[order]
        self._index.put(hashes, batch.physical_offset[records], batch.store_timestamp[records])


def _cut_to(batch: RecordBatch, max_records: int) -> int:
    """Cut the batch to records whose indexing cost is at most ``max_records``, but keep one record (law 2). Return the cost."""
    data, done = batch.data, 0
    places = zip(batch.properties_at.tolist(), batch.properties_bytes.tolist(), strict=True)
    for number, (at, size) in enumerate(places):
        work = indexing_cost(size, bytes(data[at : at + size]).count(b" "))
        if number and done + work > max_records:
            batch.cut(number)
            break
        done += work
    return done


def keys_of(batch: RecordBatch, *, tags: bool = True) -> tuple[Ints, Ints, Ints]:
    """(record, index hash, place among the record's keys) of every key in a batch, in arbitrary order."""
    import numpy as np

    from sprocketmq.store.log.record_batch import topic_hashes, value_groups

    topics, ascii_topics = topic_hashes(batch)
    found: list[tuple[Ints, Hashes, int]] = []
    odd: list[tuple[int, int, int]] = []
    for indexes, values in value_groups(batch, _NAMES if tags else _NAMES[:2]):
        one_by_one = indexes if values is None else indexes[~ascii_topics[indexes]]
        for index in one_by_one.tolist():
            odd += _keys_of_record(batch, index, tags)
        if values is None:
            continue
        if len(one_by_one):
            fine = ascii_topics[indexes]
            indexes, values = indexes[fine], {name: rows[fine] for name, rows in values.items()}
        if len(indexes):
            found += _hashes(indexes, topics[indexes], values)
    records = np.concatenate([*(part[0] for part in found), np.array([key[0] for key in odd], np.int64)])
    hashes = np.concatenate([*(_positive(part[1]) for part in found), np.array([key[1] for key in odd], np.int64)])
    orders = np.concatenate(
        [*(np.full(len(part[0]), part[2]) for part in found), np.array([key[2] for key in odd], np.int64)]
    )
    return records, hashes, orders


def _hashes(indexes: Ints, topics: Hashes, values: dict[bytes, NDArray[np.uint8]]) -> list[tuple[Ints, Hashes, int]]:
    from sprocketmq.store.log.record_batch import hash_rows, power_of_31

    found: list[tuple[Ints, Hashes, int]] = []
    for name in _NAMES:
        rows = values.get(name)
        if rows is None:
            continue
        between = "#T#" if name == _TAGS else "#"
        # Spaces are at the same places in all rows. UNIQ_KEY and TAGS are one word, also with spaces in them.
        for begin, end in _words(rows[0].tobytes()) if name == _KEYS else [(0, rows.shape[1])]:
            length = end - begin
            hashes = topics * power_of_31(length + len(between)) + hash_rows(rows[:, begin:end])
            found.append((indexes, hashes + power_of_31(length, java_hash(between)), len(found)))
    return found


def _words(text: bytes) -> list[tuple[int, int]]:
    spans, at = [], 0
    for word in text.split(KEY_SEPARATOR.encode()):
        if word:
            spans.append((at, at + len(word)))
        at += len(word) + 1
    return spans


def _positive(hashes: Hashes) -> Ints:
    """Apply the last step of ``wire.hashing.index_hash`` to wrapped sums."""
    import numpy as np

    signed = np.abs(hashes.view(np.int32).astype(np.int64))
    signed[signed == 0x80000000] = 0
    return signed


def _keys_of_record(batch: RecordBatch, index: int, tags: bool) -> list[tuple[int, int, int]]:
    try:
        topic = batch.topic(index).decode()
    except UnicodeDecodeError:  # no query can name such a key
        return []
    texts = index_texts(topic, batch.properties(index), tags=tags)
    return [(index, index_hash(text), order) for order, text in enumerate(texts)]
