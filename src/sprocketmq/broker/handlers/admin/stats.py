# SPDX-License-Identifier: Apache-2.0
"""Statistics (Java: AdminBrokerProcessor).

A group has stats for the topics in which it has offsets, while it is online only for those to which it subscribes; not in Java: also for
topics where its first message is not done (``observe.group_positions``). 317 counts messages in flight from the pull offset (Java: 0).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.handlers.limits import answer_in_a_frame, too_many_named
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.observe.group_positions import are_positions_known, position, topics_not_begun
from sprocketmq.net.connection import Connection
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.frames.frame import MAX_FRAME_BYTES
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.text import fastjson

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

# A queue takes some 30 us.
_QUEUES_PER_STEP: Final = 100
_TOPICS_PER_STEP: Final = 10


@serves(requests.topics.GET_TOPIC_STATS_INFO)
def topic_stats(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    topic = command.header(headers.GetTopicStatsInfoRequestHeader).topic
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    store, queues = broker.store, _queue_ids(broker, topic, max(config.read_queue_nums, config.write_queue_nums))

    def row(queue_id: int) -> bodies.TopicOffset:
        first, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        newest = store.store_time(topic, queue_id, end - 1) if end > first else 0
        return bodies.TopicOffset(min_offset=first, max_offset=end, last_update_timestamp=max(0, newest))

    async def answer() -> Command:
        rows = await _rows(broker, ((topic, queue_id) for queue_id in queues), lambda _, queue_id: row(queue_id))
        text = _with_rows(bodies.TopicStatsTable(topic_put_tps=put_tps), rows)
        return answer_in_a_frame(command, None, text, "ask for the offsets of its queues one by one (codes 30 and 31)")

    put_tps = broker.statistics.put_per_second(topic)
    return broker.answer_in_chunks(connection, command, answer())


@serves(requests.offsets.GET_CONSUME_STATS)
def consume_stats(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(headers.GetConsumeStatsRequestHeader)
    group = header.consumer_group
    named = list(filter(None, (header.topic_list or "").split(";")))
    problem = too_many_named(broker, "topics", len(named))
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    if named:
        topics = named
    elif (header.topic or "").strip():
        topics = [topic for topic in (header.topic or "",) if _is_of_interest(broker, group, topic)]
    else:
        topics = _topics_of(broker, group)

    async def answer() -> Command:
        known = [topic for topic in dict.fromkeys(topics) if are_positions_known(broker, group, topic)]
        text, _, _ = await _stats(broker, group, known)
        return answer_in_a_frame(command, None, text, "ask for one topic at a time")

    return broker.answer_in_chunks(connection, command, answer())


def _queue_ids(broker: Broker, topic: str, count: int) -> list[int]:
    """The first ``count`` queues, and those with higher ids that hold messages: of a topic whose number of queues was reduced.
    Apache's broker leaves the latter out, and its tools say that nothing waits."""
    store = broker.store
    beyond = sorted(one for one in store.queue_ids(topic) if one >= count)
    return [*range(count), *(one for one in beyond if store.max_offset(topic, one) > store.min_offset(topic, one))]


async def _rows(
    broker: Broker,
    queues: Iterable[tuple[str, int]],
    row: Callable[[str, int], bodies.TopicOffset | bodies.OffsetWrapper],
) -> bytes:
    """A table of queues without its braces, made in steps."""
    found = []
    async for share in in_chunks(queues, _QUEUES_PER_STEP):
        table = {
            MessageQueue(topic, broker.config.broker_name, queue_id): row(topic, queue_id) for topic, queue_id in share
        }
        found.append(fastjson.dumps(table)[1:-1])
    return b",".join(found)


def _with_rows(body: bodies.TopicStatsTable | bodies.ConsumeStats, rows: bytes) -> bytes:
    return body.encode().replace(b'"offsetTable":{', b'"offsetTable":{' + rows, 1)


async def _stats(broker: Broker, group: str, topics: list[str]) -> tuple[bytes, int, int]:
    """The text of ConsumeStats; how many messages are behind, and in flight."""
    behind = in_flight = 0

    def row(topic: str, queue_id: int) -> bodies.OffsetWrapper:
        nonlocal behind, in_flight
        offsets = _offsets(broker, group, topic, queue_id)
        behind += offsets.broker_offset - offsets.consumer_offset
        in_flight += offsets.pull_offset - offsets.consumer_offset
        return offsets

    def queues() -> Iterator[tuple[str, int]]:
        for topic in topics:
            config = broker.topics.get(topic)
            for queue_id in _queue_ids(broker, topic, config.read_queue_nums) if config is not None else ():
                yield topic, queue_id

    rows = await _rows(broker, queues(), row)
    known = [topic for topic in topics if broker.topics.get(topic) is not None]
    tps = sum([broker.statistics.get_per_second(topic, group) for topic in known], 0.0)
    return _with_rows(bodies.ConsumeStats(consume_tps=tps), rows), behind, in_flight


def _topics_of(broker: Broker, group: str) -> list[str]:
    begun = (topic for topic in broker.offsets.topics_of(group) if _is_of_interest(broker, group, topic))
    return [*begun, *topics_not_begun(broker, group)]


def _is_of_interest(broker: Broker, group: str, topic: str) -> bool:
    consumer = broker.consumers.get(group)
    return consumer is None or not consumer.subscriptions or topic in consumer.subscriptions


def _offsets(broker: Broker, group: str, topic: str, queue_id: int) -> bodies.OffsetWrapper:
    end = broker.store.max_offset(topic, queue_id)
    consumed = position(broker, group, topic, queue_id)
    last = broker.store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else 0
    return bodies.OffsetWrapper(
        broker_offset=end,
        consumer_offset=consumed,
        pull_offset=max(consumed, broker.offsets.pull_offset(group, topic, queue_id)),
        last_timestamp=max(0, last),
    )


@serves(requests.offsets.QUERY_CONSUME_TIME_SPAN)
def consume_time_span(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    """Store times of the oldest, the newest and the last consumed message of each queue, and how long the next one has been waiting."""
    header = command.header(headers.QueryConsumeTimeSpanRequestHeader)
    topic, store = header.topic, broker.store
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    queues = _queue_ids(broker, topic, config.write_queue_nums)

    def span(queue_id: int) -> bodies.QueueTimeSpan:
        end = store.max_offset(topic, queue_id)
        oldest, newest = store.earliest_store_time(topic, queue_id), store.store_time(topic, queue_id, end - 1)
        consumed = broker.offsets.query(header.group, topic, queue_id)
        last = store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else oldest
        next_ms = store.store_time(topic, queue_id, max(consumed, store.min_offset(topic, queue_id)))
        return bodies.QueueTimeSpan(
            message_queue=MessageQueue(topic, broker.config.broker_name, queue_id),
            min_time_stamp=oldest,
            max_time_stamp=newest,
            consume_time_stamp=last,
            delay_time=now_ms - next_ms if next_ms >= 0 else 0,
            min_time_stamp_str=_text(oldest),
            max_time_stamp_str=_text(newest),
            consume_time_stamp_str=_text(last),
        )

    async def answer() -> Command:
        shares = in_chunks(queues, _QUEUES_PER_STEP)
        found = [fastjson.dumps([span(queue_id) for queue_id in share])[1:-1] async for share in shares]
        text = b'{"consumeTimeSpanSet":[%b]}' % b",".join(found)
        return answer_in_a_frame(command, None, text, "ask for the queues one by one (code 208)")

    return broker.answer_in_chunks(connection, command, answer())


def _text(time_ms: int) -> str:
    """A time as in UtilAll.formatDate(yyyy-MM-dd#HH:mm:ss:SSS), in the broker's time zone."""
    seconds, milliseconds = divmod(time_ms, 1000)
    local = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone()
    return f"{local:%Y-%m-%d#%H:%M:%S}:{milliseconds:03d}"


@serves(requests.brokers.VIEW_BROKER_STATS_DATA)
def broker_stats_data(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.ViewBrokerStatsDataRequestHeader)
    data = broker.statistics.view(header.stats_name, header.stats_key)
    if data is None:
        remark = f"there is no statistic {header.stats_name} of {header.stats_key}, or nothing was counted for it yet"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    return response(command, body=data.encode())


@serves(requests.offsets.GET_BROKER_CONSUME_STATS)
def broker_consume_stats(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    """Statistics of all groups; groups that read nothing have an empty list."""
    ordered_only = command.header(headers.GetConsumeStatsInBrokerHeader).is_order

    async def of_group(group: str, body: bodies.ConsumeStatsList) -> bytes:
        texts = []
        async for topics in in_chunks(_topics_of(broker, group), _TOPICS_PER_STEP):
            for topic in topics:
                config = broker.topics.get(topic)
                if config is None or (ordered_only and not config.order):
                    continue
                text, behind, in_flight = await _stats(broker, group, [topic])
                texts.append(text)
                body.total_diff += behind
                body.total_inflight_diff += in_flight
        return b"{%b:[%b]}" % (fastjson.dumps(group), b",".join(texts))

    async def answer() -> Command:
        body, texts, size = bodies.ConsumeStatsList(broker_addr=broker.address), list[bytes](), 0
        async for groups in in_chunks(list(broker.groups.table), _TOPICS_PER_STEP):
            for group in groups:
                text = await of_group(group, body)
                texts.append(text)
                size += len(text)
            if size > MAX_FRAME_BYTES:
                remark = (
                    f"the answer would have more than {MAX_FRAME_BYTES} bytes; ask for one group at a time (code 208)"
                )
                return response(command, ResponseCode.SYSTEM_ERROR, remark)
        text = body.encode().replace(b'"consumeStatsList":[', b'"consumeStatsList":[' + b",".join(texts), 1)
        return answer_in_a_frame(command, None, text, "ask for one group at a time (code 208)")

    return broker.answer_in_chunks(connection, command, answer())
