# SPDX-License-Identifier: Apache-2.0
"""Long polling: a pull behind the last message of each queue, which its broker answers when the next one comes
(PullRequestHoldService). It wakes a stream that waits for messages; what it brings is not used. If it fails, the stream's polls go on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Final

from sprocketmq.client.remoting.pulls import read_queue
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.errors import RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.wire.records.message import MessageQueue

_SUSPEND_MS: Final = 15_000
_ANSWER_MS: Final = 5_000
# Larger streams, and those of a broker that refuses, only poll.
_MOST_QUEUES: Final = 64
_AGAIN_S: Final = 30.0
# The pause after a message that is in no batch, which would wake the stream again at once.
_UNREAD_S: Final = 1.0


class ParkedPulls:
    """The parked pulls of one stream, in the name of ``group``. They end with the process, or after 15 s."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster, self._group = cluster, group
        self._came = threading.Event()
        self._parked: set[MessageQueue] = set()
        self._again_s = 0.0
        self._is_woken, self._woken_s = False, 0.0

    def park(self, ends: Mapping[MessageQueue, int]) -> None:
        if len(ends) > _MOST_QUEUES or self._cluster.behind_proxy or time.monotonic() < self._again_s:
            return
        if self._is_woken and time.monotonic() < self._woken_s + _UNREAD_S:
            return
        self._is_woken = False
        for queue, end in ends.items():
            if queue not in self._parked:
                self._parked.add(queue)
                self._cluster.engine.submit(self._pull(queue, end))

    def wait(self, seconds: float) -> bool:
        """Wait for a message, at most so long. Whether one came."""
        came = self._came.wait(seconds)
        self._came.clear()
        if came:
            self._is_woken, self._woken_s = True, time.monotonic()
        return came

    def planned(self) -> None:
        """Note that the message that came is in a batch now."""
        self._is_woken = False

    async def _pull(self, queue: MessageQueue, end: int) -> None:
        try:
            found = await read_queue(
                self._cluster, await self._cluster.master(queue.broker_name, queue.topic), self._group, queue, end, 1,
                timeout_ms=_SUSPEND_MS + _ANSWER_MS, suspend_ms=_SUSPEND_MS,
            )  # fmt: skip
        except (RocketMQError, asyncio.CancelledError):
            self._again_s = time.monotonic() + _AGAIN_S
        else:
            if found.status is PullStatus.FOUND:
                self._came.set()
            elif found.status is not PullStatus.NO_NEW_MSG:
                self._again_s = time.monotonic() + _AGAIN_S
        finally:
            self._parked.discard(queue)
