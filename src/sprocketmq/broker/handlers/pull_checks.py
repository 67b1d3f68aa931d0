"""May this pull be answered, and what does it want? Java: PullMessageProcessor, ConsumerFilterManager.

Checks in Java's order: broker readable, lite pull enabled, group, group may consume, topic, topic readable, queue id, subscription (of the
request, or of the heartbeat: known, allowed to broadcast, new enough), kind of filter.

Gaps: SQL92 (answered as Apache answers with enablePropertyFilter=false).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from sprocketmq.broker.topics import PERM_READ
from sprocketmq.core.subscription import SUB_ALL, TAG, parse_tag_expression, tags_code_matcher
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import PullMessageRequestHeader
from sprocketmq.wire.sys_flag import PULL_SUBSCRIPTION

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["EVERYTHING", "Wanted", "check_pull"]


class Wanted(NamedTuple):
    """What a pull wants of its queue: ``match`` judges the tags code of a queue entry, ``match_record`` the bytes of the record.

    None lets everything pass; a pull with neither takes the short way through the store.
    """

    match: Callable[[int], bool] | None = None
    match_record: Callable[[memoryview], bool] | None = None


EVERYTHING: Final = Wanted()


def check_pull(broker: Broker, command: Command, header: PullMessageRequestHeader, now_ms: int) -> Command | Wanted:
    """The refusal, or what the request wants of the queue. Once per pull, so everything that repeats comes out of a table."""
    group_name, topic = header.consumer_group, header.topic
    if not broker.config.broker_permission & PERM_READ:
        return _forbidden(command, f"broker {broker.config.broker_name} may not be read")
    if command.code == RequestCode.LITE_PULL_MESSAGE and not broker.config.lite_pull_message_enable:
        return _forbidden(
            command, f"broker {broker.config.broker_name} does not serve lite pull (litePullMessageEnable)"
        )
    group = broker.groups.find(group_name, now_ms)
    if group is None:
        return response(
            command,
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"consumer group {group_name} does not exist; create it first",
        )
    if not group.consume_enable:
        return _forbidden(command, f"consumer group {group_name} may not consume (consumeEnable)")
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist; create it first")
    if not config.perm & PERM_READ:
        return _forbidden(command, f"topic {topic} may not be read")
    if not 0 <= header.queue_id < config.read_queue_nums:
        remark = f"queueId is {header.queue_id}, 0 to {config.read_queue_nums - 1} are allowed for topic {topic}"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    if header.sys_flag & PULL_SUBSCRIPTION:
        return _request_match(broker, command, header, now_ms)
    consumer = broker.consumers.get(group_name)
    if consumer is None:
        remark = f"no member of consumer group {group_name} is known yet; it follows with the next heartbeat"
        return response(command, ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if consumer.is_broadcasting and not group.consume_broadcast_enable:
        return _forbidden(
            command, f"consumer group {group_name} may not consume by broadcasting (consumeBroadcastEnable)"
        )
    subscription = consumer.subscriptions.get(topic)
    if subscription is None:
        remark = (
            f"consumer group {group_name} does not subscribe to topic {topic}; all its members must subscribe alike"
        )
        return response(command, ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if subscription.sub_version < header.sub_version:
        remark = f"the subscription of {group_name} to {topic} is newer than the last heartbeat; it follows with the next one"
        return response(command, ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    if subscription.expression_type not in (None, "", TAG):
        return _no_filter(command, subscription.expression_type)
    match = consumer.match(topic)
    return EVERYTHING if match is None else Wanted(match)


def _request_match(broker: Broker, command: Command, header: PullMessageRequestHeader, now_ms: int) -> Command | Wanted:
    """The filter that the request brings along (lite pull, readers without a heartbeat); expressions are parsed once."""
    expression = header.subscription
    if header.expression_type not in (None, "", TAG):
        return _no_filter(command, header.expression_type)
    if expression is None or expression in ("", SUB_ALL):
        return EVERYTHING
    known = broker.expressions.get(expression)
    if known is None:
        try:
            known = Wanted(tags_code_matcher(parse_tag_expression(header.topic, expression, now_ms)))
        except ConfigurationError as error:
            return response(command, ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
        if len(broker.expressions) >= 1024:  # expressions come from the network: remember some, not all
            broker.expressions.clear()
        broker.expressions[expression] = known
    return known


def _forbidden(command: Command, remark: str) -> Command:
    return response(command, ResponseCode.NO_PERMISSION, remark)


def _no_filter(command: Command, expression_type: str | None) -> Command:
    return response(
        command,
        ResponseCode.SYSTEM_ERROR,
        f"the broker does not filter messages by {expression_type}; subscribe with tags, or with '*'",
    )
