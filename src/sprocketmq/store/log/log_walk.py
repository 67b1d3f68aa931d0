# SPDX-License-Identifier: Apache-2.0
"""Walking through the log from record to record, across files, and over damage where the log is known to go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sprocketmq.store.log.commit_log import NO_LIMIT, CommitLog
from sprocketmq.wire.records.checksum import crc32
from sprocketmq.wire.records.record import RecordView
from sprocketmq.wire.records.record_layout import BODY_CRC_MASK

if TYPE_CHECKING:
    from sprocketmq.store.log.record_batch import RecordBatch

# Importing NumPy takes longer than reading so many records one by one.
_FEW_RECORDS = 1_000
_RECORDS_AT_ONCE = 4_096


class LogWalk:
    """Yields the valid records from ``at`` on: the first ones one by one, the others in batches. It ends where no valid record
    begins.

    Args:
        end: no record is read that does not end before this place.
        check_crc: whether a record with a wrong body checksum is invalid.
        sound_until: before it all writes were complete. So a damaged record there is not the end: it is skipped if valid records follow.
        known_end: before it there were records, so zeros are damage, too.

    Attributes:
        at: where the next record begins; at last, where the walk ended.
        damages: where no valid record begins, and where the next one does.
        damaged_bodies: records that were yielded although their body has a wrong checksum. They are delivered, as by Apache.
    """

    def __init__(
        self,
        log: CommitLog,
        at: int,
        end: int = NO_LIMIT,
        *,
        check_crc: bool = False,
        sound_until: int = 0,
        known_end: int = 0,
    ) -> None:
        self._log, self.at, self._end = log, at, end
        self._check_crc, self._sound_until, self._known_end = check_crc, sound_until, known_end
        self.damages: dict[int, int] = {}
        self.damaged_bodies: list[int] = []

    def __iter__(self) -> Iterator[RecordView | RecordBatch]:
        for _ in range(_FEW_RECORDS):
            record = self._record()
            if record is None:
                return
            yield record
        yield from self._rest()

    def batches(self) -> Iterator[RecordBatch]:
        """Without those whose body is damaged."""
        return (piece for piece in self._rest() if not isinstance(piece, RecordView))

    def records(self) -> Iterator[RecordView]:
        while (record := self._record()) is not None:
            yield record

    def _record(self) -> RecordView | None:
        while True:
            record = self._log.view_at(self.at, check_crc=self._check_crc, limit=self._end) or self._damaged_body()
            if record is not None:
                self.at += record.size
                return record
            if not self._goes_on():
                return None

    def _rest(self) -> Iterator[RecordView | RecordBatch]:
        log = self._log
        while self.at < self._end and (file := log.files.file_at(self.at)) is not None:
            from sprocketmq.store.log.record_batch import read_records

            data, start = file.data, file.start
            batch = read_records(data, self.at - start, min(len(data), self._end - start), start, _RECORDS_AT_ONCE)
            batch.cut(_whole_count(batch, self._check_crc))
            if len(batch):
                self.at = start + batch.end
                yield batch
            elif (record := self._damaged_body()) is not None:
                self.at += record.size
                yield record
            elif not self._goes_on():
                return

    def _damaged_body(self) -> RecordView | None:
        record = self._log.damaged_body_at(self.at) if self._check_crc and self.at < self._sound_until else None
        if record is not None:
            self.damaged_bodies.append(self.at)
        return record

    def _goes_on(self) -> bool:
        """Moves ``at``, where no record begins, to where the log goes on."""
        log, at = self._log, self.at
        following = log.offset_after_blank(at)
        if following is None and at < self._sound_until:
            following = log.offset_after_damage(at, self._check_crc, over_zeros=at < self._known_end)
            if following is not None:
                self.damages[at] = following
        if following is None or following > self._end or log.files.file_at(following) is None:
            return False
        self.at = following
        return True


def _whole_count(batch: RecordBatch, check_crc: bool) -> int:
    import numpy as np

    from sprocketmq.store.log.record_batch import groups, rows

    if not len(batch):
        return 0
    last_octets = np.frombuffer(batch.data, np.uint8)[batch.starts + batch.size - 1]
    whole = (batch.properties_bytes == 0) | (last_octets != 0)
    for length, indexes in groups(batch.topic_bytes):
        whole[indexes] &= (rows(batch.data, batch.topic_at[indexes], length) != 0).all(axis=1)
    if check_crc:
        data = batch.data
        bodies = zip(
            batch.body_at.tolist(),
            (batch.body_at + batch.body_bytes).tolist(),
            batch.body_crc.tolist(),
            strict=True,
        )
        whole &= np.array([crc32(data[begin:end]) & BODY_CRC_MASK == crc for begin, end, crc in bodies], bool)
    return len(batch) if whole.all() else int(np.argmin(whole))
