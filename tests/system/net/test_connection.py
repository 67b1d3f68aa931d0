# SPDX-License-Identifier: Apache-2.0
"""Connections over real loopback sockets: both directions, garbage, limits, loss."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sprocketmq.errors import ClosedError, ConfigurationError, ConnectFailed, ConnectionLost, RequestTimeout
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.server import Server
from sprocketmq.wire.frames.command import Command, request, response
from system.net.conftest import while_serving

ECHO, PARK, BUG, ASK_BACK = 900, 901, 902, 903


def serve(connection: Connection, command: Command) -> Command | None:
    """A server with one behaviour per request code."""
    if command.code == PARK:
        connection.state.setdefault("parked", []).append(command)
        return None
    if command.code == BUG:
        raise ValueError("a bug in a handler")
    return response(command, 0, "echo", body=bytes(command.body))


def with_server(engine: Engine, scenario: Callable[[Server, str], Awaitable[Any]]) -> Any:
    return while_serving(engine, Server(serve), scenario)


def test_an_answer_finds_its_request_however_many_are_in_flight(engine):
    async def scenario(server: Server, address: str) -> list[bytes]:
        pool = ConnectionPool()
        answers = await asyncio.gather(
            *(pool.invoke(address, request(ECHO, body=b"%d" % n), 60_000) for n in range(500))
        )
        assert len(server.connections) == 1, "one address, one connection, however many wait for it"
        await pool.aclose()
        return [bytes(answer.body) for answer in answers]

    assert with_server(engine, scenario) == [b"%d" % n for n in range(500)]


def test_new_callers_do_not_overtake_those_that_wait_for_a_connection(engine):
    arrived: list[int] = []

    def note(connection: Connection, command: Command) -> Command:
        arrived.append(int(command.body))
        return response(command, 0)

    async def scenario(server: Server, address: str) -> None:
        pool = ConnectionPool()
        asked: list[asyncio.Future[Any]] = []
        turns_after = 100
        # One in each turn of the loop, before, while and after the connection opens; it ends, so the line does.
        while turns_after:
            command = request(ECHO, body=b"%d" % len(asked))
            way = pool.invoke_oneway(address, command) if len(asked) % 3 else pool.invoke(address, command, 60_000)
            asked.append(asyncio.ensure_future(way))
            turns_after -= pool.open_connection(address) is not None
            await asyncio.sleep(0)
        await asyncio.gather(*asked)
        await pool.invoke(address, request(ECHO, body=b"%d" % len(asked)), 60_000)
        await pool.aclose()

    while_serving(engine, Server(note), scenario)
    assert arrived == list(range(len(arrived)))
    assert len(arrived) > 100


def test_a_connection_that_nobody_waits_for_any_more_leaves_no_line(engine):
    async def scenario(server: Server, address: str) -> None:
        pool = ConnectionPool()
        with pytest.raises(ConnectFailed):
            await pool.connection(address, 0)
        cancelled = asyncio.ensure_future(pool.connection(address))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert bytes((await pool.invoke(address, request(ECHO, body=b"x"), 60_000)).body) == b"x"
        assert pool._opening == {}
        await pool.aclose()

    with_server(engine, scenario)


def test_two_that_try_again_at_once_reconnect_when_the_server_is_back(engine):
    """Each comes before the other has heard of the failure: together they would keep it for ever."""

    async def run() -> None:
        server = Server(serve)
        port = await server.start("127.0.0.1", 0)
        await server.stop()
        pool, failures = ConnectionPool(), 0

        async def is_answered() -> bool:
            nonlocal failures
            try:
                await pool.invoke(f"127.0.0.1:{port}", request(ECHO), 60_000)
            except (ConnectFailed, ConnectionLost):
                failures += 1
                return False
            return True

        async def until_answered() -> None:
            while not await is_answered():
                pass

        asked = [asyncio.ensure_future(until_answered()) for _ in range(2)]
        while failures < 100:
            await asyncio.sleep(0)
        server = Server(serve)
        await server.start("127.0.0.1", port)
        await asyncio.wait_for(asyncio.gather(*asked), 20)
        await pool.aclose()
        await server.stop()

    engine.run(run(), timeout_s=30)


def test_a_connection_whose_only_waiter_leaves_as_it_opens_is_kept_for_others(engine, monkeypatch):
    async def scenario(server: Server, address: str) -> None:
        pool, goes_on = ConnectionPool(), asyncio.get_running_loop().create_future()
        connect = pool._connect

        async def connect_late(address: str) -> Connection:
            connection = await connect(address)
            await goes_on
            return connection

        monkeypatch.setattr(pool, "_connect", connect_late)
        only = asyncio.ensure_future(pool.invoke(address, request(ECHO), 60_000))
        while not server.connections:
            await asyncio.sleep(0.005)
        asyncio.get_running_loop().call_soon(only.cancel)
        goes_on.set_result(None)
        await asyncio.gather(only, return_exceptions=True)
        await pool.invoke(address, request(ECHO), 60_000)
        assert (len(pool.addresses), len(server.connections)) == (1, 1)
        await pool.aclose()
        while server.connections:
            await asyncio.sleep(0.005)

    with_server(engine, scenario)


def test_closing_the_pool_fails_waiting_callers_with_closed_error(engine):
    async def scenario(server: Server, address: str) -> None:
        for turns in (0, 1, 2):
            pool = ConnectionPool()
            asked = asyncio.ensure_future(pool.invoke(address, request(ECHO), 60_000))
            await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            await pool.aclose()
            with pytest.raises((ClosedError, ConnectionLost)):
                await asyncio.wait_for(asked, 30)

    with_server(engine, scenario)


def test_the_server_can_ask_the_client_on_the_same_connection_with_the_same_opaque(engine):
    async def scenario(server: Server, address: str) -> bytes:
        pool = ConnectionPool(lambda connection, command: response(command, 0, body=b"from the client"))
        parked = asyncio.ensure_future(pool.invoke(address, request(PARK), 60_000))
        while not any(connection.state.get("parked") for connection in server.connections):
            await asyncio.sleep(0.005)
        (connection,) = server.connections
        answer = await connection.invoke(request(ASK_BACK), 60_000)
        connection.send(response(connection.state["parked"][0], 0, body=b"late"))
        assert bytes((await parked).body) == b"late"
        await pool.aclose()
        return bytes(answer.body)

    assert with_server(engine, scenario) == b"from the client"


def test_an_exception_in_a_handler_fails_one_request_and_not_the_connection(engine):
    async def scenario(server: Server, address: str) -> tuple[int, str | None, int]:
        pool = ConnectionPool()
        failed = await pool.invoke(address, request(BUG), 60_000)
        fine = await pool.invoke(address, request(ECHO), 60_000)
        await pool.aclose()
        return failed.code, failed.remark, fine.code

    assert with_server(engine, scenario) == (1, "ValueError: a bug in a handler", 0)


def test_a_request_without_answer_raises_after_its_timeout(engine):
    async def scenario(server: Server, address: str) -> int:
        pool = ConnectionPool()
        connection = await pool.connection(address)  # connecting counts: less would be left of the time
        parked = asyncio.ensure_future(pool.invoke(address, request(PARK), 1_000))
        await asyncio.sleep(0)
        asked_s = asyncio.get_running_loop().time()
        while connection.last_read_s <= asked_s:  # a connection on which nothing arrives would be given up
            await pool.invoke(address, request(ECHO), 30_000)
        with pytest.raises(RequestTimeout):
            await parked
        assert await pool.connection(address) is connection
        in_flight = connection.in_flight
        await pool.aclose()
        return in_flight

    assert with_server(engine, scenario) == 0


@pytest.mark.parametrize(
    ("what", "sent"),
    [
        ("garbage", b"GET / HTTP/1.1\r\n\r\n"),
        ("a huge length", (0x7FFFFFF0).to_bytes(4, "big")),
        ("a negative length", b"\xff\xff\xff\xff"),
        ("a header longer than its frame", (8).to_bytes(4, "big") + (100).to_bytes(4, "big") + b"abcd"),
        ("an unknown header encoding", (8).to_bytes(4, "big") + (0x07000004).to_bytes(4, "big") + b'{"a"}'[:4]),
        ("a broken binary header", (12).to_bytes(4, "big") + (0x01000008).to_bytes(4, "big") + b"\xff" * 8),
        ("a header that is not JSON", (8).to_bytes(4, "big") + (4).to_bytes(4, "big") + b"{{{{"),
    ],
)
def test_bytes_that_break_the_protocol_close_that_connection_only(engine, what, sent):
    async def scenario(server: Server, address: str) -> None:
        pool = ConnectionPool()
        assert (await pool.invoke(address, request(ECHO), 60_000)).code == 0
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 5) == b"", f"{what} must be answered by closing"
        writer.close()
        assert (await pool.invoke(address, request(ECHO), 60_000)).code == 0, "everybody else is served on"
        await pool.aclose()

    with_server(engine, scenario)


def test_a_oneway_request_gets_no_answer_not_even_an_error(engine):
    async def scenario(server: Server, address: str) -> None:
        pool = ConnectionPool()
        await pool.invoke_oneway(address, request(BUG))
        connection = await pool.connection(address)
        assert (await connection.invoke(request(ECHO), 60_000)).remark == "echo"
        await pool.aclose()

    with_server(engine, scenario)


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1:0", "127.0.0.1:99999", ":9876", "127.0.0.1:port"])
def test_a_wrong_address_is_named_with_what_is_allowed(engine, address):
    with pytest.raises(ConfigurationError):
        engine.run(ConnectionPool().invoke(address, request(ECHO), 1000))


def test_a_closed_port_and_an_unknown_host_are_told_apart(engine):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectFailed):
        engine.run(ConnectionPool().invoke(f"127.0.0.1:{port}", request(ECHO), 1000))
    with pytest.raises(
        ConnectFailed, match="host 'no-such-host.invalid' of address no-such-host.invalid:9876 is unknown"
    ):
        engine.run(ConnectionPool().invoke("no-such-host.invalid:9876", request(ECHO), 1000))


def test_the_error_of_a_connection_that_cannot_be_opened_is_gone_when_its_caller_drops_it(engine):
    async def scenario() -> None:
        pool = ConnectionPool()
        try:
            await pool.connection("127.0.0.1:1")
        except ConnectFailed as error:
            gone = weakref.ref(error)
        await pool.aclose()
        assert gone() is None

    gc.disable()
    try:
        engine.run(scenario(), timeout_s=60)
    finally:
        gc.enable()
