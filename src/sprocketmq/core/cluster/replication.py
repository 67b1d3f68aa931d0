# SPDX-License-Identifier: Apache-2.0
"""Who has copied how much of the log (Java: DefaultHAService, DefaultHAConnection, GroupTransferService).

    slave connects --> silent --report--> copying: bytes from ``next_offset`` on --report--> acknowledged up to the report
                          +--- 20 s silent --+-- a report that cannot be true --> closed

A report is an int64: up to where the slave holds the log. The first one also names the beginning; 0 means the start of our last file,
because older files may be deleted soon.

1. An acknowledged offset was reported by a slave and lies inside the log. A slave that reports more than we have has another log.
2. ``replicated`` never goes back, even if the slave that held the bytes is gone.
3. A slave gets every byte from its first offset on exactly once and in order.
4. Waiting sends are answered in the order of their records, each once: by an acknowledgement, or when their time is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class LogRange(NamedTuple):
    """What a log has: physical offsets of its first byte, of its last file's first byte, and behind its last byte."""

    start: int
    last_file_start: int
    end: int


@dataclass(slots=True, eq=False)
class SlaveProgress:
    """One connected slave. Offsets are physical; -1 before the first report."""

    address: str
    last_report_ms: int
    last_sent_ms: int
    acked: int = -1
    next_offset: int = -1
    sent_bytes: int = 0


class ReplicationTable:
    """Times in ms, offsets in bytes of the log."""

    __slots__ = ("_slaves", "replicated")

    def __init__(self) -> None:
        self._slaves: list[SlaveProgress] = []
        self.replicated = 0
        """Up to here some slave held the log."""

    @property
    def slaves(self) -> list[SlaveProgress]:
        return list(self._slaves)

    def join(self, address: str, now_ms: int) -> SlaveProgress:
        slave = SlaveProgress(address, now_ms, now_ms)
        self._slaves.append(slave)
        return slave

    def leave(self, slave: SlaveProgress) -> None:
        """Its connection was closed. A second call does nothing."""
        if slave in self._slaves:
            self._slaves.remove(slave)

    def report(self, slave: SlaveProgress, offset: int, log: LogRange, now_ms: int) -> str | None:
        """A slave holds the log up to ``offset``. Returns why it cannot be served, as part of a sentence, or None."""
        if offset < 0 or offset > log.end:
            return f"it reports {offset}, the log ends at {log.end}: it has copied another log"
        if slave.next_offset < 0:
            begin = offset or log.last_file_start
            if begin < log.start:
                return (
                    f"it wants to continue at {begin}, the log begins at {log.start} now: start it with an empty store"
                )
            slave.next_offset = begin
        elif offset > slave.next_offset:
            return f"it reports {offset}, but got the log up to {slave.next_offset} only"
        slave.last_report_ms = now_ms
        slave.acked = offset
        self.replicated = max(self.replicated, offset)
        return None

    def sent(self, slave: SlaveProgress, size_bytes: int, now_ms: int) -> None:
        """``size_bytes`` from ``next_offset`` on are on their way; 0 for a heartbeat."""
        slave.next_offset += size_bytes
        slave.sent_bytes += size_bytes
        slave.last_sent_ms = now_ms

    def in_sync(self, slave: SlaveProgress, end: int, max_gap_bytes: int) -> bool:
        """Whether the slave is near enough to a log that ends at ``end`` (Java: isInSyncSlave)."""
        return slave.acked >= 0 and end - slave.acked < max_gap_bytes

    def available(self, end: int, max_gap_bytes: int) -> bool:
        """Whether waiting for a slave makes sense for a record that ends at ``end`` (Java: isSlaveOK)."""
        return bool(self._slaves) and end - self.replicated < max_gap_bytes

    def silent(self, now_ms: int, housekeeping_ms: int) -> list[SlaveProgress]:
        """Slaves without a report for longer than ``housekeeping_ms``: their connections are to be closed."""
        return [slave for slave in self._slaves if now_ms - slave.last_report_ms > housekeeping_ms]

    def heartbeat_due(self, now_ms: int, interval_ms: int) -> list[SlaveProgress]:
        """Slaves that got nothing for longer than ``interval_ms``."""
        return [slave for slave in self._slaves if slave.next_offset >= 0 and now_ms - slave.last_sent_ms > interval_ms]

    def check_invariants(self, end: int) -> None:
        assert 0 <= self.replicated <= end, "more is replicated than the log has"
        for slave in self._slaves:
            assert slave.acked <= self.replicated, "an acknowledgement was not counted"
            assert (slave.next_offset < 0) == (slave.acked < 0), (
                "bytes without a first report, or a report without bytes"
            )
            assert slave.acked <= slave.next_offset <= end, "an acknowledgement of what was not sent"


class _Waiting(NamedTuple, Generic[T]):
    end: int
    deadline_ms: int
    item: T


class AckQueue(Generic[T]):
    """Sends that wait until the log up to their end is replicated (rule 4)."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[_Waiting[T]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: T, end: int, deadline_ms: int) -> None:
        """``item`` waits for ``end``, at most until ``deadline_ms``. Neither is smaller than in the call before."""
        self._waiting.append(_Waiting(end, deadline_ms, item))

    def acknowledged(self, replicated: int) -> list[T]:
        taken: list[T] = []
        waiting = self._waiting
        while waiting and waiting[0].end <= replicated:
            taken.append(waiting.popleft().item)
        return taken

    def expired(self, now_ms: int) -> list[T]:
        taken: list[T] = []
        waiting = self._waiting
        while waiting and waiting[0].deadline_ms <= now_ms:
            taken.append(waiting.popleft().item)
        return taken

    def next_deadline_ms(self) -> int | None:
        return self._waiting[0].deadline_ms if self._waiting else None

    def take_all(self) -> Iterable[T]:
        waiting, self._waiting = self._waiting, deque()
        return [one.item for one in waiting]
