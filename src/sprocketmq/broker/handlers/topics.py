"""Topics by an administrator: UPDATE_AND_CREATE_TOPIC 17, GET_ALL_TOPIC_CONFIG 21, GET_TOPIC_STATS_INFO 202, DELETE_TOPIC_IN_BROKER 215,
GET_TOPIC_CONFIG 351 (5.x). Java: AdminBrokerProcessor.

17 is answered when the name servers know the topic (or after 2 s), so that a producer that starts right after it finds the route.

Gaps: attributes and paging of 5.x (a caller that asks for a page gets the whole table, which is what 4.9 answers); static topics.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from sprocketmq.broker.topics import topic_name_problem
from sprocketmq.net.connection import Connection
from sprocketmq.wire.bodies import TopicConfig, TopicOffset, TopicStatsTable
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
)
from sprocketmq.wire.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS"]

_MAX_QUEUES = 65_536
# Less than any administrator's timeout: a name server that does not answer must not make a topic look as if it were not there.
_REGISTRATION_WAIT_S = 2.0


def update_and_create_topic(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(CreateTopicRequestHeader)
    problem = topic_name_problem(header.topic)
    if problem is None and broker.topics.is_system(header.topic):
        problem = f"topic {header.topic} is the broker's own, choose another name"
    for name, number in (("readQueueNums", header.read_queue_nums), ("writeQueueNums", header.write_queue_nums)):
        if problem is None and not 0 <= number <= _MAX_QUEUES:
            problem = f"{name} is {number}, 0 to {_MAX_QUEUES} are allowed"
    if problem is None and not 0 <= header.perm <= 15:
        problem = f"perm is {header.perm}, 0 to 15 (8 priority, 4 read, 2 write, 1 inherit) is allowed"
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    old = broker.topics.get(header.topic)
    config = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
    )
    if config != old:
        broker.topics.update(config, now_ms)
    _answer_when_registered(broker, connection, command)
    return None


def _answer_when_registered(broker: Broker, connection: Connection, command: Command) -> None:
    async def answer() -> None:
        with contextlib.suppress(asyncio.TimeoutError):  # the registration itself goes on
            await asyncio.wait_for(broker.registered(), _REGISTRATION_WAIT_S)
        if not command.is_oneway:
            connection.send(response(command))

    broker.keep(asyncio.get_running_loop().create_task(answer()))


def all_topic_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    content = broker.topics.content()
    header = GetAllTopicConfigResponseHeader(total_topic_num=len(content.topic_config_table))
    return response(command, header=header, body=content.encode())


def topic_stats(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    topic = command.header(GetTopicStatsInfoRequestHeader).topic
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    store, table = broker.store, {}
    for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
        first, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        newest = store.store_time(topic, queue_id, end - 1) if end > first else 0
        queue = MessageQueue(topic, broker.config.broker_name, queue_id)
        table[queue] = TopicOffset(min_offset=first, max_offset=end, last_update_timestamp=max(0, newest))
    return response(command, body=TopicStatsTable(offset_table=table).encode())


def topic_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    topic = command.header(GetTopicConfigRequestHeader).topic
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    return response(command, body=config.encode())


def delete_topic(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    topic = command.header(DeleteTopicRequestHeader).topic
    if not topic:
        return response(command, ResponseCode.INVALID_PARAMETER, "the topic is blank, name the topic to delete")
    if broker.topics.is_system(topic):
        return response(command, ResponseCode.INVALID_PARAMETER, f"topic {topic} is the broker's own, it stays")
    broker.topics.delete(topic, now_ms)
    broker.offsets.forget_topic(topic)
    broker.store.delete_topic(topic)
    return response(command)


HANDLERS = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: update_and_create_topic,
    RequestCode.GET_ALL_TOPIC_CONFIG: all_topic_config,
    RequestCode.GET_TOPIC_STATS_INFO: topic_stats,
    RequestCode.DELETE_TOPIC_IN_BROKER: delete_topic,
    RequestCode.GET_TOPIC_CONFIG: topic_config,
}
