# SPDX-License-Identifier: Apache-2.0
"""Many requests in one write of one peer: the others have their turn before all of them are served, and every one is answered."""

from __future__ import annotations

import asyncio
import socket

import pytest

from decoded_frames import decoded
from interop.remoting import request_frame
from sprocketmq.net import connection as connection_module
from sprocketmq.net.connection import Connection
from sprocketmq.net.output import queued_bytes as queued_bytes_module
from sprocketmq.net.output.queued_bytes import QueuedBytes
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command, encode_command
from sprocketmq.wire.frames.frame import FrameDecoder

WAIT_S = 30
MANY = 300


class Time:
    """Stands for the time that requests take: each costs 4 ms."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time_s(monkeypatch: pytest.MonkeyPatch) -> Time:
    time_s = Time()
    monkeypatch.setattr(connection_module, "perf_counter", time_s)
    return time_s


class Paused(asyncio.Transport):
    """A peer that has written what it has to say."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def frame(code: int, opaque: int) -> bytes:
    return encode_command(Command(code, opaque))


def opaques(connection: socket.socket, count: int) -> list[int]:
    found: list[int] = []
    decoder = FrameDecoder()
    while len(found) < count and (data := connection.recv(65_536)):
        found += [answer.opaque for answer in decoded(decoder, data)]
    return found


def test_another_peer_is_served_between_the_requests_of_one_write(cluster, time_s):
    served: list[str] = []
    greedy = socket.create_connection(("127.0.0.1", cluster.namesrv.port), timeout=WAIT_S)
    modest = socket.create_connection(("127.0.0.1", cluster.namesrv.port), timeout=WAIT_S)
    names = {greedy.getsockname()[1]: "greedy", modest.getsockname()[1]: "modest"}

    def look(connection: Connection, command: Command, handler):
        if connection.peer[1] in names:
            if not served:
                modest.sendall(frame(RequestCode.GET_BROKER_CLUSTER_INFO, 7))
            served.append(names[connection.peer[1]])
            time_s.now_s += 0.004
        return handler(connection, command)

    cluster.on_loop(lambda: setattr(cluster.namesrv, "intercept", look))
    with greedy, modest:
        frames = [frame(RequestCode.GET_BROKER_CLUSTER_INFO, number) for number in range(MANY)]
        greedy.sendall(b"".join(frames))
        assert opaques(modest, 1) == [7]
        assert opaques(greedy, MANY) == list(range(MANY)), "in order, each once"
    assert served.count("greedy") == MANY
    assert served.index("modest") < 16


def test_requests_that_wait_for_their_turn_are_bounded_and_go_with_their_connection(cluster, time_s):
    """A peer that breaks off in the middle of its requests leaves nothing behind."""
    seen: list[int] = []

    def look(connection: Connection, command: Command, handler):
        if connection.peer[1] == port:
            seen.append(command.opaque)
            time_s.now_s += 0.02
            if len(seen) == 3:
                connection.abort()
        return handler(connection, command)

    with socket.create_connection(("127.0.0.1", cluster.namesrv.port), timeout=WAIT_S) as peer:
        port = peer.getsockname()[1]
        cluster.on_loop(lambda: setattr(cluster.namesrv, "intercept", look))
        peer.sendall(b"".join(frame(RequestCode.GET_BROKER_CLUSTER_INFO, number) for number in range(MANY)))
        while peer.recv(65_536):
            pass
    cluster.on_loop(lambda: None)
    assert seen == [0, 1, 2]
    assert cluster.namesrv_client().ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0


def test_all_connections_that_have_requests_left_share_the_part_of_a_turn_that_one_would_have(monkeypatch):
    """By a clock on which each request takes a millisecond; sixty connections with sixty requests each, all read in one turn."""
    clock, turns = [0.0], []

    def handle(connection, command):
        clock[0] += 0.001
        turns[-1] += 1

    for module in (connection_module, queued_bytes_module):
        monkeypatch.setattr(module, "perf_counter", lambda: clock[0])

    async def flood(connections: int) -> list[int]:
        turns[:] = [0]
        queued = QueuedBytes()
        frames = request_frame(1, {}) * 60
        for _ in range(connections):
            served = Connection(handle, is_served=True, queued=queued)
            served.connection_made(Paused())
            served.data_received(frames)
        while sum(turns) < 60 * connections:
            turns.append(0)
            await asyncio.sleep(0)
        assert len(queued._sharers) == 0
        return turns[1:]

    assert max(asyncio.run(flood(1))) >= 10
    assert max(asyncio.run(flood(60))) <= 10 + 1
