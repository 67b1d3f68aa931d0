# SPDX-License-Identifier: Apache-2.0
"""Limits for the bytes that one connection keeps in memory: bytes from its peer and bytes for its peer.

1. A server stops reading from a peer, and handling frames that it has read, while ``is_congested``, or while more than the high-water mark
   is held. It continues when the peer has read nearly everything, or when requests have ended. A client always reads.
2. Messages that the peer did not request are dropped while it is congested (``push``), and of notices that repeat each other only the last
   one waits (``push_newest``), so other peers cannot fill its queue.
3. All of these bytes are counted in ``net.output.queued_bytes``, which limits the sum over all connections. Bytes that are held for the
   requests of a peer that has disconnected are counted until they are released.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final

from sprocketmq.net.output.queued_bytes import COUNTED_IN_BYTES, COUNTED_OUT_BYTES, QueuedBytes
from sprocketmq.net.output.write_turns import WriteTurns
from sprocketmq.wire.frames.frame import FrameDecoder, Span

TLS_BUFFER_BYTES: Final = 512 * 1024
"""What asyncio and uvloop keep for a connection over TLS: encrypted bytes that were read, and OpenSSL's input (256 KiB each)."""
_MOST_KINDS: Final = 4096  # notices of further kinds are dropped, like pushes


class BoundedProtocol(asyncio.Protocol):
    """The part of a Connection that limits its memory. ``backs_up``: some bytes wait because the peer does not read.
    ``is_congested``: more bytes wait than should."""

    # Slots, because attribute access is slow for objects with more than thirty attributes, and each read uses about thirty.
    __slots__ = (
        "_backlog_bytes", "_backlogs", "_counted_bytes", "_decoder", "_held_bytes", "_is_aborted", "_is_served", "_is_stopped",
        "_long_answers", "_loop", "_most_out_bytes", "_newest", "_noted_held_bytes", "_noted_in", "_queued", "_tls_bytes", "_transport",
        "_turns", "_unhandled", "_when_writable", "backs_up", "is_congested", "now_s", "remote_address",
    )  # fmt: skip

    def __init__(self, queued: QueuedBytes, decoder: FrameDecoder, *, is_served: bool) -> None:
        self._queued, self._decoder = queued, decoder
        self._is_served = is_served  # made by a server, which stops reading from a peer that does not read
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tls_bytes = 0  # what the transport may keep besides
        self.now_s: Callable[[], float] = time.monotonic  # from connection_made on the loop's clock
        self.remote_address = ""
        self.backs_up = self.is_congested = False
        self._is_stopped = self._is_aborted = False  # reading is paused; is over
        self._long_answers = 0  # answers that are being made in steps, see pause
        self._unhandled: tuple[bytes, list[Span]] | None = None  # frames that were read and not handled
        self._held_bytes = self._most_out_bytes = 0
        self._noted_in = False
        self._noted_held_bytes = 0
        self._counted_bytes = min(COUNTED_OUT_BYTES, queued.high_water_bytes)  # more unsent bytes are counted
        self._turns = WriteTurns()  # of this side's requests
        self._when_writable: deque[Callable[[], object]] = deque()
        self._newest: dict[object, bytes] = {}  # waiting notices by kind
        self._backlogs = self._backlog_bytes = 0

    @abstractmethod
    def _serve(self, whole: bytes, spans: list[Span]) -> None: ...

    @abstractmethod
    def send_raw(self, chunks: list[bytes]) -> None:
        """Write."""

    def _begin(self, transport: asyncio.Transport) -> None:
        self._transport, self._loop = transport, asyncio.get_running_loop()
        self.now_s = self._loop.time
        transport.set_write_buffer_limits(high=self._counted_bytes)
        if transport.get_extra_info("sslcontext") is not None:
            self._tls_bytes = TLS_BUFFER_BYTES

    def _gone(self) -> None:
        self._transport = self._unhandled = None
        self._decoder = FrameDecoder()
        self.backs_up = self.is_congested = False
        self._when_writable.clear()
        self._newest.clear()
        self._queued.note(self, 0 if self._is_aborted else self._held_bytes, 0, self.now_s())
        self._turns.give_all()

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def is_served(self) -> bool:
        return self._is_served

    @property
    def is_gone(self) -> bool:
        """Whether the connection has ended completely; ``is_closed`` is true earlier, while bytes are still being sent."""
        return self._transport is None

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def backlog(self) -> tuple[int, int]:
        """How often the peer fell behind so far, and its unread bytes without those written since; the latter fall as the peer reads."""
        return self._backlogs, self.unsent_bytes - self._backlog_bytes

    def when_writable(self, call: Callable[[], object]) -> None:
        """Call a function now, or when the peer has read enough for further writes; never after the connection is closed."""
        if not self.backs_up:
            call()
        elif self._transport is not None:
            self._when_writable.append(call)

    def push_newest(self, kind: object, frame: bytes) -> None:
        """Write a notice that replaces earlier ones of its kind while the peer does not read."""
        if not self.backs_up:
            self.send_raw([frame])
        elif not self.is_closed and (kind in self._newest or len(self._newest) < _MOST_KINDS):
            self._newest[kind] = frame

    def _keep_unhandled(self, whole: bytes, spans: list[Span]) -> None:
        if self._unhandled is not None:
            first, kept = self._unhandled
            moved = len(first)
            whole, spans = first + whole, kept + [(at + moved, stop + moved, word) for at, stop, word in spans]
        self._unhandled = None if self._is_aborted else (whole, spans)
        self._note()

    def pause_writing(self) -> None:
        self.backs_up = True
        self._backlogs += 1
        self._backlog_bytes = 0
        if self._loop is not None:  # _write checks by itself; but TLS also writes at other times
            self._loop.call_soon(self._check_unsent)

    def resume_writing(self) -> None:
        self.backs_up = self.is_congested = False
        self._note()
        self._resume()
        while self._newest and not self.backs_up:
            self.send_raw([self._newest.pop(next(iter(self._newest)))])
        while self._when_writable and not self.backs_up:
            self._when_writable.popleft()()
        if not self.is_congested:
            self._turns.give()

    def _check_unsent(self) -> None:
        unsent_bytes, queued = self.unsent_bytes, self._queued
        if not self.backs_up or self._is_aborted:
            return
        if self.is_congested and unsent_bytes > self._most_out_bytes:
            queued.close_slow_reader(self, unsent_bytes)
            return
        if unsent_bytes > queued.high_water_bytes and not self.is_congested:
            self.is_congested = True
            self._most_out_bytes = max(queued.most_out_bytes, unsent_bytes)  # a single answer is always allowed
            self._stop()
        self._note()

    def _stop(self) -> None:
        if self._is_served and not self._is_stopped:
            self._is_stopped = True
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()

    def _resume(self) -> None:
        """Handle the frames that wait, and read again, unless too many bytes are kept still or again."""
        if not self._is_stopped or self._is_aborted:
            return
        if self._long_answers or self.is_congested or self.holds_much:
            return
        self._is_stopped = False
        if self._unhandled is not None:
            unhandled, self._unhandled = self._unhandled, None
            self._serve(*unhandled)
            self._note()
        if not self._is_stopped and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _note(self) -> None:
        if self._is_aborted or self._transport is None:
            return
        in_bytes, out_bytes = self.queued_bytes()
        self._noted_in, self._noted_held_bytes = in_bytes > 0, self._held_bytes
        self._queued.note(self, in_bytes, out_bytes, self.now_s())

    def queued_bytes(self) -> tuple[int, int]:
        """The bytes that are kept from this peer and for it, without small amounts."""
        in_bytes = (
            self._decoder.pending_bytes + self._held_bytes + (0 if self._unhandled is None else len(self._unhandled[0]))
        )
        return (
            in_bytes + self._tls_bytes if in_bytes >= COUNTED_IN_BYTES else 0,
            self.unsent_bytes if self.backs_up else 0,
        )

    @property
    def holds_much(self) -> bool:
        """Whether too many bytes of its requests are in work; a server then pauses, a client refuses requests."""
        return self._held_bytes > self._queued.high_water_bytes

    def hold(self, request_bytes: int) -> None:
        """Count the bytes of a request that is kept until its answer can be made. Call ``release`` then, also after a failure."""
        self._held_bytes = held_bytes = self._held_bytes + request_bytes
        # As holds_much, without a call for each answer that waits for the disk.
        if held_bytes > self._queued.high_water_bytes:
            self._stop()
        if held_bytes - self._noted_held_bytes >= COUNTED_IN_BYTES:
            self._note()

    def pause(self) -> None:
        """Handle no further request of this peer until ``unpause``, because the answer to one is being made in steps."""
        self._long_answers += 1
        self._stop()

    def unpause(self) -> None:
        self._long_answers -= 1
        if self._loop is not None:
            self._loop.call_soon(self._resume)

    def release(self, request_bytes: int) -> None:
        self._held_bytes -= request_bytes
        if self._transport is None:
            self._queued.note(self, 0 if self._is_aborted else self._held_bytes, 0, self.now_s())
        elif self._noted_in and (not self._held_bytes or self._noted_held_bytes - self._held_bytes >= COUNTED_IN_BYTES):
            self._note()
        if self._is_stopped and self._loop is not None:
            self._loop.call_soon(self._resume)  # later, because release may be called while a read is being handled

    def abort(self) -> None:
        """Close at once; unsent bytes are lost, and nothing is kept."""
        self._is_aborted = self._is_stopped = True
        self._unhandled = None
        if self._transport is not None:
            self._transport.abort()
