# SPDX-License-Identifier: Apache-2.0
"""A TCP middleman between clients and a server: passes bytes on, counts what is asked, and can be as bad as a network is.

pass         as if it were not there
silent       takes everything and gives nothing back
deaf         does not read what clients write, and gives nothing back
slow         some bytes at a time, each after a while
half-closed  ends its side of each connection and says nothing more; reads on
cut          resets connections, the present ones and each new one
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from typing import Final

from sprocketmq.errors import ProtocolError
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.frames.command import Command, decode_command
from sprocketmq.wire.frames.frame import FrameDecoder

MOODS: Final = ("pass", "silent", "deaf", "slow", "half-closed", "cut")
_CHUNK_BYTES: Final = 64 * 1024
_SLOW_CHUNK_BYTES: Final = 400
_SLOW_S: Final = 0.02
_LOOK_S: Final = 0.01
_SMALL_BUFFER_BYTES: Final = 16 * 1024
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


class Middleman:
    """In front of ``upstream``; runs on an engine of its own.

    Args:
        upstream: ``host:port`` of the server; it need not be there yet, or any more.
        address: where to listen; default any free port of 127.0.0.1.
        mood: one of MOODS, changed by ``set_mood``.

    Attributes: ``asked`` has (``time.monotonic()``, request) of each request that clients wrote, oldest first.
    """

    def __init__(self, upstream: str, address: str = "127.0.0.1:0", mood: str = "pass") -> None:
        self.upstream, self.mood = upstream, mood
        self.asked: list[tuple[float, Command]] = []
        self.connections = 0  # so far
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._engine = Engine("middleman")
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def count(self, code: int, since_s: float = 0.0) -> int:
        """Requests of this code since ``since_s`` of ``time.monotonic()``."""
        return sum(at_s >= since_s and command.code == code for at_s, command in list(self.asked))

    def set_mood(self, mood: str) -> None:
        assert mood in MOODS, mood
        self._engine.run(self._set_mood(mood))

    async def _set_mood(self, mood: str) -> None:
        self.mood = mood
        if mood == "cut":
            for writer in self._pairs:
                _reset(writer)
        elif mood == "half-closed":
            for writer in self._pairs:
                with contextlib.suppress(OSError):
                    writer.write_eof()

    async def _start(self) -> None:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by what is accepted: a peer that does not read is noticed after kilobytes, not after megabytes.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER_BYTES)
        listening.bind((self._host, self._port))
        self._port = listening.getsockname()[1]
        self._server = await asyncio.start_server(self._serve, sock=listening, backlog=1024)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.mood == "cut":
            _reset(writer)
            return
        self._pairs.add(writer)
        upstream_writer: asyncio.StreamWriter | None = None
        try:
            host, _, port = self.upstream.rpartition(":")
            try:
                upstream_reader, forward = await asyncio.wait_for(asyncio.open_connection(host, int(port)), 5)
            except (TimeoutError, OSError):
                return
            upstream_writer = forward
            pumps = [
                asyncio.ensure_future(self._pump(reader, forward, FrameDecoder(), from_client=True)),
                asyncio.ensure_future(self._pump(upstream_reader, writer, None, from_client=False)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self._pairs.discard(writer)
            for one in (writer, upstream_writer):
                if one is not None:
                    one.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        decoder: FrameDecoder | None,
        *,
        from_client: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while True:
                while self.mood == "deaf":
                    await asyncio.sleep(_LOOK_S)
                is_slow = self.mood == "slow"
                data = await reader.read(_SLOW_CHUNK_BYTES if is_slow else _CHUNK_BYTES)
                if not data:
                    return
                if is_slow:
                    await asyncio.sleep(_SLOW_S)
                if decoder is not None:
                    self._note(decoder, data)
                if self.mood in ("silent", "half-closed") and not from_client:
                    continue
                writer.write(data)
                await writer.drain()

    def _note(self, decoder: FrameDecoder, data: bytes) -> None:
        with contextlib.suppress(ProtocolError):
            whole, spans = decoder.cut(data)
            now_s = time.monotonic()
            for at, stop, _ in spans:
                command = decode_command(memoryview(whole)[at:stop])
                if not command.flag & 1:
                    command.body = bytes(command.body) if len(command.body) < _CHUNK_BYTES else b""
                    self.asked.append((now_s, command))

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.mood = "cut"  # who is deaf would wait for ever
        for writer in list(self._pairs):
            writer.transport.abort()
        while self._pairs:
            await asyncio.sleep(_LOOK_S)

    def start(self) -> Middleman:
        self._engine.run(self._start())
        return self

    def stop(self) -> None:
        self._engine.run(self._stop())
        self._engine.close()

    def __enter__(self) -> Middleman:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
