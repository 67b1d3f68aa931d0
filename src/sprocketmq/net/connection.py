"""One TCP connection that speaks the remoting protocol in both directions (Java: NettyRemotingAbstract).

Both sides may ask: a response is told from a request by flag bit 0 alone, and each side counts its own opaques, so the same number can be
in flight both ways. Requests from the peer go to ``handler(connection, command)``, called on the loop, once per frame, in order: it returns
the response, or None when there is none (one-way) or not yet (parked; answer later with ``send``).

Laws
1. Everything a read brought is handled before anything is written; answers of one read leave in one write (one system call).
2. Whatever the connection dies of, every request in flight fails with ConnectionLost, once.
3. Bytes that break the protocol close this connection and nothing else.
4. While the peer does not read, the handler is not fed either: above the high-water mark reading pauses (bounded memory per connection).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from sprocketmq.errors import ConnectionLost, ProtocolError, RequestTimeout, RocketMQError
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.command import Command, encode_command, encode_head, response
from sprocketmq.wire.frame import MAX_FRAME_BYTES, FrameDecoder

__all__ = ["Connection", "RequestHandler"]

log = logging.getLogger("sprocketmq.net")

RequestHandler = Callable[["Connection", Command], "Command | None"]

_HIGH_WATER_BYTES: Final = 4 * 1024 * 1024


class Connection(asyncio.Protocol):
    """Protocol object of one connection; made by ConnectionPool (client side) or Server (server side).

    Attributes: ``remote_address`` and ``local_address`` (``ip:port``), ``state`` (a dict for the owner's notes, such as the client id seen
    in a heartbeat), ``is_closed``.
    """

    def __init__(
        self,
        handler: RequestHandler | None = None,
        on_open: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self._handler = handler
        self._on_open, self._on_close = on_open, on_close
        self._decoder = FrameDecoder(max_frame_bytes)
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._opaque = 0
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._out: list[Any] | None = None  # answers gathered while a read is handled (law 1)
        self._drained: asyncio.Event | None = None
        self.remote_address = ""
        self.local_address = ""
        self.peer: tuple[str, int] = ("", 0)
        self.state: dict[str, Any] = {}
        self.last_read_s = 0.0

    # -- asyncio.Protocol ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is an asyncio.Transport by behaviour, not by class.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self.last_read_s = self._loop.time()
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self.peer = tuple((transport.get_extra_info("peername") or ("", 0))[:2])
        self.remote_address = _address(self.peer)
        self.local_address = _address(tuple((transport.get_extra_info("sockname") or ("", 0))[:2]))
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        assert self._loop is not None
        self.last_read_s = self._loop.time()
        try:
            commands = self._decoder.feed(data)
        except ProtocolError as error:
            log.warning("closing the connection to %s: %s", self.remote_address, error)
            self.close()
            return
        if not commands:
            return
        out: list[Any] = []
        self._out = out
        try:
            for command in commands:
                if command.flag & 1:
                    self._resolve(command)
                else:
                    self._handle(command)
        finally:
            self._out = None
            if out:
                self._write(out)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(
                    ConnectionLost(
                        f"the connection to {self.remote_address} broke: {exc or 'closed'}", self.remote_address
                    )
                )
        if self._drained is not None:
            self._drained.set()
        if self._on_close is not None:
            self._on_close(self)

    def pause_writing(self) -> None:
        self._drained = asyncio.Event()
        if self._transport is not None and self._handler is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None
        if self._transport is not None and self._handler is not None:
            self._transport.resume_reading()

    # -- asking ----------------------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def start_invoke(self, command: Command) -> asyncio.Future[Command]:
        """Write the request now and return the future of its answer, without a timeout: the caller bounds the wait."""
        if self._transport is None or self._loop is None or self._transport.is_closing():
            raise ConnectionLost(f"the connection to {self.remote_address} is closed", self.remote_address)
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        command.opaque = opaque
        future: asyncio.Future[Command] = self._loop.create_future()
        self._waiting[opaque] = future
        self.send(command)
        return future

    async def invoke(self, command: Command, timeout_ms: int) -> Command:
        """Send a request and wait for its answer.

        Raises:
            RequestTimeout: no answer within ``timeout_ms``.
            ConnectionLost: the connection is closed, or broke meanwhile.
        """
        if self._drained is not None:
            await self._drained.wait()
        future = self.start_invoke(command)
        opaque = command.opaque
        try:
            async with (
                asyncio.timeout(timeout_ms / 1000) if hasattr(asyncio, "timeout") else _Timeout(timeout_ms / 1000)
            ):
                return await future
        except TimeoutError as error:
            raise RequestTimeout(
                f"{self.remote_address} did not answer request code {command.code} within {timeout_ms} ms",
                self.remote_address,
                timeout_ms,
            ) from error
        finally:
            self._waiting.pop(opaque, None)

    async def invoke_oneway(self, command: Command) -> None:
        """Write a request that gets no answer; waits only while the peer does not read."""
        if self._drained is not None:
            await self._drained.wait()
        if self.is_closed:
            raise ConnectionLost(f"the connection to {self.remote_address} is closed", self.remote_address)
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        command.opaque = self._opaque
        command.flag |= 2
        self.send(command)

    # -- answering -------------------------------------------------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Write a command as it is (a late answer, a push). Silently nothing when closed: the peer is gone and has its own timeout."""
        self.send_raw([encode_command(command)])

    def send_with_body(self, command: Command, body: Iterable[Any], body_bytes: int) -> None:
        """Like ``send`` with a body in pieces (views of the commit log), which go to the socket without being joined first."""
        self.send_raw([encode_head(command, body_bytes), *body])

    def send_raw(self, chunks: list[Any]) -> None:
        if self._out is not None:
            self._out.extend(chunks)
        elif self._transport is not None:
            self._write(chunks)

    def close(self) -> None:
        """Close after what was written went out; requests in flight fail with ConnectionLost."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _write(self, chunks: list[Any]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        else:
            self._transport.writelines(chunks)

    def _resolve(self, command: Command) -> None:
        future = self._waiting.pop(command.opaque, None)
        if future is not None and not future.done():
            future.set_result(command)
        elif future is None:
            log.debug("late or unknown answer %d from %s dropped", command.opaque, self.remote_address)

    def _handle(self, command: Command) -> None:
        if self._handler is None:
            answer: Command | None = response(
                command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request code {command.code} is not served here"
            )
        else:
            try:
                answer = self._handler(self, command)
            except RocketMQError as error:
                answer = response(command, getattr(error, "code", ResponseCode.SYSTEM_ERROR), str(error))
            except Exception as error:  # law 3's twin: a bug in one handler costs one answer, never the server
                log.exception("request code %d from %s failed", command.code, self.remote_address)
                answer = response(command, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if answer is not None and not command.is_oneway:
            self.send(answer)


class _Timeout:
    """asyncio.timeout for Python 3.10, where it does not exist: cancels the task, turns that into TimeoutError."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._expired = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None

        def expire() -> None:
            self._expired = True
            task.cancel()

        self._handle = asyncio.get_running_loop().call_later(self._delay_s, expire)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._handle.cancel()
        if self._expired and kind is asyncio.CancelledError:
            raise TimeoutError from error


def _address(peer: tuple[Any, ...]) -> str:
    host, port = peer[0], peer[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
