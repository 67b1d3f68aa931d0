"""Consumer groups by an administrator: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200, GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201,
GET_SUBSCRIPTIONGROUP_CONFIG 352 (5.x). Java: AdminBrokerProcessor.

Gaps: paging and group attributes of 5.x; deletion (207).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.broker.groups import group_name_problem
from sprocketmq.net.connection import Connection
from sprocketmq.wire.bodies import SubscriptionGroupConfig
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import GetAllSubscriptionGroupResponseHeader, GetSubscriptionGroupConfigRequestHeader

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS"]


def update_and_create_group(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    group = SubscriptionGroupConfig.decode(command.body)
    problem = group_name_problem(group.group_name)
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    broker.groups.update(group, now_ms)
    return response(command)


def all_groups(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    content = broker.groups.content()
    header = GetAllSubscriptionGroupResponseHeader(total_group_num=len(content.subscription_group_table))
    return response(command, header=header, body=content.encode())


def group_config(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    name = command.header(GetSubscriptionGroupConfigRequestHeader).group
    # As in Java, asking creates the group where the broker creates groups by itself.
    group = broker.groups.find(name, now_ms)
    if group is None:
        return response(command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"consumer group {name} does not exist")
    return response(command, body=group.encode())


HANDLERS = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: update_and_create_group,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all_groups,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: group_config,
}
