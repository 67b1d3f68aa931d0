"""The blocking pull consumer: each method runs its async twin on the engine's loop (Java: DefaultLitePullConsumer)."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from sprocketmq.client.blocking_client import BlockingClient
from sprocketmq.client.consume.async_pull_consumer import AsyncPullConsumer, Expression, messages_of
from sprocketmq.client.hooks import ConsumeMessageHook, FilterMessageHook
from sprocketmq.client.read.poll_service import MessageQueueListener, TopicQueuesListener
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.records.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import PullConsumerOptions

__all__ = ["PullConsumer"]

T = TypeVar("T")


class PullConsumer(BlockingClient):
    """Receives messages by ``poll`` (AsyncPullConsumer: for callers with an event loop).

    ::

        with PullConsumer("backfill", namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("flights")
            while messages := consumer.poll(timeout_ms=1000): ...

    Args:
        group: the consumer group.
        options: as PullConsumerOptions and CommonOptions say (``help(sprocketmq.PullConsumerOptions)``): ``namesrv_addr``,
            ``auto_commit``, ``consume_from_where``, ``pull_batch_size``, ...
        engine: whose thread runs the client; default one thread, shared by all blocking clients of the process.

    Raises:
        ConfigurationError: an option is unknown or out of range; nothing was opened.
    """

    def __init__(self, group: str, *, engine: Engine | None = None, **options: Unpack[PullConsumerOptions]) -> None:
        self._async = AsyncPullConsumer(group, **options)
        super().__init__(engine)

    @property
    def group(self) -> str:
        """As it was given; brokers see it within the namespace."""
        return self._async.group

    @property
    def is_running(self) -> bool:
        """Between ``start`` and ``shutdown``."""
        return self._async.is_running

    @property
    def auto_commit(self) -> bool:
        """May be changed while running; what was handed out before is committed by the next ``poll`` or ``commit``."""
        return self._async.auto_commit

    @auto_commit.setter
    def auto_commit(self, value: bool) -> None:
        self._async.auto_commit = value

    def start(self) -> None:
        """Join the client instance. Harmless when started already.

        Raises:
            ConfigurationError: the instance has a consumer of this group already.
            NetworkError, RequestTimeout: no name server can be reached.
            ClosedError: it was shut down meanwhile.
        """
        self._run(self._async.start())

    def shutdown(self) -> None:
        """Commit what was handed out (with ``auto_commit``), persist progress, leave. Harmless twice."""
        self._run(self._async.shutdown())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._async.__aexit__(kind, error, trace))

    def add_hook(self, hook: ConsumeMessageHook | FilterMessageHook) -> None:
        """Tell ``hook`` of what polls hand out, or let it take messages out before. Before ``start``.

        Args:
            hook: has ``before_consume`` and ``after_consume``, or ``filter_messages``, or all three; see ``sprocketmq.client.hooks``.

        Raises:
            ConfigurationError: the consumer is running, or the hook has none of these methods.
        """
        self._async.add_hook(hook)

    def update_name_server_address(self, namesrv_addr: str) -> None:
        """Ask these name servers from now on. All clients of this instance do.

        Args:
            namesrv_addr: ``host:9876``, several separated by ``;``.

        Raises:
            ConfigurationError: that is no address.
            ClosedError: the consumer is not started, or was shut down.
        """
        self._async.update_name_server_address(namesrv_addr)

    def subscribe(
        self, topic: str, expression: Expression = "*", *, on_queues_changed: MessageQueueListener | None = None
    ) -> None:
        """Share the queues of ``topic`` with the other members of the group.

        Args:
            topic: its name; one that does not exist yet is waited for.
            expression: tags as ``"a || b"``, or ``sql92("...")``.
            on_queues_changed: called with (topic, all its queues, ours) after each rebalance that changed either; a plain function runs in
                a thread. ``poll`` hands out a new queue only after it returned, so it may ``seek``. Default nobody is called.

        Raises:
            ConfigurationError: queues were assigned, or the expression cannot be read.
        """
        self._run(self._async.subscribe(topic, expression, on_queues_changed=on_queues_changed))

    def unsubscribe(self, topic: str) -> None:
        """Leave the queues of ``topic`` to others; their progress is persisted. Harmless when not subscribed.

        Args:
            topic: its name.

        Raises:
            ConfigurationError: that is no name of a topic.
        """
        self._run(self._async.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], expression: Expression | Mapping[str, Expression] = "*") -> None:
        """Read exactly these queues, whatever the group does; a second call replaces the first.

        Args:
            queues: one at least.
            expression: for all of them, or by topic.

        Raises:
            ConfigurationError: topics were subscribed, no queue is given, or the expression cannot be read.
        """
        self._run(self._async.assign(queues, expression))

    @property
    def assigned_queues(self) -> list[MessageQueue]:
        """The queues read now, sorted (Java: assignment)."""
        return self._now(lambda: self._async.assigned_queues)

    def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of ``topic``, sorted, whoever reads them.

        Args:
            topic: its name.

        Returns:
            The queues.

        Raises:
            TopicNotExist: there is no such topic, or none of its queues can be read.
            RemoteError, NetworkError, RequestTimeout: the broker, or a name server, refused or did not answer.
            ClosedError: the consumer is not started, or was shut down.
        """
        return self._run(self._async.fetch_message_queues(topic))

    def register_topic_message_queue_change_listener(self, topic: str, listener: TopicQueuesListener) -> None:
        """Call ``listener`` when a topic gets or loses queues.

        The queues are looked up each ``topic_metadata_check_interval_ms``; those there now are no news. For consumers that ``assign``.

        Args:
            topic: its name.
            listener: called with (topic, all its queues); a plain function runs in a thread.

        Raises:
            ConfigurationError: that is no name of a topic, or no function.
        """
        self._run(self._async.register_topic_message_queue_change_listener(topic, listener))

    def poll(self, max_messages: int = 32, *, timeout_ms: float | None = None) -> list[MessageExt]:
        """The next messages; waits for the first until ``timeout_ms``.

        With ``auto_commit``, messages of earlier polls count as consumed from now on. A poll that is cancelled, or interrupted (Ctrl-C, a
        signal), has handed out nothing: its messages come with the next one.

        Args:
            max_messages: at most so many, over all queues.
            timeout_ms: how many milliseconds to wait for the first one; default ``poll_timeout_ms``; 0 takes what is there.

        Returns:
            The messages, oldest first per queue; an empty list when none came.

        Raises:
            ConfigurationError: an argument is out of range.
            ClosedError: the consumer is not started, or was shut down.
        """
        poll = self._async._poll(max_messages, timeout_ms)
        return messages_of(self._engine.run(poll, unreceived=self._async._put_back))

    def pause(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Fetch nothing more of ``queues`` until ``resume``; what was fetched before is still handed out.

        Args:
            queues: which; default all.

        Raises:
            ConfigurationError: this consumer does not read that queue.
            ClosedError: the consumer is not started, or was shut down.
        """
        self._now(lambda: self._async.pause(queues))

    def resume(self, queues: Collection[MessageQueue] | None = None) -> None:
        """End ``pause`` of ``queues``.

        Args:
            queues: which; default everything that was paused.

        Raises:
            ConfigurationError: this consumer does not read that queue.
            ClosedError: the consumer is not started, or was shut down.
        """
        self._now(lambda: self._async.resume(queues))

    @property
    def paused_queues(self) -> list[MessageQueue]:
        """The queues that are paused now, sorted. A queue that moved away and came back is not."""
        return self._now(lambda: self._async.paused_queues)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at ``offset`` in a queue that this consumer reads now; what was fetched and not polled is forgotten.

        Progress follows with the next commit, also back.

        Args:
            queue: one that this consumer reads.
            offset: of the message to go on with.

        Raises:
            ConfigurationError: the queue is not read by this consumer, or the offset is not between its oldest message and its end.
        """
        self._run(self._async.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on with the oldest message of ``queue``; what was fetched before is dropped.

        Args:
            queue: one that this consumer reads.

        Raises:
            ConfigurationError: this consumer does not read that queue.
            ClosedError: the consumer is not started, or was shut down.
            RemoteError, NetworkError, RequestTimeout: the broker, or a name server, refused or did not answer.
        """
        self._run(self._async.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with what comes to ``queue`` from now on; what was fetched before is dropped.

        Args:
            queue: one that this consumer reads.

        Raises:
            ConfigurationError: this consumer does not read that queue.
            ClosedError: the consumer is not started, or was shut down.
            RemoteError, NetworkError, RequestTimeout: the broker, or a name server, refused or did not answer.
        """
        self._run(self._async.seek_to_end(queue))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int | datetime) -> int:
        """The offset of the first message stored at or after ``timestamp_ms``.

        When there is none, one behind the last message; a 4.9 broker names the last message itself then.

        Args:
            queue: of which topic, broker and number.
            timestamp_ms: milliseconds since 1970, 0 for the beginning, or a datetime with a time zone.

        Returns:
            The offset.

        Raises:
            ConfigurationError: an argument is wrong.
            RemoteError, NetworkError, RequestTimeout: the broker, or a name server, refused or did not answer.
            ClosedError: the consumer is not started, or was shut down.
        """
        return self._run(self._async.offset_for_timestamp(queue, timestamp_ms))

    def min_offset(self, queue: MessageQueue) -> int:
        """The oldest message that is still there.

        Args:
            queue: of which topic, broker and number.

        Returns:
            Its offset.

        Raises:
            RemoteError, NetworkError, RequestTimeout: the broker, or a name server, refused or did not answer.
            ClosedError: the consumer is not started, or was shut down.
        """
        return self._run(self._async.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """One behind the newest message.

        Args:
            queue: of which topic, broker and number.

        Returns:
            The offset.

        Raises:
            RemoteError, NetworkError, RequestTimeout: the broker, or a name server, refused or did not answer.
            ClosedError: the consumer is not started, or was shut down.
        """
        return self._run(self._async.max_offset(queue))

    @property
    def positions(self) -> Mapping[MessageQueue, int]:
        """Of each queue read now, the offset behind what ``poll`` handed out."""
        return self._now(lambda: self._async.positions)

    def commit(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = True,
    ) -> dict[MessageQueue, int]:
        """Everything handed out is done; the brokers have it when this returns.

        Args:
            offsets: by queue, the offset to go on at (one behind the last done); or queues, of which everything handed out is done; default
                all queues.
            persist: False leaves the writing to the periodic one.

        Returns:
            What was committed. A queue that this consumer does not read any more is left out: its new owner keeps progress now.

        Raises:
            ConfigurationError: an offset is no whole number, or below 0.
            RemoteError, NetworkError, RequestTimeout: a broker did not take it; call again, or leave it to the periodic writing.
            ClosedError: the consumer is not started, or was shut down.
        """
        return self._run(self._async.commit(offsets, persist=persist))

    def commit_async(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = True,
    ) -> concurrent.futures.Future[dict[MessageQueue, int]]:
        """Like ``commit``, without waiting.

        Args:
            offsets: by queue, the offset to go on at (one behind the last done); or queues, of which everything handed out is done; default
                all queues.
            persist: False leaves the writing to the periodic one.

        Returns:
            A future of what was committed, or of what ``commit`` raises.

        Raises:
            ConfigurationError, RemoteError, NetworkError, RequestTimeout, ClosedError: in the future.
        """
        return self._engine.submit(self._async.commit(offsets, persist=persist))

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's progress in ``queue``: what this consumer committed last, else what is stored; None when there is none.

        Args:
            queue: of which topic, broker and number.

        Returns:
            The offset, or None.

        Raises:
            ClosedError: the consumer is not started, or was shut down.
            RemoteError, NetworkError, RequestTimeout: the broker could not be asked.
        """
        return self._run(self._async.committed(queue))

    def _now(self, look: Callable[[], T]) -> T:
        """``look()`` on the engine, which alone may touch the consumer's state."""

        async def run() -> T:
            return look()

        return self._run(run())
