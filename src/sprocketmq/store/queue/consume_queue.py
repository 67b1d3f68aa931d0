# SPDX-License-Identifier: Apache-2.0
"""The index of one queue: for each message a unit that says where its record is (``store.queue.unit``). Java: ConsumeQueue.

1. Units are dense: every offset in [min_offset, max_offset) has one, and its record has the same topic, queue and offset.
2. Physical offsets increase with the offset.
3. Every byte after max_offset is zero on disk, so that a start can find the end.
4. A queue that begins above 0 has filler units (0, 0x7FFFFFFF, 0) before its first unit in that file.

The last file is mapped while the queue is written, an older one while it is read; others are read with ordinary reads.
"""

from __future__ import annotations

from collections import OrderedDict

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.files.mapped_file import StoreFile
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT, UNIT_SIZE_BYTES
from sprocketmq.wire.records.record_layout import MAX_TOPIC_V1_BYTES, TOPIC_LENGTH_V1

_FILLER = UNIT.pack(0, FILLER_SIZE, 0)
_NO_VIEW = memoryview(b"")
_HEAD_UNITS = 4096 // UNIT_SIZE_BYTES


class MappedBudget:
    """Keeps the number of mapped queues under ``limit``: those without an append since the last check are unmapped first (second
    chance). In addition, an eighth as many full files are mapped for readers that are behind; those mapped first go first."""

    def __init__(self, limit: int) -> None:
        self.limit = max(1, limit)
        self.read_limit = max(1, limit // 8)
        self._queues: OrderedDict[ConsumeQueue, int] = OrderedDict()
        self._read: OrderedDict[StoreFile, None] = OrderedDict()

    def admit(self, queue: ConsumeQueue) -> None:
        self.forget(queue)  # not to be unmapped now
        while len(self._queues) >= self.limit:
            candidate, seen_offset = self._queues.popitem(last=False)
            if candidate.max_offset != seen_offset:
                self._queues[candidate] = candidate.max_offset
            else:
                candidate.unmap()
        self._queues[queue] = queue.max_offset

    def admit_reader(self, file: StoreFile) -> None:
        self._read[file] = None
        self._read.move_to_end(file)
        if len(self._read) > self.read_limit:
            self._read.popitem(last=False)[0].unmap()

    def forget(self, queue: ConsumeQueue) -> None:
        self._queues.pop(queue, None)

    def __len__(self) -> int:
        return len(self._queues)


class ConsumeQueue:
    """The store's append writes units itself (``UNIT.pack_into(queue.view, queue.at, ...)``, then it moves ``at`` and
    ``max_offset``), because another call would be too slow there; it calls ``make_room`` first whenever ``at > room``.

    Attributes:
        min_offset, max_offset: first kept offset, and one past the last.
        at: position of the next unit in the last file; ``view``: that file; ``room``: last position at which a unit may begin.
        flushed_offset: everything before it is on the disk (flush thread).
        written_from: entries from here on were written by this process; readers compare those before it with their records.
        compared: from which entry to which the bodies of the records were compared with their checksums.
    """

    __slots__ = (
        "at", "budget", "compared", "files", "flushed_offset", "max_offset", "min_offset", "queue_id", "room", "topic", "topic_bytes",
        "topic_part", "view", "written_from",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, files: MappedFileQueue, budget: MappedBudget) -> None:
        self.topic, self.queue_id, self.files, self.budget = topic, queue_id, files, budget
        self.topic_bytes = topic.encode()
        # Behind the body in each record; empty where a record needs the longer form.
        fits = len(self.topic_bytes) <= MAX_TOPIC_V1_BYTES
        self.topic_part = TOPIC_LENGTH_V1.pack(len(self.topic_bytes)) + self.topic_bytes if fits else b""
        self.min_offset = self.max_offset = self.flushed_offset = self.written_from = 0
        self.compared = 0, 0
        self.view, self.at, self.room = _NO_VIEW, 0, -1

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic!r}, {self.queue_id}, {self.min_offset}..{self.max_offset})"

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def make_room(self, units: int = 1) -> None:
        """Map the file of the next unit, and reserve space for so many, also in files behind it. Raises StoreNotWritable; the queue is
        unchanged."""
        position = self.max_offset * UNIT_SIZE_BYTES
        end = position + units * UNIT_SIZE_BYTES
        try:
            file = self._with_space(position, end)
            for following in range(file.end, end, file.size_bytes):
                self._with_space(following, end)
        except StoreNotWritable:
            # A file that is made ahead stands behind one that is not full. A Java broker takes its zeros for entries.
            self.files.delete_behind(position)
            if self.view is _NO_VIEW:
                self.files.unmap()  # the budget does not count what was mapped for the space
            raise
        at = position - file.start
        if not file.mapped:
            self.budget.admit(self)
        self.view, self.at, self.room = file.view, at, file.room - UNIT_SIZE_BYTES
        if not at and (full := self.files.file_at(position - 1)) is not None:
            full.unmap()  # only now: readers use this file until the next one has space

    def reserve(self, units: int) -> None:
        """``make_room``, if there is none for so many."""
        if self.at + (units - 1) * UNIT_SIZE_BYTES > self.room:
            self.make_room(units)

    def _with_space(self, position: int, end: int) -> StoreFile:
        """The file at ``position``, with space from there to ``end`` or to its own end."""
        file = self.files.file_at(position)
        if file is None:
            file = self.files.create_file(position) if self.files.files else self._create_first(self.max_offset)
        file.ensure_space(position - file.start, min(end - file.start, file.size_bytes))
        return file

    def put(self, physical_offset: int, size_bytes: int, tags_code: int) -> None:
        if self.at > self.room:
            self.make_room()
        UNIT.pack_into(self.view, self.at, physical_offset, size_bytes, tags_code)
        self.at += UNIT_SIZE_BYTES
        self.max_offset += 1

    def put_all(self, units: bytes) -> None:
        """Append many units, all or none. Raises StoreNotWritable, but not after ``reserve`` of so many; the queue is unchanged."""
        self.reserve(len(units) // UNIT_SIZE_BYTES)
        left = memoryview(units)
        while left:
            if self.at > self.room:
                self.make_room()
            part = left[: ((self.room - self.at) // UNIT_SIZE_BYTES + 1) * UNIT_SIZE_BYTES]
            self.view[self.at : self.at + len(part)] = part
            self.at += len(part)
            self.max_offset += len(part) // UNIT_SIZE_BYTES
            left = left[len(part) :]

    def put_at(self, queue_offset: int, physical_offset: int, size_bytes: int, tags_code: int) -> bool:
        """Recovery: write the unit of ``queue_offset`` as its record says. Returns False, and writes nothing, if units between
        max_offset and ``queue_offset`` are missing (the queue lost its tail)."""
        if not self.files.files:
            self._create_first(queue_offset)
            self.min_offset = self.max_offset = self.flushed_offset = queue_offset
            self.unmap()
        if queue_offset > self.max_offset:
            return False
        if queue_offset == self.max_offset:
            self.put(physical_offset, size_bytes, tags_code)
            return True
        file = self.files.file_at(queue_offset * UNIT_SIZE_BYTES)
        if file is None:  # before the first kept file: the unit has expired
            return True
        unit = UNIT.pack(physical_offset, size_bytes, tags_code)
        at = queue_offset * UNIT_SIZE_BYTES - file.start
        if file.read(at, UNIT_SIZE_BYTES) != unit:
            file.overwrite(at, unit)
            self.flushed_offset = min(self.flushed_offset, queue_offset)
        self.min_offset = min(self.min_offset, queue_offset)
        return True

    def _create_first(self, queue_offset: int) -> StoreFile:
        position = queue_offset * UNIT_SIZE_BYTES
        file = self.files.create_file(position - position % self.files.file_size_bytes)
        if file.start < position:
            file.ensure_space(0, position - file.start)
            file.view[: position - file.start] = _FILLER * ((position - file.start) // UNIT_SIZE_BYTES)
        return file

    def fill_gap(self, queue_offset: int) -> None:
        """Recovery: write fillers for records up to ``queue_offset`` that are missing in the log; readers skip them."""
        before = self.unit(self.max_offset - 1)[0] if self.max_offset > self.min_offset else 0  # keeps rule 2
        while self.max_offset < queue_offset:
            self.put(before, FILLER_SIZE, 0)

    def truncate_to(self, max_offset: int) -> None:
        self.unmap()
        # First: the disk may refuse the rest, and an end behind the last file would leave a gap between that and the next one.
        self.max_offset = max_offset
        self.min_offset = min(self.min_offset, max_offset)
        self.flushed_offset = min(self.flushed_offset, max_offset)
        self.files.truncate_to(max_offset * UNIT_SIZE_BYTES)

    def restart(self) -> None:
        """Recovery: remove all units; the next unit has offset 0."""
        self.delete()
        self.min_offset = self.max_offset = self.flushed_offset = self.written_from = 0

    def unmap(self) -> None:
        self.view, self.at, self.room = _NO_VIEW, 0, -1
        self.budget.forget(self)
        self.files.unmap()

    def delete(self) -> None:
        self.unmap()
        self.files.delete_all()

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def units_at(self, offset: int, count: int) -> tuple[memoryview | bytes, int]:
        """A buffer with existing units, to be read at once, and their place in it. The buffer may hold fewer than ``count``."""
        at = self.at - (self.max_offset - offset) * UNIT_SIZE_BYTES
        if at >= 0:
            return self.view, at
        file = self.files.file_at(offset * UNIT_SIZE_BYTES)
        # Not only the last one may be the one that is written: a file behind it may have been left by a disk that did not delete it.
        if file is None or file is self.files.files[-1] or file.end > self.max_offset * UNIT_SIZE_BYTES:
            return self.unit_bytes(offset, count), 0
        at = offset * UNIT_SIZE_BYTES - file.start
        if at + count * UNIT_SIZE_BYTES > file.size_bytes:
            return self.unit_bytes(offset, count), 0
        if not file.mapped:
            self.budget.admit_reader(file)
        return file.readable, at

    def unit_bytes(self, offset: int, max_units: int) -> bytes:
        remaining = min(max_units, self.max_offset - offset)
        if remaining <= 0 or offset < self.files.start // UNIT_SIZE_BYTES:
            return b""
        position, wanted = offset * UNIT_SIZE_BYTES, remaining * UNIT_SIZE_BYTES
        parts = []
        while wanted:
            file = self.files.file_at(position)
            if file is None:
                break
            at = position - file.start
            part = file.read(at, min(wanted, file.size_bytes - at))
            parts.append(part)
            position += len(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def unit(self, offset: int) -> tuple[int, int, int]:
        physical_offset, size_bytes, tags_code = UNIT.unpack(self.unit_bytes(offset, 1))
        return physical_offset, size_bytes, tags_code

    @property
    def first_offset(self) -> int:
        """The first offset that the files have, also if it has expired."""
        return self.files.start // UNIT_SIZE_BYTES

    def first_from(self, physical_offset: int, low: int | None = None) -> int:
        """First offset whose record lies at or behind ``physical_offset``; max_offset if there is none. One entry with a flipped
        bit does not mislead the search, which uses the middle one of three neighbours."""
        first = low = self.min_offset if low is None else low
        high = self.max_offset

        def place(offset: int) -> int:
            at, size_bytes, _ = self.unit(offset)
            return -1 if at == 0 and size_bytes == FILLER_SIZE else at

        while low < high:
            middle = (low + high) // 2
            around = sorted(place(at) for at in range(max(first, middle - 1), min(self.max_offset, middle + 2)))
            if (around[len(around) // 2] if len(around) == 3 else place(middle)) < physical_offset:
                low = middle + 1
            else:
                high = middle
        # A damaged neighbour moves the result by one: leave out the entry without which its neighbours are in order.
        around_it = range(max(first, low - 3), min(self.max_offset, low + 4))
        places = [place(at) for at in around_it]
        for left_out in (None, *around_it):
            rest = [(at, offset) for at, offset in zip(places, around_it, strict=True) if offset != left_out]
            if rest == sorted(rest):
                return next((offset for at, offset in rest if at >= physical_offset), around_it.stop)
        return low

    # -- life ------------------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        self.files.load()
        if not self.files.files:
            return
        # A crash may leave a new last file without a unit behind a full one: the search steps back over it.
        for index in range(len(self.files.files) - 1, -1, -1):
            file = self.files.files[index]
            count = _count_units(file)
            if count or index == 0:
                self.max_offset = file.start // UNIT_SIZE_BYTES + count
                break
        self.flushed_offset = self.written_from = self.max_offset
        self.min_offset = self.first_offset

    def clean(self, min_physical_offset: int) -> None:
        """Retention: delete files that point before ``min_physical_offset``. The last one stays, so offsets continue from there."""
        self.min_offset = self.first_from(min_physical_offset, self.first_offset)
        self.files.delete_before(self.min_offset * UNIT_SIZE_BYTES)

    def sync(self) -> None:
        """Flush thread; for names of new files see ``MappedFileQueue.take_new_directories``."""
        max_offset = self.max_offset
        if max_offset == self.flushed_offset:
            return
        for file in list(self.files.files):
            if file.end > self.flushed_offset * UNIT_SIZE_BYTES:
                file.sync()
        self.flushed_offset = max_offset


def _count_units(file: StoreFile) -> int:
    """How many units at the front are valid (size > 0): the first page, then binary search. If not all behind them is zero (rule 3),
    bits were flipped, and the last unit that is not zero counts."""
    head = file.read(0, min(_HEAD_UNITS * UNIT_SIZE_BYTES, file.size_bytes))
    count = len(head) // UNIT_SIZE_BYTES
    for index, (physical_offset, size_bytes, _) in enumerate(UNIT.iter_unpack(head)):
        if physical_offset < 0 or size_bytes <= 0:
            count = index
            break
    else:
        high = file.size_bytes // UNIT_SIZE_BYTES
        while count < high:
            middle = (count + high) // 2
            physical_offset, size_bytes, _ = UNIT.unpack(file.read(middle * UNIT_SIZE_BYTES, UNIT_SIZE_BYTES))
            if physical_offset >= 0 and size_bytes > 0:
                count = middle + 1
            else:
                high = middle
    if any(
        file.read(
            count * UNIT_SIZE_BYTES, min(_HEAD_UNITS * UNIT_SIZE_BYTES, file.size_bytes - count * UNIT_SIZE_BYTES)
        )
    ):
        used = len(file.read(0, file.size_bytes).rstrip(b"\0"))
        count = -(-used // UNIT_SIZE_BYTES)
    return count
