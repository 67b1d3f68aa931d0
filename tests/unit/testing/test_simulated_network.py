# SPDX-License-Identifier: Apache-2.0
"""The loop and the network under ``sprocketmq.testing.simulation``, with two hosts that speak plain bytes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from sprocketmq.testing.simulation.draws import Draws
from sprocketmq.testing.simulation.loop import SimulatedLoop, SimulationError
from sprocketmq.testing.simulation.network import Host, Network
from sprocketmq.testing.simulation.threads import Threads


class Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.lost: list[Exception | None] = []
        self.pauses: list[bool] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)

    def pause_writing(self) -> None:
        self.pauses.append(True)

    def resume_writing(self) -> None:
        self.pauses.append(False)


class Pair:
    """A client and a server on hosts of their own, not yet connected."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop()
        Threads(self.loop, random.Random(1))
        self.network = Network(self.loop, Draws(2))
        self.here, self.there = self.network.add_host("here"), self.network.add_host("there")
        self.client, self.server = Peer(), Peer()

    def on(self, host: Host, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.loop.create_task(work, context=host.process.context.copy())

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loop.run_until_complete(work())

    async def listen(self) -> None:
        await self.on(self.there, self.loop.create_server(lambda: self.server, self.there.address, 10911))

    async def connect(self) -> None:
        await self.listen()
        await self.dial()

    async def dial(self) -> None:
        await self.on(self.here, self.loop.create_connection(lambda: self.client, self.there.address, 10911))
        await asyncio.sleep(1)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.loop.close()


def test_time_goes_from_timer_to_timer(pair: Pair) -> None:
    seen: list[float] = []

    async def work() -> None:
        for delay_s in (3_600, 5, 0):
            pair.loop.call_later(delay_s, lambda: seen.append(pair.loop.time()))
        await asyncio.sleep(7_200)

    pair.run(work)
    assert seen == [0, 5, 3_600]
    assert pair.loop.time() == 7_200


def test_a_wait_that_nothing_can_end_is_an_error_at_once(pair: Pair) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(SimulationError, match="deadlock"):
        pair.run(work)


def test_code_that_never_waits_is_an_error(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sprocketmq.testing.simulation.loop._MOST_CALLS_AT_ONCE", 1_000)

    async def work() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimulationError, match="without waiting"):
        pair.run(work)


def test_a_run_that_never_ends_is_a_failure(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sprocketmq.testing.simulation.loop._MOST_CALLS", 1_000)

    async def forever() -> None:
        while True:
            await asyncio.sleep(60)

    with pytest.raises(SimulationError, match="does not end"):
        pair.run(forever)


def test_work_of_an_executor_ends_later(pair: Pair) -> None:
    async def work() -> float:
        assert await asyncio.to_thread(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return pair.loop.time()

    assert pair.run(work) > 0


def test_a_frozen_process_goes_on_where_it_was_and_a_dead_one_never_does(pair: Pair) -> None:
    steps: list[str] = []

    async def tick(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            steps.append(f"{name} {pair.loop.time():g}")

    async def work() -> None:
        pair.on(pair.here, tick("here"))
        pair.on(pair.there, tick("there"))
        await asyncio.sleep(1.5)
        pair.here.process.freeze()
        pair.there.end()
        await asyncio.sleep(8.5)
        assert pair.here.process.frozen_ms_since(0) == 8_500
        pair.here.process.thaw()
        await asyncio.sleep(10)

    pair.run(work)
    assert steps == ["here 1", "there 1", "here 10", "here 11"]


def test_bytes_arrive_in_order_whatever_the_pieces(pair: Pair) -> None:
    sent = [bytes([number % 251]) * (number * 37 % 5_000 + 1) for number in range(300)]
    pair.network.spikes = 0.2

    async def work() -> None:
        await pair.connect()
        for data in sent:
            pair.client.transport.write(data)
        pair.client.transport.close()
        await asyncio.sleep(600)

    pair.run(work)
    assert pair.server.received == b"".join(sent)
    assert pair.server.lost == pair.client.lost == [None]


def test_a_writer_is_told_that_its_peer_does_not_read(pair: Pair) -> None:
    async def work() -> None:
        await pair.connect()
        pair.server.transport.pause_reading()
        pair.client.transport.write(bytes(1_000_000))
        await asyncio.sleep(10)
        assert pair.client.pauses == [True]
        assert pair.client.transport.get_write_buffer_size() > 500_000
        pair.server.transport.resume_reading()
        await asyncio.sleep(10)

    pair.run(work)
    assert len(pair.server.received) == 1_000_000
    assert pair.client.pauses == [True, False]


def test_a_wall_holds_bytes_in_its_direction(pair: Pair) -> None:
    async def work() -> None:
        await pair.connect()
        pair.network.build_wall(pair.here, pair.there)
        pair.client.transport.write(b"to")
        pair.server.transport.write(b"fro")
        await asyncio.sleep(60)
        assert (pair.server.received, pair.client.received) == (b"", b"fro")
        pair.network.tear_walls()
        await asyncio.sleep(1)

    pair.run(work)
    assert pair.server.received == b"to"


def test_a_connect_waits_for_the_end_of_a_wall_and_is_refused_by_a_closed_port(pair: Pair) -> None:
    async def work() -> None:
        with pytest.raises(ConnectionRefusedError):
            await pair.dial()
        await pair.listen()
        pair.network.build_wall(pair.there, pair.here)
        dialing = asyncio.ensure_future(pair.dial())
        await asyncio.sleep(60)
        assert not dialing.done()
        pair.network.tear_walls()
        await dialing

    pair.run(work)


def test_a_kill_resets_connections_and_a_power_cut_leaves_them_until_the_host_is_back(pair: Pair) -> None:
    async def work() -> None:
        await pair.connect()
        pair.there.end()
        await asyncio.sleep(1)
        assert isinstance(pair.client.lost[0], ConnectionResetError)
        pair.there.start_process()
        pair.client, pair.server = Peer(), Peer()
        await pair.connect()
        pair.there.end(power=True)
        pair.client.transport.write(b"is anybody there?")
        await asyncio.sleep(600)
        assert pair.client.lost == []
        pair.there.start_process()
        pair.client.transport.write(b"hello?")
        await asyncio.sleep(1)

    pair.run(work)
    assert isinstance(pair.client.lost[0], ConnectionResetError)
    assert pair.server.lost == []  # nothing runs in a dead process


def test_a_narrow_link_is_shared_by_the_connections_of_its_host(pair: Pair) -> None:
    async def work() -> None:
        await pair.connect()
        pair.here.bytes_per_s = 1_000
        first, pair.client = pair.client, Peer()
        at_first, pair.server = pair.server, Peer()
        await pair.dial()
        for client in (first, pair.client):
            client.transport.write(bytes(10_000))
        await asyncio.sleep(9)
        assert 8_000 < len(at_first.received) + len(pair.server.received) < 10_000
        at_first.transport.write(bytes(10_000))  # the other direction is as wide as ever
        await asyncio.sleep(1)
        assert len(first.received) == 10_000
        await asyncio.sleep(15)
        assert (len(at_first.received), len(pair.server.received)) == (10_000, 10_000)

    pair.run(work)


def test_a_deaf_process_reads_nothing_and_goes_on_otherwise(pair: Pair) -> None:
    async def work() -> None:
        await pair.connect()
        pair.there.process.is_deaf = True
        pair.client.transport.write(b"to")
        pair.server.transport.write(b"fro")
        await asyncio.sleep(60)
        assert (pair.server.received, pair.client.received) == (b"", b"fro")
        pair.there.process.is_deaf = False
        await asyncio.sleep(1)
        assert pair.server.received == b"to"

    pair.run(work)


def test_a_half_open_connection_is_given_up_by_who_writes(pair: Pair) -> None:
    async def work() -> None:
        await pair.connect()
        assert pair.network.forget_some_connection(random.Random(1))
        pair.client.transport.write(b"is anybody there?")
        await asyncio.sleep(900)
        assert (pair.server.received, pair.client.lost) == (b"", [])
        await asyncio.sleep(60)
        assert isinstance(pair.client.lost[0], TimeoutError)
        assert pair.server.lost == []

    pair.run(work)


def test_a_host_refuses_new_connections_and_keeps_those_it_has(pair: Pair) -> None:
    async def work() -> None:
        await pair.connect()
        pair.there.refuses = True
        with pytest.raises(ConnectionRefusedError):
            await pair.dial()
        pair.client.transport.write(b"hello")
        await asyncio.sleep(1)
        assert pair.server.received == b"hello"
        pair.there.refuses = False
        await pair.dial()

    pair.run(work)


def test_a_name_leads_to_the_address_that_its_host_has_now(pair: Pair) -> None:
    async def dial(where: str) -> None:
        await pair.on(pair.here, pair.loop.create_connection(lambda: pair.client, where, 10911))

    async def work() -> None:
        await pair.listen()
        old = pair.there.address
        await dial("there")
        pair.there.end()
        pair.network.move(pair.there)
        pair.there.start_process()
        await pair.listen()
        with pytest.raises(OSError, match="no route"):
            await dial(old)
        for where in ("there", pair.there.address):
            await dial(where)
            assert pair.client.transport.get_extra_info("peername") == (pair.there.address, 10911)

    pair.run(work)


def test_a_clock_drifts_and_stands_still_while_timers_go_on(pair: Pair) -> None:
    clock, right = pair.here.clock, pair.there.clock

    async def work() -> None:
        for rate, ahead_ms in ((1.05, 5_000), (0.98, 3_000), (0.0, -97_000), (1.0, -97_000)):
            clock.drift(rate)
            await clock.sleep(100_000)
            assert clock.now_ms() - right.now_ms() == pytest.approx(ahead_ms, abs=2)
        assert clock.steady_ms() == right.steady_ms()

    pair.run(work)
    assert pair.loop.time() == 400
