# SPDX-License-Identifier: Apache-2.0
"""The progress and lag of consumer groups (mqadmin: consumerProgress, brokerConsumeStats)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from sprocketmq.client.admin.session import AdminRequests
from sprocketmq.client.answer_bodies import answer_body, off_loop
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.group_members import consumer_connection
from sprocketmq.client.remoting.queue_offsets import committed_offset, queue_ends, topic_stats
from sprocketmq.client.remoting.server_kind import not_served
from sprocketmq.client.settings.validators import check_group
from sprocketmq.core.resource_names import RETRY_PREFIX, SCHEDULE_TOPIC, is_retry_topic, is_system_group
from sprocketmq.core.retry.retry_schedule import DEFAULT_DELAY_LEVELS, DelayLevels, queue_of_delay_level
from sprocketmq.errors import GroupNotExist, RemoteError, RequestNotServed, TopicNotExist
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET

_SEARCHED: Final = 256  # messages of each delay level in which waiting retries are searched
_MANY_ROWS: Final = 500  # two milliseconds


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of a group in one queue.

    Attributes:
        broker_offset: the end of the queue, one more than the offset of its last message.
        consumer_offset: the offset of the next message to consume; -1 if the group has no progress.
        last_timestamp_ms: the store time of the last consumed message; 0 if unknown.
        min_offset: the offset of the oldest stored message, if it is known; else 0.
    """

    broker_offset: int
    consumer_offset: int
    last_timestamp_ms: int = 0
    min_offset: int = 0

    @property
    def lag(self) -> int:
        """The number of messages that are not consumed yet."""
        return max(0, self.broker_offset - max(self.min_offset, self.consumer_offset))


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A summary of one group, over all brokers.

    Attributes:
        members: the number of members that are online.
        consume_type, message_model: as its members announce them; None if none is online.
        lag: the number of messages that are not consumed yet; None if a broker does not tell, or if the group has no progress.
    """

    group: str
    members: int
    consume_type: str | None
    message_model: str | None
    consume_tps: float
    lag: int | None


@dataclass(frozen=True, slots=True)
class WaitingRetries:
    """Failed messages that wait for their next try, by group. They are not part of the lag.

    Attributes:
        counts: the number of messages by group, without groups that have none.
        next_ms: when the first of them is due, by group, in milliseconds since 1970.
        is_whole: False if a broker holds so many delayed messages that only the first of each delay level were looked at.
    """

    counts: Mapping[str, int]
    next_ms: Mapping[str, int]
    is_whole: bool


class _Answer(NamedTuple):
    """What a broker answered about a group. Java's leaves out the queues that a topic does not have any more."""

    broker_name: str
    is_java: bool
    stats: bodies.ConsumeStats


def _rows(answers: Iterable[_Answer]) -> dict[MessageQueue, QueueProgress]:
    return {
        queue: QueueProgress(offsets.broker_offset, offsets.consumer_offset, offsets.last_timestamp)
        for one in answers
        for queue, offsets in sorted(one.stats.offset_table.items(), key=lambda pair: pair[0])
    }


class GroupProgressRequests(AdminRequests):
    """The part of AsyncAdmin about the progress of groups."""

    async def consumer_progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """Progress and lag by queue, of one ``topic`` or (default) all; empty before it consumes (mqadmin: consumerProgress -g)."""
        check_group(group)
        found = await self._progress(group, topic, await self._consume_stats(group, topic))
        if not any(progress.consumer_offset > 0 for progress in found.values()):
            await self._check_exists(group)  # brokers answer with all queues of a topic for any group
            if topic is not None and not found:
                await self._route(topic)
        return found

    async def _progress(
        self, group: str, topic: str | None, answers: list[_Answer]
    ) -> dict[MessageQueue, QueueProgress]:
        rows = sum(len(one.stats.offset_table) for one in answers)
        found = await off_loop(lambda: _rows(answers)) if rows > _MANY_ROWS else _rows(answers)
        found.update(await self._left_out(group, found, {one.broker_name for one in answers if one.is_java}))
        found.update(await self._not_begun(group, topic, {queue.topic for queue in found}))
        return found

    async def _consume_stats(self, group: str, topic: str | None) -> list[_Answer]:
        header = headers.GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        try:
            masters = await self._masters(None, None)
        except RequestNotServed as error:
            topics = [topic] if topic is not None else await self._topics_of_members(group, error.address)
            return [_Answer("", False, await self._consume_stats_by_queue(group, one)) for one in topics]

        async def ask(broker_name: str, address: str) -> _Answer | None:
            asked = requests.offsets.GET_CONSUME_STATS
            try:
                answer = await self._cluster.ask(asked, header, at=address)
            except (GroupNotExist, TopicNotExist):
                return None
            return _Answer(broker_name, answer.language == "JAVA", await answer_body(asked, answer))

        answers = await all_ended(ask(*one) for one in masters.items())
        return [answer for answer in answers if answer is not None]

    async def _left_out(
        self, group: str, found: Mapping[MessageQueue, QueueProgress], java: Set[str]
    ) -> dict[MessageQueue, QueueProgress]:
        """The queues of the topics in ``found`` whose messages wait although no broker named them: at brokers that do not know
        the group, or where it has no progress, and at brokers of Java those that the topic does not let read."""
        answered: dict[str, set[str]] = {}
        for queue in found:
            answered.setdefault(queue.topic, set()).add(queue.broker_name)
        try:
            masters = await self._masters(None, None)
        except RequestNotServed:  # a proxy's numbers are of all queues
            return {}

        async def ask(topic: str) -> dict[MessageQueue, QueueProgress]:
            route = await self._cluster.name_servers.route(topic)
            names = {one.broker_name for one in route.queue_datas} & masters.keys() if route is not None else set()
            rows: dict[MessageQueue, QueueProgress] = {}
            for name in sorted(names - (answered[topic] - java)):
                try:
                    table = (await topic_stats(self._cluster, masters[name], topic)).offset_table
                except TopicNotExist:
                    continue
                for queue, at in sorted(table.items(), key=lambda pair: pair[0]):
                    if name not in answered[topic]:
                        rows[queue] = QueueProgress(at.max_offset, -1, min_offset=at.min_offset)
                    elif queue not in found and at.max_offset > at.min_offset:
                        consumed = await committed_offset(
                            self._cluster, group, queue, at=masters[name], zero_if_young=False
                        )
                        rows[queue] = QueueProgress(
                            at.max_offset, -1 if consumed is None else consumed, min_offset=at.min_offset
                        )
            return rows

        some = [topic for topic, names in answered.items() if not masters.keys() <= names - java]
        more: dict[MessageQueue, QueueProgress] = {}
        for answer in await all_ended(map(ask, some)):
            more.update(answer)
        return more

    async def _not_begun(self, group: str, topic: str | None, known: Set[str]) -> dict[MessageQueue, QueueProgress]:
        """The queues of which members hold messages, in topics in which the group has no progress at all: a listener hangs in its
        first message, or fails. Only the member knows where it began. A pull consumer does not tell which messages it has given
        out: without a commit the whole queue counts."""
        connection = await self._connection(group)
        if connection is None or connection.message_model == bodies.MessageModel.BROADCASTING:
            return {}
        polls = connection.consume_type == bodies.ConsumeType.CONSUME_ACTIVELY
        topics = {name for name in connection.subscription_table if not is_retry_topic(name)} - known
        is_assigned = polls and not connection.subscription_table and not known  # announces no topics
        if not is_assigned and not (topics if topic is None else topics & {topic}):
            return {}
        first: dict[MessageQueue, int] = {}
        for member in connection.connection_set:
            try:
                info = await self._admin.running_info(group, member.client_id)
            except RemoteError:
                if member.client_id in await self._admin.consumer_ids(group):
                    raise
                continue  # it has left
            for queue, held in info.mq_table.items():
                begun = held.commit_offset
                if begun < 0 and not polls and held.cached_msg_count:
                    begun = held.cached_msg_min_offset
                if (is_assigned or queue.topic in topics) and topic in (None, queue.topic) and (begun >= 0 or polls):
                    first[queue] = min(begun, first.get(queue, begun))

        async def progress(queue: MessageQueue) -> QueueProgress:
            return QueueProgress(
                (await self._cluster.ask_queue(GET_MAX_OFFSET, queue, at=await self._address_of(queue))).offset,
                first[queue],
            )

        queues = sorted(first)
        return dict(zip(queues, await all_ended(map(progress, queues)), strict=True))

    async def _topics_of_members(self, group: str, proxy: str) -> list[str]:
        """The topics that members of a group read which are connected to this proxy."""
        connection = await consumer_connection(self._cluster, proxy, group)
        topics = sorted(connection.subscription_table) if connection is not None else []
        if not topics:
            raise not_served(
                proxy,
                requests.offsets.GET_CONSUME_STATS,
                f"no member of group {group!r} is connected to it, which would say what the group reads, so name the topic",
            )
        return topics

    async def _consume_stats_by_queue(self, group: str, topic: str) -> bodies.ConsumeStats:
        async def ask(queue: MessageQueue) -> bodies.OffsetWrapper:
            address = await self._address_of(queue)
            consumed = await committed_offset(self._cluster, group, queue, at=address, zero_if_young=False)
            end = (await self._cluster.ask_queue(GET_MAX_OFFSET, queue, at=address)).offset
            at = -1 if consumed is None else consumed
            last_ms = await self._store_time_ms(address, queue, at - 1)
            return bodies.OffsetWrapper(max(0, end), at, last_timestamp=max(0, last_ms))

        queues = await self._queues_of(topic)
        answers = await all_ended(map(ask, queues))
        return bodies.ConsumeStats(offset_table=dict(zip(queues, answers, strict=True)))

    async def lag(self, group: str, topic: str | None = None) -> int:
        """The number of messages that ``group`` has not consumed yet, in one ``topic`` or (default) in all."""
        return sum(progress.lag for progress in (await self.consumer_progress(group, topic)).values())

    async def group_summaries(self) -> list[GroupSummary]:
        """A summary of each group, without those of brokers and tools (mqadmin: consumerProgress): first those that have members
        and an unknown lag, then those with the largest lag."""
        topics = (await self._cluster.ask_body(requests.name_servers.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).topic_list
        names = {topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX)}
        names.update(group for group in await self._admin.groups() if not is_system_group(group))
        rows: list[GroupSummary] = []
        for group in names:
            connection = await self._connection(group)
            lag: int | None
            try:
                stats = await self._consume_stats(group, None)
                progress = await self._progress(group, None, stats)
                lag = sum(at.lag for at in progress.values()) if progress else None
            except RemoteError:
                stats, lag = [], None
            rows.append(
                GroupSummary(
                    group,
                    len(connection.connection_set) if connection else 0,
                    connection.consume_type if connection else None,
                    connection.message_model if connection else None,
                    sum(one.stats.consume_tps for one in stats),
                    lag,
                )
            )
        return sorted(rows, key=lambda row: (row.lag is not None or not row.members, -(row.lag or 0), row.group))

    async def waiting_retries(self) -> WaitingRetries:
        """The failed messages that wait for their next try, of all groups (no mqadmin command). They are searched for among the first
        256 messages of each delay level of each broker."""
        counts = Counter[str]()
        next_ms: dict[str, int] = {}
        is_whole = True
        for name, address in (await self._masters(None, None)).items():
            info = await self._admin.broker_runtime_info(address)
            levels = DelayLevels.parse(
                (await self._admin.broker_config(address)).get("messageDelayLevel") or DEFAULT_DELAY_LEVELS
            )
            for level in range(1, levels.max_level + 1):
                progress, _, end = info.get(f"scheduleMessageOffset_{level}", "0,0").partition(",")
                if not progress.isdigit() or not end.isdigit() or int(end) <= int(progress):
                    continue
                is_whole &= int(end) - int(progress) <= _SEARCHED
                queue = MessageQueue(SCHEDULE_TOPIC, name, queue_of_delay_level(level))
                for one in await self._admin.read_messages(queue, int(progress), max_messages=_SEARCHED):
                    topic = one.properties.get(props.REAL_TOPIC) or ""
                    if is_retry_topic(topic):
                        group, due_ms = topic.removeprefix(RETRY_PREFIX), levels.due_ms(level, one.store_timestamp_ms)
                        counts[group] += 1
                        next_ms[group] = min(due_ms, next_ms.get(group, due_ms))
        return WaitingRetries(counts, next_ms, is_whole)

    async def broker_consume_stats(self, broker: str, *, only_ordered: bool = False) -> bodies.ConsumeStatsList:
        """The progress of all groups, or the ordered ones, in all topics of a broker (mqadmin: brokerConsumeStats)."""
        header = headers.GetConsumeStatsInBrokerHeader(is_order=only_ordered)
        return await self._cluster.ask_body(
            requests.offsets.GET_BROKER_CONSUME_STATS, header, at=await self._one(broker)
        )

    async def consume_time_span(self, topic: str, group: str) -> list[bodies.QueueTimeSpan]:
        """By queue: the store times of the oldest, newest and last consumed message, and how long the next one has waited."""
        header = headers.QueryConsumeTimeSpanRequestHeader(topic=topic, group=check_group(group))
        spans: list[bodies.QueueTimeSpan] = []
        masters = await self._masters_of(topic)
        await self._check_exists(group)
        for address in masters.values():
            try:
                answer = await self._cluster.ask_body(requests.offsets.QUERY_CONSUME_TIME_SPAN, header, at=address)
            except RequestNotServed:
                spans = list(await all_ended(self._time_span(group, one) for one in await self._queues_of(topic)))
                break
            spans += answer.consume_time_span_set
        return sorted(spans, key=lambda span: span.message_queue)

    async def _time_span(self, group: str, queue: MessageQueue) -> bodies.QueueTimeSpan:
        """The same of one queue, by this machine's clock, from the store times of these messages."""
        address = await self._address_of(queue)
        consumed = await committed_offset(self._cluster, group, queue, at=address, zero_if_young=False)
        low, high = await queue_ends(self._cluster, queue, at=address)
        read = (low, high - 1, consumed - 1 if consumed else low, max(low, consumed or 0))
        oldest, newest, last, following = await all_ended(
            self._store_time_ms(address, queue, offset) for offset in read
        )
        waiting_ms = max(0, self._options.clock.now_ms() - following) if following >= 0 else 0
        return bodies.QueueTimeSpan(queue, oldest, newest, last, waiting_ms)
