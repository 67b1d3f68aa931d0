# SPDX-License-Identifier: Apache-2.0
"""Pulling, answered at once or parked (Java: PullMessageProcessor, DefaultPullMessageResultHandler). The answer's remark is the store's
status, its body the records as in the commit log. ``pull_checks`` decides whether a pull may be answered, and finds its filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sprocketmq.broker.delivery.filters import NO_FILTER, ArrivalProbe, PullFilter
from sprocketmq.broker.handlers.group.offset_reset import answer_of_reset
from sprocketmq.broker.handlers.messages.pull_checks import check_pull, wants_everything
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.lazy_imports import Library, is_loaded
from sprocketmq.core.group.subscription import SQL92
from sprocketmq.net.connection import Connection
from sprocketmq.store import ReadResult, ReadStatus
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ANNOUNCED_VERSION, ResponseCode
from sprocketmq.wire.frames.command import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    SERIALIZE_JSON,
    SERIALIZE_ROCKETMQ,
    Command,
    response,
)
from sprocketmq.wire.frames.raw_command import raw_answer
from sprocketmq.wire.headers import PullMessageRequestHeader
from sprocketmq.wire.records.sys_flag import PULL_COMMIT_OFFSET, PULL_SUSPEND

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_MASTER: Final = b"0"
# Apache holds a pull for any time that it requests. Here a pull is answered after ten minutes at the latest, and the client pulls again.
_MOST_SUSPEND_MS: Final = 600_000
_FOUND: Final = ReadStatus.FOUND
_CODE_OF_STATUS: Final = {
    ReadStatus.NO_MATCHED_MESSAGE: int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.OFFSET_OVERFLOW_ONE: int(ResponseCode.PULL_NOT_FOUND),
    ReadStatus.OFFSET_OVERFLOW_BADLY: int(ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.OFFSET_TOO_SMALL: int(ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.NO_MESSAGE_IN_QUEUE: int(ResponseCode.PULL_NOT_FOUND),  # for offset 0; other offsets are moved there
}
# PullMessageResponseHeader, and the store's status as the remark.
_NUMBERS: Final = ("nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag")
_JSON_ANSWER: Final = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%b","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d",'
    b'"topicSysFlag":"%d","groupSysFlag":"%d"},"flag":1,"language":"PYTHON","opaque":%d,"remark":"%b",'
    b'"serializeTypeCurrentRPC":"JSON","version":' + b"%d}" % ANNOUNCED_VERSION
)
# The same for messages that are found, from a topic and a group without flags and read from the master: nearly all answers.
_JSON_FOUND: Final = (
    _JSON_ANSWER.replace(b'{"code":%d', b'{"code":0')
    .replace(b'BrokerId":"%b"', b'BrokerId":"0"')
    .replace(b'SysFlag":"%d"', b'SysFlag":"0"')
    .replace(b'"remark":"%b"', b'"remark":"FOUND"')
)
# The remark of an answer, because Enum.name takes a microsecond.
_REMARK: Final = {status: status.name.encode() for status in ReadStatus}
_FOUND_REMARK: Final = _REMARK[_FOUND]


def handle_pull(
    broker: Broker,
    connection: Connection,
    command: Command,
    now_ms: int,
    woken: PullMessageRequestHeader | None = None,
) -> Command | None:
    """None: written already, or parked. ``woken``: the header of a parked pull that is woken; it is answered in any case."""
    header = command.typed_header if woken is None else woken
    if type(header) is not PullMessageRequestHeader:
        header = command.header(PullMessageRequestHeader)
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    wanted = NO_FILTER
    if not wants_everything(broker, command, header, now_ms):
        if woken is None and header.expression_type == SQL92 and not is_loaded(Library.SQL92):
            return broker.lazy_imports.wait_for(Library.SQL92, connection, command)
        checked = check_pull(broker, connection, command, header, now_ms)
        if isinstance(checked, Command):
            return checked
        wanted = checked
    offsets = broker.offsets
    if offsets.resets and (moved := answer_of_reset(broker, command, group, topic, queue_id)) is not None:
        return moved
    config = broker.config
    limit, limit_bytes = config.max_transfer_count_in_memory, config.max_transfer_bytes_in_memory
    most = header.max_msg_nums
    if most < limit:
        limit = most if most > 0 else 1
    if header.max_msg_bytes is not None and 0 < header.max_msg_bytes < limit_bytes:
        limit_bytes = header.max_msg_bytes
    if wanted is NO_FILTER:
        result = broker.store.read(topic, queue_id, header.queue_offset, limit, limit_bytes)
    else:
        match_in_time = wanted.within_time_slice()
        result = broker.store.read(
            topic, queue_id, header.queue_offset, limit, limit_bytes, wanted.match, match_in_time
        )
    offsets.note_pull(group, topic, queue_id, header.queue_offset, result.next_offset)
    if woken is None and header.sys_flag & PULL_COMMIT_OFFSET:
        # Only on the first pass: when a parked pull is woken, a later commit may have replaced this offset.
        offsets.commit(group, topic, queue_id, header.commit_offset)
    code, remark = 0, _FOUND_REMARK
    if result.status is not _FOUND:
        code, remark = _CODE_OF_STATUS[result.status], _REMARK[result.status]
        if result.status is ReadStatus.NO_MESSAGE_IN_QUEUE and header.queue_offset != 0:
            code = int(ResponseCode.PULL_OFFSET_MOVED)
        if woken is None and code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PULL_SUSPEND:
            wait_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_ms
            if wait_ms > 0 and not command.is_oneway:
                return _park(broker, connection, command, header, wanted, min(wait_ms, _MOST_SUSPEND_MS))
    suggested = _suggested(broker, header, result) if config.slave_read_enable else _MASTER
    topic_flag, group_flag = broker.topics.table[topic].topic_sys_flag, broker.groups.table[group].group_sys_flag
    opaque, serialize_type = command.opaque, command.serialize_type
    next_offset, low, high = result.next_offset, result.min_offset, result.max_offset
    if not (code or topic_flag or group_flag or serialize_type) and suggested is _MASTER:
        text = _JSON_FOUND % (next_offset, low, high, opaque)
    else:
        fields = (code, suggested, next_offset, low, high, topic_flag, group_flag, opaque, remark)
        text = _JSON_ANSWER % fields if serialize_type == SERIALIZE_JSON else _binary_answer(*fields)
    if code:
        return raw_answer(opaque, text, serialize_type, code, remark.decode())
    size_bytes = result.bytes
    broker.counters.pulled_by(topic, group, result.count, size_bytes)
    if not command.flag & FLAG_ONEWAY:
        connection.send_with_body(text, result.chunks, size_bytes, serialize_type)
    return None


def _park(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: PullMessageRequestHeader,
    wanted: PullFilter,
    wait_ms: int,
) -> Command | None:
    match = wanted.match if wanted.match_record is None else ArrivalProbe(broker.store, header, wanted)
    if broker.parked.park(connection, command, header, match, broker.clock.steady_ms() + wait_ms):
        return None
    remark = "too many pulls wait at this broker, or on this connection; try again later"
    return response(command, ResponseCode.POLLING_FULL, remark)


def _binary_answer(code: int, suggested: bytes, *numbers_opaque_and_remark: Any) -> bytes:
    *numbers, opaque, remark = numbers_opaque_and_remark
    ext = {"suggestWhichBrokerId": suggested.decode(), **dict(zip(_NUMBERS, map(str, numbers), strict=True))}
    answer = Command(
        code,
        opaque,
        FLAG_RESPONSE,
        remark=remark.decode(),
        ext_fields=ext,
        serialize_type=SERIALIZE_ROCKETMQ,
    )
    return answer.header_bytes()


def _suggested(broker: Broker, header: PullMessageRequestHeader, result: ReadResult) -> bytes:
    """The id of the broker from which a group reads old messages that are not in memory any more."""
    group = broker.groups.table.get(header.consumer_group)
    if group is None:
        return _MASTER
    last = broker.store.units(header.topic, header.queue_id, result.next_offset - 1, 1) if result.count else []
    far = bool(last) and broker.store.max_physical_offset - last[0].physical_offset > broker.memory_span_bytes
    return b"%d" % (group.which_broker_when_consume_slowly if far else group.broker_id)


# Not as a decorator, which would hide the fifth parameter.
serves(requests.messages.PULL_MESSAGE, requests.messages.LITE_PULL_MESSAGE)(handle_pull)
