# SPDX-License-Identifier: Apache-2.0
"""Counts the bytes that one server (on all its ports) or one client keeps for its peers: the driver of core.buffer_budget. Counted for each
connection: unsent bytes above ``COUNTED_OUT_BYTES``; and the arrived part of a frame, requests that wait, and requests in work, above
``COUNTED_IN_BYTES`` together. So there is no work for a connection whose peer reads and whose frames arrive in full.

1. Above ``limit_bytes`` connections are closed, beginning with those that have kept the most for the longest (core.buffer_budget). The
   figures are updated before that, so that no connection is closed for bytes that were sent meanwhile.
2. A connection with more than ``most_out_bytes`` unsent bytes is closed in any case. Answers to a peer's own requests stop at
   ``high_water_bytes``, so others have filled the queue of a peer that does not read.
3. Each closed connection is counted, and logged at most once a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

from sprocketmq.core.buffer_budget import BufferBudget
from sprocketmq.troubles import Troubles

log = logging.getLogger("sprocketmq.net")

COUNTED_OUT_BYTES: Final = 64 * 1024  # netty's own high-water mark
COUNTED_IN_BYTES: Final = 16 * 1024
HIGH_WATER_BYTES: Final = 4 * 1024 * 1024
_SHARE_S: Final = 0.01
_LEAST_SHARE_S: Final = 0.0005
_LIMIT_BYTES: Final = 512 * 1024 * 1024
_ANSWER_BYTES: Final = 16 * 1024 * 1024  # the largest frame that a peer accepts


class Holder(Protocol):
    """A connection, of the remoting protocol or of replication."""

    remote_address: str
    now_s: Callable[[], float]

    def queued_bytes(self) -> tuple[int, int]:
        """Incoming and outgoing bytes at this moment."""

    def abort(self) -> None: ...


class QueuedBytes:
    """The counter. It belongs to one loop. ``limit_bytes``: of all connections together, both directions. ``high_water_bytes``:
    limit of unsent bytes for one peer, above which its requests wait (writeBufferHighWaterMark)."""

    def __init__(
        self,
        limit_bytes: int = _LIMIT_BYTES,
        high_water_bytes: int = HIGH_WATER_BYTES,
        troubles: Troubles | None = None,
    ) -> None:
        self.troubles = troubles or Troubles(log)
        """Of the connections that share this counter."""
        self.high_water_bytes = high_water_bytes
        self.most_out_bytes = high_water_bytes + _ANSWER_BYTES
        # Connections that have requests left and wait for their next share of the loop.
        self._sharers: deque[Callable[[], None]] = deque()
        self._is_sharing = False
        self.share_s = _SHARE_S
        """How much of a turn of the loop the requests of one connection may take; each read uses it."""
        self._budget: BufferBudget[Holder] = BufferBudget(limit_bytes)
        self.closed_connections = 0

    @property
    def limit_bytes(self) -> int:
        return self._budget.limit_bytes

    @property
    def in_bytes(self) -> int:
        return self._budget.in_bytes

    @property
    def out_bytes(self) -> int:
        return self._budget.out_bytes

    def wait_for_share(self, go_on: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Call ``go_on`` when it is its turn. All that wait share the part of a turn that a single one would have."""
        self._sharers.append(go_on)
        self._set_share()
        if len(self._sharers) == 1 and not self._is_sharing:
            loop.call_soon(self._share_out, loop)

    def _share_out(self, loop: asyncio.AbstractEventLoop) -> None:
        ends_s, self._is_sharing = perf_counter() + _SHARE_S, True
        try:
            for _ in range(len(self._sharers)):  # a connection with requests left goes to the end
                go_on = self._sharers.popleft()
                self._set_share()
                go_on()
                if perf_counter() >= ends_s:
                    break
        finally:
            self._is_sharing = False
            if self._sharers:
                loop.call_soon(self._share_out, loop)

    def _set_share(self) -> None:
        self.share_s = max(_LEAST_SHARE_S, _SHARE_S / (1 + len(self._sharers)))

    def note(self, holder: Holder, in_bytes: int, out_bytes: int, now_s: float) -> None:
        self._budget.note(holder, in_bytes, out_bytes, now_s)
        if self._budget.is_over:
            self._relieve(now_s)

    def discard(self, holder: Holder) -> None:
        self._budget.discard(holder)

    def close_slow_reader(self, holder: Holder, out_bytes: int) -> None:
        """Close a connection whose peer does not read and whose unsent bytes are over the limit."""
        sentence = "%s does not read: %d bytes wait for it, %d are allowed (writeBufferHighWaterMark and one frame); it is closed"
        address = holder.remote_address
        self.troubles.failed("slow readers", sentence, address, out_bytes, self.most_out_bytes, of=address)
        self._close(holder)

    def refresh(self) -> None:
        for holder in self._budget.holders:
            self._budget.note(holder, *holder.queued_bytes(), holder.now_s())

    def _relieve(self, now_s: float) -> None:
        self.refresh()
        sentence = "%d bytes are queued for peers and from them, %d are allowed (maxQueuedBytes); %s is closed, it has %d of them"
        total_bytes = self._budget.total_bytes
        for holder in self._budget.victims(now_s):
            kept = self._budget.bytes_of(holder)
            address = holder.remote_address
            self.troubles.failed("queued bytes", sentence, total_bytes, self.limit_bytes, address, kept, of=address)
            self._close(holder)

    def _close(self, holder: Holder) -> None:
        self.closed_connections += 1
        self._budget.discard(holder)  # now, because the connection ends only in a later turn of the loop
        holder.abort()
