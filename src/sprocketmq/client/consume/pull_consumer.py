# SPDX-License-Identifier: Apache-2.0
"""The blocking pull consumer: each method runs its async twin on the engine's loop (Java: DefaultLitePullConsumer)."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING

from sprocketmq.client.blocking_client import BlockingClient
from sprocketmq.client.consume.async_pull_consumer import AsyncPullConsumer, Expression, messages_of
from sprocketmq.client.consume.poll_service import MessageQueueListener, TopicQueuesListener
from sprocketmq.client.hooks import ConsumeMessageHook, FilterMessageHook
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.records.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import PullConsumerOptions


class PullConsumer(BlockingClient[AsyncPullConsumer]):
    """Receives messages by ``poll`` (AsyncPullConsumer: for callers with an event loop).

    ::

        with PullConsumer("backfill", namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("flights")
            while messages := consumer.poll(timeout_ms=1000): ...

    Args:
        group: the consumer group.
        options: those of PullConsumerOptions and CommonOptions (``help(sprocketmq.PullConsumerOptions)``).
        engine: the engine whose thread runs the client; default: one engine for all blocking clients of the process.

    Every method takes topic, broker name and queue id as ``queue``; it must be a queue that this consumer reads, unless only offsets are
    asked for. ``timestamp_ms`` is in milliseconds since 1970 (0 is the beginning), or a datetime with a time zone.

    Every method raises ConfigurationError (an argument is wrong, or this consumer does not read that queue), RemoteError, NetworkError or
    RequestTimeout (a server refused or did not answer), and ClosedError (the consumer is not running). A future has the exception
    instead.
    """

    def __init__(self, group: str, *, engine: Engine | None = None, **options: Unpack[PullConsumerOptions]) -> None:
        super().__init__(AsyncPullConsumer(group, **options), engine)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._async.__aexit__(kind, error, trace))

    def poll(self, max_messages: int = 32, *, timeout_ms: float | None = None) -> list[MessageExt]:
        """Return the next messages, in order within each queue. With ``auto_commit``, the messages of earlier polls count as
        consumed now. If a poll is cancelled or interrupted (Ctrl-C, a signal), the next one returns its messages.
        ``max_messages``: over all queues. ``timeout_ms``: how many milliseconds to wait for the first message; default:
        ``poll_timeout_ms``; 0 does not wait."""
        poll = self._async._poll(max_messages, timeout_ms)
        return messages_of(self._engine.run(poll, unreceived=self._async._put_back))

    def commit_async(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = True,
    ) -> concurrent.futures.Future[dict[MessageQueue, int]]:
        """``commit`` as a future: without waiting. ``offsets`` (default: all queues) and ``persist`` are those of ``commit``."""
        return self._engine.submit(self._async.commit(offsets, persist=persist))

    # Written by `make generate` from here on, from the methods of AsyncPullConsumer.

    @property
    def group(self) -> str:
        """The consumer group, as it was given; at the brokers its name begins with the namespace."""
        return self._async.group

    @property
    def is_running(self) -> bool:
        """Whether the consumer is started and not shut down."""
        return self._async.is_running

    @property
    def auto_commit(self) -> bool:
        """Whether progress is committed automatically; a change takes effect with the next ``poll`` or ``commit``."""
        return self._async.auto_commit

    @auto_commit.setter
    def auto_commit(self, value: bool) -> None:
        self._async.auto_commit = value

    def start(self) -> None:
        """Start the consumer. Does nothing if it is started already."""
        self._run(self._async.start())

    def shutdown(self) -> None:
        """Commit the returned messages (with ``auto_commit``), write progress, and leave the group. A second call does nothing."""
        self._run_shutdown()

    def add_hook(self, hook: ConsumeMessageHook | FilterMessageHook) -> None:
        """Let ``hook`` see or filter the messages of ``poll`` (``sprocketmq.client.hooks``); before ``start``."""
        self._async.add_hook(hook)

    def update_name_server_address(self, namesrv_addr: str) -> None:
        """Use these name servers from now on, in all clients of this instance: ``host:9876``, several separated by ``;``."""
        self._async.update_name_server_address(namesrv_addr)

    def subscribe(
        self, topic: str, expression: Expression = "*", *, on_queues_changed: MessageQueueListener | None = None
    ) -> None:
        """Share the queues of ``topic``, which need not exist yet, with the other members of the group. ``expression``: tags as
        ``"a || b"``, or ``sql92("...")``. ``on_queues_changed``: a function of (topic, all its queues, queues of this consumer),
        called after each rebalance that changed one of them, in a thread if it is not ``async def``. ``poll`` returns messages of
        a new queue only after the call, so it may ``seek``. Default: none."""
        self._run(self._async.subscribe(topic, expression, on_queues_changed=on_queues_changed))

    def unsubscribe(self, topic: str) -> None:
        """Write progress in ``topic`` and leave its queues to other members. Does nothing if it is not subscribed."""
        self._run(self._async.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], expression: Expression | Mapping[str, Expression] = "*") -> None:
        """Read exactly these queues, independent of the group's other members. A second call replaces the first. ``expression``: one for
        all queues, or one for each topic."""
        self._run(self._async.assign(queues, expression))

    @property
    def assigned_queues(self) -> list[MessageQueue]:
        """The queues that are read now, sorted (Java: assignment)."""
        return self._on_loop(lambda: self._async.assigned_queues)

    def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of ``topic``, sorted. Raises TopicNotExist (there are none)."""
        return self._run(self._async.fetch_message_queues(topic))

    def register_topic_message_queue_change_listener(self, topic: str, listener: TopicQueuesListener) -> None:
        """Call ``listener`` when a topic gets or loses queues, which is checked every ``topic_metadata_check_interval_ms``; for consumers
        that use ``assign``. ``listener``: a function of (topic, all its queues); one that is not ``async def`` runs in a thread."""
        self._run(self._async.register_topic_message_queue_change_listener(topic, listener))

    def pause(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Stop fetching from ``queues`` (default: all) until ``resume``. Messages that are fetched already are still returned."""
        self._on_loop(lambda: self._async.pause(queues))

    def resume(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Continue to fetch from ``queues`` (default: all) after ``pause``."""
        self._on_loop(lambda: self._async.resume(queues))

    @property
    def paused_queues(self) -> list[MessageQueue]:
        """The paused queues, sorted. A queue that was allocated to another member in between is not paused any more."""
        return self._on_loop(lambda: self._async.paused_queues)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at ``offset`` in a queue that this consumer reads now; messages that are fetched and not returned yet are dropped.
        The next commit sets the progress accordingly, also backwards. The offset must be between its oldest message and its end."""
        self._run(self._async.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue with the oldest message of ``queue``, as ``seek`` does."""
        self._run(self._async.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the end of ``queue``, with new messages, as ``seek`` does."""
        self._run(self._async.seek_to_end(queue))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int | datetime) -> int:
        """The offset of the first message stored at or after ``timestamp_ms``. If there is none, the end of the queue; a 4.9 broker
        returns the offset of the last message then."""
        return self._run(self._async.offset_for_timestamp(queue, timestamp_ms))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message that is still stored."""
        return self._run(self._async.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The end of the queue: one more than the offset of its newest message."""
        return self._run(self._async.max_offset(queue))

    @property
    def positions(self) -> Mapping[MessageQueue, int]:
        """For each queue that is read now, the offset behind the messages that ``poll`` has returned."""
        return self._on_loop(lambda: self._async.positions)

    def commit(
        self, offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None, *, persist: bool = True
    ) -> dict[MessageQueue, int]:
        """Commit the messages that ``poll`` has returned, and wait until the brokers have the progress. ``offsets``: for each
        queue the offset of the next message to consume, or the queues to commit; default: all queues. ``persist``: False: only
        the periodic task writes to the brokers. Returns what was committed, without queues that this consumer no longer reads.
        If a broker refused it, call again, or wait for the periodic task."""
        return self._run(self._async.commit(offsets, persist=persist))

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's progress in ``queue``: what this consumer committed last, or else what is stored; None if there is none."""
        return self._run(self._async.committed(queue))
