"""The ends of half messages, told by the driver that decided them.

    driver    lanes (half_messages) --end_lane--> END_TRANSACTION, answered; what is too old for it (core.decision_ledger) waits for the
                                                  broker's check

Each half is a request, as RocketMQ ends none in a batch: written out by a template, many in flight.

Laws
1. Halves of one queue that rows were bound to are ended one after the other, in the order of the task's rows; when one is left to the
   check, those behind it are, too.
2. An END that was not answered with success is not told again by the driver: the broker asks when it did not arrive.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Final

import msgspec

from sprocketmq.client.remoting.api import RemotingApi
from sprocketmq.core.transactions.decision_ledger import can_end_directly
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import RocketMQError
from sprocketmq.spark.transactions.half_messages import Half, HalfLane
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.end_frames import EndTransactionTemplate
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers import EndTransactionRequestHeader

__all__ = ["end_lane"]

# What is written must arrive within the margin of can_end_directly.
_IN_FLIGHT: Final = 256
_TIMEOUT_MS: Final = 3_000


async def end_lane(
    api: RemotingApi,
    address: str,
    group: str,
    lane: HalfLane,
    state: LocalTransactionState,
    quiet_ms: int | None,
) -> list[Half]:
    """Tell the broker at ``address`` how the halves of ``lane`` end.

    Args:
        quiet_ms: of that broker, see core.decision_ledger; None to end halves of any age (a rollback that comes twice does no harm).

    Returns:
        The halves that are left to the broker's check.
    """
    header = EndTransactionRequestHeader(
        producer_group=group,
        tran_state_table_offset=0,
        commit_log_offset=0,
        commit_or_rollback=state.sys_flag,
        msg_id=lane.broker_name,
        topic=lane.topic,
        bname=lane.broker_name,
    )
    ends = _Ends(api, address, header, quiet_ms)
    halves = list(lane)
    if lane.in_order:
        for at, half in enumerate(halves):
            if not await _told(ends.begin(half)):
                return halves[at:]
        return []
    left: list[Half] = []
    flight: deque[tuple[Half, asyncio.Future[Any] | None]] = deque()
    for half in halves:
        if len(flight) >= _IN_FLIGHT:
            first, answer = flight.popleft()
            if not await _told(answer):
                left.append(first)
        flight.append((half, ends.begin(half)))
    return left + [half for half, answer in flight if not await _told(answer)]


class _Ends:
    """Writes the ENDs of one lane, whose ``header`` lacks only the two offsets."""

    def __init__(
        self, api: RemotingApi, address: str, header: EndTransactionRequestHeader, quiet_ms: int | None
    ) -> None:
        self._api, self._address, self._header, self._quiet_ms = api, address, header, quiet_ms
        self._template = EndTransactionTemplate(header)

    def begin(self, half: Half) -> asyncio.Future[Any] | None:
        """Write the END of ``half``; None when it is too old."""
        if self._quiet_ms is not None and not can_end_directly(
            time.time_ns() // 1_000_000 - half.sent_ms, self._quiet_ms
        ):
            return None
        connection = self._api.pool.open_connection(self._address)
        if connection is None:
            return asyncio.ensure_future(self._by_command(half))
        opaque = connection.next_opaque()
        frame = self._template.frame(opaque, half.queue_offset, half.commit_log_offset)
        return connection.start_send(opaque, frame, RequestCode.END_TRANSACTION, _TIMEOUT_MS)

    async def _by_command(self, half: Half) -> Command:
        header = msgspec.structs.replace(
            self._header, tran_state_table_offset=half.queue_offset, commit_log_offset=half.commit_log_offset
        )
        command = requests.messages.END_TRANSACTION.command(header)
        return await self._api.invoke(self._address, command, _TIMEOUT_MS)


async def _told(answer: asyncio.Future[Any] | None) -> bool:
    """Whether a broker took an END."""
    if answer is None:
        return False
    try:
        return bool((await answer).code == ResponseCode.SUCCESS)
    except RocketMQError:
        return False
