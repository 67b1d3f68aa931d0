# SPDX-License-Identifier: Apache-2.0
"""The laws of net.bounded_protocol and net.queued_bytes, with a transport whose peer reads when it is told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from decoded_frames import decoded
from sprocketmq.errors import ConnectionLost, RequestTimeout
from sprocketmq.net.bounded_protocol import TLS_BUFFER_BYTES
from sprocketmq.net.connection import Connection, bytes_while_waiting
from sprocketmq.net.gathered_answers import GatheredAnswers
from sprocketmq.net.output.queued_bytes import QueuedBytes
from sprocketmq.wire.frames.command import Command, decode_command, encode_command, request, response
from sprocketmq.wire.frames.frame import FrameDecoder

KIB = 1024
MARK = 256 * KIB
LIMIT = 4 * 1024 * KIB


class Transport(asyncio.Transport):
    """Keeps what is written until its peer reads it; pauses and resumes its protocol as asyncio's transports do.

    ``forgets``: as asyncio's own of Python 3.12.1, it does not look at its mark after ``writelines``.
    """

    forgets = False

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self._protocol = protocol
        self.buffer, self.read = bytearray(), bytearray()
        self.is_cut = self.is_paused = False
        self._high, self._is_full = 0, False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0
        self._look()

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def write(self, data: Any) -> None:
        self.buffer += data
        self._look()

    def writelines(self, list_of_data: Any) -> None:
        self.buffer += b"".join(list_of_data)
        if not self.forgets:
            self._look()

    def _look(self) -> None:
        if len(self.buffer) > self._high and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def peer_reads(self, size: int = 1 << 30) -> None:
        self.read += self.buffer[:size]
        del self.buffer[:size]
        if self._is_full and len(self.buffer) <= self._high // 4:
            self._is_full = False
            self._protocol.resume_writing()

    def commands(self) -> list[Command]:
        """What the peer has read, and will."""
        return decoded(FrameDecoder(1 << 30), bytes(self.read + self.buffer))

    def is_closing(self) -> bool:
        return self.is_cut

    def abort(self) -> None:
        if not self.is_cut:
            self.is_cut = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    close = abort

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Side:
    """One connection of a server, or of a client, that shares its budget with others."""

    def __init__(
        self, queued: QueuedBytes, handler: Callable[[Connection, Command], Command | None], *, is_served: bool = True
    ) -> None:
        self.connection = Connection(handler, is_served=is_served, queued=queued)
        self.transport = Transport(self.connection)
        self.connection.connection_made(self.transport)

    def ask(self, *bodies: bytes, code: int = 900) -> None:
        """All in one read."""
        frames = [encode_command(Command(code, number, body=body)) for number, body in enumerate(bodies)]
        self.connection.data_received(b"".join(frames))


def run(scenario: Callable[[QueuedBytes], Coroutine[Any, Any, None]]) -> QueuedBytes:
    queued = QueuedBytes(LIMIT, MARK)
    asyncio.run(scenario(queued))
    return queued


@pytest.fixture(params=[False, True], ids=["", "writelines forgets to pause"])
def forgetful(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transport, "forgets", request.param)


def large_answer(connection: Connection, command: Command) -> Command:
    return response(command, body=bytes(100 * KIB))


@pytest.mark.usefixtures("forgetful")
def test_the_mark_is_looked_at_within_one_read():
    handled = 0

    def answer(connection: Connection, command: Command) -> Command:
        nonlocal handled
        handled += 1
        return large_answer(connection, command)

    async def scenario(queued: QueuedBytes) -> None:
        side = Side(queued, answer)
        side.ask(*[b"question"] * 1_000)
        gathered = 1 + 1024 // 100
        assert handled <= gathered + 1, "no more than one write may gather, then the peer is looked at"
        assert side.transport.is_paused
        assert side.connection.unsent_bytes <= 1024 * KIB + 2 * 100 * KIB
        while handled < 1_000:
            side.transport.peer_reads()
        assert [command.opaque for command in side.transport.commands()] == list(range(1_000))
        side.transport.peer_reads()
        await asyncio.sleep(0)
        assert not side.transport.is_paused
        assert (queued.in_bytes, queued.out_bytes) == (0, 0)

    run(scenario)


def test_requests_that_are_being_worked_on_pause_their_peer_until_some_have_ended():
    held: list[tuple[Connection, Command, int]] = []

    def work(connection: Connection, command: Command) -> None:
        size = bytes_while_waiting(command)
        connection.hold(size)
        held.append((connection, command, size))

    async def scenario(queued: QueuedBytes) -> None:
        side = Side(queued, work)
        side.ask(*[bytes(30 * KIB)] * 40)
        assert 0 < len(held) <= MARK // (30 * KIB) + 1
        assert side.transport.is_paused
        assert queued.in_bytes >= MARK
        seen = []
        while held:
            connection, command, size = held.pop(0)
            seen.append(command.opaque)
            connection.release(size)
            connection.send(response(command))
            await asyncio.sleep(0)
        assert seen == list(range(40))
        assert not side.transport.is_paused
        assert queued.in_bytes == 0

    run(scenario)


def test_a_held_body_does_not_keep_the_read_it_came_in():
    command = decode_command(memoryview(encode_command(Command(900, 1, body=b"body")))[4:])
    assert isinstance(command.body, memoryview)
    assert bytes_while_waiting(command) > 4
    assert command.body == b"body"
    assert isinstance(command.body, bytes)


def test_what_is_held_is_noted_in_steps_and_not_each_time():
    noted = 0

    async def scenario(queued: QueuedBytes) -> None:
        nonlocal noted
        side = Side(queued, large_answer)
        note = queued.note

        def count(*what: Any) -> None:
            nonlocal noted
            noted += 1
            note(*what)

        queued.note = count  # type: ignore[method-assign]
        for number in range(1, 101):
            side.connection.hold(KIB)
            assert abs(queued.in_bytes - number * KIB) <= 16 * KIB
        for number in range(99, -1, -1):
            side.connection.release(KIB)
            assert abs(queued.in_bytes - number * KIB) <= 16 * KIB
        assert queued.in_bytes == 0
        assert noted <= 2 * (100 // 16 + 1)

    run(scenario)


def test_what_is_held_of_a_peer_that_has_gone_stays_counted_until_it_is_released():
    async def scenario(queued: QueuedBytes) -> None:
        side = Side(queued, large_answer)
        side.connection.hold(100 * KIB)
        side.connection.connection_lost(None)
        assert queued.in_bytes == 100 * KIB
        side.connection.release(100 * KIB)
        assert queued.in_bytes == 0

    run(scenario)


def test_pushes_to_a_peer_that_does_not_read_are_dropped_and_notices_wait_one_of_each_kind():
    async def scenario(queued: QueuedBytes) -> None:
        side = Side(queued, large_answer)
        pushed = sum(side.connection.push(request(39, body=bytes(50 * KIB), oneway=True)) for _ in range(100))
        assert pushed <= MARK // (50 * KIB) + 1
        for number in range(100):
            for kind in ("a", "b"):
                notice = encode_command(Command(40, number, ext_fields={"group": kind}))
                side.connection.push_newest(kind, notice)
        side.transport.peer_reads()
        told = [
            (command.opaque, command.ext_fields["group"]) for command in side.transport.commands() if command.code == 40
        ]
        assert told == [(99, "a"), (99, "b")]
        side.connection.push_newest("a", encode_command(Command(40, 100, ext_fields={"group": "a"})))
        assert side.transport.commands()[-1].opaque == 100

    run(scenario)


def test_what_waits_for_a_peer_to_read_runs_when_it_does_and_never_after_its_end():
    async def scenario(queued: QueuedBytes) -> None:
        ran: list[str] = []
        side = Side(queued, large_answer)
        side.connection.when_writable(lambda: ran.append("at once"))
        side.ask(*[b"question"] * 10)
        side.connection.when_writable(lambda: ran.append("later"))
        assert ran == ["at once"]
        side.transport.peer_reads()
        assert ran == ["at once", "later"]
        side.ask(*[b"question"] * 10)
        side.connection.when_writable(lambda: ran.append("never"))
        side.connection.connection_lost(None)
        side.connection.resume_writing()
        assert ran == ["at once", "later"]

    run(scenario)


def test_the_backlog_falls_by_what_the_peer_reads_whatever_is_written_since():
    async def scenario(queued: QueuedBytes) -> None:
        side, large = Side(queued, large_answer), Command(0, 1, 1, body=bytes(100 * KIB))
        for _ in range(5):
            side.connection.send(large)
        number, before_bytes = side.connection.backlog
        side.transport.peer_reads(50 * KIB)
        side.connection.send(large)
        assert side.connection.backlog == (number, before_bytes - 50 * KIB)

    run(scenario)


def test_a_queue_that_others_fill_closes_its_connection(caplog):
    async def scenario(queued: QueuedBytes) -> None:
        queued.most_out_bytes = 4 * MARK
        side = Side(queued, large_answer)
        for _ in range(100):
            side.connection.send(Command(0, 1, 1, body=bytes(100 * KIB)))
        assert side.transport.is_cut
        assert len(side.transport.buffer) <= 5 * MARK
        assert queued.closed_connections == 1
        assert queued.out_bytes == 0

    with caplog.at_level(logging.WARNING):
        run(scenario)
    assert "does not read" in caplog.text


def test_one_large_answer_goes_to_a_peer_that_read_until_now():
    async def scenario(queued: QueuedBytes) -> None:
        queued.most_out_bytes = 4 * MARK
        side = Side(queued, lambda connection, command: response(command, body=bytes(6 * MARK)))
        side.ask(b"once")
        await asyncio.sleep(0)
        assert not side.transport.is_cut

    run(scenario)


def test_over_the_limit_of_all_the_largest_go_and_the_others_stay(caplog):
    async def scenario(queued: QueuedBytes) -> None:
        honest = Side(queued, large_answer)
        honest.ask(b"one")
        greedy = [Side(queued, large_answer) for _ in range(8)]
        begun = (16 * 1024 * KIB - 4).to_bytes(4, "big")
        for side in greedy:
            side.connection.data_received(begun + bytes(1024 * KIB))
        await asyncio.sleep(0)
        assert queued.in_bytes + queued.out_bytes <= LIMIT
        assert sum(side.transport.is_cut for side in greedy) == queued.closed_connections == 5
        assert not honest.transport.is_cut

    with caplog.at_level(logging.WARNING):
        run(scenario)
    assert "maxQueuedBytes" in caplog.text


def test_what_tls_keeps_beside_an_unfinished_frame_is_counted():
    begun = (16 * 1024 * KIB - 4).to_bytes(4, "big") + bytes(1024 * KIB)

    async def scenario(queued: QueuedBytes) -> None:
        plain, tls = Side(queued, large_answer), Connection(large_answer, is_served=True, queued=queued)
        plain.connection.data_received(begun)
        before_bytes = queued.in_bytes
        transport = Transport(tls)
        transport._extra["sslcontext"] = object()  # type: ignore[attr-defined]
        tls.connection_made(transport)
        tls.data_received(begun)
        assert queued.in_bytes == 2 * before_bytes + TLS_BUFFER_BYTES

    run(scenario)


def test_no_connection_is_closed_for_bytes_that_were_sent_meanwhile():
    async def scenario(queued: QueuedBytes) -> None:
        sides = [Side(queued, large_answer) for _ in range(60)]
        for side in sides:
            side.ask(b"one")
            side.transport.peer_reads(60 * KIB)  # above the low mark, so nobody is told
        assert queued.closed_connections == 0

    run(scenario)


def test_after_an_abort_nothing_is_kept():
    async def scenario(queued: QueuedBytes) -> None:
        side = Side(queued, large_answer)
        side.ask(*[b"question"] * 100)
        side.connection.abort()
        side.ask(*[b"question"] * 100)
        await asyncio.sleep(0)
        side.connection.release(0)
        assert side.connection.queued_bytes() == (0, 0)
        assert (queued.in_bytes, queued.out_bytes) == (0, 0)

    run(scenario)


def test_requests_wait_in_their_order_and_each_only_as_long_as_it_may():
    async def scenario(queued: QueuedBytes) -> None:
        side = Side(queued, large_answer, is_served=False)
        first = asyncio.ensure_future(side.connection.invoke(Command(1, body=bytes(2 * MARK)), 60_000))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert side.connection.is_congested
        waiting = [
            asyncio.ensure_future(side.connection.invoke(Command(2 + n, body=bytes(200 * KIB)), 60_000))
            for n in range(5)
        ]
        hurried = asyncio.ensure_future(side.connection.invoke(Command(99), 1))
        with pytest.raises(RequestTimeout):
            await hurried
        with pytest.raises(RequestTimeout):
            await asyncio.wait_for(side.connection.invoke(Command(98), 1), 10)
        waiting[1].cancel()
        for _ in range(10):
            side.transport.peer_reads()
            for _ in range(5):
                await asyncio.sleep(0)
            assert side.connection.unsent_bytes <= MARK + 200 * KIB + KIB
        assert [command.code for command in side.transport.commands()] == [1, 2, 4, 5, 6]
        side.connection.abort()
        for task in (first, waiting[0], *waiting[2:]):
            with pytest.raises(ConnectionLost):
                await task

    run(scenario)


def test_a_waiting_write_fails_when_the_connection_breaks():
    async def scenario(queued: QueuedBytes) -> None:
        side = Side(queued, large_answer, is_served=False)
        await side.connection.invoke_oneway(Command(1, body=bytes(2 * MARK)))
        await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(side.connection.invoke_oneway(Command(2))) for _ in range(3)]
        await asyncio.sleep(0)
        side.connection.abort()
        for task in waiting:
            with pytest.raises(ConnectionLost):
                await task

    run(scenario)


def test_a_connection_that_cannot_be_written_to_costs_the_others_nothing(caplog):
    async def scenario() -> None:
        queued = QueuedBytes()
        sides = [Side(queued, lambda *_: None) for _ in range(3)]
        broken = sides[0].transport

        def fails(*_: Any) -> None:
            raise RuntimeError("no")

        broken.write = broken.writelines = fails  # type: ignore[method-assign]
        for side in sides:
            side.connection.hold(20_000)
        with GatheredAnswers() as gathered:
            for number in range(2):
                for side in sides:
                    gathered.take(side.connection, 10_000)
                    side.connection.send(response(Command(900, number)))
        assert [command.opaque for side in sides[1:] for command in side.transport.commands()] == [0, 1, 0, 1]
        assert broken.is_cut
        await asyncio.sleep(0)
        assert queued.in_bytes == 0
        sides[1].connection.send(response(Command(900, 2)))
        assert len(sides[1].transport.commands()) == 3

    with caplog.at_level(logging.ERROR, "sprocketmq.net"):
        asyncio.run(scenario())
    assert "could not be written" in caplog.text
