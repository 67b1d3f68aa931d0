# SPDX-License-Identifier: Apache-2.0
"""What a connection does with its own requests: gathered writes, deadlines, late answers. A transport that only notes what is written."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sprocketmq.errors import ConnectionLost, RequestTimeout
from sprocketmq.net.connection import CLIENT_ANSWER_READERS, Connection
from sprocketmq.wire.frames.command import Command, decode_command, encode_command, request
from sprocketmq.wire.frames.frame import FrameDecoder
from sprocketmq.wire.send_frames import StoredAnswer

ECHO = 900


class Transport(asyncio.Transport):
    """Notes writes; nothing is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.unsent_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.writes.append(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def opaques(self) -> list[list[int]]:
        """Of each write, the opaques in it."""
        decoder = FrameDecoder()
        found = []
        for write in self.writes:
            whole, spans = decoder.cut(write)
            found.append([decode_command(memoryview(whole)[at:stop]).opaque for at, stop, _ in spans])
        return found


def on_a_loop(scenario: Callable[[Connection, Transport], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        connection, transport = Connection(answer_readers=CLIENT_ANSWER_READERS), Transport()
        connection.connection_made(transport)
        await scenario(connection, transport)

    asyncio.run(run())


STORED = {"msgId": "0A", "queueId": "3", "queueOffset": "7"}


def start_send(connection: Connection, timeout_ms: int = 5_000) -> asyncio.Future[StoredAnswer | Command]:
    opaque = connection.next_opaque()
    frame = encode_command(Command(310, opaque))
    return connection.start_send(opaque, frame, 310, timeout_ms)


def answer(connection: Connection, *opaques: int) -> None:
    """The bytes of these answers, in one read."""
    connection.data_received(b"".join(encode_command(Command(0, opaque, flag=1)) for opaque in opaques))


async def turn() -> None:
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_requests_of_one_turn_of_the_loop_leave_in_one_write():
    async def scenario(connection: Connection, transport: Transport) -> None:
        asked = [asyncio.ensure_future(connection.invoke(request(ECHO), 5000)) for _ in range(10)]
        await turn()
        # The first has nobody to wait for.
        assert transport.opaques() == [[1], list(range(2, 11))]
        answer(connection, *range(1, 11))
        assert [(await future).opaque for future in asked] == list(range(1, 11))

    on_a_loop(scenario)


def test_one_request_at_a_time_is_written_at_once():
    async def scenario(connection: Connection, transport: Transport) -> None:
        for opaque in (1, 2, 3):
            future = connection.start_invoke(request(ECHO))
            assert len(transport.writes) == opaque, "nothing else is in flight, so there is nothing to wait for"
            answer(connection, opaque)
            await future

    on_a_loop(scenario)


def test_gathered_requests_are_bounded():
    async def scenario(connection: Connection, transport: Transport) -> None:
        futures = [connection.start_invoke(request(ECHO, body=bytes(4096))) for _ in range(9)]
        assert [len(write) for write in transport.opaques()] == [1, 4, 4], (
            "16 KiB leave without waiting for the turn's end"
        )
        await turn()
        assert len(transport.writes) == 3
        answer(connection, *range(1, 10))
        await asyncio.gather(*futures)

    on_a_loop(scenario)


def test_nothing_overtakes_what_was_asked_before():
    async def scenario(connection: Connection, transport: Transport) -> None:
        futures = [connection.start_invoke(request(ECHO)) for _ in range(3)]
        await connection.invoke_oneway(request(ECHO))
        connection.send(Command(0, 77, flag=1))
        assert transport.opaques() == [[1], [2, 3, 4, 77]]
        answer(connection, 1, 2, 3)
        await asyncio.gather(*futures)

    on_a_loop(scenario)


def test_closing_writes_what_was_asked():
    async def scenario(connection: Connection, transport: Transport) -> None:
        futures = [connection.start_invoke(request(ECHO)) for _ in range(3)]
        connection.close()
        assert transport.opaques() == [[1], [2, 3]]
        connection.connection_lost(None)
        for future in futures:
            with pytest.raises(ConnectionLost):
                await future

    on_a_loop(scenario)


def test_each_request_has_its_own_deadline_whichever_was_asked_first():
    async def scenario(connection: Connection, transport: Transport) -> None:
        ended: list[int] = []
        futures = []
        for timeout_ms in (60_000, 30, 10, 20):
            future = asyncio.ensure_future(connection.invoke(request(ECHO), timeout_ms))
            future.add_done_callback(lambda _, timeout_ms=timeout_ms: ended.append(timeout_ms))  # type: ignore[misc]
            futures.append(future)
        for future, timeout_ms in zip(futures[1:], (30, 10, 20), strict=True):
            with pytest.raises(RequestTimeout) as caught:
                await future
            assert caught.value.timeout_ms == timeout_ms
        assert ended == [10, 20, 30]
        assert connection.in_flight == 1, "who gave up is forgotten"
        answer(connection, 3)  # late: nobody waits
        answer(connection, 1)
        assert (await futures[0]).opaque == 1

    on_a_loop(scenario)


def test_a_cancelled_request_is_removed():
    async def scenario(connection: Connection, transport: Transport) -> None:
        asked = asyncio.ensure_future(connection.invoke(request(ECHO), 60_000))
        await turn()
        assert connection.in_flight == 1
        asked.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asked
        assert connection.in_flight == 0
        answer(connection, 1)

    on_a_loop(scenario)


def test_many_requests_of_one_timeout_arm_one_timer():
    async def scenario(connection: Connection, transport: Transport) -> None:
        loop = asyncio.get_running_loop()
        armed, call_at = 0, loop.call_at

        def counted(*args: Any, **options: Any) -> asyncio.TimerHandle:
            nonlocal armed
            armed += 1
            return call_at(*args, **options)

        loop.call_at = counted  # type: ignore[method-assign, assignment]
        futures = [connection.start_invoke(request(ECHO), 60_000) for _ in range(500)]
        assert armed == 1
        answer(connection, *range(1, 501))
        await asyncio.gather(*futures)

    on_a_loop(scenario)


def test_a_stored_answer_is_for_sends_and_commands_are_for_everybody_else():
    async def scenario(connection: Connection, transport: Transport) -> None:
        plain, stored, refused, late = (
            connection.start_invoke(request(ECHO)),
            start_send(connection),
            start_send(connection),
            start_send(connection, 1),
        )
        assert transport.opaques() == [[1]]
        await turn()
        assert transport.opaques() == [[1], [2, 3, 4]], "sends gather as other requests do"
        frames = [Command(0, opaque, flag=1, ext_fields=STORED) for opaque in (1, 2, 77)]
        frames.append(Command(2, 3, flag=1, remark="busy"))
        connection.data_received(b"".join(map(encode_command, frames)))
        assert transport.writes[2:] == [], "nobody asked to be told"
        first, second, third = await plain, await stored, await refused
        assert isinstance(first, Command)
        assert first.ext_fields == STORED
        assert isinstance(second, StoredAnswer)
        assert second.extFields.queue_offset == 7
        assert isinstance(third, Command)
        assert third.remark == "busy"
        with pytest.raises(RequestTimeout):
            await late
        assert connection.in_flight == 0

    on_a_loop(scenario)


def test_frames_are_taken_while_they_can_be_written():
    async def scenario(connection: Connection, transport: Transport) -> None:
        assert connection.takes_frames
        transport.unsent_bytes = 5_000_000
        connection.pause_writing()
        await asyncio.sleep(0)
        assert not connection.takes_frames, "the peer does not read"
        transport.unsent_bytes = 0
        connection.resume_writing()
        assert connection.takes_frames
        transport.close()
        assert not connection.takes_frames

    on_a_loop(scenario)


@pytest.mark.parametrize("leaves", ["cancelled", "timed out"])
def test_a_cancelled_write_to_a_peer_that_does_not_read_delays_no_other(leaves):
    async def scenario(connection: Connection, transport: Transport) -> None:
        transport.unsent_bytes = 5_000_000
        connection.pause_writing()
        await turn()
        waiting = [
            asyncio.ensure_future(connection.invoke(request(ECHO), 60_000 if leaves == "cancelled" else 1))
            for _ in range(2)
        ]
        await turn()
        if leaves == "cancelled":
            for one in waiting:
                one.cancel()
        await asyncio.wait(waiting)
        transport.unsent_bytes = 0
        connection.resume_writing()
        assert connection.takes_frames
        late = asyncio.ensure_future(connection.invoke(request(ECHO), 60_000))
        await turn()
        assert len(transport.opaques()) == 1
        late.cancel()

    on_a_loop(scenario)


def test_requests_that_wait_for_a_peer_that_reads_again_are_not_overtaken():
    async def scenario(connection: Connection, transport: Transport) -> None:
        transport.unsent_bytes = 5_000_000
        connection.pause_writing()
        await turn()
        waiting = [asyncio.ensure_future(connection.invoke(request(ECHO), 60_000)) for _ in range(3)]
        await turn()
        assert transport.writes == []
        transport.unsent_bytes = 0
        connection.resume_writing()
        # The first has its turn and has not run yet; what comes now goes behind all three.
        assert not connection.takes_frames
        waiting.append(asyncio.ensure_future(connection.invoke(request(ECHO), 60_000)))
        oneway = asyncio.ensure_future(connection.invoke_oneway(request(ECHO)))
        while not oneway.done():
            assert not connection.takes_frames
            await asyncio.sleep(0)
        await turn()
        written = [opaque for group in transport.opaques() for opaque in group]
        assert written == sorted(written), "opaques are counted as requests are written"
        assert len(written) == 5
        assert connection.takes_frames
        frames = [Command(0, opaque, flag=1, remark=str(opaque)) for opaque in written]
        connection.data_received(b"".join(map(encode_command, frames)))
        assert [(await one).remark for one in waiting] == [str(opaque) for opaque in written[:4]]

    on_a_loop(scenario)


def test_many_requests_to_a_frozen_peer_end_once_each_in_order_and_in_few_turns():
    """A third waits for answers, the others for their turn to write; every tenth is cancelled by the first that ends."""

    async def scenario(connection: Connection, transport: Transport) -> None:
        loop = asyncio.get_running_loop()
        ended: list[tuple[int, float, type[BaseException] | None]] = []
        due_s: dict[int, float] = {}

        async def one(number: int) -> None:
            due_s[number] = loop.time() + 0.02
            error: type[BaseException] | None = None
            try:
                await connection.invoke(request(ECHO), 20)
            except (RequestTimeout, asyncio.CancelledError) as caught:
                error = type(caught)
            ended.append((number, loop.time(), error))
            if len(ended) == 1:
                for late in range(9, 900, 10):
                    tasks[late].cancel()

        tasks = [loop.create_task(one(number)) for number in range(300)]
        await turn()
        transport.unsent_bytes = 5_000_000
        connection.pause_writing()
        await turn()
        tasks += [loop.create_task(one(number)) for number in range(300, 900)]
        patient = asyncio.ensure_future(connection.invoke(request(ECHO), 60_000))
        await asyncio.wait(tasks)
        assert sorted(number for number, _, _ in ended) == list(range(900)), "each ends once"
        late = [(number, at_s) for number, at_s, error in ended if error is RequestTimeout]
        assert all(at_s >= due_s[number] - 0.002 for number, at_s in late), "none ends before its deadline"
        assert {number for number, _, error in ended if error is asyncio.CancelledError} <= set(range(9, 900, 10))
        for part in (range(300), range(300, 900)):
            inside = [number for number, _ in late if number in part]
            assert inside == sorted(inside), "equal timeouts end in the order of the requests"
        assert connection.in_flight == 0
        transport.unsent_bytes = 0
        connection.resume_writing()
        await turn()
        answer(connection, transport.opaques()[-1][-1])
        await patient
        assert connection.takes_frames, "nobody waits for a turn any more"
        timers = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        assert len(timers) <= 1, "that of all waiting requests"

    on_a_loop(scenario)


@pytest.mark.parametrize("ends", ["times out", "closes"])
def test_the_error_of_a_request_is_gone_when_its_caller_drops_it(ends):
    """It is in no cycle with its traceback, so thousands of them are no work for the garbage collector."""

    async def scenario(connection: Connection, transport: Transport) -> None:
        asked = connection.invoke(request(ECHO), 1 if ends == "times out" else 60_000)
        if ends == "closes":
            asyncio.get_running_loop().call_soon(connection.connection_lost, None)
        try:
            await asked
            pytest.fail("it did not fail")
        except (RequestTimeout, ConnectionLost) as error:
            gone = weakref.ref(error)
        del asked
        await turn()
        assert gone() is None

    gc.disable()
    try:
        on_a_loop(scenario)
    finally:
        gc.enable()
