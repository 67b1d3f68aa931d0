# SPDX-License-Identifier: Apache-2.0
"""The dead letters of a group: reading them and replaying them to the topic they came from (no Java counterpart).

A dead letter is an ordinary message of the topic ``%DLQ%group``, which has one queue on each broker and no consumer by itself.

Rules
1. Reading changes nothing: no progress is written, no member is announced, a letter stays until the broker's retention takes it.
2. A read ends where the topic ended when it began: letters that arrive meanwhile (a replay may make some) are left for the next read.
3. A replayed message has the body, tags, keys, properties, flag and message id of the first one; what retry, delay, timer, transaction and
   broker wrote into it is gone, and ``reconsume_times`` is 0 again. The property REPLAY_ID says which replay it is.
4. A body that cannot be decompressed is returned and replayed as it is stored; its ``sys_flag`` says that it is compressed.
5. ``replay_all`` stops at the first letter that could not be sent and returns the offset to continue at. No letter is skipped silently.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Final

from sprocketmq.client.admin.session import AdminSession
from sprocketmq.client.dead_letters.dead_letter_message import DeadLetterMessage, ReplayReport, replay_copy
from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.client.remoting.pulls import TOOLS_GROUP, read_queue
from sprocketmq.client.remoting.queue_offsets import queue_ends
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.results import PullResult, SendResult
from sprocketmq.client.settings.namespace import wrap
from sprocketmq.client.settings.validators import check_group, check_time_ms, check_topic
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.core.lifecycle import LifeState
from sprocketmq.core.produce.route_table import MASTER_ID, is_readable, subscribe_queues
from sprocketmq.core.resource_names import dlq_topic
from sprocketmq.errors import (
    ClosedError,
    ConfigurationError,
    GroupNotExist,
    NoPermission,
    RemoteError,
    RocketMQError,
    SignatureRefused,
)
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.requests.offsets import SEARCH_OFFSET_BY_TIMESTAMP

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import CommonOptions

log = logging.getLogger("sprocketmq.client")

_AT_ONCE: Final = 32
_UNREADABLE: Final = (
    "the body of dead letter %s at offset %d of %s cannot be opened (%s), so it is returned as it is stored"
)
_REPLAY_GROUP: Final = "sprocketmq-dead-letters"


class AsyncDeadLetters(AdminSession):
    """The dead letters of one group, from a running event loop. Connections open as they are needed; close with ``shutdown`` or
    ``async with``.

    ::

        async with AsyncDeadLetters("delays", namesrv_addr="127.0.0.1:9876") as letters:
            async for letter in letters.read(topic="flights"):
                print(letter.message_id, letter.message.keys, letter.message.body)
            report = await letters.replay_all(topic="flights")

    Args:
        group: the consumer group.
        options: the options of CommonOptions (``help(sprocketmq.CommonOptions)``): ``namesrv_addr``, ``access_key``, ...

    Raises:
        ConfigurationError: an option or the group's name is invalid.

    Every method that selects letters takes conditions (``topic``, ``key``, ``tags``; ``since_ms`` and ``until_ms`` in milliseconds
    since 1970; ``start_offsets``) as ``read`` explains them; default: all letters.

    Every method raises GroupNotExist (no broker knows the group), ConfigurationError (the dead letter topic exists, but is not readable;
    the message says what to do), and RemoteError, NetworkError or RequestTimeout (a server refused or did not answer).
    """

    def __init__(self, group: str, **options: Unpack[CommonOptions]) -> None:
        self._group = check_group(group, "the consumer group")
        self._given = options
        super().__init__(**options)
        self._reader = TOOLS_GROUP

    @property
    def topic(self) -> str:
        """The dead letter topic, ``%DLQ%group``. Consumers can subscribe to it, too."""
        return dlq_topic(self._group)

    @property
    def _stored_topic(self) -> str:
        return wrap(self._options.namespace, self.topic)

    # -- reading ---------------------------------------------------------------------------------------------------------------

    async def count(self) -> int:
        """The number of stored dead letters of the group."""
        ends = await self._ends()
        return sum(end - begin for begin, end in ends.values())

    async def read(
        self,
        *,
        topic: str | None = None,
        key: str | None = None,
        tags: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_offsets: Mapping[MessageQueue, int] | None = None,
    ) -> AsyncGenerator[DeadLetterMessage, None]:
        """The dead letters that are stored now and meet all conditions, broker by broker, the oldest first.

        Args:
            topic, key: only letters that were first sent to this topic, or have this key; default: any.
            tags: only letters with exactly these tags; default: any.
            since_ms, until_ms: only letters that became dead letters from the one time on and before the other, in milliseconds
                since 1970; default: no limit.
            start_offsets: where to begin, as in ``ReplayReport.next_offsets``; default for each queue: its oldest letter.
        """
        walk = self._walk(topic, key, tags, since_ms, until_ms, start_offsets)
        async with contextlib.aclosing(walk):
            async for letter, _ in walk:
                if letter is not None:
                    yield letter

    async def get(self, message_id: str) -> DeadLetterMessage:
        """The newest dead letter with this id: the message id, or the offset message id of the dead letter or of the first copy.
        Raises ConfigurationError (there is none)."""
        found: DeadLetterMessage | None = None
        async for letter in self.read():
            ids = (letter.message_id, letter.message.offset_message_id, letter.origin_offset_message_id)
            if message_id in ids:
                found = letter
        if found is None:
            raise ConfigurationError(
                f"group {self._group!r} has no dead letter with the id {message_id!r}; it may be older than the broker keeps messages"
            )
        return found

    async def _walk(
        self,
        topic: str | None,
        key: str | None,
        tags: str | None,
        since_ms: int | None,
        until_ms: int | None,
        start_offsets: Mapping[MessageQueue, int] | None,
    ) -> AsyncGenerator[tuple[DeadLetterMessage | None, tuple[MessageQueue, int]], None]:
        """Each letter that meets the conditions (None at the end of a queue), and the offset after it."""
        for name, time_ms in (("since_ms", since_ms), ("until_ms", until_ms)):
            if time_ms is not None:
                check_time_ms(name, time_ms, or_zero=True)
        for queue, (begin, end) in (await self._ends()).items():
            at = max(begin, (start_offsets or {}).get(queue, begin))
            if since_ms is not None:
                search, address = SEARCH_OFFSET_BY_TIMESTAMP, await self._broker_of(queue)
                first = await self._cluster.ask_queue(search, queue, at=address, timestamp=since_ms)
                at = max(at, first.offset)
            while at < end:
                result = await self._pull(queue, at)
                unreadable: list[tuple[MessageExt, Exception]] = []
                for message in decode_records(result.body, queue.broker_name, unreadable=unreadable):
                    if not at <= message.queue_offset < end:
                        continue
                    letter = DeadLetterMessage(message, self._options.namespace)
                    if _fits(letter, topic, key, tags, since_ms, until_ms):
                        for error in (why for bad, why in unreadable if bad is message):
                            log.error(_UNREADABLE, message.message_id, message.queue_offset, queue, error)
                        yield letter, (queue, message.queue_offset + 1)
                if result.status is not PullStatus.FOUND and result.next_begin_offset <= at:
                    break  # no more messages before the end: retention has deleted them
                at = max(result.next_begin_offset, at + 1)
            yield None, (queue, min(at, end))

    async def _ends(self) -> dict[MessageQueue, tuple[int, int]]:
        """Oldest and end offset of each queue, as of now (rule 2)."""
        route = await self._cluster.name_servers.route(self._stored_topic)
        if route is None:
            await self._check_exists(wrap(self._options.namespace, self._group))
            return {}
        if route.queue_datas and not any(is_readable(data.perm) for data in route.queue_datas):
            raise ConfigurationError(
                f"topic {self.topic!r} is not readable, as brokers before 4.7 made it; set its permission to 6, as with "
                f"mqadmin updateTopicPerm -t {self.topic} -p 6"
            )
        queues = subscribe_queues(self._stored_topic, route)
        ends = [await queue_ends(self._cluster, queue, at=await self._broker_of(queue)) for queue in queues]
        return dict(zip(queues, ends, strict=True))

    async def _pull(self, queue: MessageQueue, at: int) -> PullResult:
        """Pull in the name of the brokers' tools: a pull in the name of a group creates it. In the name of the group only for an account
        that is given that group alone, and if it is there as far as the account may see."""
        try:
            return await self._pull_as(self._reader, queue, at)
        except (GroupNotExist, NoPermission) as error:
            group = wrap(self._options.namespace, self._group)
            if self._reader == group or isinstance(error, SignatureRefused):
                raise
            try:
                is_there = group in await self._groups_at(await self._broker_of(queue))
            except RemoteError:  # the account may not list groups
                is_there = True
            if not is_there:
                raise
            result = await self._pull_as(group, queue, at)
            self._reader = group
            return result

    async def _pull_as(self, reader: str, queue: MessageQueue, at: int) -> PullResult:
        timeout_ms = self._options.mq_client_api_timeout_ms
        return await read_queue(
            self._cluster, await self._broker_of(queue), reader, queue, at, _AT_ONCE, timeout_ms=timeout_ms
        )

    async def _broker_of(self, queue: MessageQueue) -> str:
        return (await self._cluster.broker(queue.broker_name, queue.topic, or_replica=True)).address

    # -- replaying -------------------------------------------------------------------------------------------------------------

    async def replay(self, letter: DeadLetterMessage, *, topic: str | None = None) -> SendResult:
        """Send one dead letter, which itself remains, to ``topic`` (default: the original). Every group that subscribes to
        that topic gets the message, with its original message id and no failed tries. Raises ConfigurationError (the
        original topic is not known, and no ``topic`` is given). After a timeout it may be stored nevertheless."""
        if not isinstance(letter, DeadLetterMessage):
            raise ConfigurationError(f"letter is {letter!r}, a DeadLetterMessage from read or get is allowed")
        target = topic or letter.origin_topic
        if target is None:
            raise ConfigurationError(
                f"dead letter {letter.message_id} does not say which topic it came from; pass topic= to replay it"
            )
        copy = replay_copy(letter.message, check_topic(target))
        parts = self._open_parts
        if parts.producer is None:
            parts.producer = AsyncProducer(_REPLAY_GROUP, **self._given)
        producer = parts.producer
        await producer.start()
        if self._parts is not parts or self._life.state is not LifeState.RUNNING:  # shut down meanwhile
            await producer.shutdown()
            raise ClosedError("the dead letters were shut down before this one was replayed")
        # A message that was sent by a sharding key goes to the queue of that key again.
        sharding_key = copy.properties.get(props.SHARDING_KEY)
        send = Send(copy, sharding_key=sharding_key, stored_flag=letter.message.sys_flag)
        return await producer._started_sender().send(send)

    async def replay_all(
        self,
        *,
        to_topic: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        tags: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_offsets: Mapping[MessageQueue, int] | None = None,
    ) -> ReplayReport:
        """Replay what ``read`` returns for these conditions to ``to_topic`` (default: the original topic of each), until one
        fails. Returns what was replayed, and in ``error`` why it stopped early; only failed reads raise."""
        report = ReplayReport()
        walk = self._walk(topic, key, tags, since_ms, until_ms, start_offsets)
        async with contextlib.aclosing(walk):
            async for letter, (queue, behind) in walk:
                if letter is not None:
                    try:
                        report.replayed.append(await self.replay(letter, topic=to_topic))
                    except RocketMQError as error:
                        report.error, report.failed = error, letter
                        report.next_offsets[queue] = letter.message.queue_offset
                        log.warning("dead letter %s was not replayed: %s", letter.message_id, error)
                        break
                report.next_offsets[queue] = behind
        return report

    async def purge(self) -> int:
        """Delete all dead letters with their topic, as RocketMQ cannot delete single messages, and return their number. The
        next one creates the topic again. The commit logs keep the messages until their files expire."""
        count = await self.count()
        route = await self._cluster.name_servers.route(self._stored_topic)
        if route is None:
            return count
        for data in route.broker_datas:
            if MASTER_ID in data.broker_addrs:  # its slaves copy the change
                await self._delete_topic_at(data.broker_addrs[MASTER_ID], self._stored_topic)
        await self._delete_topic_at_name_servers(self._stored_topic)
        return count


def _fits(
    letter: DeadLetterMessage,
    topic: str | None,
    key: str | None,
    tags: str | None,
    since_ms: int | None,
    until_ms: int | None,
) -> bool:
    message = letter.message
    return (
        (topic is None or letter.origin_topic == topic)
        and (key is None or key in message.keys)
        and (tags is None or message.tags == tags)
        and (since_ms is None or message.store_timestamp_ms >= since_ms)
        and (until_ms is None or message.store_timestamp_ms < until_ms)
    )
