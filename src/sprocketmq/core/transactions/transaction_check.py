# SPDX-License-Identifier: Apache-2.0
"""Half messages at the broker: when to ask their producer, when to give up, and which are settled (Java: TransactionalMessageServiceImpl).

    half queue   RMQ_SYS_TRANS_HALF_TOPIC, queue 0       op queue   RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0
    ... | settled | open | settled | copy of an open one    | "d": half offset | "d": half offset, half offset |
          ^ half_progress                                     ^ op_progress

    half --END commit--> record in the real topic, then op --> settled
         --END rollback-----------------------------> op --> settled
         --neither, in a round--> WAIT      younger than its time: the round ends here, later halves are younger
                                  PUT_BACK  it asked for more time: a copy goes to the end of the queue
                                  CHECK     a copy goes to the end, one more check counted, and its producer is asked
                                  DISCARD   asked too often, or too old: a copy goes to TRANS_CHECK_MAX_TIME_TOPIC

Both queues only grow, so progress is two offsets. A round passes each settled half once and looks at each open one once, so its cost
depends on the open ones, not on how many were settled. A copy has another offset than the half that the producer knows, so a transaction
is identified by what all its copies share (:class:`TransactionId`). Apache uses the offset, and may deliver such a transaction twice.

Rules
1. The first END of a transaction counts, whichever of its copies it names; later ones change nothing.
2. An open transaction has exactly one half that a round will come to: its newest copy, at or after ``half_progress``.
3. ``half_progress`` passes a half only when it is settled, copied or superseded by its copy; it never goes back.
4. ``op_progress`` passes an op message only when every half that it names is behind ``half_progress``; it never goes back.
5. A half is checked at most ``check_max`` times; a copy that was only put back counts as no check.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any


class Verdict(Enum):
    """What a round does with a half message that nobody ended."""

    WAIT = "WAIT"
    PUT_BACK = "PUT_BACK"
    CHECK = "CHECK"
    DISCARD = "DISCARD"


class Outcome(Enum):
    """How a transaction ended; UNKNOWN when only the mark of its end is left from before a restart."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckRules:
    """Times of the check-back, by their names in BrokerConfig. ``timeout_ms``: ``transactionTimeOut``, before which nobody is
    asked. ``check_max``: ``transactionCheckMax``, after so many checks a half is discarded. ``reserved_ms``:
    ``fileReservedTime``; a half older than that is discarded."""

    timeout_ms: int
    check_max: int
    reserved_ms: int

    def check_immunity_ms(self, immunity: str | None) -> int:
        """How long a half is not asked for, from its property CHECK_IMMUNITY_TIME_IN_SECONDS."""
        seconds = _number(immunity, -1)
        return self.timeout_ms if seconds == -1 else seconds * 1000

    def is_end_too_late(self, age_ms: int, immunity: str | None) -> bool:
        """Whether a producer that chose its time lets it pass: only its answer to a check counts then (5.x)."""
        return bool(immunity) and age_ms > max(_number(immunity, 0) * 1000, self.timeout_ms)


def judge(
    rules: CheckRules,
    *,
    now_ms: int,
    believed_ms: int,
    round_ms: int,
    born_timestamp_ms: int,
    store_timestamp_ms: int,
    check_times: str | None,
    immunity: str | None,
) -> Verdict:
    """What to do with an open half, in Java's order of questions.

    Args:
        round_ms: when this round began.
        believed_ms: ``now_ms``, but behind it where the clock was set forward by much: that makes no half too old.
        born_timestamp_ms: by the producer's clock, which may be wrong.
        check_times, immunity: properties TRANSACTION_CHECK_TIMES and CHECK_IMMUNITY_TIME_IN_SECONDS.
    """
    age_ms = now_ms - born_timestamp_ms
    if check_times is not None and _number(check_times, -1) >= rules.check_max:
        return Verdict.DISCARD
    if min(now_ms, believed_ms) - born_timestamp_ms > rules.reserved_ms:
        return Verdict.DISCARD
    if store_timestamp_ms >= round_ms:
        return Verdict.WAIT
    if immunity is not None and age_ms <= rules.check_immunity_ms(immunity):
        return Verdict.PUT_BACK
    if immunity is None and 0 <= age_ms <= rules.timeout_ms:
        return Verdict.WAIT
    return Verdict.CHECK


def half_offsets_of_op(body: bytes) -> list[int]:
    """The half offsets that an op message marks as settled: one number (4.9, and ours), or numbers that each end in a comma (5.x)."""
    return [int(part) for part in body.split(b",") if part.isdigit() and len(part) <= _MAX_DIGITS]


class TransactionId(bytes):
    """What a half and all its copies share, and no two transactions: sixteen bytes, however long their names are, since thousands of ended
    transactions are remembered, and any client may create them."""

    __slots__ = ()

    @classmethod
    def of(
        cls, unique_key: str, born_timestamp_ms: int, born_host: tuple[bytes, int], real_topic: str, body_crc: int
    ) -> TransactionId:
        # Both texts come from properties, and no property contains \x02, so the joined texts of two transactions differ.
        ip, port = born_host
        facts = f"{unique_key}\x02{real_topic}\x02{born_timestamp_ms} {ip.hex()} {port} {body_crc}"
        return cls(blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=16).digest())


@dataclass(frozen=True, slots=True)
class Settlement:
    """What an END means. ``offset``: the half that an op must mark now; None when the mark is there. ``before``: how the
    transaction had ended already; None when this is its first end."""

    offset: int | None
    before: Outcome | None


class TransactionTable:
    """What is known beyond the two queues: which halves from ``half_progress`` on are settled, and where copies are. ``remembered``: how
    many ended transactions are remembered, for ENDs that come twice."""

    def __init__(self, half_progress: int, op_progress: int, *, remembered: int = 10_000) -> None:
        self.half_progress = half_progress
        self._op_end = op_progress
        self._settled: dict[int, int] = {}  # half offset -> offset of the op that marks it, in the order of ops
        self._copies: dict[TransactionId, int] = {}  # open transactions that were copied -> newest copy
        self._superseded: set[int] = set()  # halves at or after progress of which a newer copy exists
        self._set_aside: set[int] = set()  # those of ``_settled`` whose mark says only that there is a newer copy
        self._ended: dict[TransactionId, Outcome] = {}  # newest last
        self._given_up: dict[TransactionId, int] = {}  # discarded -> their last half, newest last
        self._marked_before: dict[int, None] = {}  # halves that ended in an earlier run, newest last
        self.remembered = remembered

    # -- what is found in the store at the start -------------------------------------------------------------------------------

    def found_op(self, op_offset: int, half_offsets: list[int], half_end: int, *, set_aside: bool = False) -> None:
        """An op message of the op queue, in its order; those before ``op_progress`` serve to know an END that comes again. Marks
        beyond ``half_end`` belong to halves that a crash took; they mean nothing. ``set_aside``: it is the mark of a half that
        has a newer copy, so it does not mean that the transaction ended."""
        for offset in half_offsets:
            if self.half_progress <= offset < half_end:
                if offset not in self._settled and set_aside:
                    self._set_aside.add(offset)
                elif not set_aside:
                    self._set_aside.discard(offset)
                self._settled.setdefault(offset, op_offset)
            elif offset < self.half_progress and not set_aside:
                self._marked_before[offset] = None
        _forget_oldest(self._marked_before, self.remembered)
        self._op_end = max(self._op_end, op_offset + 1)

    def found_half(self, offset: int, transaction: TransactionId, *, is_copy: bool, older: list[int]) -> None:
        """A half at or after progress, in queue order; ``older``: offsets of the same transaction found before."""
        if is_copy:
            self._superseded.update(older)
            if offset not in self._settled:
                self._copies[transaction] = offset
            elif offset not in self._set_aside:  # a copy that was set aside is followed by the one that counts
                self._copies.pop(transaction, None)
                self.ended(transaction, Outcome.UNKNOWN)

    @property
    def superseded(self) -> list[int]:
        """Halves from progress on that have newer copies, which only this run knows: after the start, what a kill left behind."""
        return sorted(self._superseded)

    # -- what happens ----------------------------------------------------------------------------------------------------------

    def settlement(self, offset: int, transaction: TransactionId) -> Settlement:
        """What an END that names the half at ``offset`` means; nothing is changed."""
        before = self._ended.get(transaction)
        if before is None and (self._has_end(offset) or offset in self._marked_before):
            before = Outcome.UNKNOWN
        live = self._copies.get(transaction, self._given_up.get(transaction, offset))
        if before is not None and (live < self.half_progress or live in self._settled or live in self._superseded):
            return Settlement(None, before)
        return Settlement(live, before)

    def _has_end(self, offset: int) -> bool:
        return offset in self._settled and offset not in self._set_aside

    def is_settled(self, offset: int) -> bool:
        return offset in self._settled

    def is_ended(self, transaction: TransactionId) -> bool:
        """Whether an END came whose mark could not be written: a round writes it then, and asks nobody."""
        return transaction in self._ended

    def ended(self, transaction: TransactionId, outcome: Outcome) -> None:
        """The transaction ended for the first time. Its mark may follow later, see :meth:`marked`."""
        self._ended.setdefault(transaction, outcome)
        _forget_oldest(self._ended, self.remembered)

    def marked(self, offset: int, transaction: TransactionId, op_offset: int, *, set_aside: bool = False) -> None:
        """An op message that settles the half at ``offset`` was stored at ``op_offset``; ``set_aside``: because it has a newer copy."""
        if offset >= self.half_progress:
            if set_aside and offset not in self._settled:
                self._set_aside.add(offset)
            elif not set_aside:
                self._set_aside.discard(offset)
            self._settled.setdefault(offset, op_offset)
        self._superseded.discard(offset)
        if self._copies.get(transaction) == offset:
            del self._copies[transaction]
        self._op_end = op_offset + 1

    def copied(self, offset: int, transaction: TransactionId, copy_offset: int) -> None:
        """The open half at ``offset`` was stored again at ``copy_offset``, the end of the queue."""
        if offset >= self.half_progress:
            self._superseded.add(offset)
        self._copies[transaction] = copy_offset

    def discarded(self, offset: int, transaction: TransactionId) -> None:
        """The half was given up: no round comes to it any more. Its producer may still end it, late."""
        self._superseded.add(offset)
        self._given_up[transaction] = offset
        _forget_oldest(self._given_up, self.remembered)
        if self._copies.get(transaction) == offset:
            del self._copies[transaction]

    def gone(self, offset: int) -> None:
        """Its log file expired."""
        self._superseded.add(offset)

    # -- progress --------------------------------------------------------------------------------------------------------------

    def next_open(self, end: int, limit: int) -> int | None:
        """Move progress over what is done, at most ``limit`` halves; the first open half before ``end``, None when there is none (or the
        limit came first: ask again)."""
        offset, stop = self.half_progress, min(end, self.half_progress + limit)
        settled, superseded = self._settled, self._superseded
        while offset < stop:
            if offset in settled:
                del settled[offset]
                superseded.discard(offset)
                self._set_aside.discard(offset)
            elif offset in superseded:
                superseded.remove(offset)
            else:
                break
            offset += 1
        self.half_progress = offset
        return offset if offset < stop else None

    def move_to(self, offset: int) -> None:
        """Halves before ``offset`` expired with their files."""
        if offset > self.half_progress:
            self.half_progress = offset
            self._settled = {half: op for half, op in self._settled.items() if half >= offset}
            self._superseded = {half for half in self._superseded if half >= offset}
            self._set_aside = {half for half in self._set_aside if half >= offset}

    def open_halves(self, end: int) -> int:
        """How many transactions before the half offset ``end`` have not ended; each put-back counts once, by its newest copy."""
        return end - self.half_progress - len(self._settled) - len(self._superseded)

    @property
    def op_progress(self) -> int:
        """The first op message that is still needed after a restart."""
        return next(iter(self._settled.values()), self._op_end)

    @property
    def held(self) -> int:
        """How many facts are held."""
        return (
            len(self._settled)
            + len(self._copies)
            + len(self._superseded)
            + len(self._set_aside)
            + len(self._ended)
            + len(self._given_up)
            + len(self._marked_before)
        )

    def check_invariants(self) -> None:
        ops = list(self._settled.values())
        assert ops == sorted(ops), "ops are not in their order, so op_progress is not the least"
        assert all(half >= self.half_progress for half in self._settled), "a settled half behind progress is kept"
        assert all(half >= self.half_progress for half in self._superseded), "a superseded half behind progress is kept"
        for transaction, offset in self._copies.items():  # rule 2
            assert offset >= self.half_progress, f"progress passed the newest copy of {transaction.hex()}"
            assert offset not in self._settled, f"{transaction.hex()} is settled and yet open"
            assert offset not in self._superseded, f"the newest copy of {transaction.hex()} is superseded"
        assert self._set_aside <= self._settled.keys(), "a half is set aside without a mark"
        assert all(op < self._op_end for op in ops)
        assert len(self._ended) <= self.remembered


def _forget_oldest(table: dict[Any, Any], most: int) -> None:
    while len(table) > most:
        del table[next(iter(table))]


_MAX_DIGITS = 18  # a Java long that cannot overflow


def _number(text: str | None, default: int) -> int:
    """Java's Long.parseLong with a default: digits and a sign, nothing else."""
    if text is None:
        return default
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else default
