# SPDX-License-Identifier: Apache-2.0
"""Limits for the names in one request and the content of one heartbeat, which Apache's broker does not have. A function ``..._problem``
returns why something is refused, as one sentence, or None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.core.group.subscription import is_tag_type
from sprocketmq.net.connection import Connection
from sprocketmq.wire.bodies import HeartbeatData, SubscriptionData
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, Header, response
from sprocketmq.wire.frames.frame import MAX_FRAME_BYTES
from sprocketmq.wire.text.fastjson import MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

REMEMBERED_LENGTH: Final = 1024
"""Length of a peer's text that is cached in a table with a fixed number of entries; longer texts are decoded each time."""
# Limits for the groups of one connection. Each subscription takes memory for as long as the group has members.
_MOST_SUBSCRIPTIONS: Final = 10_000
_MOST_TAGS: Final = 20_000
_EXPRESSIONS_OF_A_CLIENT: Final = 4  # of the largest length: 0.2 s of the loop, if all are new
_MOST_ANSWER_BYTES: Final = MAX_FRAME_BYTES - 64 * 1024


def too_many_named(broker: Broker, things: str, count: int) -> str | None:
    """Why one request may not name so many ``things``; None if it may."""
    allowed = broker.config.max_names_per_request
    if count <= allowed:
        return None
    return f"the request names {count} {things}, {allowed} are allowed; ask several times, or raise maxNamesPerRequest"


def answer_in_a_frame(command: Command, header: Header | None, body: bytes, instead: str) -> Command:
    """The answer, or an error if its body exceeds a frame, because the client would close the connection then."""
    if len(body) <= _MOST_ANSWER_BYTES:
        return response(command, header=header, body=body)
    remark = f"the answer would have {len(body)} bytes, {_MOST_ANSWER_BYTES} are allowed; {instead}"
    return response(command, ResponseCode.SYSTEM_ERROR, remark)


def expression_problem(broker: Broker, expression: str | None) -> str | None:
    allowed = broker.config.max_expression_length
    if expression is None or len(expression) <= allowed:
        return None
    return (
        f"the filter has {len(expression)} characters, {allowed} are allowed; shorten it, or raise maxExpressionLength"
    )


def heartbeat_limit_problem(broker: Broker, connection: Connection, data: HeartbeatData) -> str | None:
    config = broker.config
    allowed = config.max_groups_per_connection
    consumers = broker.consumers.groups_with(connection, (group.group_name for group in data.consumer_data_set))
    producers = broker.producers.groups_with(connection, (group.group_name for group in data.producer_data_set))
    for kind, count in (("consumer", consumers), ("producer", producers)):
        if count > allowed:
            return (
                f"this connection would be in {count} {kind} groups, {allowed} are allowed; "
                "use more clients, or raise maxGroupsPerConnection"
            )
    # A heartbeat of an official client names all its groups. A client that sends a heartbeat for each of a thousand groups must not get
    # more than the same limits.
    named = {consumer.group_name for consumer in data.consumer_data_set}
    kept = list(broker.consumers.subscriptions_beside(connection, named))
    problem = _in_all_problem(
        broker, kept + [one for consumer in data.consumer_data_set for one in consumer.subscription_data_set]
    )
    if problem is not None:
        return problem
    for consumer in data.consumer_data_set:
        count, allowed = len(consumer.subscription_data_set), config.max_subscriptions_per_group
        if count > allowed:
            return (
                f"group {consumer.group_name[:100]} subscribes to {count} topics, {allowed} are allowed; "
                "use more groups, or raise maxSubscriptionsPerGroup"
            )
        for subscription in consumer.subscription_data_set:
            problem = expression_problem(broker, subscription.sub_string)
            if problem is not None:
                return problem
    if not config.auto_create_subscription_group:
        return None
    return broker.groups.room_problem({group.group_name for group in data.consumer_data_set})


def _in_all_problem(broker: Broker, subscriptions: list[SubscriptionData]) -> str | None:
    count = len(subscriptions)
    if count > _MOST_SUBSCRIPTIONS:
        return (
            f"the groups of this client have {count} subscriptions, {_MOST_SUBSCRIPTIONS} are allowed; use more clients"
        )
    characters = sum(len(one.topic) + len(one.sub_string) + sum(map(len, one.tags_set)) for one in subscriptions)
    if characters > MAX_REQUEST_BYTES:
        return (
            f"the subscriptions of this client have {characters} characters, {MAX_REQUEST_BYTES} are allowed; "
            "use more clients"
        )
    characters = sum(len(one.sub_string) for one in subscriptions if not is_tag_type(one.expression_type))
    allowed = _EXPRESSIONS_OF_A_CLIENT * broker.config.max_expression_length
    if characters > allowed:
        return (
            f"the filters of this client have {characters} characters, {allowed} are allowed; "
            "use more clients, or raise maxExpressionLength"
        )
    tags = max(sum(len(one.code_set) for one in subscriptions), sum(len(one.tags_set) for one in subscriptions))
    if tags > _MOST_TAGS:
        return f"the groups of this client have {tags} tags, {_MOST_TAGS} are allowed; use more clients, or an expression (SQL92)"
    return None
