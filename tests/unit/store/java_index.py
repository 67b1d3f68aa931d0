# SPDX-License-Identifier: Apache-2.0
"""What a Java broker does to the index of a store that was killed. Java: IndexService, IndexFile, CommitLog.recoverAbnormally."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from sprocketmq.store import StoreConfig
from sprocketmq.store.services.dispatch import index_texts
from sprocketmq.wire.hashing import index_hash
from sprocketmq.wire.records.record import RecordView

HEADER, ENTRY, SLOT = struct.Struct(">qqqqii"), struct.Struct(">iqii"), struct.Struct(">i")


class JavaIndex:
    """Opens ``root`` and indexes what its checkpoint makes it look at; ``find`` reads as Java does. Files are written at once."""

    def __init__(self, root: Path, config: StoreConfig) -> None:
        self.root, self.config = root, config
        self.entries_at = HEADER.size + SLOT.size * config.max_hash_slot_num
        physic, logics, index = struct.unpack_from(">qqq", (root / "checkpoint").read_bytes())
        self.files: list[Path] = []
        for path in sorted(root.glob("index/*")):
            if HEADER.unpack_from(path.read_bytes())[1] > index:
                path.unlink()
            else:
                self.files.append(path)
        begin_ms = max(0, min(physic, logics) - 3_000)
        logs = sorted(root.glob("commitlog/*"))
        matched = [
            log for log in logs if (first := next(self._records(log), None)) and first.store_timestamp_ms <= begin_ms
        ]
        self.begin = int((matched or logs)[-1 if matched else 0].name)
        for log in logs:
            if int(log.name) >= self.begin:
                for record in self._records(log):
                    self.build(record)

    def _records(self, log: Path) -> Iterator[RecordView]:
        raw, at = log.read_bytes(), 0
        while at + 91 < len(raw) and raw[at + 4 : at + 8] == b"\xda\xa3\x20\xa7":
            record = RecordView(memoryview(raw), at)
            yield record
            at += record.size

    def build(self, record: RecordView) -> None:
        if self.files and record.physical_offset < HEADER.unpack_from(self.files[-1].read_bytes())[3]:
            return
        for text in index_texts(record.topic, bytes(record.raw_properties)):
            self._put(index_hash(text), record)

    def _put(self, key_hash: int, record: RecordView) -> None:
        path = self.files[-1] if self.files else None
        if path is None or HEADER.unpack_from(path.read_bytes())[5] >= self.config.max_index_num:
            name = f"{max(20301231235959999, int(path.name) if path else 0) + 1}"
            path = self.root / "index" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes(self.entries_at + ENTRY.size * self.config.max_index_num))
            self.files.append(path)
        raw = bytearray(path.read_bytes())
        begin_ms, _, begin, _, used, count = HEADER.unpack_from(raw)
        count = max(1, count)
        if count == 1:
            begin_ms, begin = record.store_timestamp_ms, record.physical_offset
        slot_at = HEADER.size + SLOT.size * (key_hash % self.config.max_hash_slot_num)
        (before,) = SLOT.unpack_from(raw, slot_at)
        before = 0 if before <= 0 or before > count else before
        seconds = (record.store_timestamp_ms - begin_ms) // 1000
        ENTRY.pack_into(raw, self.entries_at + ENTRY.size * count, key_hash, record.physical_offset, seconds, before)
        SLOT.pack_into(raw, slot_at, count)
        end = record.store_timestamp_ms, begin, record.physical_offset
        HEADER.pack_into(raw, 0, begin_ms, *end, used + (not before), count + 1)
        path.write_bytes(raw)

    def find(self, text: str) -> list[int]:
        """Physical offsets of the entries with a text's hash, ascending."""
        found, key_hash = set(), index_hash(text)
        for path in self.files:
            raw = path.read_bytes()
            count = HEADER.unpack_from(raw)[5]
            (number,) = SLOT.unpack_from(raw, HEADER.size + SLOT.size * (key_hash % self.config.max_hash_slot_num))
            if number > count:
                continue
            while 0 < number <= count:
                entry_hash, offset, _, before = ENTRY.unpack_from(raw, self.entries_at + ENTRY.size * number)
                if entry_hash == key_hash:
                    found.add(offset)
                if before == number:
                    break
                number = before
        return sorted(found)
