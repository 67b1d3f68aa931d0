# SPDX-License-Identifier: Apache-2.0
"""Ends half messages (END_TRANSACTION), from the driver that decided them; those that are too old are left to the broker's check-back.

RocketMQ has no batch of ENDs: each is a request, written from a template, with many in flight. Half messages of one queue that rows
were bound to are ended in the order of the task's rows; when one is left to the check-back, those after it are, too. An END without a
successful answer is not sent again: if it did not arrive, the broker checks.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Final

import msgspec

from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.core.transactions.decision_ledger import can_end_directly
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import RocketMQError
from sprocketmq.spark.transactions.half_messages import HalfMessage, HalfPositions
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.end_frames import EndTransactionTemplate
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers import EndTransactionRequestHeader

# Few enough that a request arrives within the margin of can_end_directly.
_IN_FLIGHT: Final = 256
_TIMEOUT_MS: Final = 3_000


async def end_half_messages(
    cluster: Cluster,
    address: str,
    group: str,
    positions: HalfPositions,
    state: LocalTransactionState,
    direct_end_window_ms: int | None,
) -> list[HalfMessage]:
    """``direct_end_window_ms``: core.transactions.decision_ledger; None for any age (a repeated rollback does no harm). Returns those that
    are left to the broker's check-back."""
    header = EndTransactionRequestHeader(
        producer_group=group,
        tran_state_table_offset=0,
        commit_log_offset=0,
        commit_or_rollback=state.sys_flag,
        msg_id=positions.broker_name,
        topic=positions.topic,
        bname=positions.broker_name,
    )
    ends = _EndSender(cluster, address, header, direct_end_window_ms)
    halves = list(positions)
    if positions.in_order:
        for at, half in enumerate(halves):
            if not await _is_acknowledged(ends.begin(half)):
                return halves[at:]
        return []
    left: list[HalfMessage] = []
    flight: deque[tuple[HalfMessage, asyncio.Future[Any] | None]] = deque()
    for half in halves:
        if len(flight) >= _IN_FLIGHT:
            first, answer = flight.popleft()
            if not await _is_acknowledged(answer):
                left.append(first)
        flight.append((half, ends.begin(half)))
    return left + [half for half, answer in flight if not await _is_acknowledged(answer)]


class _EndSender:
    """Sends the ENDs for half messages of one queue or broker; ``header`` lacks only the two offsets."""

    def __init__(
        self, cluster: Cluster, address: str, header: EndTransactionRequestHeader, direct_end_window_ms: int | None
    ) -> None:
        self._cluster, self._address, self._header, self._direct_end_window_ms = (
            cluster,
            address,
            header,
            direct_end_window_ms,
        )
        self._template = EndTransactionTemplate(header)

    def begin(self, half: HalfMessage) -> asyncio.Future[Any] | None:
        """Send the END of ``half``; None if it is too old."""
        if self._direct_end_window_ms is not None and not can_end_directly(
            time.time_ns() // 1_000_000 - half.sent_ms, self._direct_end_window_ms
        ):
            return None
        pool = self._cluster.pool
        connection = pool.open_connection(self._address) if pool.is_plain else None
        if connection is None:
            return asyncio.ensure_future(self._by_command(half))
        opaque = connection.next_opaque()
        frame = self._template.frame(opaque, half.queue_offset, half.commit_log_offset)
        return connection.start_send(opaque, frame, RequestCode.END_TRANSACTION, _TIMEOUT_MS)

    async def _by_command(self, half: HalfMessage) -> Command:
        header = msgspec.structs.replace(
            self._header, tran_state_table_offset=half.queue_offset, commit_log_offset=half.commit_log_offset
        )
        command = requests.messages.END_TRANSACTION.command(header)
        return await self._cluster.invoke(self._address, command, _TIMEOUT_MS)


async def _is_acknowledged(answer: asyncio.Future[Any] | None) -> bool:
    if answer is None:
        return False
    try:
        return bool((await answer).code == ResponseCode.SUCCESS)
    except RocketMQError:
        return False
