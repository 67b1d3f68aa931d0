# SPDX-License-Identifier: Apache-2.0
"""Administration of topics (Java: AdminBrokerProcessor).

A change is answered when it is on the disk and the name servers know it (or after 2 s): a producer that starts right after a creation finds
the route, and no registration that still has a deleted topic is under way. Gaps: static topics; BatchCQ and COMPACTION have no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.broker.chunked_work import LongTable, encode_in_chunks
from sprocketmq.broker.handlers.limits import answer_in_a_frame, too_many_named
from sprocketmq.broker.handlers.pages import page_of
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.tables.table_file import not_saved
from sprocketmq.core.resource_names import queue_number_problem, retry_topic, topic_name_problem
from sprocketmq.core.topic_attributes import TOPIC_ATTRIBUTES, alter, parse_changes
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")
# Less than any administrator's timeout, so that a name server that does not answer does not make a creation look failed.
_REGISTRATION_WAIT_S: Final = 2.0


@serves(requests.topics.UPDATE_AND_CREATE_TOPIC)
def update_and_create_topic(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(headers.CreateTopicRequestHeader)
    try:
        changes = parse_changes(header.attributes)
    except ConfigurationError as error:
        return response(command, ResponseCode.SYSTEM_ERROR, str(error))
    config = bodies.TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
        attributes=changes,
    )
    return _update(broker, connection, command, [config], now_ms)


@serves(requests.topics.UPDATE_AND_CREATE_TOPIC_LIST)
def update_and_create_topic_list(
    broker: Broker, connection: Connection, command: Command, now_ms: int
) -> Command | None:
    topics = bodies.CreateTopicListRequestBody.of_request(command.body).topic_config_list
    return _update(broker, connection, command, topics, now_ms)


def _update(
    broker: Broker, connection: Connection, command: Command, topics: list[bodies.TopicConfig], now_ms: int
) -> Command | None:
    """Create or change all of ``topics``, or none; their attributes are changes."""
    names = [topic.topic_name for topic in topics]
    too_many = too_many_named(broker, "topics", len(names)) or broker.topics.room_problem(names)
    if too_many is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, too_many)
    for topic in topics:
        problem = _problem(broker, topic)
        if problem is not None:
            return response(command, ResponseCode.INVALID_PARAMETER, problem)
        if topic.topic_filter_type not in _FILTER_TYPES:
            remark = f"topicFilterType is {topic.topic_filter_type!r}, {' or '.join(_FILTER_TYPES)} is allowed"
            return response(command, ResponseCode.SYSTEM_ERROR, remark)
    try:
        for topic in topics:
            old = broker.topics.get(topic.topic_name)
            topic.attributes = alter(None if old is None else old.attributes, topic.attributes, TOPIC_ATTRIBUTES)
    except ConfigurationError as error:
        return response(command, ResponseCode.SYSTEM_ERROR, str(error))
    changed = [topic for topic in topics if topic != broker.topics.get(topic.topic_name)]
    if changed:
        broker.topics.update(*changed, now_ms=now_ms)
    _answer_when_registered(broker, connection, command)
    return None


def _problem(broker: Broker, topic: bodies.TopicConfig) -> str | None:
    name = topic.topic_name
    problem = topic_name_problem(name)
    if problem is not None:
        return problem
    if broker.topics.is_system(name):
        return f"topic {name} is the broker's own, choose another name"
    for key, number in (("readQueueNums", topic.read_queue_nums), ("writeQueueNums", topic.write_queue_nums)):
        problem = queue_number_problem(key, number)
        if problem is not None:
            return problem
    if not 0 <= topic.perm <= 15:
        return f"perm is {topic.perm}, 0 to 15 (8 priority, 4 read, 2 write, 1 inherit) is allowed"
    if _wants_mixed(topic.attributes) and not broker.config.enable_mixed_message_type:
        return "message.type is MIXED, which needs enableMixedMessageType; choose another type"
    return None


def _wants_mixed(changes: Mapping[str, str]) -> bool:
    return changes.get("+message.type") == "MIXED"


def _answer_when_registered(broker: Broker, connection: Connection, command: Command, *, offsets: bool = False) -> None:
    async def answer() -> Command:
        error = await broker.config_store.saved(offsets=offsets)
        if error is not None:
            return not_saved(command, error)
        with contextlib.suppress(TimeoutError):  # the registration itself continues
            async with asyncio.timeout(_REGISTRATION_WAIT_S):
                await broker.registration.finished()
        return response(command)

    broker.answer_later(connection, command, answer())


@serves(requests.topics.GET_ALL_TOPIC_CONFIG)
def all_topic_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    wanted = command.header(headers.GetAllTopicConfigRequestHeader)
    topics, config = broker.topics, broker.config
    table = topics.table
    if config.enable_split_metadata and (wanted.data_version, wanted.topic_seq, wanted.max_topic_num) != (None,) * 3:
        most = config.split_metadata_size
        if wanted.max_topic_num is not None:
            most = min(most, wanted.max_topic_num)
        table = page_of(table, topics.data_version, wanted.topic_seq, wanted.data_version, most)
    version = msgspec.structs.replace(topics.data_version)
    empty = bodies.TopicConfigAndMappingSerializeWrapper(data_version=version)
    long = LongTable("topicConfigTable", table, lambda rows: msgspec.structs.replace(empty, topic_config_table=rows))

    async def answer() -> Command:
        body = await encode_in_chunks(long)
        header = headers.GetAllTopicConfigResponseHeader(total_topic_num=len(topics.table))
        return answer_in_a_frame(command, header, body, "ask for pages (topicSeq)")

    return broker.answer_in_chunks(connection, command, answer())


@serves(requests.topics.GET_TOPIC_CONFIG)
def topic_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    topic = command.header(headers.GetTopicConfigRequestHeader).topic
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    return response(command, body=config.encode())


def forget_topic(broker: Broker, topic: str, now_ms: int) -> None:
    if broker.topics.get(topic) is not None or broker.store.queue_ids(topic):
        broker.topics.delete(topic, now_ms, broker.store.max_physical_offset)
    broker.offsets.forget_topic(topic)
    broker.counters.forget_topic(topic)
    broker.store.delete_topic(topic)
    broker.timers.forget_topic(topic)


@serves(requests.topics.DELETE_TOPIC_IN_BROKER)
def delete_topic(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    """Delete the topic, its queues, its offsets, its statistics, and the retry topics that POP consumers of 5.x created for it alone."""
    topic = command.ext_fields.get("topic", "")
    if not topic.strip():
        return response(command, ResponseCode.INVALID_PARAMETER, "the topic is blank, name the topic to delete")
    if broker.topics.is_system(topic):
        return response(command, ResponseCode.INVALID_PARAMETER, f"topic {topic} is the broker's own, it stays")
    of_pop = [
        name
        for group in broker.offsets.groups_of(topic)
        for name in (f"{retry_topic(group)}+{topic}", f"{retry_topic(group)}_{topic}")
        if broker.topics.get(name) is not None
    ]
    for name in (topic, *of_pop):
        forget_topic(broker, name, now_ms)
    _answer_when_registered(broker, connection, command, offsets=True)
    return None


@serves(requests.topics.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
def system_topics(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    return response(command, body=bodies.TopicList(topic_list=broker.topics.system_topics()).encode())
