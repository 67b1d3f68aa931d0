# SPDX-License-Identifier: Apache-2.0
"""A consumer group, and what its members have been given."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sprocketmq as rmq
from sprocketmq.testing.simulation.users.ledger import EARLY_S, Ledger, Sent
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.broker import Broker
    from sprocketmq.testing.simulation.network import Process
    from sprocketmq.testing.simulation.world import Here

CONSUME_TIMEOUT_MS: Final = 60_000
# The shortest time after which a queue is given away while its listener runs (await_termination_ms).
_OVERLAP_S: Final = 5.0
_LOCK_S: Final = 60.0
# So long after the last cause nothing may be delivered again: who has lost its power is noticed after 120 s, who leaves at once.
_CALM_S: Final = 300.0
_MOVED_S: Final = 45.0
_REBALANCED_S: Final = 25.0
_PROMPT_S: Final = 5.0
_SETTLED_S: Final = 60.0
_LATE_S: Final = 1.5  # what was waiting arrives within 400 ms, and is looked at each second


@dataclass(frozen=True)
class Filter:
    """``expression``: what a consumer subscribes with. ``lets``: whether a message passes."""

    expression: rmq.FilterExpression | str
    lets: Callable[[Sent], bool]


ALL: Final = Filter("*", lambda sent: True)


def drawn_filter(rng: random.Random) -> Filter:
    number = rng.choice([0, 50, 10_000])
    return rng.choice(
        [
            Filter("A", lambda sent: sent.tag == "A"),
            Filter("A || C", lambda sent: sent.tag in "AC"),
            Filter(rmq.sql92(f"number > {number}"), lambda sent: sent.number > number),
            Filter(rmq.sql92("TAGS IN ('A', 'B') AND number IS NOT NULL"), lambda sent: sent.tag in "AB"),
        ]
    )


@dataclass(slots=True, eq=False)
class Call:
    """A message in a member's hands. ``member``: who has finished it then; empty: the group. ``queue``: where it is stored; the topic of a
    retry is not the one that its listener sees."""

    here: Here
    process: Process
    member: str
    sent: Sent
    queue: MessageQueue
    offset: int
    began_s: float
    is_settled: bool = False  # no queue was moved meanwhile: the end of a call counts only for who still has its queue

    @property
    def place(self) -> tuple[MessageQueue, int]:
        return self.queue, self.offset


class Group:
    """``filters`` by topic. ``retries``: before a dead letter; None: never. ``members``: names of hosts."""

    def __init__(
        self, ledger: Ledger, features: Collection[str], name: str, kind: str, filters: dict[str, Filter]
    ) -> None:
        self.ledger, self.name, self.kind, self.filters = ledger, name, kind, filters
        self.orderly = "orderly" in kind
        self.broadcasts = kind == "broadcasting"
        self.is_concurrent = kind in ("concurrent", "iterating")
        self.retries = 2 if "dead letters" in features and self.is_concurrent else None
        self.may_time_out = "timeouts" in features and self.is_concurrent
        # Nothing of its own keeps it from its messages.
        self.is_prompt = (self.is_concurrent or kind == "orderly") and not (
            {"pauses", "subscriptions", "callbacks"} & set(features)
        )
        self.loses_retries = False  # it is deleted now and then
        self.members: list[str] = []
        self.retry_topic = f"%RETRY%{name}"
        self.topics = (*filters, self.retry_topic)
        self.finished: dict[str, set[str]] = defaultdict(set)  # keys, by member if it broadcasts
        self.failures: dict[str, int] = defaultdict(int)  # by key
        self.dead: set[str] = set()  # keys that a listener has given up
        self.changed_s = -math.inf  # when a member came or went, or the group was moved
        self.moved_s = -math.inf  # when it was moved
        self.leaving: set[str] = set()  # members that shut down: their last calls may not count
        self._running: dict[tuple[MessageQueue, int], Call] = {}  # the newest of each message
        self._in_hands: set[Call] = set()  # of members that live or have died
        self._last: dict[tuple[MessageQueue, int, str], Call] = {}
        self._done: dict[MessageQueue, set[int]] = defaultdict(set)
        self._passed: dict[MessageQueue, int] = defaultdict(int)  # all before is done: seen by check_progress
        self._next: dict[MessageQueue, int] = defaultdict(int)  # an orderly group's: all before is done
        self._in_order: dict[MessageQueue, Call] = {}
        self._idle_s = 0.0  # when its last call ended
        self.committed: dict[MessageQueue, tuple[Broker | None, int]] = {}  # as it was seen last, and where
        self._dead_letters: set[str] = set()
        self._dead_read: dict[tuple[str, int], int] = defaultdict(int)  # offsets, by broker and its start

    def __repr__(self) -> str:
        return f"{self.kind} group {self.name}"

    def wants(self, sent: Sent) -> bool:
        wanted = self.filters.get(sent.topic)
        return wanted is not None and wanted.lets(sent)

    def is_idle_at(self, here: Here, call: Call | None = None) -> bool:
        """Whether no call runs in a member, beside ``call``."""
        return not any(one is not call and one.here is here for one in self._in_hands)

    def changes(self) -> None:
        """A member comes or goes."""
        self.changed_s = self.ledger.world.loop.time()

    def moves(self) -> None:
        """Somebody sets its progress."""
        self.changed_s = self.moved_s = self.ledger.world.loop.time()

    # -- a message, from its delivery to its end -----------------------------------------------------------------------------------

    def begins(self, here: Here, message: rmq.MessageExt) -> Call:
        topic = self.retry_topic if props.RETRY_TOPIC in message.properties else message.topic
        queue = MessageQueue(topic, message.broker_name, message.queue_id)
        sent, now_s = self.ledger.of(message), here.world.loop.time()
        member = here.name if self.broadcasts else ""
        call = Call(here, here.host.process, member, sent, queue, message.queue_offset, now_s)
        self._check_delivery(call)
        self._check_promptness(call)
        if self.orderly:
            self._check_order(call)
        self._running[call.place] = self._last[*call.place, member] = call
        self._in_hands.add(call)
        return call

    def finishes(self, call: Call) -> None:
        self.finished[call.member].add(call.sent.key)
        call.is_settled = call.here.name not in self.leaving and self.changed_s < call.began_s - _REBALANCED_S
        self._ends(call, is_done=True)

    def fails(self, call: Call, *, is_dead: bool = False) -> None:
        """``is_dead``: the listener asks for a dead letter."""
        self.failures[call.sent.key] += 1
        if is_dead:
            self.dead.add(call.sent.key)
        # A concurrent group's retry is another stored message.
        self._ends(call, is_done=is_dead or not self.orderly)
        if call.sent.is_padded:  # it may have no room for what a retry adds: then it comes again from its own place
            self._last.pop((*call.place, call.member), None)

    def gives_up(self, call: Call) -> None:
        """Its listener call was ended from outside, and does not count."""
        self._in_hands.discard(call)

    def _ends(self, call: Call, *, is_done: bool) -> None:
        self.gives_up(call)
        self._idle_s = self.ledger.world.loop.time()
        if self._running.get(call.place) is call:
            del self._running[call.place]
        if not is_done:
            self._last.pop((*call.place, call.member), None)  # it comes again
            return
        self._last[*call.place, call.member] = call
        if call.offset >= self._passed[call.queue]:
            self._done[call.queue].add(call.offset)

    def _check_delivery(self, call: Call) -> None:
        sent, breaks = call.sent, self.ledger.breaks
        if not self.wants(sent):
            breaks(
                f"{self} got {sent.key} of {sent.topic} (tag {sent.tag}, number {sent.number}), which it does not want"
            )
        if sent.is_forbidden:
            breaks(f"{self} got {sent.key}, which was rolled back or recalled")
        if call.began_s < sent.due_s - EARLY_S:
            breaks(f"{self} got {sent.key} {sent.due_s - call.began_s:.3f} s before its time")
        last = self._last.get((*call.place, call.member))
        if last is None or last.sent is not sent:
            return
        # An orderly member has written its progress when it gives a queue up.
        changed_s = self.moved_s if self.kind == "orderly" and last.is_settled else self.changed_s
        if self.ledger.is_calm_since(last.began_s - _CALM_S) and changed_s < last.began_s - _MOVED_S:
            ago_s = call.began_s - last.began_s
            breaks(
                f"{self} got {sent.key} at {call.queue}, offset {call.offset}, again after {ago_s:.1f} s without a cause"
            )

    def _check_promptness(self, call: Call) -> None:
        """What is stored while a group has nothing to do and nothing else goes on is delivered soon."""
        acknowledged_s, ledger = call.sent.acknowledged_s, self.ledger
        if (
            self._running
            or not acknowledged_s
            or call.sent.due_s
            or not self.is_prompt
            or call.queue.topic == self.retry_topic
        ):
            return
        waited_s, since_s = call.began_s - acknowledged_s, acknowledged_s - _SETTLED_S
        if (
            waited_s > _PROMPT_S
            and self._idle_s < acknowledged_s - 1
            and ledger.is_calm_since(since_s)
            and self.changed_s < since_s
        ):
            ledger.breaks(
                f"{self} had nothing to do and got {call.sent.key} {waited_s:.1f} s after its acknowledgement"
            )

    # -- order -----------------------------------------------------------------------------------------------------------------

    def _check_order(self, call: Call) -> None:
        queue, breaks = call.queue, self.ledger.breaks
        other = self._in_order.get(queue, call)
        if other in self._in_hands and not other.process.is_dead and self._may_not_overlap(other, call):
            breaks(
                f"{self} has two listeners at {queue}: {other.here.name} at offset {other.offset} for "
                f"{call.began_s - other.began_s:.3f} s, and {call.here.name} at offset {call.offset}"
            )
        self._in_order[queue] = call
        if call.offset > self._next[queue]:
            self._check_gap(queue, call.offset)

    def _may_not_overlap(self, other: Call, call: Call) -> bool:
        return (
            call.began_s - other.began_s < _OVERLAP_S
            and not other.process.frozen_ms_since(other.began_s - _LOCK_S)
            and not call.process.frozen_ms_since(other.began_s - _LOCK_S)
            and not self.ledger.has_restarted(call.queue.broker_name, other.began_s - _LOCK_S)
        )

    def _check_gap(self, queue: MessageQueue, offset: int) -> None:
        if self.ledger.running_broker(queue.broker_name) is None:
            return
        for at, sent in self.ledger.stored(queue, max(self._next[queue], self._passed[queue]), offset):
            if at not in self._done[queue] and self.wants(sent) and not self.ledger.may_be_lost(sent):
                self.ledger.breaks(f"{self} begins offset {offset} of {queue}, and {at} ({sent.key}) is not finished")
        self._next[queue] = offset

    # -- progress --------------------------------------------------------------------------------------------------------------

    def check_progress(self, queue: MessageQueue, committed: int) -> None:
        """All before ``committed`` was in a listener's hands, which have let go of it."""
        if self.orderly:
            self._check_advance(queue, committed)
        begin, now_s, done = self._passed[queue], self.ledger.world.loop.time(), self._done[queue]
        if committed <= begin:
            return
        for offset, sent in self.ledger.stored(queue, begin, committed):
            if offset in done or (queue.topic != self.retry_topic and not self.wants(sent)):
                continue
            running = self._running.get((queue, offset))
            if running is not None and self.may_time_out and now_s - running.began_s >= CONSUME_TIMEOUT_MS / 1000:
                continue  # it was sent back
            if not self.ledger.may_be_lost(sent):
                self.ledger.breaks(
                    f"{self} has committed {committed} at {queue}, and {offset} ({sent.key}) is not finished"
                )
        self._passed[queue] = committed
        done.difference_update(range(begin, committed))

    def _check_advance(self, queue: MessageQueue, committed: int) -> None:
        """Only its lock's holder writes the progress of an orderly queue, which goes forward. (When a wall falls or a process goes on, what
        was sent before arrives. A start has the progress that was saved, and gives away locks that others still count on.)"""
        now_s, broker = self.ledger.world.loop.time(), self.ledger.running_broker(queue.broker_name)
        seen_at, before = self.committed.get(queue, (None, -1))
        self.committed[queue] = broker, committed
        if (
            committed < before
            and broker is seen_at
            and not self.ledger.has_restarted(queue.broker_name, now_s - _LOCK_S)
            and not self.ledger.hears_late(queue.broker_name, self.members, now_s - _LATE_S)
            and self.moved_s < now_s - _MOVED_S
        ):
            self.ledger.breaks(f"the progress of {self} at {queue} went back from {before} to {committed}")

    def check_skipped(self, queue: MessageQueue, begin: int, end: int) -> None:
        """Nothing from ``begin`` to ``end`` is for this group."""
        if any(self.wants(sent) for _, sent in self.ledger.stored(queue, begin, end)):
            self.ledger.breaks(f"{self} has sought {begin} of {queue} and got {end}")

    # -- the end ---------------------------------------------------------------------------------------------------------------

    def lacks(self, sent: Sent) -> bool:
        """Whether it still has to get a message; ``read_dead_letters`` before."""
        if not self.wants(sent) or not sent.is_promised:
            return False
        if self.broadcasts:
            lacks = any(sent.key not in self.finished[member] for member in self.members)
        else:
            lacks = sent.key not in self.finished[""] and sent.key not in self._dead_letters
        if (self.ledger.expires or self.loses_retries) and self.failures[sent.key]:  # its retry may be gone
            return False
        return lacks and not self.ledger.may_be_lost(sent)

    def read_dead_letters(self) -> None:
        """Each has failed as often as it may."""
        topic = f"%DLQ%{self.name}"
        for broker in self.ledger.brokers():
            name, end = broker.config.broker_name, broker.store.max_offset(topic, 0)
            start = name, self.ledger.starts[name]
            for _, sent in self.ledger.stored(MessageQueue(topic, name, 0), self._dead_read[start], end):
                self._dead_letters.add(sent.key)
                if sent.key not in self.dead and (self.retries is None or self.failures[sent.key] <= self.retries):
                    self.ledger.breaks(
                        f"{sent.key} is a dead letter of {self} after {self.failures[sent.key]} failures"
                    )
            self._dead_read[start] = end
