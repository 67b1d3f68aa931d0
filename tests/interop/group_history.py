# SPDX-License-Identifier: Apache-2.0
"""What a consumer group may do, whoever its members are: a history of it, and the laws that it must keep. Pure functions, no I/O.

Laws
    1. At least once: each message whose send was acknowledged has been consumed to its end by somebody.
    2. Nothing is consumed that was not sent. A send without an answer may have been stored, once: where, tells who consumes it first.
    3. Orderly: a queue is never in two hands. Two members' calls for messages of one queue do not overlap in time; the call of a member
       that was killed lasts until its death, and one that never ended still lasts.
    4. Orderly: a message begins only after every earlier one of its queue has ended, with whomever. (Again from an earlier one is allowed:
       that is "at least once".)
    5. Settled: the queues of the living members are disjoint, and together they are all queues.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

Place = tuple[int, int]  # queue id, offset
_FOR_EVER: Final = sys.maxsize


@dataclass
class Call:
    """One message in one member's listener, by one monotonic clock; ``end`` is None while it runs, or when it died with its member."""

    member: str
    place: Place
    body: str
    begin: int
    end: int | None = None


@dataclass
class History:
    """What was sent, who consumed it when, who was killed when, and who had which queues once nothing moved any more.

    Attributes: ``sent`` (place -> body), ``deaths`` (member -> time), ``settled`` (living member -> queue ids; None: not looked at),
    ``queues`` (how many the topic has), ``doubtful`` (bodies whose send got no answer; each body is sent once).
    """

    queues: int
    orderly: bool
    sent: dict[Place, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    deaths: dict[str, int] = field(default_factory=dict)
    settled: Mapping[str, Iterable[int]] | None = None
    doubtful: set[str] = field(default_factory=set)
    _running: dict[tuple[str, Place], Call] = field(default_factory=dict)

    # -- recording ---------------------------------------------------------------------------------------------------------------

    def began(self, member: str, place: Place, body: str, at: int) -> None:
        call = self._running[member, place] = Call(member, place, body, at)
        self.calls.append(call)

    def ended(self, member: str, place: Place, at: int) -> None:
        self._running.pop((member, place)).end = at

    def died(self, member: str, at: int) -> None:
        """It was killed, and is certainly gone at ``at``."""
        self.deaths[member] = at
        for key in [key for key in self._running if key[0] == member]:
            del self._running[key]

    @property
    def finished(self) -> set[Place]:
        """Places consumed to their end."""
        return {call.place for call in self.calls if call.end is not None}

    @property
    def again(self) -> int:
        """How many calls were for a message that had been begun before."""
        return len(self.calls) - len({call.place for call in self.calls})

    # -- judging -----------------------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Every breach of a law, as a sentence; empty when all hold."""
        stored = self._stored()
        found = self._lost() + self._invented(stored)
        if self.orderly:
            for queue in range(self.queues):
                calls = sorted((call for call in self.calls if call.place[0] == queue), key=lambda call: call.begin)
                offsets = sorted(offset for number, offset in stored if number == queue)
                found += self._shared_hands(queue, calls) + self._disorder(queue, offsets, calls)
        return found + self._unsettled()

    def _stored(self) -> dict[Place, str]:
        """What was acknowledged, and what was stored without an answer as far as somebody met it."""
        stored, unplaced = dict(self.sent), set(self.doubtful)
        for call in self.calls:
            if call.place not in stored and call.body in unplaced:
                unplaced.discard(call.body)
                stored[call.place] = call.body
        return stored

    def _lost(self) -> list[str]:
        missing = sorted(self.sent.keys() - self.finished)
        return [
            f"message {self.sent[place]!r} (queue {place[0]}, offset {place[1]}) was never consumed"
            for place in missing
        ]

    def _invented(self, stored: Mapping[Place, str]) -> list[str]:
        return [
            f"{call.member} consumed {call.body!r} at {call.place}, where {stored.get(call.place)!r} was sent"
            for call in self.calls
            if stored.get(call.place) != call.body
        ]

    def _shared_hands(self, queue: int, calls: list[Call]) -> list[str]:
        found: list[str] = []
        # The latest end so far per member: a long call may reach over many short ones of another.
        ends: dict[str, tuple[int, Call]] = {}
        for call in calls:
            for other, (end, earlier) in ends.items():
                if other != call.member and end > call.begin:
                    found.append(
                        f"queue {queue} was in two hands: {call.member} began offset {call.place[1]} at {call.begin} while {other} had "
                        f"offset {earlier.place[1]} from {earlier.begin} {'on' if end == _FOR_EVER else f'to {end}'}"
                    )
            end = self._end(call)
            if call.member not in ends or end > ends[call.member][0]:
                ends[call.member] = end, call
        return found

    def _end(self, call: Call) -> int:
        return call.end if call.end is not None else self.deaths.get(call.member, _FOR_EVER)

    @staticmethod
    def _disorder(queue: int, offsets: list[int], calls: list[Call]) -> list[str]:
        found: list[str] = []
        finished_at: dict[int, int] = {}
        for call in calls:
            if call.end is not None:
                offset = call.place[1]
                finished_at[offset] = min(call.end, finished_at.get(offset, call.end))
        # The time at which everything before an offset was finished for the first time.
        ready_at: dict[int, int | None] = {}
        latest: int | None = 0
        for before, offset in pairwise([-1, *offsets]):
            if before >= 0:
                done = finished_at.get(before)
                latest = None if latest is None or done is None else max(latest, done)
            ready_at[offset] = latest
        for call in calls:
            ready = ready_at.get(call.place[1], 0)
            if ready is None or call.begin < ready:
                found.append(
                    f"queue {queue}: {call.member} began offset {call.place[1]} before all earlier ones had ended"
                )
        return found

    def _unsettled(self) -> list[str]:
        if self.settled is None:
            return []
        found: list[str] = []
        owners: dict[int, str] = {}
        for member, queues in self.settled.items():
            for queue in queues:
                if queue in owners:
                    found.append(f"queue {queue} is owned twice after settling, by {owners[queue]} and {member}")
                owners[queue] = member
        return found + [
            f"queue {queue} is owned by nobody after settling" for queue in range(self.queues) if queue not in owners
        ]
