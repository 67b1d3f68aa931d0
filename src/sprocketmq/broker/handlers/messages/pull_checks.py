# SPDX-License-Identifier: Apache-2.0
"""The checks of a pull in Java's order, and its filter (Java: PullMessageProcessor, ConsumerFilterManager).

One answer differs: an expression in a request that cannot be parsed is refused (code 23). Apache intends this, but with an assertion, which
production JVMs skip, and then delivers everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.broker.delivery.filters import NO_FILTER, PullFilter, record_filter
from sprocketmq.broker.handlers.limits import REMEMBERED_LENGTH, expression_problem
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.broker.tables.consumers import CONSUME_ACTIVELY, ConsumerGroup
from sprocketmq.core.group.subscription import SUB_ALL, TAG_TYPES, is_tag_type, parse_tag_expression, tags_code_matcher
from sprocketmq.core.produce.route_table import PERM_READ
from sprocketmq.core.resource_names import is_retry_topic, is_system_group
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.wire.bodies import SubscriptionData
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import PullMessageRequestHeader
from sprocketmq.wire.records.sys_flag import PULL_SUBSCRIPTION

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_PULL: Final = int(RequestCode.PULL_MESSAGE)
# Java: ForbiddenType
_BROKER, _GROUP, _TOPIC, _BROADCASTING, _SUBSCRIPTION = 1, 2, 3, 4, 5
_COMPENSATED_FOR_MS: Final = 60_000  # how often the subscription in a pull is recorded again


def check_pull(
    broker: Broker, connection: Connection, command: Command, header: PullMessageRequestHeader, now_ms: int
) -> Command | PullFilter:
    """The refusal, or the filter of the request. Runs once per pull, so everything that repeats is cached."""
    group_name, topic = header.consumer_group, header.topic
    if not broker.config.broker_permission & PERM_READ:
        return _forbidden(command, _BROKER, f"broker {broker.config.broker_name} may not be read")
    if command.code == RequestCode.LITE_PULL_MESSAGE and not broker.config.lite_pull_message_enable:
        return _forbidden(
            command, _BROKER, f"broker {broker.config.broker_name} does not serve lite pull (litePullMessageEnable)"
        )
    group = broker.groups.find(group_name, now_ms)
    if group is None:
        return unknown_group(command, group_name)
    if not group.consume_enable:
        return _forbidden(command, _GROUP, f"consumer group {group_name} may not consume (consumeEnable)")
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist; create it first")
    if not config.perm & PERM_READ:
        return _forbidden(command, _TOPIC, f"topic {topic} may not be read")
    if not 0 <= header.queue_id < config.read_queue_nums:
        remark = f"queueId is {header.queue_id}, 0 to {config.read_queue_nums - 1} are allowed for topic {topic}"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    consumer = broker.consumers.get(group_name)
    if header.sys_flag & PULL_SUBSCRIPTION:
        wanted = _wanted_by_request(broker, command, header, now_ms)
    else:
        broadcast = group.consume_broadcast_enable
        wanted = _wanted_by_heartbeat(broker, command, header, consumer, may_broadcast=broadcast)
    if broker.config.reject_pull_consumer_enable and not isinstance(wanted, Command):
        pulls = consumer is None or consumer.consume_type == CONSUME_ACTIVELY
        if pulls and (consumer is None or connection not in consumer.members) and not is_system_group(group_name):
            remark = f"pull consumers are not served here (rejectPullConsumerEnable), {group_name} is one; use a push consumer"
            return response(command, ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    return wanted


def wants_everything(broker: Broker, command: Command, header: PullMessageRequestHeader, now_ms: int) -> bool:
    """A quick check whether :func:`check_pull` would return NO_FILTER and record nothing; False if that needs the full check."""
    group_name, topic_name = header.consumer_group, header.topic
    config, groups = broker.config, broker.groups
    group, topic = groups.table.get(group_name), broker.topics.table.get(topic_name)
    if (
        group is None
        or topic is None
        or not group.consume_enable
        or not topic.perm & config.broker_permission & PERM_READ
        or not 0 <= header.queue_id < topic.read_queue_nums
        or config.reject_pull_consumer_enable
        or command.code != _PULL
    ):
        return False
    if header.sys_flag & PULL_SUBSCRIPTION:
        if header.subscription != SUB_ALL or header.expression_type not in TAG_TYPES:
            return False
        noted = broker.consumers.compensated_subscriptions.get((group_name, topic_name))
        return noted is not None and noted.sub_string == SUB_ALL and now_ms - noted.sub_version < _COMPENSATED_FOR_MS
    consumer = broker.consumers.get(group_name)
    if consumer is None or groups.forbidden or (consumer.is_broadcasting and not group.consume_broadcast_enable):
        return False
    subscription = consumer.subscriptions.get(topic_name)
    return (
        subscription is not None
        and subscription.sub_version >= header.sub_version
        and subscription.expression_type in TAG_TYPES
        and consumer.match(topic_name) is None
    )


def _wanted_by_heartbeat(
    broker: Broker,
    command: Command,
    header: PullMessageRequestHeader,
    consumer: ConsumerGroup | None,
    *,
    may_broadcast: bool,
) -> Command | PullFilter:
    group_name, topic = header.consumer_group, header.topic
    if consumer is None:
        remark = f"no member of consumer group {group_name} is known yet; it follows with the next heartbeat"
        return response(command, ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if consumer.is_broadcasting and not may_broadcast:
        remark = f"consumer group {group_name} may not consume by broadcasting (consumeBroadcastEnable)"
        return _forbidden(command, _BROADCASTING, remark)
    if broker.groups.forbidden and not broker.groups.may_read(group_name, topic):
        remark = f"consumer group {group_name} may not read topic {topic}, an administrator took it away"
        return _forbidden(command, _SUBSCRIPTION, remark)
    subscription = consumer.subscriptions.get(topic)
    if subscription is None:
        remark = (
            f"consumer group {group_name} does not subscribe to topic {topic}; all its members must subscribe alike"
        )
        return response(command, ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if subscription.sub_version < header.sub_version:
        remark = f"the subscription of {group_name} to {topic} is newer than the last heartbeat; it follows with the next one"
        return response(command, ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    if is_tag_type(subscription.expression_type):
        match = consumer.match(topic)
        return NO_FILTER if match is None else PullFilter(match)
    known = broker.filters.get(group_name, topic)
    if known is None:
        remark = f"the filter of {group_name} for topic {topic} is not known here; its expression may be wrong"
        return response(command, ResponseCode.FILTER_DATA_NOT_EXIST, remark)
    if known.data.client_version < header.sub_version:
        remark = f"the filter of {group_name} for topic {topic} is newer than the last heartbeat; it follows with the next one"
        return response(command, ResponseCode.FILTER_DATA_NOT_LATEST, remark)
    if not broker.config.enable_property_filter:  # last, as in Java: errors of the filter are reported before
        return response(command, ResponseCode.SYSTEM_ERROR, no_property_filter(subscription.expression_type))
    if subscription.class_filter_mode:
        return NO_FILTER
    if broker.config.filter_support_retry and is_retry_topic(topic):
        return broker.filters.wanted_in_retry_topic(group_name)
    return known.wanted


def _wanted_by_request(
    broker: Broker, command: Command, header: PullMessageRequestHeader, now_ms: int
) -> Command | PullFilter:
    """The filter in the request (lite pull, readers without a heartbeat); expressions are parsed once."""
    expression, kind = header.subscription, header.expression_type
    by_tags = is_tag_type(kind)
    too_long = expression_problem(broker, expression)
    if too_long is not None:
        return response(command, ResponseCode.SUBSCRIPTION_PARSE_FAILED, too_long)
    if by_tags and (expression is None or expression in ("", SUB_ALL)):
        _note(broker, header, now_ms)
        return NO_FILTER
    try:
        if by_tags:
            wanted = _wanted_tags(broker, header, now_ms)
        elif not expression:
            raise ConfigurationError(
                f"the {kind} expression is empty; write a condition such as a > 5, or '*' for tags"
            )
        elif not broker.config.enable_property_filter:
            return response(command, ResponseCode.SYSTEM_ERROR, no_property_filter(kind))
        else:
            wanted = record_filter(broker.filters.compiled(kind, expression))
    except ConfigurationError as error:
        return response(command, ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    _note(broker, header, now_ms)
    return wanted


def _wanted_tags(broker: Broker, header: PullMessageRequestHeader, now_ms: int) -> PullFilter:
    expression = header.subscription or SUB_ALL
    known = broker.expressions.get(expression)
    if known is None:
        known = PullFilter(tags_code_matcher(parse_tag_expression(header.topic, expression, now_ms)))
        if len(expression) <= REMEMBERED_LENGTH:
            if len(broker.expressions) >= 1024:  # expressions come from the network, so the cache is limited
                broker.expressions.clear()
            broker.expressions[expression] = known
    return known


def _note(broker: Broker, header: PullMessageRequestHeader, now_ms: int) -> None:
    noted = broker.consumers.compensated_subscriptions.get((header.consumer_group, header.topic))
    expression = header.subscription or SUB_ALL
    if noted is not None and noted.sub_string == expression and now_ms - noted.sub_version < _COMPENSATED_FOR_MS:
        return
    if is_tag_type(header.expression_type):
        subscription = parse_tag_expression(header.topic, expression, now_ms)
    else:
        kind = header.expression_type or ""
        subscription = SubscriptionData(
            topic=header.topic, sub_string=expression, sub_version=now_ms, expression_type=kind
        )
    broker.consumers.compensate_subscription(header.consumer_group, header.topic, subscription)


def no_property_filter(kind: str | None) -> str:
    return (
        f"the broker does not filter messages by {kind} (enablePropertyFilter); switch that on, or subscribe with tags"
    )


def _forbidden(command: Command, forbidden_type: int, remark: str) -> Command:
    refusal = response(command, ResponseCode.NO_PERMISSION, remark)
    refusal.ext_fields = {"forbiddenType": str(forbidden_type)}
    return refusal
