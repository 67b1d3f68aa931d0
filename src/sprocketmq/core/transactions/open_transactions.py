# SPDX-License-Identifier: Apache-2.0
"""Open transactions of one producer, and who may end them (Java: DefaultMQProducerImpl, which keeps no such table).

                         begin                    finished: COMMIT, ROLLBACK, UNKNOWN
    half stored ----------------> local transaction runs ----------------------------> END to the broker, naming the newest copy
                                            |  (the broker asks, and makes a copy of the half)
    half of a member that died --asked--> the check runs --checked: COMMIT, ROLLBACK, UNKNOWN--> END

A broker that asks has stored a copy of the half message at the end of its queue, and identifies the transaction by that copy from then on.
If an END names an older copy, an Apache broker accepts it, delivers the message, and later asks about the new copy. Then the message is
delivered twice.

Rules
1. An end (commit or rollback) is sent at most once between ``begin`` or ``asked`` and the moment when the transaction is forgotten. UNKNOWN
   ends nothing.
2. An end names the newest copy that the broker of the half message has named.
3. At most one check of a transaction runs at a time. A second question of the broker only names a newer copy.
4. While the local transaction runs here, a check may commit but not roll back: its result may only not be visible yet.
5. At most ``hold_max`` checks wait or run. Others are dropped, and the broker asks again.
6. A transaction that neither runs here nor is being checked is forgotten.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from sprocketmq.wire.records.sys_flag import (
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_NOT_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
)


class LocalTransactionState(str, Enum):
    """How the local part of a transaction stands.

    COMMIT_MESSAGE: done; consumers get the message. ROLLBACK_MESSAGE: undone; nobody gets it. UNKNOWN: not decided, or nobody can say now;
    the broker asks again (Java spells it UNKNOW).
    """

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOWN"

    def __str__(self) -> str:
        return self.value

    @property
    def sys_flag(self) -> int:
        return _SYS_FLAGS[self]


_SYS_FLAGS = {
    LocalTransactionState.COMMIT_MESSAGE: TRANSACTION_COMMIT_TYPE,
    LocalTransactionState.ROLLBACK_MESSAGE: TRANSACTION_ROLLBACK_TYPE,
    LocalTransactionState.UNKNOWN: TRANSACTION_NOT_TYPE,
}


def local_transaction_state(answer: object) -> tuple[LocalTransactionState, bool]:
    """What a callback's answer means, and whether it is allowed. Anything that is not a state counts as UNKNOWN, as in Java."""
    if isinstance(answer, LocalTransactionState):
        return answer, True
    return LocalTransactionState.UNKNOWN, False


class HalfPlace(msgspec.Struct, frozen=True):
    """Where a half message or its copy lies: the store host of its broker, its offset in the queue of halves (tranStateTableOffset) and
    in the log."""

    broker: str
    queue_offset: int
    commit_log_offset: int


class _Open(msgspec.Struct):
    place: HalfPlace
    runs_here: bool
    is_checked: bool = False
    has_ended: bool = False


class OpenTransactions:
    """Not thread-safe: belongs to the producer's loop."""

    __slots__ = ("_checks", "_hold_max", "_open")

    def __init__(self, hold_max: int) -> None:
        self._hold_max = hold_max
        self._open: dict[str, _Open] = {}
        self._checks = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def checks(self) -> int:
        return self._checks

    def begin(self, transaction: str, place: HalfPlace) -> None:
        """The half is stored, its local transaction starts here. ``transaction`` is the message's unique key."""
        known = self._open.get(transaction)
        if known is None:
            self._open[transaction] = _Open(place, runs_here=True)
        else:  # the same message was sent again while the broker asks about the first one
            known.place, known.runs_here, known.has_ended = place, True, False

    def finished(self, transaction: str, state: LocalTransactionState) -> HalfPlace | None:
        """The place that the END must name; None when a check has ended the transaction already."""
        known = self._open[transaction]
        known.runs_here = False
        return self._place_to_end(transaction, known, state)

    def asked(self, transaction: str, place: HalfPlace) -> bool:
        """A check-back of a broker; whether the check is to be called now."""
        known = self._open.get(transaction)
        if known is not None and known.place.broker == place.broker:
            known.place = place
        if known is not None and known.is_checked:
            return False
        if self._checks >= self._hold_max:
            return False
        if known is None:
            known = self._open[transaction] = _Open(place, runs_here=False)
        known.is_checked = True
        self._checks += 1
        return True

    def checked(self, transaction: str, state: LocalTransactionState) -> tuple[HalfPlace | None, LocalTransactionState]:
        """The place that the END must name, None when the local transaction has ended meanwhile; and the state to send (rule 4)."""
        known = self._open[transaction]
        known.is_checked = False
        self._checks -= 1
        if known.runs_here and state is LocalTransactionState.ROLLBACK_MESSAGE:
            state = LocalTransactionState.UNKNOWN
        return self._place_to_end(transaction, known, state), state

    def _place_to_end(self, transaction: str, known: _Open, state: LocalTransactionState) -> HalfPlace | None:
        if not known.runs_here and not known.is_checked:
            del self._open[transaction]
        if known.has_ended:
            return None
        known.has_ended = state is not LocalTransactionState.UNKNOWN
        return known.place

    def check_invariants(self) -> None:
        assert self._checks == sum(known.is_checked for known in self._open.values()) <= self._hold_max
        assert all(known.runs_here or known.is_checked for known in self._open.values())
