# SPDX-License-Identifier: Apache-2.0
"""A part of a consume queue (Java: AdminBrokerProcessor.queryConsumeQueue). As in Java, an index outside of it is answered with success and
no body. Gaps: an entry's extension, and the result of a filter's bit map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.handlers.table import serves
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import ConsumeQueueData, QueryConsumeQueueResponseBody
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import QueryConsumeQueueRequestHeader
from sprocketmq.wire.text import fastjson

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

# The most entries of one answer, because the loop has to serve others, too.
_MOST_ENTRIES: Final = 10_000
_NO_ROWS: Final = b'"queueData":['


@serves(requests.offsets.QUERY_CONSUME_QUEUE)
def query_consume_queue(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(QueryConsumeQueueRequestHeader)
    topic, queue_id, store = header.topic, header.queue_id, broker.store
    low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    if high == 0:
        return response(command, ResponseCode.SYSTEM_ERROR, f"nothing was ever written to {topic} queue {queue_id}")
    if not low <= header.index < high:
        return response(command, remark=f"index is {header.index}, {low} to {high - 1} are in {topic} queue {queue_id}")
    body = QueryConsumeQueueResponseBody(max_queue_index=high, min_queue_index=low)
    if header.consumer_group is not None:
        group = broker.consumers.get(header.consumer_group)
        body.subscription_data = None if group is None else group.subscriptions.get(topic)
        if body.subscription_data is None:
            body.filter_data = f"{header.consumer_group}@{topic} is not online!"
        else:
            body.filter_data = "null"
    count = min(header.count, _MOST_ENTRIES)

    async def answer() -> Command:
        rows = []
        async for share in in_chunks(range(header.index, min(high, header.index + count))):
            data = [
                ConsumeQueueData(physic_offset=unit.physical_offset, physic_size=unit.size, tags_code=unit.tags_code)
                for unit in store.units(topic, queue_id, share[0], len(share))
                if unit.queue_offset in share
            ]
            if data:  # a filler, or a topic that was deleted meanwhile, has none
                rows.append(fastjson.dumps(data)[1:-1])
        text = body.encode().replace(_NO_ROWS, _NO_ROWS + b",".join(rows), 1)
        return response(command, body=text)

    return broker.answer_in_chunks(connection, command, answer())
