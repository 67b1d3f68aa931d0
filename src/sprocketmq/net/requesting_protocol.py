# SPDX-License-Identifier: Apache-2.0
"""The requests that one side of a connection sends, their answers, and what is written (Java: NettyRemotingAbstract.responseTable).

1. Requests of one turn of the loop leave together, up to _GATHERED_REQUEST_BYTES. A request leaves at once if no other is in flight.
   Nothing that is written later overtakes them.
2. Each request in flight ends once: with its answer, its timeout, ConnectionLost, or ``forget``.
3. While the peer does not read, callers of ``invoke`` wait in line, each until its own deadline. ``start_invoke`` writes all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from sprocketmq.errors import ConnectionLost, RequestTimeout
from sprocketmq.net.bounded_protocol import BoundedProtocol
from sprocketmq.net.output.queued_bytes import QueuedBytes
from sprocketmq.net.output.write_pieces import write_pieces
from sprocketmq.net.waiting_requests import WaitingRequests
from sprocketmq.wire.codes import RequestCode, request_name
from sprocketmq.wire.frames.command import Command, encode_command
from sprocketmq.wire.frames.frame import FrameDecoder
from sprocketmq.wire.send_frames import StoredAnswer, read_stored_answer

log = logging.getLogger("sprocketmq.net")

# A write costs some 15 us with the wakening of the peer. Larger groups would save little more, and keep the peer idle meanwhile.
_GATHERED_REQUEST_BYTES: Final = 16 * 1024
_LONG_MS: Final = 86_400_000
_LONG_POLLS: Final = frozenset((RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE))
_ONEWAY_TIMEOUT_MS: Final = 15_000  # of waiting for a peer that does not read


class RequestingProtocol(BoundedProtocol):
    """The part of a Connection that sends requests, and that writes. ``signer`` adds fields and the signature of access control to each
    Command of this side. ``read_bytes``, ``written_bytes``: of all frames so far; what the peer has written and this side has not read
    is under way."""

    __slots__ = (
        "_opaque", "_out", "_out_bytes", "_requests", "_requests_bytes", "_waiting", "read_bytes", "signer", "written_bytes",
    )  # fmt: skip

    def __init__(self, queued: QueuedBytes, decoder: FrameDecoder, *, is_served: bool) -> None:
        super().__init__(queued, decoder, is_served=is_served)
        self._waiting: WaitingRequests  # set in connection_made, before the first request
        self._requests: list[bytes] = []  # requests that wait for the others of this turn of the loop
        self._requests_bytes = 0
        self._opaque = 0
        self._out: list[Any] | None = None  # answers gathered, mostly while a read is handled
        self._out_bytes = 0
        self.signer: Callable[[Command], None] | None = None
        self.read_bytes = self.written_bytes = 0

    def _begin(self, transport: asyncio.Transport) -> None:
        super()._begin(transport)
        assert self._loop is not None
        self._waiting = WaitingRequests(self._loop, self.remote_address)

    @property
    def in_flight(self) -> int:
        return 0 if self._transport is None else len(self._waiting)

    @property
    def awaits_answer(self) -> bool:
        """Whether a request is in flight that the peer answers as soon as it can. A pull may wait at the broker."""
        return self._transport is not None and self._waiting.has_others_than(_LONG_POLLS)

    def start_invoke(self, command: Command, timeout_ms: int = _LONG_MS) -> asyncio.Future[Command]:
        """Write the request in this turn of the loop, even to a peer that does not read, and return the future of its answer."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionLost(f"the connection to {self.remote_address} is closed", self.remote_address)
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        command.opaque = opaque
        if self.signer is not None:
            self.signer(command)
        frame = encode_command(command)
        future = self._waiting.add(opaque, command.code, timeout_ms)
        self._write_request(frame, 1)
        return future

    def next_opaque(self) -> int:
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        return opaque

    def start_send(
        self, opaque: int, frame: bytes, code: int, timeout_ms: int
    ) -> asyncio.Future[StoredAnswer | Command]:
        """Like ``start_invoke``, for an encoded frame, which has what ``signer`` adds. Only while ``takes_frames``. A caller that stops
        waiting calls ``forget``."""
        future = self._waiting.add(opaque, code, timeout_ms, True)
        self._write_request(frame, 1)
        return future

    @property
    def takes_frames(self) -> bool:
        """Whether an encoded frame can be written now: the peer reads, and no other request waits for that."""
        transport = self._transport
        return (
            transport is not None
            and not self.is_congested
            and self._turns.is_idle  # no caller waits for its turn
            and not transport.is_closing()
        )

    def forget(self, opaque: int) -> None:
        self._waiting.forget(opaque)

    def read_stored(self, data: memoryview, at: int, stop: int) -> bool:
        """Read the answer to a send; an AnswerReader. False: the frame is not such an answer."""
        answer = read_stored_answer(data, at, stop)
        return answer is not None and self._waiting.answer_stored(answer)

    async def invoke(self, command: Command, timeout_ms: int) -> Command:
        """Send a request and wait for its answer. Raises RequestTimeout (also if the peer did not read so long that nothing was sent),
        ConnectionLost."""
        if self.is_congested or not self._turns.is_idle:
            timeout_ms = await self._wait_for_turn(command.code, timeout_ms)
            try:
                future = self.start_invoke(command, timeout_ms)
            finally:
                self._turns.pass_on(room=not self.is_congested)
        else:
            future = self.start_invoke(command, timeout_ms)
        try:
            return await future
        except BaseException:
            self._waiting.forget(command.opaque)
            raise
        finally:
            del future  # it holds the error, whose traceback holds this frame

    async def invoke_oneway(self, command: Command, timeout_ms: int = _ONEWAY_TIMEOUT_MS) -> None:
        """Write a request that gets no answer. Raises RequestTimeout: the peer did not read for ``timeout_ms``, nothing was sent.
        ConnectionLost."""
        if self.is_congested or not self._turns.is_idle:
            await self._wait_for_turn(command.code, timeout_ms)
            try:
                self._write_oneway(command)
            finally:
                self._turns.pass_on(room=not self.is_congested)
        else:
            self._write_oneway(command)

    def _write_oneway(self, command: Command) -> None:
        if self.is_closed:
            raise ConnectionLost(f"the connection to {self.remote_address} is closed", self.remote_address)
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        command.opaque = self._opaque
        command.flag |= 2
        if self.signer is not None:
            self.signer(command)
        self._write_request(encode_command(command), 0)

    async def _wait_for_turn(self, code: int, timeout_ms: int) -> int:
        """Wait until more may be written; returns the remaining time in ms."""
        began_s = self.now_s()
        if not await self._turns.take(timeout_ms):
            sentence = f"{self.remote_address} did not read for {timeout_ms} ms, so {request_name(code)} was not sent"
            raise RequestTimeout(sentence, self.remote_address, timeout_ms)
        return max(1, timeout_ms - int((self.now_s() - began_s) * 1000))

    def _write_request(self, frame: bytes, own: int) -> None:
        """Write a request: now when nothing else is in flight, otherwise with the others of this turn of the loop. ``own``: how
        many of the requests that wait are this one itself: 1, or 0 when it gets no answer."""
        if self._out is not None:
            self._out.append(frame)
            return
        requests = self._requests
        if not requests:
            if self._loop is None or len(self._waiting) == own:
                self._write([frame])
                return
            self._requests_bytes = 0
            self._loop.call_soon(self._write_requests)
        requests.append(frame)
        self._requests_bytes += len(frame)
        if self._requests_bytes >= _GATHERED_REQUEST_BYTES:
            self._write_requests()

    def _write_requests(self) -> None:
        if self._requests:
            requests, self._requests = self._requests, []
            self._write(requests)

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def send_raw(self, chunks: list[Any]) -> None:
        if self._out is not None:
            self._out.extend(chunks)
        elif self._transport is not None:
            self._write(chunks)

    def gather(self) -> bool:
        """Keep what is sent from now on for ``write_gathered``, in the same turn of the loop; False: another caller gathers already."""
        if self._out is not None:
            return False
        self._out = []
        return True

    def write_gathered(self) -> None:
        out, self._out = self._out, None
        if out:
            self._write(out)

    def _write(self, chunks: list[Any]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._requests:  # earlier requests must not be overtaken
            chunks = [*self._requests, *chunks]
            self._requests = []
        if self.backs_up:
            self._backlog_bytes += sum(map(len, chunks))
        if len(chunks) == 1:
            self.written_bytes += len(chunks[0])
            self._transport.write(chunks[0])
        else:
            self.written_bytes += sum(map(len, chunks))
            write_pieces(self._transport, chunks, self._counted_bytes, is_paused=self.backs_up)
        if self.backs_up:
            self._check_unsent()

    def _resolve(self, command: Command) -> None:
        if not self._waiting.answer(command.opaque, command):
            log.debug("late or unknown answer %d from %s dropped", command.opaque, self.remote_address)
