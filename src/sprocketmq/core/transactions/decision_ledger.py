"""Which attempts of a batch count: decisions in a log that everybody reads, and what follows from them for half messages.

A batch is written by attempts of tasks, each under a name that nobody else has; each sends half messages and can be lost at any step. One
record in one queue decides which attempts count. Nobody locks anything: several may believe to be the only writer (a driver that hangs
while another one was started), so a record says how far its writer had read (``read_to``), and is void when something came between.

    tasks                        one queue (the ledger)                                 half messages of the attempts named    of others
    halves a1, a2, a1' --------> | ... | batch 6: a1, a2 (read to 41) | ... | -----> END commit                                END rollback
                        Append     40     41                            end
                                   `- read_to: what lies before it the writer has seen

    first record with nothing valid of its query between read_to and itself: valid         any other: void, as if it were not there

An END is no question of asking twice: an Apache broker delivers a half again with each END that it is told, and makes a copy, another
half, with each check. So a half is committed on one of two ways: by the driver that decided, at once, while the broker cannot have asked
yet (:func:`can_end_directly`); later only in answer to the broker's check, which names the newest copy, and only when the row is not there
(spark.shown_rows): a broker also asks about what was ended when it did not note that in time.

Laws
1. A batch is decided at most once: valid records of a query name batches that grow, and a record's validity never changes.
2. COMMIT is answered only for a half of an attempt that the valid record of its batch names, and that is not among its ``lost`` ones.
3. ROLLBACK is answered only when no record that names the attempt can become valid any more: the batch is decided without it, or a later
   batch of its query is decided and it is known that its own was not.
4. What was read only in part gives the same answer as the whole log, or UNKNOWN; never another one.
5. A batch that is decided, or lies before one that is, is never appended again; nor is it settled by who has other rows under its number.
6. Nobody reads further back for a query than to a note (:class:`Names`) that does not name it. Who notes has read everything before, or
   back to such a note; so a note is true whoever wrote it, and however many did.
7. What is held, and the time that a question takes, do not grow with the number of decisions (four times ``_KEPT`` offsets, and what
   somebody had to read back to).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from sprocketmq.core.transactions.open_transactions import LocalTransactionState

__all__ = [
    "Append",
    "Decision",
    "DecisionLedger",
    "Names",
    "OtherRows",
    "Record",
    "Settle",
    "Standing",
    "can_end_directly",
    "commit_step",
    "quiet_time_ms",
]

_VERSION: Final = 1
_MARGIN_MS: Final = 500
# Some 40 bytes each, in one message.
_MOST_NAMES: Final = 10_000
# Records that are held at least. More than lie between two notes (exactly_once) are held then, and a few kilobytes each.
_KEPT: Final = 512


@dataclass(frozen=True, slots=True)
class Decision:
    """One record of the ledger.

    Args:
        query: whose batches these are: a streaming query, or a name that the user gave to a series of writes.
        batch: its number, growing within the query.
        attempts: those that count; may be empty, as a batch may be.
        read_to: the offset before which the writer had read the ledger.
        lost: names of halves of these attempts whose sends were not answered and were made again under another name: they may be stored
            or not, and do not count.
        rows: how many rows the batch held, by which one that was planned anew under its number shows; None in older records.
    """

    query: str
    batch: int
    attempts: frozenset[str]
    read_to: int
    lost: frozenset[str] = frozenset()
    rows: int | None = None

    def encode(self) -> bytes:
        """The body of its message."""
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
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, body: bytes) -> Decision | None:
        """None for what is no decision of this version: somebody else's message decides nothing."""
        fields = _fields(body)
        query, batch, read_to = (fields.get(name) for name in ("query", "batch", "readTo"))
        if not isinstance(query, str) or type(batch) is not int or type(read_to) is not int:
            return None
        if not all(_are_names(fields.get(name)) for name in ("attempts", "lost")):
            return None
        rows = fields.get("rows")
        counted = rows if type(rows) is int else None
        return cls(query, batch, frozenset(fields["attempts"]), read_to, frozenset(fields["lost"]), counted)


@dataclass(frozen=True, slots=True)
class Names:
    """A note in the ledger, so that nobody has to read it whole to know that it says nothing of a new query.

    Args:
        queries: all that have a record before ``read_to``; others that had one are among them.
        read_to: an offset.
    """

    queries: frozenset[str]
    read_to: int

    def encode(self) -> bytes:
        """The body of its message."""
        fields = {"v": _VERSION, "queries": sorted(self.queries), "readTo": self.read_to}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, body: bytes) -> Names | None:
        """None for what is no such note of this version."""
        fields = _fields(body)
        queries, read_to = fields.get("queries"), fields.get("readTo")
        if not _are_names(queries) or type(read_to) is not int:
            return None
        return cls(frozenset(queries or ()), read_to)


Record = Decision | Names


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) and fields.get("v") == _VERSION else {}


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


class Standing(Enum):
    """How a batch stands. OPEN: not decided, it may be written. DECIDED. PASSED: a later batch is decided and this one is not, or its
    decision expired with the log. UNREAD: older parts of the log must be read to tell."""

    OPEN = "OPEN"
    DECIDED = "DECIDED"
    PASSED = "PASSED"
    UNREAD = "UNREAD"


class _Chain:
    """The valid records of one query among those read from ``start`` on, oldest first; after the first that is surely valid none is in
    doubt. Grows with each record at the same price, however many there are."""

    def __init__(self, start: int) -> None:
        self._start, self._last, self._doubtful = start, -1, -1
        self.decisions: list[Decision] = []
        self.by_batch: dict[int, Decision] = {}

    def add(self, offset: int, decision: Decision) -> None:
        if self.decisions and (decision.read_to <= self._last or decision.batch <= self.decisions[-1].batch):
            return
        if decision.read_to < self._start or decision.read_to <= self._doubtful:
            self._doubtful = offset
            return
        self.decisions.append(decision)
        self.by_batch[decision.batch] = decision
        self._last = offset


class DecisionLedger:
    """What was read of the log: everything from ``start`` to ``end``.

    Args:
        end: where reading begins: newer parts are added at the end, older ones, when they are needed, before the start. Of what is added
            at the end, the oldest is forgotten again, as if it had not been read, so that a process that runs for months stays small.
        kept: how many of the newest offsets are always held.
    """

    def __init__(self, end: int, kept: int = _KEPT) -> None:
        self.start = self.end = end
        self._kept, self._added = kept, 0
        self._oldest = 0
        self._records: dict[str, list[tuple[int, Decision]]] = {}
        self._chains: dict[str, _Chain] = {}
        self._new: set[str] = set()
        self._notes: list[Names] = []

    def is_new(self, query: str) -> None:
        """Nobody can have decided anything for ``query`` before ``start``: its name was made up later."""
        self._new.add(query)
        self._chains.pop(query, None)

    def read_newer(self, records: Iterable[tuple[int, Record]], end: int) -> None:
        """Everything from ``self.end`` to ``end``: offsets and records, in order."""
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
        """Everything from ``start`` to ``self.start``; ``oldest`` is where the log begins now, 0 when nothing of it expired."""
        for query, entries in self._sorted(records).items():
            self._records[query] = entries + self._records.get(query, [])
        self.start, self._oldest = start, oldest
        self._added = 0  # somebody needs it: no more is forgotten for a while
        self._chains.clear()

    def _sorted(self, records: Iterable[tuple[int, Record]]) -> dict[str, list[tuple[int, Decision]]]:
        found: dict[str, list[tuple[int, Decision]]] = {}
        for offset, record in records:
            if isinstance(record, Names):
                self._notes.append(record)
                self._chains.clear()  # of a query that it does not name everything is read now
            else:
                found.setdefault(record.query, []).append((offset, record))
        return found

    def _forget_oldest(self) -> None:
        """Back to the last note, if that is near: who holds it can carry it on."""
        start = self.end - self._kept
        newest = max((note.read_to for note in self._notes), default=start)
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
        self._notes = [note for note in self._notes if note.read_to >= start]
        self._chains.clear()
        self.start, self._added = start, self._kept

    def note(self, least: int) -> Names | None:
        """What a writer should append for those that come after it (law 6); None when it has not read enough to say it, or the last note
        is less than ``least`` records old."""
        known = max((note for note in self._notes if note.read_to >= self.start), key=_read_to, default=None)
        if known is None and not self.is_read_to_its_beginning:
            return None
        if self.end - (self.start if known is None else known.read_to) < least:
            return None
        before = frozenset() if known is None or self.is_read_to_its_beginning else known.queries
        queries = before.union(self._records)
        return Names(queries, self.end) if len(queries) <= _MOST_NAMES else None

    @property
    def is_read_to_its_beginning(self) -> bool:
        return self.start <= self._oldest

    def _is_whole_for(self, query: str) -> bool:
        """Whether everything about ``query`` was read."""
        if self.is_read_to_its_beginning or query in self._new:
            return True
        return any(note.read_to >= self.start and query not in note.queries for note in self._notes)

    def standing(self, query: str, batch: int) -> Standing:
        """Whether ``batch`` may still be written."""
        chain = self._valid(query).decisions
        if not chain:
            return Standing.OPEN if self._is_whole_for(query) else Standing.UNREAD
        if batch > chain[-1].batch:
            return Standing.OPEN
        if self.decision(query, batch) is not None:
            return Standing.DECIDED
        return Standing.PASSED if batch > chain[0].batch or self._is_whole_for(query) else Standing.UNREAD

    def decided(self) -> dict[str, list[Decision]]:
        """The valid records of every query, oldest first."""
        return {query: list(self._valid(query).decisions) for query in sorted(self._records)}

    def decision(self, query: str, batch: int) -> Decision | None:
        """The valid record of ``batch``, if it was read."""
        return self._valid(query).by_batch.get(batch)

    def answer(self, query: str, batch: int, attempt: str, half: str = "") -> LocalTransactionState:
        """What a broker is told that asks about ``half``, one of ``attempt``; UNKNOWN as long as it cannot be said for sure (laws 2, 3)."""
        decision = self.decision(query, batch)
        if decision is not None:
            named = attempt in decision.attempts and half not in decision.lost
            return LocalTransactionState.COMMIT_MESSAGE if named else LocalTransactionState.ROLLBACK_MESSAGE
        chain = self._valid(query).decisions
        is_passed = bool(chain) and batch < chain[-1].batch
        # Its decision may have expired, unless an older one of the same query is still there, or nothing ever expired.
        is_known = bool(chain) and (chain[0].batch < batch or self.start <= 0 >= self._oldest or query in self._new)
        return LocalTransactionState.ROLLBACK_MESSAGE if is_passed and is_known else LocalTransactionState.UNKNOWN

    def _valid(self, query: str) -> _Chain:
        chain = self._chains.get(query)
        if chain is None:
            chain = _Chain(0 if self._is_whole_for(query) else self.start)
            for offset, decision in self._records.get(query, ()):
                chain.add(offset, decision)
            self._chains[query] = chain
        return chain

    @property
    def held(self) -> int:
        """How many facts are held (law 7)."""
        chains = sum(len(chain.decisions) for chain in self._chains.values())
        return sum(map(len, self._records.values())) + chains + len(self._notes) + len(self._new)

    def check_invariants(self) -> None:
        """Check law 1; for tests."""
        for query in self._records:
            batches = [decision.batch for decision in self._valid(query).decisions]
            assert batches == sorted(set(batches)), f"batches of {query} do not grow: {batches}"
        assert self.start <= self.end


def _read_to(note: Names) -> int:
    return note.read_to


@dataclass(frozen=True, slots=True)
class Append:
    """Store ``decision``, wait until it is acknowledged, read the ledger on to its end, and ask again."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Settle:
    """The batch is decided: these of the writer's own attempts are to be committed, those rolled back."""

    commit: frozenset[str]
    rollback: frozenset[str]


@dataclass(frozen=True, slots=True)
class OtherRows:
    """The batch is decided, with so many rows and not with those of the writer. If it was planned anew under its old number, rows that only
    one of the two plans has would be lost, or written twice; if not, ``settle`` is right: it was decided, and that is all it writes."""

    decided: int
    settle: Settle


def commit_step(
    ledger: DecisionLedger,
    query: str,
    batch: int,
    attempts: frozenset[str],
    lost: frozenset[str] = frozenset(),
    rows: int | None = None,
) -> Append | Settle | OtherRows | Standing:
    """What the writer of ``batch`` does next, when all of its tasks are done.

    Args:
        ledger: read to its end after everything that the writer itself has stored.
        attempts: those of its tasks that sent something.
        lost: halves of them whose sends were not answered.
        rows: of all tasks, whether they sent them or not.

    Returns:
        Append; or Settle; or OtherRows, with which nothing may be settled unasked; or the standing UNREAD or PASSED, with which nothing
        may be appended (law 5).
    """
    standing = ledger.standing(query, batch)
    if standing is Standing.OPEN:
        return Append(Decision(query, batch, attempts, ledger.end, lost, rows))
    decision = ledger.decision(query, batch)
    if decision is None:
        return standing
    settle = Settle(attempts & decision.attempts, attempts - decision.attempts)
    if decision.rows is not None and rows is not None and decision.rows != rows:
        return OtherRows(decision.rows, settle)
    return settle


def can_end_directly(age_ms: int, quiet_ms: int) -> bool:
    """Whether a half of this age can be committed by who decided, without a copy of it being asked for as well.

    Args:
        age_ms: since before the half was sent.
        quiet_ms: how old a half may be when its END arrives so that no check can come for it, see :func:`quiet_time_ms`.
    """
    return age_ms <= quiet_ms - _MARGIN_MS


def quiet_time_ms(transaction_timeout_ms: int, op_batch_interval_ms: int) -> int:
    """``transactionTimeOut``, before which a broker asks nobody, less the time that it may take to note an END: 5.x gathers such notes for
    ``transactionOpBatchInterval`` and may just have missed its turn, so twice that. 0 for 4.9, which notes at once, and where who is asked
    about an ended half sees that it was ended."""
    return max(0, transaction_timeout_ms - 2 * op_batch_interval_ms)
