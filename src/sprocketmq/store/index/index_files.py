"""All key index files of a store: put, find, expire. Java: index.IndexService.

On disk: ``index/FILE``, named after the time of creation (yyyyMMddHHmmssSSS), so that names sort by age. A file is made when the first
entry needs it, and the next one when it is full; a record's keys may fall into two files.

After a crash of ours nothing is trusted but what the checkpoint's mark counts (``index_file``, law 4), after one of a Java broker what a
header counts; files with nothing left are deleted. The look at the files waits for the first use: a start is not held up by it.
"""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.files.checkpoint import IndexProgress
from sprocketmq.store.files.mapped_file import not_writable, sync_directory
from sprocketmq.store.index.index_file import IndexFile
from sprocketmq.store.message_store import IndexHits, StoreConfig
from sprocketmq.wire.hashing import index_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["TAG_TYPE", "IndexFiles", "index_text", "indexing_cost"]

TAG_TYPE = "T"  # MessageConst.INDEX_TAG_TYPE

# In memory nobody else reads the files, and a test's broker need not be ready for millions of keys.
_MEMORY_SLOTS, _MEMORY_ENTRIES = 1 << 15, 1 << 17


def index_text(topic: str, key: str, index_type: str = "") -> str:
    """What an index entry has the hash of. Java: IndexService.buildKey."""
    return f"{topic}#{TAG_TYPE}#{key}" if index_type == TAG_TYPE else f"{topic}#{key}"


def indexing_cost(properties_bytes: int, spaces: int) -> int:
    """What a record costs to index, in ordinary ones: its properties may hold sixteen thousand keys, at a microsecond each."""
    return 1 + properties_bytes // 4096 + spaces // 4


class IndexFiles:
    """``files`` from old to new.

    Args:
        directory: the ``index`` folder; None = in memory.
    """

    def __init__(self, directory: str | None, config: StoreConfig, *, read_only: bool = False) -> None:
        self.directory, self.read_only = directory, read_only
        self.slot_count, self.entry_limit = config.max_hash_slot_num, config.max_index_num
        if directory is None:
            self.slot_count = min(self.slot_count, _MEMORY_SLOTS)
            self.entry_limit = min(self.entry_limit, _MEMORY_ENTRIES)
        self._max_results = config.max_msgs_num_batch
        self.files: list[IndexFile] = []
        self._needs_repair = False
        self._durable: IndexProgress | None = None
        self._new_file = False
        self._pending: tuple[Ints, Ints, Ints] | None = None

    def load(self, *, clean_stop: bool = True, durable: IndexProgress | None = None) -> None:
        """Find the files that exist.

        Args:
            clean_stop: the headers are true.
            durable: after a crash, how far the disk has the index; None = as far as the headers say.

        Raises:
            StoreCorrupt: a file has a wrong length.
        """
        if self.directory is None or not os.path.isdir(self.directory):
            return
        for name in sorted(os.listdir(self.directory)):
            path = os.path.join(self.directory, name)
            if not (name.isdigit() and len(name) == 17 and os.path.isfile(path)):
                continue
            if os.path.getsize(path) == 0 and not self.read_only:  # killed between its creation and its first entry
                os.unlink(path)
                continue
            file = IndexFile(path, self.slot_count, self.entry_limit, read_only=self.read_only)
            file.load()
            self.files.append(file)
        self._needs_repair, self._durable = not clean_stop, durable
        if not clean_stop:  # what a killed process wrote, names too, may be in the page cache only
            self._new_file = bool(self.files)
            for file in self.files:
                file.changes += 1

    def make_ready(self, log_end: int) -> None:
        """Before the first use: cut what points behind the log, and after a crash what is not sure.

        Raises:
            StoreNotWritable: no space.
        """
        if self.read_only:
            return
        kept = []
        for file in self.files:
            durable_count = self._durable_count(file)
            if durable_count is not None or file.header.end_physical_offset >= log_end:
                file.repair(log_end, durable_count)
            if file.header.index_count > 1:
                kept.append(file)
            else:
                file.delete()
        self.files, self._needs_repair = kept, False

    def _durable_count(self, file: IndexFile) -> int | None:
        """indexCount of what the disk is sure to have of a file; None = the file is as it should be."""
        durable, counted = self._durable, file.header.index_count
        if not self._needs_repair or (durable is not None and file.name < durable.newest_file):
            return None
        if durable is None:
            return counted
        return min(durable.index_count, counted) if file.name == durable.newest_file else 1

    @property
    def newest_count(self) -> int:
        """indexCount of the newest file; 1 without files."""
        return self.files[-1].header.index_count if self.files else 1

    @property
    def newest_name(self) -> str:
        """Name of the newest file; empty without files."""
        return self.files[-1].name if self.files else ""

    @property
    def end_physical_offset(self) -> int:
        """Where the newest record that has entries begins; -1 without entries."""
        return self.files[-1].header.end_physical_offset if self.files else -1

    def put(self, hashes: Ints, physical_offsets: Ints, store_timestamps: Ints) -> None:
        """Add entries in this order, making files as they fill up.

        Raises:
            StoreNotWritable: no space; what is left is added by ``put_pending``, which has to come before any other entry.
        """
        self._pending = hashes, physical_offsets, store_timestamps
        self.put_pending()

    def put_pending(self) -> None:
        """Add what an earlier ``put`` could not. Raises as ``put``."""
        while self._pending is not None:
            hashes, physical_offsets, store_timestamps = self._pending
            if not self.files or self.files[-1].is_full:
                self._create(int(store_timestamps[0]))
            done = self.files[-1].put(hashes, physical_offsets, store_timestamps)
            left = len(hashes) - done
            self._pending = (hashes[done:], physical_offsets[done:], store_timestamps[done:]) if left else None

    @property
    def has_pending(self) -> bool:
        return self._pending is not None

    def _create(self, now_ms: int) -> None:
        path = None
        if self.directory is not None:
            now_ms = max(0, now_ms)
            name = _file_name(now_ms)
            while self.files and name <= self.files[-1].name:
                now_ms += 1
                name = max(_file_name(now_ms), f"{int(self.files[-1].name) + 1:017d}")
            try:
                os.makedirs(self.directory, exist_ok=True)
            except OSError as error:
                raise not_writable(self.directory, error) from error
            path = os.path.join(self.directory, name)
        file = IndexFile(path, self.slot_count, self.entry_limit)
        file.create()
        self.files.append(file)
        self._new_file = True

    def find(self, text: str, max_count: int, begin_ms: int, end_ms: int) -> IndexHits:
        """Where records with ``index_text`` are: newest files first, at most ``max_count`` (and 64), ascending, each once."""
        found: list[int] = []
        hits = IndexHits()
        key_hash = index_hash(text)
        max_count = min(max_count, self._max_results)
        for file in reversed(self.files):
            if file is self.files[-1]:
                hits.last_update_timestamp = file.header.end_timestamp
                hits.last_update_physical_offset = file.header.end_physical_offset
            if file.is_within(begin_ms, end_ms):
                found += file.find(key_hash, max_count - len(found), begin_ms, end_ms)
            if file.header.begin_timestamp < begin_ms or len(found) >= max_count:
                break
        hits.physical_offsets = sorted(set(found))
        return hits

    def clean(self, min_physical_offset: int) -> int:
        """Retention: delete files that only point before ``min_physical_offset``, never the newest; how many."""
        deleted = 0
        while len(self.files) > 1 and self.files[0].header.end_physical_offset < min_physical_offset:
            self.files.pop(0).delete()
            deleted += 1
        return deleted

    def delete_all(self) -> None:
        """Recovery: the log is gone."""
        for file in self.files:
            file.delete()
        self.files = []

    @property
    def end_timestamp_ms(self) -> int:
        """Store time of the newest record that has entries; 0 without entries."""
        return max((file.header.end_timestamp for file in self.files), default=0)

    def sync(self) -> None:
        """Flush thread: bring all entries so far to the disk.

        Raises:
            OSError: the disk said no.
        """
        new_file, self._new_file = self._new_file, False  # first: a file that is made from here on sets it again
        try:
            for file in list(self.files):
                file.sync()
            if new_file and self.directory is not None:
                sync_directory(self.directory)
                sync_directory(os.path.dirname(self.directory))
        except OSError:
            self._new_file |= new_file
            raise

    def unmap(self) -> None:
        for file in self.files:
            file.unmap()


def _file_name(now_ms: int) -> str:
    try:
        now = datetime.datetime.fromtimestamp(now_ms / 1000).astimezone()
    except (OverflowError, ValueError, OSError) as error:
        raise StoreCorrupt(f"a record says that it was stored at {now_ms} ms, which is no time") from error
    return now.strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}"
