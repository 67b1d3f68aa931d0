# SPDX-License-Identifier: Apache-2.0
"""When a manual clock is at rest, with connections and work that only say what they are asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from sprocketmq.net.process.clock import ManualClock, SystemClock, watch
from sprocketmq.net.process.engine import Engine


class End:
    def __init__(self, local_address: str, remote_address: str) -> None:
        self.local_address, self.remote_address = local_address, remote_address
        self.read_bytes = self.written_bytes = 0


class Work:
    """What a clock watches."""

    def __init__(self, *connections: End) -> None:
        self.connections = connections
        self.is_busy = False
        self.calls = frozenset[object]()


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine("test-engine")
    yield engine
    engine.close()


def a_connection() -> tuple[End, End]:
    return End("client:1", "server:2"), End("server:2", "client:1")


def test_a_clock_without_work_is_at_rest():
    assert ManualClock().is_at_rest()


def test_work_that_waits_for_no_timer_is_waited_for():
    clock, work = ManualClock(), Work()
    watch(clock, work)
    work.is_busy = True
    assert not clock.is_at_rest()
    work.is_busy = False
    assert clock.is_at_rest()


def test_calls_that_are_said_to_hang_are_not_waited_for():
    clock, work, other = ManualClock(), Work(), Work()
    watch(clock, work)
    watch(clock, other)
    work.is_busy, work.calls = True, frozenset({1, 2})
    assert clock.running_calls() == {1, 2}
    assert not clock.is_at_rest({1})
    assert clock.is_at_rest({1, 2, 3})
    other.is_busy = True  # not with calls
    assert not clock.is_at_rest({1, 2})


def test_work_that_does_not_exist_any_more_is_forgotten():
    clock, work = ManualClock(), Work()
    watch(clock, work)
    work.is_busy = True
    del work
    assert clock.is_at_rest()


def test_bytes_that_were_written_and_not_read_are_under_way():
    clock, (client, server) = ManualClock(), a_connection()
    watch(clock, work := Work(client))
    watch(clock, other := Work(server))
    client.written_bytes += 100
    server.read_bytes += 60
    assert not clock.is_at_rest()
    server.read_bytes += 40
    assert clock.is_at_rest()
    server.written_bytes += 1
    assert not clock.is_at_rest()
    del work, other


def test_a_connection_whose_other_end_is_elsewhere_never_rests():
    clock, (client, server) = ManualClock(), a_connection()
    work = Work(server)
    watch(clock, work)
    assert not clock.is_at_rest()
    work.connections = (server, client)
    assert clock.is_at_rest()


def test_what_happens_between_two_looks_is_seen(engine):
    """A whole exchange, that leaves all as it was but for the numbers of bytes."""
    clock, (client, server) = ManualClock(), a_connection()

    class Exchange(Work):
        looks = 0

        @property
        def is_busy(self) -> bool:  # type: ignore[override]
            self.looks += 1
            if self.looks == 2:
                client.written_bytes += 1
                server.read_bytes += 1
            return False

        @is_busy.setter
        def is_busy(self, value: bool) -> None: ...

    watch(clock, work := Exchange(client, server))
    assert not clock.is_at_rest()
    assert clock.is_at_rest()
    assert work.looks == 4


def test_what_a_loop_can_do_now_is_done_first(engine):
    """Steps of a task that follow on each other, and begin work at last."""
    clock, work = ManualClock(), Work()
    watch(clock, work)

    async def chain() -> None:
        clock.call_later(1_000, lambda: None)
        for _ in range(12):
            threading.Event().wait(0.002)
            await asyncio.sleep(0)
        work.is_busy = True

    engine.submit(chain())
    engine.run(asyncio.sleep(0))
    assert not clock.is_at_rest()


def test_a_loop_that_something_blocks_is_not_at_rest(engine):
    clock, go_on = ManualClock(), threading.Event()

    async def use() -> None:
        clock.call_later(1_000, lambda: None)

    engine.run(use())
    engine.call(lambda: go_on.wait(30))
    assert not clock.is_at_rest()
    go_on.set()
    engine.run(asyncio.sleep(0))
    assert clock.is_at_rest()


def test_the_next_timer_is_the_first_that_was_not_cancelled(engine):
    clock = ManualClock()

    async def schedule() -> None:
        clock.call_later(100, lambda: None).cancel()
        clock.call_later(700, lambda: None)
        clock.call_later(300, lambda: None)

    assert clock.next_timer_ms() is None
    engine.run(schedule())
    assert clock.next_timer_ms() == 300
    clock.advance(120)
    assert clock.next_timer_ms() == 180
    clock.advance(600)
    assert clock.next_timer_ms() is None


def test_other_clocks_wait_for_nothing():
    watch(SystemClock(), Work())
