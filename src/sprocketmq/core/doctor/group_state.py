# SPDX-License-Identifier: Apache-2.0
"""What can be seen of a consumer group from outside: at brokers, at name servers, and in what its members report.

None means "unknown", which is not zero: some members (of a proxy, C++) do not report, a broker may be too old, a topic may be gone."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from sprocketmq.core.consume.flow_control import FlowLimits
from sprocketmq.wire.records.message import MessageQueue


class QueueState(Struct, frozen=True):
    """One queue as brokers see it; ``moved_by`` and ``came`` are messages consumed and stored between the two reads.
    ``broker_offset``: behind the last message; ``consumer_offset``: None without progress; ``waiting_ms``: of the next message."""

    broker_offset: int
    consumer_offset: int | None = None
    moved_by: int | None = None
    came: int | None = None
    waiting_ms: int | None = None

    @property
    def lag(self) -> int:
        return max(0, self.broker_offset - (self.consumer_offset or 0))


class HeldQueue(Struct, frozen=True):
    """A queue as the member that reads it reports it, with times of the member's clock. ``cached``: messages pulled and not finished;
    ``span``: offsets from the oldest of them to the newest; ``first_offset``: of the oldest, None if it holds none."""

    cached: int = 0
    first_offset: int | None = None
    cached_mib: int = 0
    span: int = 0
    locked: bool = False
    last_lock_ms: int = 0
    last_consume_ms: int = 0


class MemberState(Struct, frozen=True):
    """One member that is online. ``subscriptions``: topic -> a text; equal texts are equal subscriptions. ``polls``: a pull consumer.
    ``ok_tps``, ``failed_tps``: messages a second in the last minute. ``threads``: how many listeners can run at once; ``listener_stacks``:
    the innermost line of each that runs. ``oldest_call_ms``: since when one of them runs, by the member's clock, 0 if none. Only members of
    this package report it, ``paused``, ``last_failure`` (what its listener raised last), and since its start ``ok_count`` and
    ``failed_count``. ``silent_because``: why it did not report."""

    client_id: str
    subscriptions: Mapping[str, str] | None = None
    queues: Mapping[MessageQueue, HeldQueue] | None = None
    orderly: bool | None = None
    polls: bool = False
    limits: FlowLimits | None = None
    ok_tps: float | None = None
    failed_tps: float | None = None
    failed_in_hour: int | None = None
    threads: int | None = None
    listener_stacks: tuple[str, ...] | None = None
    oldest_call_ms: int | None = None
    paused: bool = False
    ok_count: int | None = None
    failed_count: int | None = None
    last_failure: str | None = None
    last_failure_ms: int | None = None
    silent_because: str | None = None


class GroupState(Struct, frozen=True):
    """Everything that is known of a group.

    Attributes:
        now_ms: the time of the second read; ``observed_ms``: between the two.
        switched_off: brokers at which the group may not consume; ``unknown_at``: those that have its topics, do not know it and do not
            create it; ``unreached``: those that would create it for the first member that comes.
        gone: a clause about each broker that was lost, and may hold messages of the group.
        same_ids: client ids that more than one member has.
        absent: subscribed topics that do not exist, with a similar name, or ""; ``unreadable``: that it may not read, with the reason.
        hidden: queues with messages that their topic does not let read, because it has fewer read queues now.
        queues: of the topics that it subscribes to or has progress in, without its retry topic.
        retry_lag: retries that are due and not consumed; ``retries_waiting``: not due yet, the first one at ``next_retry_ms``.
        proxy: the proxy that was asked; it knows only the members of proxies. ``last_error``: of the last send-back."""

    group: str
    now_ms: int
    observed_ms: int = 0
    switched_off: tuple[str, ...] = ()
    unknown_at: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    same_ids: tuple[str, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    hidden: tuple[MessageQueue, ...] = ()
    members: tuple[MemberState, ...] = ()
    broadcasting: bool = False
    queues: Mapping[MessageQueue, QueueState] = {}
    retry_lag: int | None = None
    retries_waiting: int | None = None
    next_retry_ms: int | None = None
    last_error: str | None = None
    not_learned: tuple[str, ...] = ()
    proxy: str | None = None

    def head_offset(self, queue: MessageQueue) -> int | None:
        held = [
            member.queues[queue].first_offset for member in self.members if member.queues and queue in member.queues
        ]
        known = [offset for offset in held if offset is not None]
        if known:
            return min(known)
        at = self.queues.get(queue)
        return at.consumer_offset if at is not None and at.lag else None

    @property
    def lag(self) -> int:
        """Messages not consumed, without retries."""
        return sum(queue.lag for queue in self.queues.values())

    @property
    def consumed_per_second(self) -> float | None:
        """Messages a second, by its progress or by its members' reports, whichever is more: progress is written only now and then."""
        moved = [queue.moved_by for queue in self.queues.values() if queue.moved_by is not None]
        told = [member.ok_tps for member in self.members if member.ok_tps is not None]
        rates = [sum(max(0, one) for one in moved) * 1000 / self.observed_ms] if moved and self.observed_ms else []
        if told:
            rates.append(sum(told))
        return max(rates) if rates else None

    @property
    def came_per_second(self) -> float | None:
        came = [queue.came for queue in self.queues.values() if queue.came is not None]
        return sum(came) * 1000 / self.observed_ms if came and self.observed_ms else None
