"""The bytes that one server (all its ports) or one client keeps for its peers: the driver of core.buffer_budget.

What is counted, of each connection: what waits to be written once it is more than ``COUNTED_OUT_BYTES``; the part of a frame that has
arrived, requests that were read and wait, and requests that are being worked on, once they are more than ``COUNTED_IN_BYTES`` together.
Below these figures nothing is noted: a connection whose peer reads, and whose frames arrive in full, costs this nothing.

Laws
1. Over ``limit_bytes`` connections are closed, those first whose peers keep the most for the longest (core.buffer_budget). The figures are
   looked up anew before: nobody is closed for bytes that left meanwhile.
2. A connection that holds more than ``most_out_bytes`` is closed, whatever the others hold: what is written to a peer in answer to its
   requests stops at ``high_water_bytes``, so this is a peer that lets others fill its queue, and does not read.
3. Each closing is counted, and told in the log at most once a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

from sprocketmq.core.buffer_budget import BufferBudget
from sprocketmq.net.rate_limited_log import RateLimitedLog

__all__ = ["COUNTED_IN_BYTES", "COUNTED_OUT_BYTES", "HIGH_WATER_BYTES", "Holder", "QueuedBytes"]

log = logging.getLogger("sprocketmq.net")

COUNTED_OUT_BYTES: Final = 64 * 1024  # netty's own high-water mark
COUNTED_IN_BYTES: Final = 16 * 1024
HIGH_WATER_BYTES: Final = 4 * 1024 * 1024
_SHARE_S: Final = 0.01
_LEAST_SHARE_S: Final = 0.0005
_LIMIT_BYTES: Final = 512 * 1024 * 1024
_ANSWER_BYTES: Final = 16 * 1024 * 1024  # the largest frame that a peer takes


class Holder(Protocol):
    """A connection, of the remoting protocol or of replication."""

    remote_address: str
    now_s: Callable[[], float]

    def queued_bytes(self) -> tuple[int, int]:
        """In and out, at this moment."""

    def abort(self) -> None: ...


class QueuedBytes:
    """Belongs to one loop.

    Args:
        limit_bytes: of all connections together, both directions.
        high_water_bytes: so much may wait to be written to one peer before its requests wait (writeBufferHighWaterMark).
    """

    def __init__(self, limit_bytes: int = _LIMIT_BYTES, high_water_bytes: int = HIGH_WATER_BYTES) -> None:
        self.high_water_bytes = high_water_bytes
        self.most_out_bytes = high_water_bytes + _ANSWER_BYTES
        # Of connections that have requests left, and wait for their next share of the loop.
        self._sharers: deque[Callable[[], None]] = deque()
        self._is_sharing = False
        self.share_s = _SHARE_S
        """How much of a turn of the loop the requests of one connection may take: each read asks."""
        self._budget: BufferBudget[Holder] = BufferBudget(limit_bytes)
        self._closed = RateLimitedLog(log)

    @property
    def limit_bytes(self) -> int:
        return self._budget.limit_bytes

    @property
    def in_bytes(self) -> int:
        return self._budget.in_bytes

    @property
    def out_bytes(self) -> int:
        return self._budget.out_bytes

    @property
    def closed_connections(self) -> int:
        """How many were closed by the laws 1 and 2."""
        return self._closed.count

    def wait_for_share(self, go_on: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Call ``go_on`` when it is its turn: all who wait have as much of a turn of the loop together as one alone would have."""
        self._sharers.append(go_on)
        self._set_share()
        if len(self._sharers) == 1 and not self._is_sharing:
            loop.call_soon(self._share_out, loop)

    def _share_out(self, loop: asyncio.AbstractEventLoop) -> None:
        ends_s, self._is_sharing = perf_counter() + _SHARE_S, True
        try:
            for _ in range(len(self._sharers)):  # who has still something left comes to the end of the row
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
        """The connection holds so much now; may close others, and this one."""
        self._budget.note(holder, in_bytes, out_bytes, now_s)
        if self._budget.is_over:
            self._relieve(now_s)

    def discard(self, holder: Holder) -> None:
        """The connection is gone."""
        self._budget.discard(holder)

    def close_deaf(self, holder: Holder, out_bytes: int, now_s: float) -> None:
        """Law 2."""
        sentence = "%s does not read: %d bytes wait for it, %d are allowed (writeBufferHighWaterMark and one frame); it is closed"
        self._closed.log(now_s, sentence, holder.remote_address, out_bytes, self.most_out_bytes)
        self._close(holder)

    def look_again(self) -> None:
        """Take the figures of all connections anew."""
        for holder in self._budget.holders:
            self._budget.note(holder, *holder.queued_bytes(), holder.now_s())

    def _relieve(self, now_s: float) -> None:
        self.look_again()
        sentence = "%d bytes are queued for peers and from them, %d are allowed (maxQueuedBytes); %s is closed, it keeps %d of them"
        total_bytes = self._budget.total_bytes
        for holder in self._budget.victims(now_s):
            kept = self._budget.bytes_of(holder)
            self._closed.log(now_s, sentence, total_bytes, self.limit_bytes, holder.remote_address, kept)
            self._close(holder)

    def _close(self, holder: Holder) -> None:
        self._budget.discard(holder)  # at once: its end comes in a later turn of the loop
        holder.abort()
