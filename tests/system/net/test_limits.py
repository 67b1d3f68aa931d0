# SPDX-License-Identifier: Apache-2.0
"""What one peer may take from the others: connections, time, memory. Each with an honest client beside it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from sprocketmq.net.connection import Connection
from sprocketmq.net.output.queued_bytes import HIGH_WATER_BYTES, QueuedBytes
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.server import Limits, Server
from sprocketmq.wire.frames.command import Command, encode_command, request, response
from system.net.conftest import while_serving

ECHO, LARGE = 900, 904
LARGE_BYTES = 256 * 1024


class Servant:
    """Answers LARGE with a large body, in pieces like a pull; remembers what it did."""

    def __init__(self) -> None:
        self.served = 0
        self.connections: list[Connection] = []

    def __call__(self, connection: Connection, command: Command) -> Command | None:
        self.served += 1
        if connection not in self.connections:
            self.connections.append(connection)
        if command.code == LARGE:
            header = response(command).header_bytes()
            connection.send_with_body(header, [memoryview(bytes(LARGE_BYTES))], LARGE_BYTES)
            return None
        return response(command, body=bytes(command.body))


def with_server(engine: Engine, scenario: Callable[[Server, Servant, str], Awaitable[Any]], **limits: Any) -> Any:
    servant = Servant()
    queued = QueuedBytes(high_water_bytes=limits.pop("high_water_bytes", HIGH_WATER_BYTES))
    server = Server(servant, limits=Limits(**limits), queued=queued)
    return while_serving(engine, server, lambda server, address: scenario(server, servant, address))


def raw(address: str) -> socket.socket:
    """A connection of a peer that is not ours."""
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
    connection.setblocking(False)
    return connection


async def is_closed(connection: socket.socket) -> bool:
    """Waits for the end of the stream."""
    loop = asyncio.get_running_loop()
    try:
        while await asyncio.wait_for(loop.sock_recv(connection, 1 << 20), 30):
            pass
    except ConnectionResetError:
        pass
    return True


async def until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), 30)


async def honest(address: str) -> None:
    pool = ConnectionPool()
    assert (await pool.invoke(address, request(ECHO, body=b"honest"), 60_000)).body == b"honest"
    await pool.aclose()


def asked(code: int, count: int) -> bytes:
    return b"".join(encode_command(Command(code, opaque=number)) for number in range(count))


def test_one_connection_too_many_is_closed_at_once_and_counted(engine):
    async def scenario(server: Server, servant: Servant, address: str) -> None:
        pool = ConnectionPool()
        await pool.invoke(address, request(ECHO), 60_000)
        with raw(address) as second:
            await until(lambda: len(server.connections) == 2)
            with raw(address) as third:
                assert await is_closed(third)
            assert server.refused_connections == 1
            assert (await pool.invoke(address, request(ECHO), 60_000)).code == 0
            second.close()
            await until(lambda: len(server.connections) == 1)
            await honest(address)  # there is room again
        await pool.aclose()

    with_server(engine, scenario, max_connections=2)


def test_a_silent_connection_is_closed_and_a_busy_one_stays(engine):
    async def scenario(server: Server, servant: Servant, address: str) -> None:
        pool = ConnectionPool()
        with raw(address) as silent:
            closing = asyncio.ensure_future(is_closed(silent))
            while not closing.done():
                await pool.invoke(address, request(ECHO), 60_000)
                await asyncio.sleep(0.01)
        assert len(servant.connections) == 1, "the busy connection was never replaced"
        await pool.aclose()

    # Longer than this loop, which is server and client in one, may stand still on a machine with other work.
    with_server(engine, scenario, max_idle_s=2.0)


@pytest.mark.parametrize("count", [400, 12], ids=["whose requests wait", "half-closed"])
def test_a_peer_that_reads_next_to_nothing_for_long_is_cut_off(engine, count):
    async def scenario(server: Server, servant: Servant, address: str) -> None:
        with raw(address) as slow:
            loop = asyncio.get_running_loop()
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_sendall(slow, asked(LARGE, count))
            await until(lambda: servant.served >= 10)
            slow.shutdown(socket.SHUT_WR)
            while server.connections:
                await asyncio.wait_for(loop.sock_recv(slow, 1_000), 30)
                await asyncio.sleep(0.04)
            assert server.cut_off_connections == 1
            await honest(address)

    with_server(engine, scenario, slow_reader_timeout_s=2.0, send_buffer_bytes=8_192)


class Peer:
    """A connection as the sweep sees it each 15 s."""

    remote_address, unsent_bytes, backlog, is_cut = "peer", 0, (1, 0), False

    def abort(self) -> None:
        self.is_cut = True


def looked_at(kib: Iterable[tuple[int, int]]) -> bool:
    """Whether a peer for which so much waits, look by look, is cut off, when so much was written to it since."""
    peer: Any = Peer()
    server = Server(lambda connection, command: None)
    written = 0
    for number, (size, more) in enumerate(kib):
        written += more * 1024
        peer.unsent_bytes = size * 1024
        peer.backlog = (1, peer.unsent_bytes - written)
        server._check_slow_reader(peer, 15.0 * number)
    return bool(peer.is_cut)


def test_a_peer_that_reads_slowly_and_asks_for_more_stays():
    assert not looked_at([(100, 0), (3_900, 3_800), *[(size, 0) for size in range(3_800, 0, -20)]])
    assert not looked_at([(3_900, 64)] * 100)


def test_a_peer_that_reads_a_byte_now_and_then_is_cut_off():
    assert not looked_at([(size, 0) for size in range(4_000, 3_996, -1)])
    assert looked_at([(size, 0) for size in range(4_000, 3_995, -1)])
    assert looked_at([(1_000 + size, 1) for size in range(5)]), "what it asks for meanwhile was not read"


def test_a_peer_that_says_nothing_more_gets_all_answers_that_it_reads(engine):
    async def scenario(server: Server, servant: Servant, address: str) -> None:
        with raw(address) as half:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(half, asked(LARGE, 10))
            half.shutdown(socket.SHUT_WR)
            read = 0
            while data := await asyncio.wait_for(loop.sock_recv(half, 1 << 20), 30):
                read += len(data)
            assert read > 10 * LARGE_BYTES

    with_server(engine, scenario)


def test_two_that_write_more_than_the_other_reads_do_not_wait_for_each_other(engine):
    count = 10_000

    async def scenario(server: Server, servant: Servant, address: str) -> None:
        # Both directions are far over their high-water marks: a client that stopped reading while it cannot write would wait for ever.
        pool = ConnectionPool(lambda connection, command: None)
        body = bytes(2_000)
        answers = await asyncio.gather(*(pool.invoke(address, request(ECHO, body=body), 60_000) for _ in range(count)))
        assert sum(len(answer.body) for answer in answers) == count * len(body)
        await pool.aclose()

    # The client has 4 MiB on the way; the server, whose sockets take little, stops at 64 KiB.
    with_server(engine, scenario, high_water_bytes=64 * 1024, send_buffer_bytes=65_536, receive_buffer_bytes=65_536)
