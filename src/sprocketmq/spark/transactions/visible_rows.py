# SPDX-License-Identifier: Apache-2.0
"""Whether the row of a half message is visible in its topic already. Asked before a check-back is answered with COMMIT: after an END a
broker notes that the half message is done (5.x: up to transactionOpBatchInterval later); a round of checks that finds no such record
makes a copy, and its COMMIT would deliver the row again.

The row is looked up in the broker's index by its unique key. One thread of the broker dispatches its log to queues and index, in order, so
what was stored before the copy is in the index once the copy is in its queue. None ("unknown"): the index is switched off, or this group
may not query it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from sprocketmq.core.resource_names import HALF_TOPIC
from sprocketmq.errors import NetworkError, RemoteError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.headers import UNIQUE_KEY_QUERY, QueryMessageRequestHeader
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET

_TIMEOUT_MS: Final = 3_000
_ENTERED_WITHIN_S: Final = 10.0
_PAUSE_S: Final = 0.02
# A broker sends thousands of check-backs at nearly the same moment; a broker that was restarted may have lost messages.
_FRESH_FOR_S: Final = 1.0
_AT_MOST: Final = 32
_FOREVER_MS: Final = (1 << 63) - 1
# The index rounds times to seconds, and clocks of producer and broker differ.
_EARLIER_MS: Final = 3_600_000


class VisibleRows:
    """Belongs to the loop of its cluster. Methods raise NetworkError, RequestTimeout, RemoteError (the broker does not answer now)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Address -> the next offset of its half queue (everything stored before is in the index), and when it was requested.
        self._entered: dict[str, tuple[int, float]] = {}

    async def has(self, half: MessageExt) -> bool | None:
        broker_name = half.broker_name
        queue = MessageQueue(HALF_TOPIC, broker_name, 0)
        address = await self._cluster.master(queue.broker_name, queue.topic) if broker_name else half.store_host
        await self._until_entered(address, queue, half.queue_offset)
        return await self.is_visible(address, half.topic, half.message_id, half.born_timestamp_ms)

    async def is_visible(self, address: str, topic: str, key: str, born_ms: int) -> bool | None:
        return await self._asked(address, topic, key, max(0, born_ms - _EARLIER_MS))

    async def can_tell(self, address: str, topic: str) -> bool:
        return await self._asked(address, topic, "-", 0) is not None

    async def _asked(self, address: str, topic: str, key: str, begin_ms: int) -> bool | None:
        header = QueryMessageRequestHeader(
            topic=topic, key=key, max_num=_AT_MOST, begin_timestamp=begin_ms, end_timestamp=_FOREVER_MS
        )
        command = requests.messages.QUERY_MESSAGE.command(header)
        command.ext_fields = {**command.ext_fields, UNIQUE_KEY_QUERY: "true"}
        answer = await self._cluster.invoke(address, command, _TIMEOUT_MS)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return False
        if answer.code == ResponseCode.NO_PERMISSION:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteError(answer.code, answer.remark, address)
        return any(row.topic == topic and row.message_id == key for row in decode_records(answer.body))

    async def _until_entered(self, address: str, queue: MessageQueue, offset: int) -> None:
        deadline_s = time.monotonic() + _ENTERED_WITHIN_S
        while True:
            entered, asked_s = self._entered.get(address, (0, 0.0))
            if entered > offset and time.monotonic() - asked_s < _FRESH_FOR_S:
                return
            asked_s = time.monotonic()
            entered = (await self._cluster.ask_queue(GET_MAX_OFFSET, queue, at=address)).offset
            self._entered[address] = entered, asked_s
            if entered <= offset:
                if time.monotonic() > deadline_s:
                    raise NetworkError(f"half message {offset} is not in its queue yet", address)
                await asyncio.sleep(_PAUSE_S)
