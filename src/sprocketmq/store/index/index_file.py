# SPDX-License-Identifier: Apache-2.0
"""One file of the index by key. Java: index.IndexFile, index.IndexHeader.

    header | slots | entries, numbered from 1

A slot holds the number of the newest entry whose key's hash falls there (hash mod the number of slots), 0 = none. The hash is
``wire.hashing.index_hash(topic#key)``.

1. Entries never change once written, and their physical offsets never decrease.
2. The entries of a slot form a chain of falling numbers that begins at the slot and ends at 0.
3. The header is updated right after entries and slots, so that a killed process leaves a complete file. A Java broker treats a slot
   whose number is not below indexCount as empty, and would lose its chain.
4. The checkpoint's index mark says how much is certainly on the disk. After a power cut ``repair`` keeps these entries and computes the
   slots from them, and the records behind them are indexed again.

The file is sparse; space is reserved before a mapped page is written (``disk_space``). Possible holes are not read through the
mapping either: on tmpfs that takes space.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from typing import TYPE_CHECKING, NamedTuple

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.files.disk_space import PAGE_BYTES, allow_writes, allow_writes_at_ends, write_zeros
from sprocketmq.store.files.mapped_file import create_sparse, disk_errors, opened, sync_path
from sprocketmq.wire.layout import Layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_HEADER_LAYOUT = Layout(
    ("begin_timestamp", "q"),  # store time of the first record that has an entry, ms
    ("end_timestamp", "q"),  # ... of the last one
    ("begin_physical_offset", "q"),
    ("end_physical_offset", "q"),
    ("used_slot_count", "i"),
    ("index_count", "i"),  # the number that the next entry gets, 1 at first
)
_SLOT_LAYOUT = Layout(("number", "i"))
_ENTRY_LAYOUT = Layout(
    ("hash", "i"),  # of the key
    ("physical_offset", "q"),
    ("seconds", "i"),  # since the header's begin_timestamp
    ("before", "i"),  # number of the entry before it in its slot, 0 = none
)
_HEADER, _SLOT, _ENTRY = _HEADER_LAYOUT.struct, _SLOT_LAYOUT.struct, _ENTRY_LAYOUT.struct
HEADER_SIZE_BYTES, SLOT_SIZE_BYTES, ENTRY_SIZE_BYTES = _HEADER.size, _SLOT.size, _ENTRY.size
_SLOT_TYPE = _SLOT_LAYOUT.numpy_type("number")
_ENTRY_STEP_BYTES = 256 * 1024
_LARGEST_INT32 = 0x7FFFFFFF
_NUMBER_BITS = 31  # of a place among the entries; a slot's number takes as many at most
_NUMBER_MASK = _LARGEST_INT32
# A chain longer than this (one key used again and again) is not followed: searching all entries at once is faster.
_LONG_CHAIN = 2_000
_AT_ONCE = 1 << 20


def file_size_bytes(slot_count: int, entry_limit: int) -> int:
    return HEADER_SIZE_BYTES + slot_count * SLOT_SIZE_BYTES + entry_limit * ENTRY_SIZE_BYTES


class IndexHeader(NamedTuple):
    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    used_slot_count: int = 0
    index_count: int = 1


class IndexFile:
    """Call ``create`` or ``load`` first. With ``path=None`` the file is in memory.

    ``changes`` and ``synced_changes`` count writes, and those before the last sync. Headers are not enough for that: after a crash
    the same entries are written again, over entries that the disk may have lost.
    """

    def __init__(self, path: str | None, slot_count: int, entry_limit: int, *, read_only: bool = False) -> None:
        self.path, self.slot_count, self.entry_limit, self.read_only = path, slot_count, entry_limit, read_only
        self.size_bytes = file_size_bytes(slot_count, entry_limit)
        self.header = IndexHeader()
        self.changes = self.synced_changes = 0
        self._entries_at = HEADER_SIZE_BYTES + slot_count * SLOT_SIZE_BYTES
        self._map: mmap.mmap | None = None
        self._slots: NDArray[np.int32] | None = None
        self._entries: NDArray[np.void] | None = None
        self._allocated_pages = bytearray((self._entries_at + PAGE_BYTES - 1) // PAGE_BYTES)
        self._allocated_entry_bytes = 0

    def __repr__(self) -> str:
        return f"IndexFile({self.path!r}, {self.header.index_count - 1} of {self.entry_limit - 1} entries)"

    @property
    def name(self) -> str:
        """The time of its creation, yyyyMMddHHmmssSSS."""
        return os.path.basename(self.path or "")

    @property
    def is_full(self) -> bool:
        return self.header.index_count >= self.entry_limit

    # -- life ------------------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        if self.path is not None:
            create_sparse(self.path, self.size_bytes)

    def load(self) -> None:
        assert self.path is not None
        length = os.path.getsize(self.path)
        if length != self.size_bytes:
            raise StoreCorrupt(
                f"{self.path} has {length} bytes where {self.size_bytes} are expected; set maxHashSlotNum and maxIndexNum to the numbers "
                "this store was made with, or remove the folder index: it is rebuilt from the log"
            )
        with open(self.path, "rb") as file:
            header = IndexHeader(*_HEADER.unpack(file.read(HEADER_SIZE_BYTES)))
        if not 1 <= header.index_count <= self.entry_limit:  # Java writes it late: zero until the first flush
            header = IndexHeader()
        self.header = header

    def unmap(self) -> None:
        self._slots = self._entries = None
        mapping, self._map = self._map, None
        # As in MappedFile: space that was reserved for this mapping does not count for the next one.
        self._allocated_pages, self._allocated_entry_bytes = bytearray(len(self._allocated_pages)), 0
        if mapping is not None:
            with contextlib.suppress(BufferError):  # a view is in use: the mapping is freed with the last view
                mapping.close()

    def delete(self) -> None:
        self.unmap()
        if self.path is not None:
            with disk_errors(self.path), contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def _mapping(self) -> mmap.mmap:
        if self._map is None:
            if self.path is None:
                self._map = mmap.mmap(-1, self.size_bytes)
            else:
                self._map = self._map_file(self.path)
        return self._map

    def _map_file(self, path: str) -> mmap.mmap:
        with opened(path, os.O_RDONLY if self.read_only else os.O_RDWR) as fd:
            mapping = mmap.mmap(fd, self.size_bytes, access=mmap.ACCESS_READ if self.read_only else mmap.ACCESS_WRITE)
        if hasattr(mmap, "MADV_RANDOM"):  # reading one slot must not read its neighbours from the disk
            mapping.madvise(mmap.MADV_RANDOM)
        return mapping

    def _arrays(self) -> tuple[NDArray[np.int32], NDArray[np.void]]:
        """Slots and entries in place; entry 0 is never used."""
        if self._slots is None or self._entries is None:
            import numpy as np

            mapping = self._mapping()
            self._slots = np.ndarray((self.slot_count,), _SLOT_TYPE, buffer=mapping, offset=HEADER_SIZE_BYTES)
            self._entries = np.ndarray((self.entry_limit,), _entry_type(), buffer=mapping, offset=self._entries_at)
        return self._slots, self._entries

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def put(self, hashes: Ints, physical_offsets: Ints, store_timestamps: Ints) -> int:
        """Add entries in this order. Returns how many had room. Raises StoreNotWritable; nothing was added."""
        import numpy as np

        header = self.header
        first = header.index_count
        count = min(len(hashes), self.entry_limit - first)
        if count <= 0:
            return 0
        slots, entries = self._arrays()
        hashes, physical_offsets, store_timestamps = hashes[:count], physical_offsets[:count], store_timestamps[:count]
        if first <= 1:
            header = header._replace(
                begin_timestamp=int(store_timestamps[0]), begin_physical_offset=int(physical_offsets[0])
            )
        places = hashes % self.slot_count
        self._ensure_space(places, first + count)
        before = slots[places].astype(np.int64)
        before[(before <= 0) | (before >= first)] = 0
        numbers = np.arange(first, first + count)
        # Sort words that hold place and number: many times as fast as a stable sort of the places.
        ordered = places << _NUMBER_BITS | np.arange(count)
        ordered.sort()
        again = (ordered[1:] >> _NUMBER_BITS) == (ordered[:-1] >> _NUMBER_BITS)
        order = ordered & _NUMBER_MASK
        before[order[1:][again]] = numbers[order[:-1][again]]
        new = entries[first : first + count]
        new["hash"], new["physical_offset"], new["before"] = hashes, physical_offsets, before
        if header.begin_timestamp > 0:
            seconds = (store_timestamps - header.begin_timestamp) // 1000
            # Not clip: that costs ten times as much.
            new["seconds"] = np.minimum(np.maximum(seconds, 0), _LARGEST_INT32)
        else:
            new["seconds"] = 0
        slots[places] = numbers  # of equal places the last one stays
        self._count(
            header._replace(
                end_timestamp=int(store_timestamps[-1]),
                end_physical_offset=int(physical_offsets[-1]),
                used_slot_count=header.used_slot_count + int(np.count_nonzero(before == 0)),
                index_count=first + count,
            )
        )
        return count

    def _count(self, header: IndexHeader) -> None:
        _HEADER.pack_into(self._mapping(), 0, *header)
        self.header = header
        self.changes += 1  # after the change that it counts, because the flush thread reads it first

    def _ensure_space(self, places: Ints, entries_end: int) -> None:
        if self.path is None:
            return
        import numpy as np

        pages = (places * SLOT_SIZE_BYTES + HEADER_SIZE_BYTES) // PAGE_BYTES
        allocated = np.frombuffer(self._allocated_pages, np.bool_)
        missing = [] if allocated[pages].all() else sorted(set(pages[~allocated[pages]].tolist()))
        if not allocated[0] and 0 not in missing:
            missing.append(0)  # the header's
        entries_end_at = self._entries_at + entries_end * ENTRY_SIZE_BYTES
        if not missing and entries_end_at <= self._allocated_entry_bytes:
            return
        mapping = self._mapping()
        with disk_errors(self.path):
            for page in missing:
                allow_writes(mapping, self.path, page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
                self._allocated_pages[page] = 1
            begin = self._allocated_entry_bytes or self._entries_at + self.header.index_count * ENTRY_SIZE_BYTES
            if entries_end_at > self._allocated_entry_bytes:
                end = min(max(entries_end_at, begin + _step(begin - self._entries_at)), self.size_bytes)
                end = write_zeros(self.path, begin, min(end + -end % PAGE_BYTES, self.size_bytes), _ENTRY_STEP_BYTES)
                allow_writes_at_ends(mapping, self.path, begin, end)
                self._allocated_entry_bytes = end
                if end < entries_end_at:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def repair(self, log_end: int, durable_count: int | None = None) -> None:
        """After a crash: keep the sound entries that point before ``log_end``, and compute the slots from them. ``durable_count``:
        indexCount of the entries that are certainly on the disk; None = the header's. Raises StoreNotWritable."""
        import numpy as np

        slots, entries = self._arrays()
        sound, table, used = 1, np.zeros(self.slot_count, np.int64), 0
        last = self.header.begin_physical_offset
        counted = self.header.index_count if durable_count is None else min(self.header.index_count, durable_count)
        while sound < counted:
            chunk = entries[sound : min(counted, sound + _AT_ONCE)]
            offsets, hashes = chunk["physical_offset"].astype(np.int64), chunk["hash"].astype(np.int64)
            fine = (offsets < log_end) & (hashes >= 0) & (np.diff(offsets, prepend=last) >= 0)
            count = len(chunk) if fine.all() else int(np.argmin(fine))
            if count:
                table[hashes[:count] % self.slot_count] = np.arange(sound, sound + count)
                last = int(offsets[count - 1])
            sound += count
            if count < len(chunk):
                break
        used = int(np.count_nonzero(table))
        wrong = np.flatnonzero(table != self.slots())
        self._ensure_space(wrong, sound)
        slots[wrong] = table[wrong]
        self._count_only(sound, used)

    def _count_only(self, index_count: int, used_slot_count: int) -> None:
        header = self.header
        if index_count <= 1:
            self._count(IndexHeader())
            return
        if index_count < header.index_count:
            _, offset, seconds, _ = self.entry(index_count - 1)
            header = header._replace(
                end_timestamp=header.begin_timestamp + seconds * 1000,
                end_physical_offset=offset,
                index_count=index_count,
            )
        self._count(header._replace(used_slot_count=used_slot_count))

    def sync(self) -> None:
        changes = self.changes
        if self.path is None or changes == self.synced_changes:
            return
        mapping = self._map
        if os.name == "nt" and mapping is not None:
            mapping.flush()
        sync_path(self.path)
        self.synced_changes = changes

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(hash, physical offset, seconds since begin_timestamp, number of the one before)."""
        key_hash, offset, seconds, before = _ENTRY.unpack_from(
            self._mapping(), self._entries_at + number * ENTRY_SIZE_BYTES
        )
        return key_hash, offset, seconds, before

    def slot(self, place: int) -> int:
        at = HEADER_SIZE_BYTES + place * SLOT_SIZE_BYTES
        if self.path is None or self._allocated_pages[at // PAGE_BYTES]:
            (number,) = _SLOT.unpack_from(self._mapping(), at)
        else:
            (number,) = _SLOT.unpack(self._read(at, SLOT_SIZE_BYTES))
        return number if 0 < number < self.header.index_count else 0

    def is_within(self, begin_ms: int, end_ms: int) -> bool:
        return begin_ms <= self.header.end_timestamp and end_ms >= self.header.begin_timestamp

    def find(self, key_hash: int, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Physical offsets of the entries with this hash that were stored between the two times (to the second), newest first."""
        found: list[int] = []
        number, steps = self.slot(key_hash % self.slot_count), 0
        start_ms = self.header.begin_timestamp
        while number and len(found) < max_count:
            entry_hash, offset, seconds, before = self.entry(number)
            stored_ms = start_ms + seconds * 1000
            if entry_hash == key_hash and begin_ms <= stored_ms <= end_ms:
                found.append(offset)
            # Numbers decrease, so a damaged chain cannot be a circle.
            if stored_ms < begin_ms or before >= number or seconds < 0:
                break
            number, steps = max(0, before), steps + 1
            if steps >= _LONG_CHAIN:
                found += self._find_among(number, key_hash, max_count - len(found), begin_ms, end_ms)
                break
        return found

    def _find_among(self, newest: int, key_hash: int, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        _, entries = self._arrays()
        found: list[int] = []
        low, high = (begin_ms - self.header.begin_timestamp) / 1000, (end_ms - self.header.begin_timestamp) / 1000
        end = newest + 1
        while end > 1 and len(found) < max_count:
            chunk = entries[max(1, end - _AT_ONCE) : end]
            fits = (chunk["hash"] == key_hash) & (chunk["seconds"] >= low) & (chunk["seconds"] <= high)
            found += chunk["physical_offset"][fits][::-1].tolist()
            if chunk["seconds"][0] < low:
                break
            end = max(1, end - _AT_ONCE)
        return found[:max_count]

    def columns(self) -> NDArray[np.void]:
        """All entries, for ``store check``; element n is entry n + 1."""
        return self._arrays()[1][1 : self.header.index_count]

    def slots(self) -> NDArray[np.int64]:
        import numpy as np

        if self.path is None:
            return self._arrays()[0].astype(np.int64)
        raw = self._read(HEADER_SIZE_BYTES, self.slot_count * SLOT_SIZE_BYTES)
        return np.frombuffer(raw, _SLOT_TYPE).astype(np.int64)

    def _read(self, at: int, length: int) -> bytes:
        """With an ordinary read, so that a hole in the file stays one."""
        assert self.path is not None
        with open(self.path, "rb", buffering=0) as file:
            file.seek(at)
            return file.read(length) or b""


def _entry_type() -> np.dtype[np.void]:
    import numpy as np

    columns: np.dtype[np.void] = np.dtype(_ENTRY_LAYOUT.columns())
    return columns


def _step(used_bytes: int) -> int:
    """Space grows in doubling steps: an index of ten messages takes a page, not a megabyte."""
    return min(max(PAGE_BYTES, used_bytes), _ENTRY_STEP_BYTES)
