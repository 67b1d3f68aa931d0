# SPDX-License-Identifier: Apache-2.0
"""Administration of consumer groups (Java: AdminBrokerProcessor, SubscriptionGroupManager). A change is answered when it is on the disk. A
group's offsets are deleted, too, with ``cleanOffset`` of 5.x or ``removeOffset`` of 4.9."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.broker.chunked_work import LongTable, encode_in_chunks
from sprocketmq.broker.handlers.limits import answer_in_a_frame, too_many_named
from sprocketmq.broker.handlers.pages import page_of
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.core.resource_names import group_name_problem
from sprocketmq.core.topic_attributes import GROUP_ATTRIBUTES, alter
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

# A heartbeat creates a retry topic with that many queues, so a number from the network needs a limit.
_MAX_RETRY_QUEUES: Final = 65_536


@serves(requests.topics.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
def update_and_create_group(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    if not command.body:
        return response(command)  # as Java: nothing to do
    return _update(broker, connection, command, [bodies.SubscriptionGroupConfig.of_request(command.body)], now_ms)


@serves(requests.topics.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
def update_and_create_group_list(
    broker: Broker, connection: Connection, command: Command, now_ms: int
) -> Command | None:
    return _update(
        broker, connection, command, bodies.SubscriptionGroupList.of_request(command.body).group_config_list, now_ms
    )


def _update(
    broker: Broker,
    connection: Connection,
    command: Command,
    groups: list[bodies.SubscriptionGroupConfig],
    now_ms: int,
) -> Command | None:
    names = [group.group_name for group in groups]
    too_many = too_many_named(broker, "groups", len(names)) or broker.groups.room_problem(names)
    if too_many is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, too_many)
    for group in groups:
        problem = group_name_problem(group.group_name)
        if problem is None and group.retry_queue_nums > _MAX_RETRY_QUEUES:
            problem = f"retryQueueNums is {group.retry_queue_nums}, at most {_MAX_RETRY_QUEUES} are allowed"
        if problem is not None:
            return response(command, ResponseCode.INVALID_PARAMETER, problem)
    try:
        for group in groups:
            old = broker.groups.table.get(group.group_name)
            group.attributes = alter(None if old is None else old.attributes, group.attributes, GROUP_ATTRIBUTES)
    except ConfigurationError as error:
        return response(command, ResponseCode.SYSTEM_ERROR, str(error))
    if groups:
        broker.groups.update(*groups, now_ms=now_ms)
    broker.answer_when_saved(connection, command, response(command))
    return None


@serves(requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
def all_groups(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    wanted = command.header(headers.GetAllSubscriptionGroupRequestHeader)
    groups, config = broker.groups, broker.config
    table, forbidden = groups.table, groups.forbidden
    if config.enable_split_metadata and (wanted.data_version, wanted.group_seq, wanted.max_group_num) != (None,) * 3:
        most = config.split_metadata_size
        if wanted.max_group_num is not None:
            most = min(most, wanted.max_group_num)
        table = page_of(table, groups.data_version, wanted.group_seq, wanted.data_version, most)
        forbidden = {name: topics for name, topics in forbidden.items() if name in table}
    forbidden, version = dict(forbidden), msgspec.structs.replace(groups.data_version)
    empty = bodies.SubscriptionGroupWrapper(forbidden_table=forbidden, data_version=version)
    long = LongTable(
        "subscriptionGroupTable", table, lambda rows: msgspec.structs.replace(empty, subscription_group_table=rows)
    )

    async def answer() -> Command:
        header = headers.GetAllSubscriptionGroupResponseHeader(total_group_num=len(groups.table))
        return answer_in_a_frame(command, header, await encode_in_chunks(long), "ask for pages (groupSeq)")

    return broker.answer_in_chunks(connection, command, answer())


@serves(requests.topics.DELETE_SUBSCRIPTIONGROUP)
def delete_group(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(headers.DeleteSubscriptionGroupRequestHeader)
    broker.groups.delete(header.group_name, now_ms)
    if header.clean_offset or header.remove_offset:
        broker.offsets.forget_group(header.group_name)
    broker.counters.forget_group(header.group_name)
    broker.answer_when_saved(connection, command, response(command), offsets=True)
    return None


@serves(requests.topics.GET_SUBSCRIPTIONGROUP_CONFIG)
def group_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    name = command.header(headers.GetSubscriptionGroupConfigRequestHeader).group
    # As in Java, the request creates the group if the broker creates groups automatically.
    group = broker.groups.find(name, now_ms)
    if group is None:
        return unknown_group(command, name)
    return response(command, body=group.encode())


@serves(requests.topics.UPDATE_AND_GET_GROUP_FORBIDDEN)
def group_forbidden(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(headers.UpdateGroupForbiddenRequestHeader)
    group, topic, groups = header.group, header.topic, broker.groups
    if header.readable is False and group not in groups.forbidden and len(groups.forbidden) >= len(groups.table):
        remark = f"{len(groups.forbidden)} groups have topics taken away, no more than there are groups are allowed"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    if header.readable is not None and header.readable != groups.may_read(group, topic):
        groups.set_readable(group, topic, header.readable, now_ms)
    body = bodies.GroupForbidden(group=group, topic=topic, readable=groups.may_read(group, topic))
    broker.answer_when_saved(connection, command, response(command, body=body.encode()))
    return None
