# SPDX-License-Identifier: Apache-2.0
"""Looking up stored messages (Java: QueryMessageProcessor).

Keys are found by hash, so an answer may contain a record with another key, as in Apache; never one of another topic, because a right to
read is for one topic. With the ext field _UNIQUE_KEY_QUERY maxNum is defaultQueryMaxNum. Gap: lastKey of 5.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.lazy_imports import Library, once_loaded
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import (
    UNIQUE_KEY_QUERY,
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.record import RecordView

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_NOT_FOUND: Final = QueryMessageResponseHeader(index_last_update_timestamp=0, index_last_update_phyoffset=0)


@serves(requests.messages.QUERY_MESSAGE)
@once_loaded(Library.NUMPY)
def query_message(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(QueryMessageRequestHeader)
    max_num = header.max_num
    if command.ext_fields.get(UNIQUE_KEY_QUERY, "").lower() == "true":
        max_num = broker.config.default_query_max_num
    if max_num < 0:
        return response(command, ResponseCode.SYSTEM_ERROR, f"maxNum is {max_num}, 0 or more is allowed")
    if len(header.key) > (limit := props.MAX_PROPERTIES_BYTES):
        remark = f"the key has {len(header.key)} characters; a message's properties, and so a key, have at most {limit} bytes"
        return response(command, ResponseCode.QUERY_NOT_FOUND, remark, _NOT_FOUND)

    async def answer() -> Command:
        await broker.index_building.catch_up()
        return _found(broker, command, header, max_num)

    return broker.answer_in_chunks(connection, command, answer())


def _found(broker: Broker, command: Command, header: QueryMessageRequestHeader, max_num: int) -> Command:
    hits = broker.store.find_by_key(
        header.topic,
        header.key,
        max_num,
        header.begin_timestamp,
        header.end_timestamp,
        index_type=header.index_type or "",
    )
    topic = header.topic.encode()
    records = [
        record
        for offset in hits.physical_offsets
        if (record := broker.store.record_at(offset)) is not None and RecordView(record).topic_bytes == topic
    ]
    found = bool(hits.physical_offsets)
    ext = QueryMessageResponseHeader(
        index_last_update_timestamp=hits.last_update_timestamp if found else 0,
        index_last_update_phyoffset=hits.last_update_physical_offset if found else 0,
    )
    if not records:
        remark = f"no message of topic {header.topic} has key {header.key[:200]} in this time range, or it expired"
        return response(command, ResponseCode.QUERY_NOT_FOUND, remark, ext)
    return response(command, header=ext, body=b"".join(records))


@serves(requests.messages.VIEW_MESSAGE_BY_ID)
def view_message(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    offset = command.header(ViewMessageRequestHeader).offset
    record = broker.store.record_at(offset)
    if record is None:
        remark = f"no message begins at commit log offset {offset}, or it expired"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    if not command.is_oneway:
        answer = response(command)
        connection.send_with_body(answer.header_bytes(), [record], len(record), answer.serialize_type)
    return None
