# SPDX-License-Identifier: Apache-2.0
"""Pulls that wait: the driver of core.long_poll (Java: PullRequestHoldService, NotifyMessageArrivingListener).

1. Waiting pulls are woken once per turn of the loop: 64 sends of one read give one answer with 64 messages. Arrivals while the pulls of a
   queue are checked cause one more check of all of them.
2. A woken pull is run again without the right to park, so it is answered exactly once.
3. One timer is set for the earliest deadline, and none while no pull waits.
4. The number of waiting pulls and their bytes are limited, of all and of one connection.
5. Waking is interrupted after a time slice (``_TIME_SLICE_S``), and queues take turns, so that other requests are served in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from sys import getsizeof
from time import perf_counter
from typing import TYPE_CHECKING, Final

from sprocketmq.core.long_poll import LongPoll, ParkedPull
from sprocketmq.net.connection import Connection
from sprocketmq.net.process.clock import Timer
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers import PullMessageRequestHeader

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_TIME_SLICE_S: Final = 0.01
_PULL_BYTES: Final = 1024  # beside the characters of its texts
_TAG_BYTES: Final = 128  # an entry in the set that its filter may keep
_MOST_BYTES: Final = 256 << 20
_MOST_BYTES_PER_CONNECTION: Final = 32 << 20
_EXPIRED: Final = "expired"


@dataclass(slots=True)
class PullRequest:
    connection: Connection
    command: Command
    header: PullMessageRequestHeader


class ParkedPulls:
    def __init__(self, broker: Broker) -> None:
        self._broker, self._clock = broker, broker.clock
        self._limit = broker.config.max_parked_pulls
        self._limit_per_connection = broker.config.max_parked_pulls_per_connection
        self._pulls: LongPoll[PullRequest] = LongPoll()
        self._arrived: dict[tuple[str, int], set[int]] = {}
        # Work in progress, by queue or _EXPIRED: the pulls that are still to be checked; and in which order the next steps are taken.
        self._checks: dict[object, Iterator[ParkedPull[PullRequest] | None]] = {}
        self._turns: deque[object] = deque()
        self._to_answer: deque[PullRequest] = deque()
        self._is_scheduled = False
        self._timer: Timer | None = None
        self._timer_due_ms = 0

    def __len__(self) -> int:
        return len(self._pulls)

    def park(
        self,
        connection: Connection,
        command: Command,
        header: PullMessageRequestHeader,
        match: Callable[[int], bool] | None,
        deadline_ms: int,
    ) -> bool:
        """Hold the pull until a message for it arrives, or until ``deadline_ms``; False if there is no room for it."""
        pulls, size_bytes = self._pulls, _bytes_of(header, command.language)
        if (
            len(pulls) >= self._limit
            or pulls.count_of(connection) >= self._limit_per_connection
            or pulls.total_bytes + size_bytes > _MOST_BYTES
            or pulls.bytes_of(connection) + size_bytes > _MOST_BYTES_PER_CONNECTION
        ):
            return False
        # Do not keep the body (a view of a whole read) or unused fields alive for 15 s.
        command.ext_fields = {}  # first, because any other change makes a raw command decode its fields
        command.body = b""
        if command.remark:
            command.remark = None
        request = PullRequest(connection, command, header)
        pulls.park(
            header.topic,
            header.queue_id,
            header.queue_offset,
            deadline_ms,
            request,
            match=match,
            owner=connection,
            size_bytes=size_bytes,
        )
        if self._timer is None or deadline_ms < self._timer_due_ms:
            self._set_timer(deadline_ms)
        return True

    def waiting(self, topic: str, queue_id: int) -> bool:
        return (topic, queue_id) in self._pulls.queues

    def arrived(self, topic: str, queue_id: int, tags_code: int) -> None:
        """A message was stored there; the pulls that wait for it are woken in the next turn of the loop."""
        if (topic, queue_id) not in self._pulls.queues:
            return
        self._arrived.setdefault((topic, queue_id), set()).add(tags_code)
        self._schedule()

    def offset_reset(self, group: str, topic: str, queue_id: int) -> None:
        """The group was moved there: its pulls are told so at once. At Apache's they wait for a message, or for 15 s."""
        for request in self._pulls.take(topic, queue_id, lambda request: request.header.consumer_group == group):
            self.answer_soon(request)

    def answer_soon(self, request: PullRequest) -> None:
        """Answer a pull that has left its place, in the next turn of the loop."""
        self._to_answer.append(request)
        self._schedule()

    def connection_closed(self, connection: Connection) -> None:
        if len(self._pulls):
            self._pulls.discard_owner(connection)

    def stop(self) -> None:
        """Answer all pulls with the present state, so that no client runs into a timeout because the broker stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._turns.clear()
        self._arrived.clear()
        for pull in self._pulls.drain():
            self._broker.answer_pull_again(pull.request)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._wake_waiters)

    def _wake_waiters(self) -> None:
        """Wake waiting pulls for one time slice, queue by queue in turns; continue in the next turn of the loop (rule 5)."""
        ends_s = perf_counter() + _TIME_SLICE_S
        self._is_scheduled = False
        for queue in [queue for queue in self._arrived if queue not in self._checks]:
            end, tags_codes = self._broker.store.max_offset(*queue), self._arrived.pop(queue)
            self._begin(queue, self._pulls.wake(*queue, end, tags_codes))
        turns = self._turns
        try:
            while (self._to_answer or turns) and perf_counter() < ends_s:
                if self._to_answer:
                    self._broker.answer_pull_again(self._to_answer.popleft())
                if turns:
                    self._step(turns.popleft())
        finally:
            if self._to_answer or turns:
                self._schedule()

    def _begin(self, what: object, steps: Iterator[ParkedPull[PullRequest] | None]) -> None:
        self._checks[what] = steps
        self._turns.append(what)

    def _step(self, what: object) -> None:
        self._turns.append(what)
        try:
            pull = next(self._checks[what])
        except StopIteration:
            self._turns.pop()
            del self._checks[what]
            if what in self._arrived:  # meanwhile
                self._schedule()
            elif what == _EXPIRED:
                self._arm()
            return
        if pull is not None:
            self._broker.answer_pull_again(pull.request)

    def _expire(self) -> None:
        self._timer = None
        if _EXPIRED not in self._checks:
            self._begin(_EXPIRED, self._pulls.expire(self._clock.steady_ms()))
        self._schedule()

    def _arm(self) -> None:
        due_ms = self._pulls.next_deadline_ms()
        if due_ms is not None:
            self._set_timer(due_ms)

    def _set_timer(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = self._clock.call_later(due_ms - self._clock.steady_ms(), self._expire)


def _bytes_of(header: PullMessageRequestHeader, language: str) -> int:
    """The memory of a waiting pull with all its texts, also those that are not used."""
    subscription = header.subscription or ""
    texts = f"{header.topic}{header.consumer_group}{subscription}{language}{header.expression_type}"
    if header.bname or header.proxy_froward_client_id:
        texts = f"{texts}{header.bname}{header.proxy_froward_client_id}"
    tags = subscription.count("||") if len(subscription) > 2 else 0
    return _PULL_BYTES + getsizeof(texts) + tags * _TAG_BYTES
