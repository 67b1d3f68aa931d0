"""Pulling: PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361 (5.x), answered at once or parked. Java: PullMessageProcessor,
DefaultPullMessageResultHandler.

Fields: consumerGroup, topic, queueId, queueOffset, maxMsgNums, sysFlag (commit offset, may suspend, carries its own subscription),
commitOffset, suspendTimeoutMillis, subVersion, subscription, expressionType. Answer: suggestWhichBrokerId, nextBeginOffset, minOffset,
maxOffset; the remark is the store's status; the body is the records as they lie in the commit log.

Whether a pull may be answered, and what it wants, is ``pull_checks``' business.

Gaps: slaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.broker.delivery.filters import ArrivalProbe
from sprocketmq.broker.handlers.group.offset_reset import answer_of_reset
from sprocketmq.broker.handlers.messages.pull_checks import check_pull
from sprocketmq.broker.lazy_imports import Library, is_loaded
from sprocketmq.core.group.subscription import SQL92
from sprocketmq.net.connection import Connection
from sprocketmq.store.message_store import ReadResult, ReadStatus
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import FLAG_RESPONSE, Command, response
from sprocketmq.wire.headers import PullMessageRequestHeader
from sprocketmq.wire.records.sys_flag import PULL_COMMIT_OFFSET, PULL_SUSPEND

if TYPE_CHECKING:
    from sprocketmq.broker.controller import BrokerController as Broker

__all__ = ["HANDLERS", "answer_pull", "handle_pull"]

_MASTER: Final = "0"
# Apache holds a pull as long as it asks for; who asks for longer is told after ten minutes that there is nothing, and asks again.
_MOST_SUSPEND_MS: Final = 600_000
_CODE_OF_STATUS: Final = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,  # for offset 0; any other is moved there
}
# The remark of an answer; Enum.name costs a microsecond of its own.
_REMARK: Final = {status: status.name for status in ReadStatus}


def handle_pull(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    """Answer with records, with where to go on, or park the request until something comes."""
    header = command.header(PullMessageRequestHeader)
    if header.expression_type == SQL92 and not is_loaded(Library.SQL92):
        return broker.lazy_imports.wait_for(Library.SQL92, connection, command)
    return answer_pull(broker, connection, command, header, now_ms, may_park=True)


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
    wanted = check_pull(broker, connection, command, header, now_ms)
    if isinstance(wanted, Command):
        return wanted
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    if broker.offsets.resets and (moved := answer_of_reset(broker, command, group, topic, queue_id)) is not None:
        return moved
    config = broker.config
    limit = min(max(header.max_msg_nums, 1), config.max_transfer_count_in_memory)
    limit_bytes = config.max_transfer_bytes_in_memory
    if header.max_msg_bytes is not None and header.max_msg_bytes > 0:
        limit_bytes = min(limit_bytes, header.max_msg_bytes)
    result = broker.store.read(
        topic, queue_id, header.queue_offset, limit, limit_bytes, wanted.match, wanted.within_time_slice()
    )
    status = result.status
    code = _CODE_OF_STATUS[status]
    if status is ReadStatus.NO_MESSAGE_IN_QUEUE and header.queue_offset != 0:
        code = ResponseCode.PULL_OFFSET_MOVED
    broker.offsets.note_pull(group, topic, queue_id, result.next_offset)
    if may_park:
        if header.sys_flag & PULL_COMMIT_OFFSET:
            # Only on the first pass: the offset is as old as the request, a later commit may have overtaken it by the time it wakes.
            broker.offsets.commit(group, topic, queue_id, header.commit_offset)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PULL_SUSPEND:
            wait_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_ms
            if wait_ms > _MOST_SUSPEND_MS:
                wait_ms = _MOST_SUSPEND_MS
            if wait_ms > 0 and not command.is_oneway:
                match = wanted.match if wanted.match_record is None else ArrivalProbe(broker.store, header, wanted)
                if not broker.parked.park(connection, command, header, match, broker.clock.steady_ms() + wait_ms):
                    remark = "too many pulls wait at this broker, or on this connection; try again later"
                    return response(command, ResponseCode.POLLING_FULL, remark)
                return None
    # PullMessageResponseHeader written out: one struct and one dict less per pull.
    ext = {
        "suggestWhichBrokerId": _suggested(broker, header, result) if config.slave_read_enable else _MASTER,
        "nextBeginOffset": str(result.next_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
        "topicSysFlag": str(broker.topics.table[topic].topic_sys_flag),
        "groupSysFlag": str(broker.groups.table[group].group_sys_flag),
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
    broker.counters.pulled_by(topic, group, result.count, result.bytes)
    connection.send_with_body(answer, result.chunks, result.bytes)
    return None


def _suggested(broker: Broker, header: PullMessageRequestHeader, result: ReadResult) -> str:
    """Who reads far behind, where memory no longer holds it, is sent to the broker that its group names for that."""
    group = broker.groups.table.get(header.consumer_group)
    if group is None:
        return _MASTER
    last = broker.store.units(header.topic, header.queue_id, result.next_offset - 1, 1) if result.count else []
    far = bool(last) and broker.store.max_physical_offset - last[0].physical_offset > broker.memory_span_bytes
    return str(group.which_broker_when_consume_slowly if far else group.broker_id)


HANDLERS = {requests.messages.PULL_MESSAGE: handle_pull, requests.messages.LITE_PULL_MESSAGE: handle_pull}
