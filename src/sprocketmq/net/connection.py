# SPDX-License-Identifier: Apache-2.0
"""One TCP connection that speaks the remoting protocol in both directions (Java: NettyRemotingAbstract).

Both sides may send requests, and each counts its own opaques: flag bit 0 alone distinguishes a response. For each request of the peer, in
order, the loop calls ``handler(connection, command)``. It returns the response, or None if there is none (one-way) or not yet (the pull is
parked; answer later with ``send``).

1. All frames of one read are handled before anything is written, and their answers leave in one write (one system call).
2. When the connection ends, every request in flight fails with ConnectionLost, once.
3. Bytes that break the protocol close this connection and nothing else.
4. While the peer does not read, a server handles no more of its requests (``net.bounded_protocol``). The mark is checked after each answer,
   because one read may bring thousands of requests. A client always reads: if both sides stopped, each would wait for the other forever.
5. A server gives each read of a connection a share of the loop's time (``QueuedBytes.share_s``). Requests for which it was not enough wait
   until all other connections had their turn. The shares of those that wait add up to at most 10 ms of a turn. A single request that takes
   longer is not interrupted; see ``broker.chunked_work``.

Frequent commands are not decoded by ``decode_command`` but by the four bytes after ``{"code":`` (or the two of a binary header): a
server's ``readers`` decode a request directly into its typed header, a client's ``answer_readers`` read the answer to a send.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from sys import getsizeof
from time import perf_counter
from typing import Any, Final, Protocol, cast

from sprocketmq.errors import ConnectionLost, ProtocolError, RocketMQError, described
from sprocketmq.net.address import joined_address
from sprocketmq.net.output.queued_bytes import COUNTED_IN_BYTES, QueuedBytes
from sprocketmq.net.process.fork import redirect_to_devnull
from sprocketmq.net.requesting_protocol import RequestingProtocol
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import (
    FLAG_ONEWAY,
    PREFIX,
    SERIALIZE_JSON,
    TYPE_SHIFT,
    Command,
    decode_command,
    encode_command,
    response,
)
from sprocketmq.wire.frames.frame import MAX_FRAME_BYTES, FrameDecoder, Span
from sprocketmq.wire.frames.raw_command import HeaderReader
from sprocketmq.wire.send_frames import STORED_ANSWER_BEGINS

# One log for all connections: a peer that sends noise sends a lot of it, and must not fill the disk with log lines.

RequestHandler = Callable[["Connection", Command], "Command | None"]


class SlowLog(Protocol):
    """Gets each request that took ``threshold_s`` or longer, from its decode to its answer."""

    @property
    def threshold_s(self) -> float: ...

    def note(self, connection: Connection, command: Command, took_s: float) -> None: ...


# (connection, all bytes of the read, position of the frame's header length, end of the frame) -> whether it has handled the frame
AnswerReader = Callable[["Connection", memoryview, int, int], bool]

_NONE: Final[Mapping[bytes, Any]] = {}
_MAX_REQUEST_HEADER_BYTES: Final = 256 * 1024  # a million fields in one header take a second to read
_pack_prefix = PREFIX.pack
_BINARY: Final = 1 << 24  # of the word in front of a header, whose upper 8 bits are its encoding
_CODE_AT: Final = 4 + len('{"code":')
# Copying up to so much costs less than giving each record to the socket, and holds no view of the log for a slow reader.
_COPIED_BYTES: Final = 64 * 1024
_MAX_GATHERED_BYTES: Final = 1024 * 1024  # answers that wait for the rest of their read
_WAITING_BYTES: Final = 4096  # a task, a future, a timer, the command
_FIELD_BYTES: Final = 104  # the most that a place in a growing dict takes
_NO_BODY: Final = memoryview(b"")
_NEVER_S: Final = float("inf")
SILENCE: Final = "silence"
"""In ``Connection.state``: why this side gave the connection up."""
_CLOSE_LIMIT_S: Final = 5.0
_GOODBYE_LIMIT_S: Final = 0.5
_NOT_GRPC: Final = "use its remoting port, or a name server (always the latter if the proxy runs in LOCAL mode)"


class Connection(RequestingProtocol):
    """Protocol object of one connection; made by ConnectionPool (client side) or Server (server side). ``state``: the owner's notes,
    such as the client id seen in a heartbeat."""

    __slots__ = (
        "_answer_readers",
        "_handler",
        "_inherited",
        "_max_header_bytes",
        "_on_close",
        "_on_open",
        "_readers",
        "_slow",
        "last_read_s",
        "local_address",
        "peer",
        "state",
    )  # fmt: skip

    def __init__(
        self,
        handler: RequestHandler | None = None,
        on_open: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        *,
        readers: Mapping[bytes, HeaderReader] = _NONE,
        answer_readers: Mapping[bytes, AnswerReader] = _NONE,
        is_served: bool = False,
        slow: SlowLog | None = None,
        queued: QueuedBytes | None = None,
    ) -> None:
        super().__init__(queued or QueuedBytes(), FrameDecoder(max_frame_bytes), is_served=is_served)
        self._handler = handler or _refuse
        self._answer_readers = answer_readers
        self._readers = readers
        self._slow = slow
        self._on_open, self._on_close = on_open, on_close
        self.local_address = ""
        self.peer: tuple[str, int] = ("", 0)
        self.state: dict[str, Any] = {}
        self.last_read_s = 0.0
        self._max_header_bytes = _MAX_REQUEST_HEADER_BYTES if is_served else MAX_FRAME_BYTES

    # -- asyncio.Protocol ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is an asyncio.Transport by behaviour, not by class.
        transport = cast(asyncio.Transport, transport)
        self.peer = tuple((transport.get_extra_info("peername") or ("", 0))[:2])
        self.remote_address = _address(self.peer)
        self.local_address = _address(tuple((transport.get_extra_info("sockname") or ("", 0))[:2]))
        self._begin(transport)
        self.last_read_s = self.now_s()
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        assert self._loop is not None
        self.read_bytes += len(data)
        self.last_read_s = self._loop.time()
        try:
            whole, spans = self._decoder.cut(data)
        except ProtocolError as error:
            self._refuse_bytes(error)
            return
        if spans:
            self._serve(whole, spans)
        if self._noted_in or self._decoder.pending_bytes >= COUNTED_IN_BYTES:
            self._note()

    def _serve(self, whole: bytes, spans: list[Span]) -> None:
        if self._is_stopped or self._unhandled is not None:  # bytes that arrived while reading was being paused
            self._keep_unhandled(whole, spans)
            return
        out: list[Any] = []
        self._out, self._out_bytes = out, 0
        try:
            self._handle_frames(whole, spans)
        except ProtocolError as error:
            self._refuse_bytes(error)
        finally:
            self._out = None
            if out:
                self._write(out)

    def _handle_frames(self, whole: bytes, spans: list[Span]) -> None:
        view, readers, out = memoryview(whole), self._readers, self._out
        answer_readers, handler = self._answer_readers, self._handler
        assert out is not None
        max_header_bytes, last = self._max_header_bytes, spans[-1][1]
        is_served, slow_s = self._is_served, _NEVER_S if self._slow is None else self._slow.threshold_s
        now_s = ends_s = check_from_s = 0.0
        if is_served:
            now_s = perf_counter()
            ends_s = now_s + self._queued.share_s
            # No request before this time is slow, and none ends the share.
            check_from_s = ends_s if slow_s >= self._queued.share_s else now_s
        for at, stop, word in spans:
            if self._out_bytes > _MAX_GATHERED_BYTES:
                self._out_bytes = 0
                self._write(out)
                out.clear()
            if self._is_stopped:
                self._keep_unhandled(whole, spans[spans.index((at, stop, word)) :])
                return
            command = None
            header_at = at + 4
            if word < _BINARY:  # JSON
                code_at = at + _CODE_AT
                code = whole[code_at : code_at + 4]
                if (
                    answer_readers
                    and (read_answer := answer_readers.get(code)) is not None
                    and read_answer(self, view, at, stop)
                ):
                    continue
                reader, header_bytes = readers.get(code), word
            else:
                reader, header_bytes = readers.get(whole[header_at : at + 6]), word - _BINARY
            if reader is not None and header_bytes <= max_header_bytes:
                body_at = header_at + header_bytes
                if body_at <= stop:
                    body = view[body_at:stop] if body_at < stop else _NO_BODY
                    command = reader(whole[header_at:body_at], body)
            if command is None:
                command = decode_command(view[at:stop], max_header_bytes)
            if command.flag & 1:
                self._resolve(command)
            else:
                try:
                    answer = handler(self, command)
                except Exception as error:  # noqa: BLE001 - a bug in one handler must only affect one answer
                    answer = self._failed(command, error)
                if answer is not None and not command.flag & FLAG_ONEWAY:
                    frame = encode_command(answer)
                    self._out_bytes += len(frame)
                    out.append(frame)
                if is_served:
                    began_s, now_s = now_s, perf_counter()  # the clock is read once for each request
                    if now_s >= check_from_s:
                        if now_s - began_s >= slow_s:
                            self._note_slow(command, began_s, now_s)
                        if now_s >= ends_s and stop != last:
                            self._yield_turn(whole, spans[spans.index((at, stop, word)) + 1 :])
                            return

    def _yield_turn(self, whole: bytes, spans: list[Span]) -> None:
        assert self._loop is not None
        self._stop()
        self._keep_unhandled(whole, spans)
        self._queued.wait_for_share(self._resume, self._loop)

    def _refuse_bytes(self, error: ProtocolError) -> None:
        sentence = "closing the connection to %s: %s"
        self._queued.troubles.failed("bad bytes", sentence, self.remote_address, error, of=self.remote_address)
        if self._out:
            self._write(self._out)
            self._out.clear()
        self.close()

    def eof_received(self) -> None:
        # The peer sends no more, so no request can get an answer. Bytes that it does not read are dropped later (a server's sweep).
        if not self._is_served:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._requests.clear()
        sentence = f"the connection to {self.remote_address} broke: {exc or 'closed'}"
        if (silence := self.state.get(SILENCE)) is not None:
            sentence = f"the connection to {self.remote_address} was closed: {silence}"
        if self._decoder.begins_as_http2:
            sentence = f"{self.remote_address} speaks HTTP/2, as the gRPC port of a proxy does; {_NOT_GRPC}"
        self._gone()
        self._waiting.fail_all(ConnectionLost(sentence, self.remote_address))
        if self._on_close is not None:
            self._on_close(self)

    def handle_now(self, command: Command) -> None:
        """Handle a request that had to wait, as if it had just arrived."""
        began_s = perf_counter()
        try:
            answer = self._handler(self, command)
        except Exception as error:  # noqa: BLE001 - as in _handle_frames
            answer = self._failed(command, error)
        if answer is not None and not command.flag & FLAG_ONEWAY:
            self.send(answer)
        now_s = perf_counter()
        if self._slow is not None and now_s - began_s >= self._slow.threshold_s:
            self._note_slow(command, began_s, now_s)

    # -- answering -------------------------------------------------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Write a command as it is (an answer). Does nothing if closed: the peer is gone and has its own timeout."""
        frame = encode_command(command)
        self._out_bytes += len(frame)
        if self._out is not None:
            self._out.append(frame)
        else:
            self.send_raw([frame])

    def push(self, command: Command) -> bool:
        """Write a one-way request of this side. Returns False, and writes nothing, if the peer is gone or does not read."""
        if self.is_closed or self.is_congested:
            return False
        self.send(command)
        return True

    def send_with_body(
        self, header: bytes, body: Iterable[Any], body_bytes: int, serialize_type: int = SERIALIZE_JSON
    ) -> None:
        """Send an answer whose body is in pieces (views of the commit log); large bodies go to the socket without being joined."""
        header_bytes = len(header)
        prefix = _pack_prefix(4 + header_bytes + body_bytes, serialize_type << TYPE_SHIFT | header_bytes)
        self._out_bytes += body_bytes
        if body_bytes > _COPIED_BYTES:
            self.send_raw([prefix + header, *body])
            return
        frame = b"".join((prefix, header, *body))
        if self._out is not None:
            self._out.append(frame)
        else:
            self.send_raw([frame])

    def set_socket_buffers(self, send_bytes: int, receive_bytes: int) -> None:
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is not None:
            for option, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
                if size:
                    sock.setsockopt(socket.SOL_SOCKET, option, size)

    def after_fork_in_child(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            self._inherited = transport  # kept: its finalizer would use a loop that two processes share
            sock = transport.get_extra_info("socket")
            if sock is not None:
                redirect_to_devnull(sock.fileno())

    def close(self) -> None:
        """Close when all written bytes have been sent, or after 5 s. Requests in flight fail with ConnectionLost."""
        self._write_requests()
        if self._transport is not None:
            if self._loop is not None and self.unsent_bytes and not self._transport.is_closing():
                self._loop.call_later(_CLOSE_LIMIT_S, self._cut)
            self._transport.close()

    def _cut(self) -> None:
        if not self._is_served and (unsent_bytes := self.unsent_bytes):
            sentence = "%s did not read for %g s, so %d bytes that were written before the end are lost"
            args = (self.remote_address, _CLOSE_LIMIT_S, unsent_bytes)
            self._queued.troubles.failed("unread bytes", sentence, *args, of=self.remote_address)
        self.abort()

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _note_slow(self, command: Command, began_s: float, now_s: float) -> None:
        assert self._slow is not None
        self._slow.note(self, command, now_s - began_s)

    def _failed(self, command: Command, error: Exception) -> Command:
        if isinstance(error, RocketMQError):
            return response(command, getattr(error, "code", ResponseCode.SYSTEM_ERROR), str(error))
        self._queued.troubles.failed(
            ("request", command.code, type(error)), "request code %d from %s failed", command.code, self.remote_address,
            level=logging.ERROR, error=error,
        )  # fmt: skip
        return response(command, ResponseCode.SYSTEM_ERROR, described(error))


CLIENT_ANSWER_READERS: Final[Mapping[bytes, AnswerReader]] = {STORED_ANSWER_BEGINS: Connection.read_stored}
"""The answer readers of a connection that sends messages."""


def _refuse(connection: Connection, command: Command) -> Command:
    remark = f"request code {command.code} is not served here"
    return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


def bytes_while_waiting(command: Command) -> int:
    """The memory of a request that waits: its body (a view of the whole read, which is copied or released), its fields and objects (see
    ``Connection.hold``)."""
    command.body = bytes(command.body)
    return _WAITING_BYTES + len(command.body) + text_bytes(command)


def text_bytes(command: Command) -> int:
    """The memory of a command's texts. The name and place of an empty field take a hundred bytes, too."""
    raw = command.raw_header
    if raw is not None:
        return len(raw)
    fields = command.ext_fields
    size = len(fields) * _FIELD_BYTES + sum(map(getsizeof, fields)) + sum(map(getsizeof, fields.values()))
    return size + getsizeof(command.language) + getsizeof(command.remark)


async def close_all(connections: Collection[Connection]) -> None:
    """Close ``connections`` and wait until they are gone: a loop that ends before is left with open sockets. Over TLS a peer may not
    answer the closing, and a peer that does not read may hold bytes: after half a second the connection is aborted. A server that has
    not read everything from a client has the 5 s of ``close``, because one-way requests (messages, progress) would be lost unnoticed."""
    now_s = asyncio.get_running_loop().time
    began_s, pause_s = now_s(), 0.0
    for connection in connections:
        connection.close()
    while left := [connection for connection in connections if not connection.is_gone]:
        await asyncio.sleep(pause_s)
        pause_s, spent_s = 0.01, now_s() - began_s
        for connection in left:
            if spent_s >= _GOODBYE_LIMIT_S and (connection.is_served or not connection.unsent_bytes):
                connection.abort()


def _address(peer: tuple[Any, ...]) -> str:
    return joined_address(str(peer[0]), peer[1])
