# SPDX-License-Identifier: Apache-2.0
"""Which attempts of a batch count: decisions in a log that all writers read, and what follows for half messages.

A batch is written by task attempts. Each attempt has a unique name, sends half messages, and may die at any step. One record in one queue,
the ledger, decides which attempts count. There are no locks: several drivers may believe to be the only one (one hangs while another was
started). So a record says how far its writer had read (``read_to``), and is void if another record of the query came in between.

    tasks                        one queue (the ledger)                                 half messages of the named attempts    of others
    halves a1, a2, a1' --------> | ... | batch 6: a1, a2 (read to 41) | ... | -----> END commit                                END rollback
               AppendDecision     40     41                            end
                                   `- read_to: the writer has read everything before it

    no valid record of the same query between read_to and the record itself: valid         otherwise: void, and ignored

END_TRANSACTION is not idempotent: an Apache broker delivers a half message again with each END, and each check-back makes a copy, another
half message. So a half message is committed in one of two ways: by the driver that decided, at once, while the broker cannot have checked
yet (:func:`can_end_directly`); later only in answer to a check-back, which names the newest copy, and only if the row is not visible yet
(``spark.transactions.visible_rows``). A broker also checks half messages whose END it did not record in time.

Rules
1. A batch is decided at most once: the valid records of a query have rising batch numbers, and the validity of a record never changes.
2. COMMIT is answered only for a half message of an attempt that the valid record of its batch names, and that is not in ``lost``.
3. ROLLBACK is answered only when no record that names the attempt can become valid any more: the batch is decided without it, or a later
   batch of the query is decided and its own is known not to be.
4. Whoever has read only a part of the log gives the same answer as with the whole log, or UNKNOWN.
5. A batch that is decided, or is before a decided one, is never appended again; and a writer with another number of rows for it does not
   end its half messages.
6. For a query no reader goes further back than to a summary (:class:`QuerySummary`) without it. The writer of a summary has read
   everything before it, or back to such a summary. So a summary is true, whoever wrote it.
7. The memory, and the time of an answer, do not grow with the number of decisions: at most four times ``_MIN_KEPT_OFFSETS`` offsets are
   held, and what a reader had to read back to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from sprocketmq.core.transactions.open_transactions import LocalTransactionState

_VERSION: Final = 1
_MARGIN_MS: Final = 500
# Some 40 bytes each, in one message.
_MAX_QUERIES_IN_SUMMARY: Final = 10_000
# Offsets that are always held: more than lie between two summaries (transactional_write), and a few kilobytes each.
_MIN_KEPT_OFFSETS: Final = 512


@dataclass(frozen=True, slots=True)
class Decision:
    """A record of the ledger. ``query``: a streaming query, or the name that the user gave to a series of writes. ``batch`` rises within
    it.

    Attributes:
        attempts: those that count; may be empty, like a batch.
        read_to: the offset up to which the writer had read the ledger.
        lost: names of half messages of these attempts that were not answered and were sent again under another name. They may be stored or
            not, and do not count.
        rows, topics: how many rows, and where to; by these a batch that was planned again, and another write of the name, are recognized.
            None in older records.
    """

    query: str
    batch: int
    attempts: frozenset[str]
    read_to: int
    lost: frozenset[str] = frozenset()
    rows: int | None = None
    topics: frozenset[str] | None = None

    def encode(self) -> bytes:
        fields = {
            "v": _VERSION,
            "query": self.query,
            "batch": self.batch,
            "attempts": sorted(self.attempts),
            "lost": sorted(self.lost),
            "readTo": self.read_to,
        }
        if self.rows is not None:
            fields["rows"] = self.rows
        if self.topics is not None:
            fields["topics"] = sorted(self.topics)
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, body: bytes) -> Decision | None:
        """None: it is not a decision of this version."""
        fields = _fields(body)
        query, batch, read_to = (fields.get(name) for name in ("query", "batch", "readTo"))
        if not isinstance(query, str) or type(batch) is not int or type(read_to) is not int:
            return None
        if not all(_are_names(fields.get(name)) for name in ("attempts", "lost")):
            return None
        rows = fields.get("rows")
        counted = rows if type(rows) is int else None
        topics = frozenset(fields["topics"]) if _are_names(fields.get("topics")) else None
        return cls(query, batch, frozenset(fields["attempts"]), read_to, frozenset(fields["lost"]), counted, topics)


@dataclass(frozen=True, slots=True)
class QuerySummary:
    """A record that lists the queries in the ledger, so that no reader needs the whole ledger to find out that it has nothing about
    a new query. ``queries``: all queries that have a record before ``read_to``, and possibly others. ``read_to``: an offset."""

    queries: frozenset[str]
    read_to: int

    def encode(self) -> bytes:
        fields = {"v": _VERSION, "queries": sorted(self.queries), "readTo": self.read_to}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, body: bytes) -> QuerySummary | None:
        """None: it is not a summary of this version."""
        fields = _fields(body)
        queries, read_to = fields.get("queries"), fields.get("readTo")
        if not _are_names(queries) or type(read_to) is not int:
            return None
        return cls(frozenset(queries or ()), read_to)


Record = Decision | QuerySummary


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) and fields.get("v") == _VERSION else {}


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


class BatchStatus(Enum):
    """OPEN: not decided, the batch may be written. DECIDED. SUPERSEDED: a later batch is decided and this one is not, or its decision
    expired. UNREAD: older parts of the log must be read to find out."""

    OPEN = "OPEN"
    DECIDED = "DECIDED"
    SUPERSEDED = "SUPERSEDED"
    UNREAD = "UNREAD"


class _QueryDecisions:
    """The valid decisions of one query among the records read from ``start`` on, oldest first. After the first that is surely valid, the
    validity of each later record is known. Adding a record costs the same however many there are."""

    def __init__(self, start: int) -> None:
        self._start, self._last, self._last_undecidable = start, -1, -1
        self.decisions: list[Decision] = []
        self.by_batch: dict[int, Decision] = {}

    def add(self, offset: int, decision: Decision) -> None:
        if self.decisions and (decision.read_to <= self._last or decision.batch <= self.decisions[-1].batch):
            return
        if decision.read_to < self._start or decision.read_to <= self._last_undecidable:
            self._last_undecidable = offset
            return
        self.decisions.append(decision)
        self.by_batch[decision.batch] = decision
        self._last = offset


class DecisionLedger:
    """The part of the log that was read: everything from ``start`` to ``end``, where reading begins. Newer parts are added at the end,
    older ones before the start when they are needed. When the end grows, the oldest part is dropped again, as if it had not been read;
    the newest ``kept`` offsets are always held."""

    def __init__(self, end: int, kept: int = _MIN_KEPT_OFFSETS) -> None:
        self.start = self.end = end
        self._kept, self._added = kept, 0
        self._oldest = 0
        self._records: dict[str, list[tuple[int, Decision]]] = {}
        self._chains: dict[str, _QueryDecisions] = {}
        self._new: set[str] = set()
        self._summaries: list[QuerySummary] = []

    def is_new(self, query: str) -> None:
        """No decision for ``query`` can be before ``start``, because its name was made later."""
        self._new.add(query)
        self._chains.pop(query, None)

    def read_newer(self, records: Iterable[tuple[int, Record]], end: int) -> None:
        """Add everything from ``self.end`` to ``end``: offsets and records, in order."""
        for query, entries in self._sorted(records).items():
            self._records.setdefault(query, []).extend(entries)
            if (chain := self._chains.get(query)) is not None:
                for offset, decision in entries:
                    chain.add(offset, decision)
        self._added += max(0, end - self.end)
        self.end = max(self.end, end)
        if self._added >= 2 * self._kept:
            self._forget_oldest()

    def read_older(self, records: Iterable[tuple[int, Record]], start: int, oldest: int) -> None:
        """Add everything from ``start`` to ``self.start``. ``oldest`` is where the log begins now; 0 if nothing has expired."""
        for query, entries in self._sorted(records).items():
            self._records[query] = entries + self._records.get(query, [])
        self.start, self._oldest = start, oldest
        self._added = 0  # a reader needs it: nothing is dropped for a while
        self._chains.clear()

    def _sorted(self, records: Iterable[tuple[int, Record]]) -> dict[str, list[tuple[int, Decision]]]:
        found: dict[str, list[tuple[int, Decision]]] = {}
        for offset, record in records:
            if isinstance(record, QuerySummary):
                self._summaries.append(record)
                self._chains.clear()  # everything about a query that it does not name is read now
            else:
                found.setdefault(record.query, []).append((offset, record))
        return found

    def _forget_oldest(self) -> None:
        """Drop the records before the last summary, if that is near: from there another summary can be written."""
        start = self.end - self._kept
        newest = max((summary.read_to for summary in self._summaries), default=start)
        start = max(self.start, min(start, newest), self.end - 4 * self._kept)
        held = {}
        for query, entries in self._records.items():
            kept = [entry for entry in entries if entry[0] >= start]
            if len(kept) < len(entries):
                self._new.discard(query)
            if kept:
                held[query] = kept
        self._records = held
        self._new &= held.keys()
        self._summaries = [summary for summary in self._summaries if summary.read_to >= start]
        self._chains.clear()
        self.start, self._added = start, self._kept

    def summary(self, least: int) -> QuerySummary | None:
        """The summary that a writer should append (rule 6); None if not enough was read, or if the last summary is less than ``least``
        records old."""
        known = max(
            (summary for summary in self._summaries if summary.read_to >= self.start), key=_read_to, default=None
        )
        if known is None and not self.is_read_to_its_beginning:
            return None
        if self.end - (self.start if known is None else known.read_to) < least:
            return None
        before = frozenset() if known is None or self.is_read_to_its_beginning else known.queries
        queries = before.union(self._records)
        return QuerySummary(queries, self.end) if len(queries) <= _MAX_QUERIES_IN_SUMMARY else None

    @property
    def is_read_to_its_beginning(self) -> bool:
        return self.start <= self._oldest

    def _is_whole_for(self, query: str) -> bool:
        if self.is_read_to_its_beginning or query in self._new:
            return True
        return any(summary.read_to >= self.start and query not in summary.queries for summary in self._summaries)

    def batch_status(self, query: str, batch: int) -> BatchStatus:
        chain = self._valid(query).decisions
        if not chain:
            return BatchStatus.OPEN if self._is_whole_for(query) else BatchStatus.UNREAD
        if batch > chain[-1].batch:
            return BatchStatus.OPEN
        if self.decision(query, batch) is not None:
            return BatchStatus.DECIDED
        return BatchStatus.SUPERSEDED if batch > chain[0].batch or self._is_whole_for(query) else BatchStatus.UNREAD

    def decided(self) -> dict[str, list[Decision]]:
        """The valid decisions of every query, oldest first."""
        return {query: list(self._valid(query).decisions) for query in sorted(self._records)}

    def decision(self, query: str, batch: int) -> Decision | None:
        """The valid decision of ``batch``, if it was read."""
        return self._valid(query).by_batch.get(batch)

    def answer(self, query: str, batch: int, attempt: str, half: str = "") -> LocalTransactionState:
        """The answer to a check-back about ``half``, a half message of ``attempt``; UNKNOWN as long as it is not certain (rules 2, 3)."""
        decision = self.decision(query, batch)
        if decision is not None:
            named = attempt in decision.attempts and half not in decision.lost
            return LocalTransactionState.COMMIT_MESSAGE if named else LocalTransactionState.ROLLBACK_MESSAGE
        chain = self._valid(query).decisions
        is_passed = bool(chain) and batch < chain[-1].batch
        # Its decision may have expired, unless an older one of the same query is still there, or nothing ever expired.
        is_known = bool(chain) and (chain[0].batch < batch or self.start <= 0 >= self._oldest or query in self._new)
        return LocalTransactionState.ROLLBACK_MESSAGE if is_passed and is_known else LocalTransactionState.UNKNOWN

    def _valid(self, query: str) -> _QueryDecisions:
        chain = self._chains.get(query)
        if chain is None:
            chain = _QueryDecisions(0 if self._is_whole_for(query) else self.start)
            for offset, decision in self._records.get(query, ()):
                chain.add(offset, decision)
            self._chains[query] = chain
        return chain

    @property
    def held(self) -> int:
        """How many records are held (rule 7)."""
        chains = sum(len(chain.decisions) for chain in self._chains.values())
        return sum(map(len, self._records.values())) + chains + len(self._summaries) + len(self._new)

    def check_invariants(self) -> None:
        for query in self._records:
            batches = [decision.batch for decision in self._valid(query).decisions]
            assert batches == sorted(set(batches)), f"batches of {query} do not grow: {batches}"
        assert self.start <= self.end


def _read_to(summary: QuerySummary) -> int:
    return summary.read_to


@dataclass(frozen=True, slots=True)
class AppendDecision:
    """Store ``decision``, wait for the acknowledgement, read the ledger to its end, and call ``commit_step`` again."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class EndAttempts:
    """The batch is decided: which of the writer's own attempts are to be committed, and which rolled back."""

    commit: frozenset[str]
    rollback: frozenset[str]


@dataclass(frozen=True, slots=True)
class RowCountMismatch:
    """The batch is decided with another number of rows. If it was planned again under its old number, rows that only one plan has would be
    lost or written twice. If not, ``end`` is right."""

    decided: int
    end: EndAttempts


@dataclass(frozen=True, slots=True)
class OtherTopics:
    """The batch is decided, by a write of the same name to these topics: none in common, or as many rows. If the plan of one write changed,
    so did its number of rows (``RowCountMismatch``)."""

    decided: frozenset[str]


def commit_step(
    ledger: DecisionLedger,
    query: str,
    batch: int,
    attempts: frozenset[str],
    lost: frozenset[str] = frozenset(),
    rows: int | None = None,
    topics: frozenset[str] | None = None,
) -> AppendDecision | EndAttempts | RowCountMismatch | OtherTopics | BatchStatus:
    """What the writer of ``batch`` does next, when all of its tasks are done.

    Args:
        ledger: read to its end after everything that the writer itself has stored.
        lost: half messages of these attempts whose sends were not answered.
        rows: of all tasks, whether they were sent or not.
        topics: None if these need not be the same for all writes of the batch.

    With OtherTopics this is another write. With RowCountMismatch nothing may be ended unless the user agrees. With UNREAD or SUPERSEDED
    nothing may be appended (rule 5).
    """
    batch_status = ledger.batch_status(query, batch)
    if batch_status is BatchStatus.OPEN:
        return AppendDecision(Decision(query, batch, attempts, ledger.end, lost, rows, topics))
    decision = ledger.decision(query, batch)
    if decision is None:
        return batch_status
    if topics is not None and decision.topics is not None and topics != decision.topics:
        is_elsewhere = bool(topics) and bool(decision.topics) and topics.isdisjoint(decision.topics)
        if is_elsewhere or rows == decision.rows:
            return OtherTopics(decision.topics)
    end = EndAttempts(attempts & decision.attempts, attempts - decision.attempts)
    if decision.rows is not None and rows is not None and decision.rows != rows:
        return RowCountMismatch(decision.rows, end)
    return end


def can_end_directly(age_ms: int, direct_end_window_ms: int) -> bool:
    """Whether the driver may commit a half message that was sent ``age_ms`` ago without a check-back for a copy of it being under way."""
    return age_ms <= direct_end_window_ms - _MARGIN_MS


def direct_end_window_ms(transaction_timeout_ms: int, op_batch_interval_ms: int) -> int:
    """The age up to which a broker does not check a half message whose END it has received.

    That is ``transactionTimeOut`` minus the time that the broker may take to record an END. 5.x collects such records for
    ``transactionOpBatchInterval`` and may just have missed a turn, so twice that. It is 0 for 4.9, which records at once, and where the
    answer to a check-back can see that the row is visible.
    """
    return max(0, transaction_timeout_ms - 2 * op_batch_interval_ms)
