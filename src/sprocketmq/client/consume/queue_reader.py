# SPDX-License-Identifier: Apache-2.0
"""Bulk reads of queue ranges: several pulls in flight at predicted offsets, raw bodies out (no Java counterpart).

One pull brings at most 32 messages or 256 KiB (8 messages or 64 KiB from disk), so a loop that waits for each answer is slow. Queue
offsets are dense: a range is divided into *segments* ``[offset, limit)``, and each worker pulls one. What an answer lacks is pulled next;
what goes beyond the limit (a filter skipped many) is cut, because it belongs to the next segment. So a wrong prediction costs a request,
never a message.

Rules
1. The segments of a range tile it: each offset is in exactly one of them, at every moment.
2. Chunks come out range after range, within a range in offset order, each offset once, whoever answers first.
3. At most ``pulls_in_flight`` pulls are under way; no new segment begins while as many chunks wait to be taken or twice as many segments
   wait for an earlier one: memory is bounded, whoever is slow.
4. Progress is ``nextBeginOffset`` as the broker says it, never "last + count".
5. What a broker cannot give any more is reported to ``on_offset_moved`` before it is skipped. A broker says "moved" only below the offset
   where its queue begins. Between its deleting a file of its log and its moving that offset (4.9 never does for a queue whose messages are
   all gone) it passes over what is missing, as if a filter had. Without a filter a hole shows (a compacted topic of 5.x has holes of its
   own); with a filter it cannot be told from what was filtered out.
6. Only a master's answer shows that a message does not exist. A replica may lack what its master has, and one that may not be read from
   (``slaveReadEnable``) answers as if a filter had passed over everything: it counts only where it gives the very next messages.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Final

from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.client.remoting.pulls import read_queue
from sprocketmq.client.remoting.retrying import is_transient
from sprocketmq.client.results import PullResult
from sprocketmq.client.settings.namesrv_addr import parse_addresses, resolve_namesrv_addr
from sprocketmq.client.settings.validators import MAX_INT, MAX_OFFSET, check_group, check_queue, check_range
from sprocketmq.core.backoff import Backoff
from sprocketmq.core.callbacks import check_callback
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.core.group.subscription import TAG, FilterExpression, build_subscription
from sprocketmq.core.produce.route_table import BrokerAddress
from sprocketmq.errors import (
    ClosedError,
    ConfigurationError,
    NetworkError,
    RemoteError,
    RocketMQError,
)
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import TopicConfig
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Buffer
from sprocketmq.wire.headers import GetTopicConfigRequestHeader
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.record_layout import RECORD

if TYPE_CHECKING:
    import ssl

    from sprocketmq.client.settings.key_file import KeyFile
    from sprocketmq.wire.frames.acl_signature import Credentials

log = logging.getLogger("sprocketmq.client")

OffsetMoved = Callable[[MessageQueue, int, int, int], None]

_LONGEST_SEGMENT: Final = 4096
_GROWS_EVERY: Final = 16
# A broker builds its consume queues a moment after its log, so for this time an empty answer may mean "not yet".
_SETTLE_S: Final = 5.0
_QUEUE_OFFSET: Final = RECORD.subset("queue_offset")


@dataclass(frozen=True, slots=True)
class PulledChunk:
    """One pull body. Of the records in ``body`` (``wire.records.record``) only those with ``start <= queue offset < end`` belong to it."""

    queue: MessageQueue
    start: int
    end: int
    body: Buffer


@dataclass(slots=True)
class _Segment:
    start: int
    limit: int
    chunks: list[PulledChunk] = field(default_factory=list)
    done: bool = False


@dataclass(slots=True)
class _Range:
    """One queue range: ``next`` is where no segment begins yet."""

    queue: MessageQueue
    next: int
    end: int
    span: int
    fell_short: bool = False
    whole_answers: int = 0  # since then


def _checked_ranges(ranges: Sequence[tuple[MessageQueue, int, int]]) -> Sequence[tuple[MessageQueue, int, int]]:
    given: object = ranges
    if isinstance(given, str | bytes) or not isinstance(given, Collection):
        raise ConfigurationError(f"ranges is {ranges!r}, a list of (queue, first offset, end offset) is allowed")
    checked = []
    for one in ranges:
        if not isinstance(one, tuple) or len(one) != 3:
            raise ConfigurationError(f"one of ranges is {one!r}, (queue, first offset, end offset) is allowed")
        queue = check_queue(one[0], "the queue of one of ranges")
        start, end = (check_range(f"an offset of {queue} in ranges", offset, 0, MAX_OFFSET) for offset in one[1:])
        checked.append((queue, start, end))
    return checked


class QueueReader:
    """Reads ranges of queues as fast as the brokers give them; iterate it, in any thread but the engine's own, in a ``with`` block.

    Args:
        namesrv_addr: ``host:port``, several separated by ``;``; default NAMESRV_ADDR.
        group: consumer group named in the pulls; it must exist or the broker must be allowed to create it.
        ranges: (queue, first offset, end offset exclusive) each; ends beyond the queue's end wait for messages, then count as moved.
        expression: ``"a || b"`` (the broker compares hash codes, check the tags again), or an SQL92 condition.
        expression_type: "TAG" or "SQL92".
        max_messages: wanted per pull; brokers cap it.
        pulls_in_flight: how many pulls to keep under way over all ranges.
        timeout_ms: milliseconds for one pull.
        retry_timeout_ms: how many milliseconds to go on trying when a broker does not answer.
        on_offset_moved: ``(queue, wanted, min, max)``: returning skips the missing messages; default: raise RemoteError with code 21.
        cluster: whose connections to use; it must live on ``engine``; default own ones.
        engine: whose thread pulls; default one thread, shared by all blocking clients of the process.
        credentials: what own connections sign with; default nothing.
        ssl_context: what own connections speak TLS with; default they are plain.

    Raises:
        ConfigurationError: an argument is wrong; nothing was opened.
        NetworkError, RequestTimeout, TopicNotExist, RemoteError: while it is iterated: a broker refused, or did not answer in time.
    """

    def __init__(
        self,
        namesrv_addr: str | None = None,
        group: str = "QUEUE_READER",
        ranges: Sequence[tuple[MessageQueue, int, int]] = (),
        *,
        expression: str = "*",
        expression_type: str = "TAG",
        max_messages: int = 1024,
        pulls_in_flight: int = 8,
        timeout_ms: int = 10_000,
        retry_timeout_ms: int = 60_000,
        on_offset_moved: OffsetMoved | None = None,
        engine: Engine | None = None,
        cluster: Cluster | None = None,
        credentials: Credentials | KeyFile | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        wanted = build_subscription("QUEUE_READER", FilterExpression(expression, expression_type), 0)
        self._group = check_group(group)
        max_messages = check_range("max_messages", max_messages, 1, MAX_INT)
        if on_offset_moved is not None:
            check_callback("on_offset_moved", on_offset_moved, "queue, wanted, min, max")
        self._addresses = resolve_namesrv_addr(namesrv_addr) if cluster is None else ""
        self._engine = engine or Engine.shared()
        self._cluster = cluster
        self._credentials, self._ssl_context = credentials, ssl_context
        self._pool: ConnectionPool | None = None
        self._expression, self._expression_type = wanted.sub_string, wanted.expression_type or TAG
        self._filtered = self._expression_type != TAG or self._expression.strip() != "*"
        self._max_messages = max_messages
        self._pulls_in_flight = check_range("pulls_in_flight", pulls_in_flight, 1, MAX_INT)
        self._timeout_ms = check_range("timeout_ms", timeout_ms, 1, MAX_INT)
        self._retry_timeout_ms = check_range("retry_timeout_ms", retry_timeout_ms, 0, MAX_INT)
        self._on_offset_moved = on_offset_moved or _raise_moved
        self._ranges = deque(
            _Range(queue, start, end, min(max_messages, _LONGEST_SEGMENT))
            for queue, start, end in _checked_ranges(ranges)
            if start < end
        )
        self._brokers: dict[tuple[str, str], BrokerAddress] = {}  # by topic and name
        self._ready: deque[PulledChunk] = deque()
        self._held: deque[_Segment] = deque()  # begun, their chunks not in _ready yet
        self._failure: BaseException | None = None
        self._finished = False
        self._changed: asyncio.Condition | None = None
        self._main: concurrent.futures.Future[None] | None = None

    # -- the blocking client -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> QueueReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[PulledChunk]:
        """All chunks of all ranges, in the order of the ranges and of their offsets."""
        if self._main is not None:
            raise ClosedError("this reader was iterated or closed before; make a new one")
        self._main = self._engine.submit(self._run())
        while chunks := self._engine.run(self._take()):
            yield from chunks

    def close(self) -> None:
        """Stop pulling and close own connections. Does nothing if closed already."""
        if self._main is None:
            self._main = concurrent.futures.Future()
            return
        if self._main.cancel() or not self._main.done():
            with contextlib.suppress(concurrent.futures.CancelledError):
                self._main.result(5)
        if self._pool is not None:
            pool, self._pool = self._pool, None
            self._engine.run(pool.aclose())

    # -- on the engine ---------------------------------------------------------------------------------------------------------

    async def _take(self) -> list[PulledChunk]:
        """All waiting chunks, in one step between the threads; empty at the end."""
        changed = self._condition()
        async with changed:
            await changed.wait_for(lambda: self._ready or self._finished)
            chunks = list(self._ready)
            self._ready.clear()
            changed.notify_all()
        if not chunks and self._failure is not None:
            raise self._failure
        return chunks

    def _condition(self) -> asyncio.Condition:
        if self._changed is None:
            self._changed = asyncio.Condition()
        return self._changed

    async def _run(self) -> None:
        try:
            if self._cluster is None:
                self._pool = ConnectionPool(ssl_context=self._ssl_context, credentials=self._credentials)
                self._cluster = Cluster(self._pool, parse_addresses(self._addresses))
                self._cluster.retry_timeout_ms = self._retry_timeout_ms
            workers = [asyncio.ensure_future(self._work()) for _ in range(self._pulls_in_flight)]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        except RocketMQError as error:
            self._failure = error
        finally:
            self._finished = True
            changed = self._condition()
            async with changed:
                changed.notify_all()

    async def _work(self) -> None:
        changed = self._condition()
        while True:
            async with changed:
                await changed.wait_for(self._has_room)
            begun = self._begin()
            if begun is None:
                return
            queue_range, segment = begun
            await self._read_segment(queue_range, segment)
            segment.done = True
            if self._held[0] is segment:
                async with changed:
                    while self._held and self._held[0].done:
                        self._ready.extend(self._held.popleft().chunks)
                    changed.notify_all()

    def _has_room(self) -> bool:
        """Whether another segment may begin (rule 3). The first segment that is held has a worker, so waiting for room ends."""
        return len(self._ready) < self._pulls_in_flight and len(self._held) < 2 * self._pulls_in_flight

    def _begin(self) -> tuple[_Range, _Segment] | None:
        """The next segment, range after range; None when all ranges have begun in full."""
        while self._ranges:
            queue_range = self._ranges[0]
            if queue_range.next >= queue_range.end:
                self._ranges.popleft()
                continue
            segment = _Segment(queue_range.next, min(queue_range.next + queue_range.span, queue_range.end))
            queue_range.next = segment.limit
            self._held.append(segment)
            return queue_range, segment
        return None

    async def _read_segment(self, queue_range: _Range, segment: _Segment) -> None:
        at = segment.start
        waiting_since_s: float | None = None
        backoff = Backoff()
        while at < segment.limit:
            pulled, broker = await self._pull(queue_range.queue, at, segment.limit)
            if broker.is_slave and (pulled.status is not PullStatus.FOUND or self._first_held(pulled, at) > at):
                now_s = time.monotonic()
                waiting_since_s = now_s if waiting_since_s is None else waiting_since_s
                await self._wait_for_master(queue_range.queue, at, now_s - waiting_since_s, backoff.next_s())
                continue
            held = min(self._first_held(pulled, at), segment.limit)
            if held > at and not await self._is_compacted(queue_range.queue, broker):
                self._on_offset_moved(queue_range.queue, at, held, pulled.max_offset)
            if pulled.status is PullStatus.FOUND:
                upto = min(pulled.next_begin_offset, segment.limit)
                segment.chunks.append(PulledChunk(queue_range.queue, at, upto, pulled.body))
            if pulled.status in _MOVES_ON and pulled.next_begin_offset > at:
                self._learn(queue_range, segment.limit - at, pulled.next_begin_offset - at)
                at = pulled.next_begin_offset
                waiting_since_s = None
                continue
            if pulled.status is PullStatus.OFFSET_ILLEGAL and at < pulled.min_offset:
                self._on_offset_moved(queue_range.queue, at, pulled.min_offset, pulled.max_offset)
                at = min(pulled.min_offset, segment.limit)
                continue
            # At or beyond the end of what the broker shows: not there yet, or not there any more.
            now_s = time.monotonic()
            waiting_since_s = now_s if waiting_since_s is None else waiting_since_s
            if now_s - waiting_since_s > min(_SETTLE_S, self._retry_timeout_ms / 1000):
                self._on_offset_moved(queue_range.queue, at, pulled.min_offset, pulled.max_offset)
                return
            await asyncio.sleep(backoff.next_s())

    async def _wait_for_master(self, queue: MessageQueue, at: int, waited_s: float, pause_s: float) -> None:
        """Wait until the master is back, because the answer of a replica does not prove that offset ``at`` is gone (rule 6)."""
        if waited_s + pause_s > self._retry_timeout_ms / 1000:
            raise NetworkError(
                f"broker {queue.broker_name!r} has no master now, and its replica does not give offset {at} of {queue}, which it may lack; "
                "start the master"
            )
        self._forget_brokers()
        await asyncio.sleep(pause_s)

    def _first_held(self, pulled: PullResult, at: int) -> int:
        """The first offset from ``at`` on that the broker may have: beyond ``at`` when the answer says that the message there is gone."""
        if pulled.status is PullStatus.NO_NEW_MSG:  # moves on only where a file of the queue itself is gone
            return max(at, pulled.next_begin_offset)
        if self._filtered or pulled.status not in _MOVES_ON:
            return at
        if pulled.status is PullStatus.NO_MATCHED_MSG:
            return max(at, pulled.next_begin_offset)
        first: int = _QUEUE_OFFSET.unpack_from(pulled.body)[0]
        return max(at, first)

    async def _is_compacted(self, queue: MessageQueue, broker: BrokerAddress) -> bool:
        """Whether the topic is compacted, so that offsets are missing on purpose. A 4.9 broker has neither this request nor such topics."""
        assert self._cluster is not None
        command = requests.topics.GET_TOPIC_CONFIG.command(GetTopicConfigRequestHeader(topic=queue.topic))
        answer = await self._cluster.invoke(broker.address, command, self._timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            return False
        return TopicConfig.decode(answer.body).attributes.get("cleanup.policy") == "COMPACTION"

    def _learn(self, queue_range: _Range, asked: int, progress: int) -> None:
        """Adapt the length of segments to what one answer covers. They grow fast until an answer falls short, and slowly from
        then on, because the rest of a segment that is a little too long costs a request, too. A full answer for such a rest is
        ignored."""
        longest = _LONGEST_SEGMENT if self._filtered else min(self._max_messages, _LONGEST_SEGMENT)
        if progress < asked:
            queue_range.span, queue_range.fell_short = max(progress, 1), True
        elif progress < queue_range.span:
            return
        elif progress > queue_range.span or not queue_range.fell_short:
            queue_range.span = min(max(queue_range.span * 2, progress), longest)
        else:
            queue_range.whole_answers += 1
            if queue_range.whole_answers % _GROWS_EVERY == 0:
                queue_range.span = min(queue_range.span + queue_range.span // 4 + 1, longest)

    async def _pull(self, queue: MessageQueue, at: int, limit: int) -> tuple[PullResult, BrokerAddress]:
        """One pull, retried while the broker does not answer; also returns who answered."""
        cluster, key = self._cluster, (queue.topic, queue.broker_name)
        assert cluster is not None
        count = self._max_messages if self._filtered else min(self._max_messages, limit - at)

        async def pull() -> tuple[PullResult, BrokerAddress]:
            broker = self._brokers.get(key)
            try:
                if broker is None:
                    broker = await cluster.broker(queue.broker_name, queue.topic, or_replica=True)
                    self._brokers[key] = broker
                pulled = await read_queue(
                    cluster,
                    broker.address,
                    self._group,
                    queue,
                    at,
                    count,
                    expression=self._expression,
                    expression_type=self._expression_type,
                    timeout_ms=self._timeout_ms,
                )
            except RocketMQError:
                self._forget_brokers()  # it may have moved
                raise
            return pulled, broker

        try:
            return await pull()
        except RocketMQError as error:
            if not is_transient(error):
                raise
        return await cluster.retrying(pull, self._retry_timeout_ms, what=f"reading {queue}, trying")

    def _forget_brokers(self) -> None:
        assert self._cluster is not None
        self._brokers.clear()
        self._cluster.routes.forget()


_MOVES_ON: Final = (PullStatus.FOUND, PullStatus.NO_MATCHED_MSG, PullStatus.NO_NEW_MSG)


def _raise_moved(queue: MessageQueue, wanted: int, min_offset: int, max_offset: int) -> None:
    code = ResponseCode.PULL_OFFSET_MOVED
    raise RemoteError(code, f"offset {wanted} of {queue} is not there, the broker holds {min_offset} to {max_offset}")
