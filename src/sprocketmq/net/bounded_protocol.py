"""What one connection may keep of its peer's bytes, and for its peer, in memory.

    the peer does not read --> unsent bytes --> 64 KiB: counted, notices wait, the newest of each kind    (``backs_up``)
                                            --> high-water mark: its requests wait, pushes are dropped    (``is_congested``)
                                            --> and one frame more: closed
    its requests are being worked on --> held bytes --> high-water mark: its further requests wait

Laws
1. A server reads no more from a peer, and handles no more of what it has read, while ``is_congested``, or while more than the high-water
   mark is held. It goes on when the peer has read all but a little, or when requests have ended. A client always reads.
2. What the peer did not ask for is dropped while it is congested (``push``), and of notices that repeat each other one waits
   (``push_newest``): others cannot fill its queue. What fills it all the same closes it.
3. All of it is noted in ``net.output.queued_bytes``, where it has a limit together with that of all other connections. What is held of a
   peer that has gone stays noted until it is released.
4. After ``abort`` nothing is kept.
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

__all__ = ["BoundedProtocol"]

_MOST_KINDS: Final = 4096  # further notices are dropped, as pushes are


class BoundedProtocol(asyncio.Protocol):
    """The part of a Connection that bounds it.

    Attributes:
        backs_up: some bytes wait for the peer to read.
        is_congested: more than should.
    """

    # Beyond thirty attributes Python finds those of an object without slots the slow way: a read looks at thirty.
    __slots__ = (
        "_backlog_bytes", "_backlogs", "_counted_bytes", "_decoder", "_held_bytes", "_is_aborted", "_is_served", "_is_stopped",
        "_long_answers", "_loop", "_most_out_bytes", "_newest", "_noted_held_bytes", "_noted_in", "_queued", "_transport", "_turns",
        "_unread", "_when_writable", "backs_up", "is_congested", "now_s", "remote_address",
    )  # fmt: skip

    def __init__(self, queued: QueuedBytes, decoder: FrameDecoder, *, is_served: bool) -> None:
        self._queued, self._decoder = queued, decoder
        self._is_served = is_served  # made by a server, so that law 1 pauses it
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.now_s: Callable[[], float] = time.monotonic  # from connection_made on the loop's clock
        self.remote_address = ""
        self.backs_up = self.is_congested = False
        self._is_stopped = self._is_aborted = False  # reading pauses; for ever
        self._long_answers = 0  # that are being made, see pause
        self._unread: tuple[bytes, list[Span]] | None = None  # frames that were read and wait
        self._held_bytes = self._most_out_bytes = 0
        self._noted_in = False
        self._noted_held_bytes = 0
        self._counted_bytes = min(COUNTED_OUT_BYTES, queued.high_water_bytes)  # unsent bytes beyond are noted
        self._turns = WriteTurns()  # of this side's requests
        self._when_writable: deque[Callable[[], object]] = deque()
        self._newest: dict[object, bytes] = {}  # notices that wait, by their kinds
        self._backlogs = self._backlog_bytes = 0

    @abstractmethod
    def _serve(self, whole: bytes, spans: list[Span]) -> None:
        """Handle these frames, or keep them."""

    @abstractmethod
    def send_raw(self, chunks: list[bytes]) -> None:
        """Write."""

    def _begin(self, transport: asyncio.Transport) -> None:
        self._transport, self._loop = transport, asyncio.get_running_loop()
        self.now_s = self._loop.time
        transport.set_write_buffer_limits(high=self._counted_bytes)

    def _gone(self) -> None:
        self._transport = self._unread = None
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
        """Made by a server."""
        return self._is_served

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it is left; ``is_closed`` is so before, while bytes still go out."""
        return self._transport is None

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait to be written."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def backlog(self) -> tuple[int, int]:
        """How often the peer fell behind so far, and how much it has left unread, less what was written since: as it reads, that falls."""
        return self._backlogs, self.unsent_bytes - self._backlog_bytes

    def when_writable(self, call: Callable[[], object]) -> None:
        """Call it now, or when the peer has read enough for more to be written; never once the connection is closed."""
        if not self.backs_up:
            call()
        elif self._transport is not None:
            self._when_writable.append(call)

    def push_newest(self, kind: object, frame: bytes) -> None:
        """Write a notice of which the peer has to see the last one of its kind only: while it does not read one waits, not each of them."""
        if not self.backs_up:
            self.send_raw([frame])
        elif not self.is_closed and (kind in self._newest or len(self._newest) < _MOST_KINDS):
            self._newest[kind] = frame

    def _keep_unread(self, whole: bytes, spans: list[tuple[int, int]]) -> None:
        if self._unread is not None:
            first, kept = self._unread
            whole, spans = first + whole, kept + [(at + len(first), stop + len(first)) for at, stop in spans]
        self._unread = None if self._is_aborted else (whole, spans)
        self._note()

    def pause_writing(self) -> None:
        self.backs_up = True
        self._backlogs += 1
        self._backlog_bytes = 0
        if self._loop is not None:  # _write looks by itself; TLS writes at other moments, too
            self._loop.call_soon(self._look_at_unsent)

    def resume_writing(self) -> None:
        self.backs_up = self.is_congested = False
        self._note()
        self._go_on()
        while self._newest and not self.backs_up:
            self.send_raw([self._newest.pop(next(iter(self._newest)))])
        while self._when_writable and not self.backs_up:
            self._when_writable.popleft()()
        if not self.is_congested:
            self._turns.give()

    def _look_at_unsent(self) -> None:
        """More waits than should: note it, stop feeding the handler, and end what grows all the same (laws 1 and 2)."""
        unsent_bytes, queued = self.unsent_bytes, self._queued
        if not self.backs_up or self._is_aborted:
            return
        if self.is_congested and unsent_bytes > self._most_out_bytes:
            queued.close_deaf(self, unsent_bytes, self.now_s())
            return
        if unsent_bytes > queued.high_water_bytes and not self.is_congested:
            self.is_congested = True
            self._most_out_bytes = max(queued.most_out_bytes, unsent_bytes)  # one answer is never too long
            self._stop()
        self._note()

    def _stop(self) -> None:
        if self._is_served and not self._is_stopped:
            self._is_stopped = True
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()

    def _go_on(self) -> None:
        """Handle what waits, and read again, unless there is still, or again, too much."""
        if not self._is_stopped or self._is_aborted:
            return
        if self._long_answers or self.is_congested or self.holds_much:
            return
        self._is_stopped = False
        if self._unread is not None:
            unread, self._unread = self._unread, None
            self._serve(*unread)
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
        """What is kept from this peer and for it; small amounts count as nothing (see net.output.queued_bytes)."""
        in_bytes = (
            self._decoder.pending_bytes + self._held_bytes + (0 if self._unread is None else len(self._unread[0]))
        )
        return in_bytes if in_bytes >= COUNTED_IN_BYTES else 0, self.unsent_bytes if self.backs_up else 0

    @property
    def holds_much(self) -> bool:
        """Whether more of its requests than should be are being worked on; a server pauses then, a client refuses."""
        return self._held_bytes > self._queued.high_water_bytes

    def hold(self, request_bytes: int) -> None:
        """A request of so many bytes is kept until its answer can be made; ``release`` it then, also after a failure."""
        self._held_bytes += request_bytes
        if self.holds_much:
            self._stop()
        if self._held_bytes - self._noted_held_bytes >= COUNTED_IN_BYTES:
            self._note()

    def pause(self) -> None:
        """No further request of this peer is looked at until ``unpause``: the answer to one is being made in steps."""
        self._long_answers += 1
        self._stop()

    def unpause(self) -> None:
        self._long_answers -= 1
        if self._loop is not None:
            self._loop.call_soon(self._go_on)

    def release(self, request_bytes: int) -> None:
        self._held_bytes -= request_bytes
        if self._transport is None:
            self._queued.note(self, 0 if self._is_aborted else self._held_bytes, 0, self.now_s())
        elif self._noted_in and (not self._held_bytes or self._noted_held_bytes - self._held_bytes >= COUNTED_IN_BYTES):
            self._note()
        if self._is_stopped and self._loop is not None:
            self._loop.call_soon(self._go_on)  # not here: it may be called while a read is being handled

    def abort(self) -> None:
        """Close at once, unsent bytes are lost."""
        self._is_aborted = self._is_stopped = True
        self._unread = None
        if self._transport is not None:
            self._transport.abort()
