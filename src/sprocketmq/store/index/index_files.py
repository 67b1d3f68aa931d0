# SPDX-License-Identifier: Apache-2.0
"""All files of the index by key, ``index/yyyyMMddHHmmssSSS``. Java: index.IndexService.

A file is created when the one before it is full; the keys of one record may be in two. After a crash of ours only the entries that
the checkpoint's mark counts are trusted (``index_file``, rule 4); after a crash of a Java broker those that a header counts. The
files are read at the first use, so that they do not delay a start.
"""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.files.checkpoint import IndexProgress
from sprocketmq.store.files.mapped_file import disk_errors, sync_directory
from sprocketmq.store.index.index_file import IndexFile
from sprocketmq.store.store_config import StoreConfig
from sprocketmq.store.stored_message import IndexHits
from sprocketmq.wire.hashing import index_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

TAG_TYPE = "T"  # MessageConst.INDEX_TAG_TYPE

# In memory no other program reads the files, and the broker of a test does not need room for millions of keys.
_MEMORY_SLOTS, _MEMORY_ENTRIES = 1 << 15, 1 << 17


def index_text(topic: str, key: str, index_type: str = "") -> str:
    """The text whose hash is in an index entry. Java: IndexService.buildKey."""
    return f"{topic}#{TAG_TYPE}#{key}" if index_type == TAG_TYPE else f"{topic}#{key}"


class IndexFiles:
    """``files`` from old to new. ``directory=None``: in memory."""

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
        self._new_names = False
        self._pending: tuple[Ints, Ints, Ints] | None = None

    def load(self, *, clean_stop: bool = True, durable: IndexProgress | None = None) -> None:
        """``clean_stop``: the headers are true. ``durable``: after a crash, how much of the index is on the disk; None = as much as
        the headers say. Raises StoreCorrupt (a file has a wrong length)."""
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
        if not clean_stop:  # bytes and names that a killed process wrote may be in the page cache only
            self._new_names = bool(self.files)
            for file in self.files:
                file.changes += 1

    def make_ready(self, log_end: int) -> None:
        """Before the first use: remove entries that point behind the log, and after a crash those that may not be on the disk.
        Files without entries are deleted. Raises StoreNotWritable."""
        if self.read_only:
            return
        for file in list(self.files):
            durable_count = self._durable_count(file)
            if durable_count is not None or file.header.end_physical_offset >= log_end:
                file.repair(log_end, durable_count)
            if file.header.index_count <= 1:
                file.delete()
                self.files.remove(file)  # now, because the next one may refuse, and a query reads what is in the list
                self._new_names = True
        self._needs_repair = False

    def _durable_count(self, file: IndexFile) -> int | None:
        """indexCount of the entries of a file that are certainly on the disk; None = the file is complete."""
        durable, counted = self._durable, file.header.index_count
        if not self._needs_repair or (durable is not None and file.name < durable.newest_file):
            return None
        if durable is None:
            return counted
        return min(durable.index_count, counted) if file.name == durable.newest_file else 1

    @property
    def numbers(self) -> tuple[int, int]:
        return self.slot_count, self.entry_limit

    @property
    def newest_count(self) -> int:
        return self.files[-1].header.index_count if self.files else 1

    @property
    def newest_name(self) -> str:
        return self.files[-1].name if self.files else ""

    @property
    def end_physical_offset(self) -> int:
        """Of the newest record with entries; -1 without entries."""
        return self.files[-1].header.end_physical_offset if self.files else -1

    def put(self, hashes: Ints, physical_offsets: Ints, store_timestamps: Ints) -> None:
        """Add entries in this order. Raises StoreNotWritable: ``put_pending`` adds the rest, before any other entry is added."""
        self._pending = hashes, physical_offsets, store_timestamps
        self.put_pending()

    def put_pending(self) -> None:
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
            with disk_errors(self.directory):
                os.makedirs(self.directory, exist_ok=True)
            path = os.path.join(self.directory, name)
        file = IndexFile(path, self.slot_count, self.entry_limit)
        file.create()
        self.files.append(file)
        self._new_names = True

    def find(self, text: str, max_count: int, begin_ms: int, end_ms: int) -> IndexHits:
        """Physical offsets of records with ``index_text``: newest files first, at most ``max_count``, ascending, each once."""
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
        """Retention: delete files that only point before ``min_physical_offset``, but never the newest; returns how many."""
        deleted = 0
        while len(self.files) > 1 and self.files[0].header.end_physical_offset < min_physical_offset:
            self.files[0].delete()
            del self.files[0]
            deleted += 1
        return deleted

    def delete_all(self) -> None:
        for file in self.files:
            file.delete()
        self.files = []

    @property
    def end_timestamp_ms(self) -> int:
        return max((file.header.end_timestamp for file in self.files), default=0)

    @property
    def has_changes(self) -> bool:
        """Whether anything may not be on the disk yet. Any thread may ask."""
        return self._new_names or any(file.changes != file.synced_changes for file in list(self.files))

    def sync(self) -> None:
        new_names, self._new_names = self._new_names, False  # before the sync: a file created from now on sets it again
        try:
            for file in list(self.files):
                file.sync()
            if new_names and self.directory is not None:
                sync_directory(self.directory)
                sync_directory(os.path.dirname(self.directory))
        except OSError:
            self._new_names |= new_names
            raise

    def unmap(self) -> None:
        for file in self.files:
            file.unmap()


def _file_name(now_ms: int) -> str:
    try:
        now = datetime.datetime.fromtimestamp(now_ms / 1000).astimezone()
    except (OverflowError, ValueError, OSError) as error:
        raise StoreCorrupt(f"the store time of a record is {now_ms} ms, which is not a valid time") from error
    return now.strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}"
