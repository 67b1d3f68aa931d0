"""Pulling: PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361 (5.x), answered at once or parked. Java: PullMessageProcessor,
DefaultPullMessageResultHandler.

Fields: consumerGroup, topic, queueId, queueOffset, maxMsgNums, sysFlag (commit offset, may suspend, carries its own subscription),
commitOffset, suspendTimeoutMillis, subVersion, subscription, expressionType. Answer: suggestWhichBrokerId, nextBeginOffset, minOffset,
maxOffset; the remark is the store's status; the body is the records as they lie in the commit log.

Checks in Java's order: broker readable, lite pull enabled, group, group may consume, topic, topic readable, queue id, subscription (of the
request, or of the heartbeat: known, allowed to broadcast, new enough), kind of filter.

Gaps: SQL92 (answered as Apache answers with enablePropertyFilter=false), slaves, server-side reset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.topics import PERM_READ
from sprocketmq.core.subscription import SUB_ALL, TAG, parse_tag_expression, tags_code_matcher
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.store.message_store import ReadStatus
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import FLAG_RESPONSE, Command, response
from sprocketmq.wire.headers import PullMessageRequestHeader
from sprocketmq.wire.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS", "Match", "answer_pull", "handle_pull"]

# What a queue entry's tags code must fulfil; None lets everything pass.
Match = Callable[[int], bool] | None

_MASTER: Final = "0"
_CODE_OF_STATUS: Final = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    # An empty queue: right for offset 0, moved for any other (see _code).
    ReadStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
}
# The remark of an answer; Enum.name costs a microsecond of its own.
_REMARK: Final = {status: status.name for status in ReadStatus}
_EMPTY_QUEUE: Final = (ReadStatus.NO_MATCHED_LOGIC_QUEUE, ReadStatus.NO_MESSAGE_IN_QUEUE)


def handle_pull(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    """Answer with records, with where to go on, or park the request until something comes."""
    return answer_pull(broker, connection, command, command.header(PullMessageRequestHeader), now_ms, may_park=True)


def answer_pull(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: PullMessageRequestHeader,
    now_ms: int,
    *,
    may_park: bool,
) -> Command | None:
    """One pass; also what a parked request runs when it is woken, then with ``may_park`` False. None: written already, or parked."""
    match = _check(broker, command, header, now_ms)
    if isinstance(match, Command):
        return match
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    config = broker.config
    limit = min(max(header.max_msg_nums, 1), config.max_transfer_count_in_memory)
    limit_bytes = config.max_transfer_bytes_in_memory
    if header.max_msg_bytes is not None and header.max_msg_bytes > 0:
        limit_bytes = min(limit_bytes, header.max_msg_bytes)
    result = broker.store.read(topic, queue_id, header.queue_offset, limit, limit_bytes, match)
    status = result.status
    code = _CODE_OF_STATUS[status]
    if status in _EMPTY_QUEUE and header.queue_offset != 0:
        code = ResponseCode.PULL_OFFSET_MOVED
    broker.offsets.note_pull(group, topic, queue_id, result.next_offset)
    if may_park:
        if header.sys_flag & PULL_COMMIT_OFFSET:
            # Only on the first pass: the offset is as old as the request, a later commit may have overtaken it by the time it wakes.
            broker.offsets.commit(group, topic, queue_id, header.commit_offset)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PULL_SUSPEND:
            wait_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_ms
            if wait_ms > 0 and not command.is_oneway:
                broker.parked.park(connection, command, header, match, now_ms + wait_ms)
                return None
    # PullMessageResponseHeader written out: one struct and one dict less per pull.
    ext = {
        "suggestWhichBrokerId": _MASTER,
        "nextBeginOffset": str(result.next_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
    }
    answer = Command(
        code,
        command.opaque,
        FLAG_RESPONSE,
        remark=_REMARK[status],
        ext_fields=ext,
        serialize_type=command.serialize_type,
    )
    if code != ResponseCode.SUCCESS:
        return answer
    broker.counters.pulled += result.count
    connection.send_with_body(answer, result.chunks, result.bytes)
    return None


def _check(broker: Broker, command: Command, header: PullMessageRequestHeader, now_ms: int) -> Command | Match:
    """The refusal, or what the entries must match."""
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
    return consumer.match(topic)


def _request_match(broker: Broker, command: Command, header: PullMessageRequestHeader, now_ms: int) -> Command | Match:
    """The filter that the request brings along (lite pull, readers without a heartbeat); expressions are parsed once."""
    expression = header.subscription
    if header.expression_type not in (None, "", TAG):
        return _no_filter(command, header.expression_type)
    if expression is None or expression in ("", SUB_ALL):
        return None
    known = broker.expressions.get(expression)
    if known is None:
        try:
            known = tags_code_matcher(parse_tag_expression(header.topic, expression, now_ms))
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


HANDLERS = {RequestCode.PULL_MESSAGE: handle_pull, RequestCode.LITE_PULL_MESSAGE: handle_pull}
