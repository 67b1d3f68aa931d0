# SPDX-License-Identifier: Apache-2.0
"""The pools that run listeners: once each, all reported, nobody held up by a stuck neighbour."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from refused_threads import refused_threads
from sprocketmq.client.listen import async_listener_pool, thread_listener_pool
from sprocketmq.client.listen.async_listener_pool import AsyncListenerPool
from sprocketmq.client.listen.listener_pool import run_in_own_thread
from sprocketmq.client.listen.thread_listener_pool import ThreadListenerPool
from sprocketmq.net.process.clock import ManualClock


async def _until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    end = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < end, "the condition did not come true"
        await asyncio.sleep(0.002)


def _threads(run: Callable[[Any], object], on_done: Callable[[list[Any]], object], workers: int) -> Any:
    def run_and_give_back(item: Any, origin: object) -> Any:
        run(item)
        return item

    return ThreadListenerPool(
        run_and_give_back, lambda items, origin, spent_s: on_done(items), workers, "test", ManualClock()
    )


def _tasks(run: Callable[[Any], Awaitable[object]], on_done: Callable[[list[Any]], object], workers: int) -> Any:
    async def run_and_give_back(item: Any, origin: object) -> Any:
        await run(item)
        return item

    return AsyncListenerPool(
        run_and_give_back, lambda items, origin, spent_s: on_done(items), workers, "test", ManualClock()
    )


def _make(kind: str, run: Callable[[Any], object], on_done: Callable[[list[Any]], object], workers: int) -> Any:
    if kind == "threads":
        return _threads(run, on_done, workers)

    async def run_async(item: Any) -> None:
        await asyncio.sleep(0)
        run(item)

    return _tasks(run_async, on_done, workers)


class _Gates:
    """Items that run until they are let go, in threads or as tasks; how many run is known on the loop."""

    def __init__(self, kind: str) -> None:
        self.is_async = kind == "tasks"
        self.running: set[int] = set()
        self.begun = self.most = 0
        self._lock = threading.Lock()
        self._tasks: dict[int, asyncio.Event] = {}
        self._threads: dict[int, threading.Event] = {}

    def make(self, on_done: Callable[[list[int]], None], workers: int) -> Any:
        if self.is_async:
            return _tasks(self._run_async, on_done, workers)
        return _threads(self._run, on_done, workers)

    def _begins(self, item: int) -> None:
        with self._lock:
            self.running.add(item)
            self.begun += 1
            self.most = max(self.most, len(self.running))

    def _run(self, item: int) -> None:
        gate = self._threads.setdefault(item, threading.Event())
        self._begins(item)
        gate.wait(20)
        self.running.discard(item)

    async def _run_async(self, item: int) -> None:
        gate = self._tasks.setdefault(item, asyncio.Event())
        self._begins(item)
        await gate.wait()
        self.running.discard(item)

    def let_go(self, items: set[int]) -> None:
        for item in items:
            (self._tasks[item] if self.is_async else self._threads[item]).set()


def _items(pool: Any) -> list[Any]:
    return [running.item for running in pool.running]


@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_every_item_runs_once_and_is_reported_once_on_the_loop(kind):
    ran: list[int] = []
    done: list[int] = []
    here = threading.get_ident()
    where: set[int] = set()

    def on_done(items: list[int]) -> None:
        where.add(threading.get_ident())
        done.extend(items)

    pool = _make(kind, ran.append, on_done, 4)
    for start in range(0, 1000, 50):
        pool.submit(list(range(start, start + 50)))
        await asyncio.sleep(0)
    await _until(lambda: len(done) == 1000)
    assert sorted(ran) == sorted(done) == list(range(1000))
    assert where == {here}
    assert await pool.close(1000)


async def test_a_stuck_item_does_not_hold_up_the_rest_of_its_chunk_nor_the_report_of_those_before_it(monkeypatch):
    ticks = itertools.count()  # a microsecond at each look: so the listener is fast, however slow the machine

    monkeypatch.setattr(thread_listener_pool, "time", SimpleNamespace(perf_counter=lambda: next(ticks) * 1e-6))
    release = threading.Event()
    done: list[int] = []
    pool = _threads(lambda item: release.wait(20) if item == 503 else None, done.extend, 3)
    # First make the pool believe that the listener is fast, so that a chunk goes to one worker.
    pool.submit(list(range(500)))
    await _until(lambda: len(done) == 500)
    assert pool._mean_s < 100e-6
    pool.submit(list(range(500, 520)))
    await _until(lambda: len(done) == 519)
    assert 503 not in done
    assert _items(pool) == [503]
    release.set()
    await _until(lambda: len(done) == 520)
    assert await pool.close(1000)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_no_more_than_the_workers_run_at_once_and_all_of_them_do(kind):
    gates, done = _Gates(kind), []
    pool = gates.make(done.extend, 5)
    pool.submit([0])
    await _until(lambda: len(gates.running) == 1)
    pool.submit(list(range(1, 12)))
    await _until(lambda: len(gates.running) == 5)
    assert kind == "tasks" or len(pool._threads) == 5
    while len(done) < 12:
        gates.let_go(set(gates.running))
        await asyncio.sleep(0.001)
    assert gates.most == 5
    assert await pool.close(1000)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_after_close_nothing_starts_and_what_ran_is_reported(kind):
    gates, done = _Gates(kind), []
    pool = gates.make(done.extend, 1)
    pool.submit([1, 2, 3])
    await _until(lambda: gates.running == {1})
    closing = asyncio.ensure_future(pool.close(10_000))
    await asyncio.sleep(0)
    pool.submit([4])
    gates.let_go({1})
    assert await closing
    assert (done, gates.begun) == ([1], 1)


async def test_close_reports_a_listener_that_does_not_end():
    release = threading.Event()
    pool = _threads(lambda item: release.wait(20), lambda items: None, 2)
    pool.submit([1])
    await _until(lambda: _items(pool) == [1])
    assert not await pool.close(20)
    release.set()
    await _until(lambda: not pool._threads)


async def test_resize_takes_idle_workers_away_and_allows_new_ones():
    together = threading.Barrier(6)
    done: list[int] = []
    pool = _threads(lambda item: together.wait(20), done.extend, 2)
    pool.resize(6)
    pool.submit(list(range(6)))
    await _until(lambda: len(done) == 6)
    pool.resize(1)
    await _until(lambda: len(pool._threads) == 1)
    assert await pool.close(1000)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_new_workers_take_what_waits_already(kind):
    gates, done = _Gates(kind), []
    pool = gates.make(done.extend, 2)
    pool.submit(list(range(20)))
    await _until(lambda: len(gates.running) == 2)
    pool.resize(9)
    await _until(lambda: len(gates.running) == 9)
    while len(done) < 20:
        gates.let_go(set(gates.running))
        await asyncio.sleep(0.001)
    assert sorted(done) == list(range(20))
    assert await pool.close(1000)


async def test_a_pool_that_was_to_shrink_and_grows_again_keeps_its_workers():
    gates, done = _Gates("threads"), []
    pool = gates.make(done.extend, 4)
    pool.submit(list(range(12)))
    await _until(lambda: len(gates.running) == 4)
    before = set(pool._threads)
    pool.resize(1)
    pool.resize(4)  # before any of them was done with its item
    while len(done) < 12:
        gates.let_go(set(gates.running))
        await asyncio.sleep(0.001)
    assert set(pool._threads) == before
    assert await pool.close(1000)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
@pytest.mark.parametrize("workers", [1, 3])
async def test_workers_that_are_too_many_leave_after_the_item_in_hand_and_forget_nothing(kind, workers):
    gates, done = _Gates(kind), []
    pool = gates.make(done.extend, 8)
    pool.submit(list(range(30)))
    await _until(lambda: len(gates.running) == 8)
    pool.resize(workers)
    pool.resize(workers)  # asked twice, so many leave once
    gates.let_go(set(gates.running))
    await _until(lambda: len(done) == 8 and len(gates.running) == workers)
    while len(done) < 30:
        assert len(gates.running) <= workers
        gates.let_go(set(gates.running))
        await asyncio.sleep(0.001)
    assert sorted(done) == list(range(30))
    pool.resize(8)
    pool.submit(list(range(30, 40)))
    await _until(lambda: len(gates.running) == 8)
    gates.let_go(set(gates.running))
    await _until(lambda: len(done) == 38 and len(gates.running) == 2)
    gates.let_go(set(gates.running))
    await _until(lambda: len(done) == 40)
    assert await pool.close(1000)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
@pytest.mark.parametrize("error", [ValueError("a bug"), SystemExit(1)], ids=["a bug", "an exit"])
async def test_an_item_whose_run_raises_is_reported_and_the_next_ones_run(kind, error):
    done: list[int] = []

    def run(item: int) -> None:
        if item % 3 == 0:
            raise error

    pool = _make(kind, run, done.extend, 2)
    pool.submit(list(range(12)))
    await _until(lambda: len(done) == 12)
    assert sorted(done) == list(range(12))
    assert await pool.close(1000)


async def test_a_call_on_a_thread_is_awaited_and_does_not_delay_the_end_of_the_process():
    where: list[threading.Thread] = []
    await run_in_own_thread(lambda: where.append(threading.current_thread()), "direct")
    assert where[0].name == "direct"
    assert where[0].daemon
    assert where[0] is not threading.current_thread()


@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_the_time_of_each_call_is_reported_once(kind, monkeypatch):
    ticks = itertools.count()  # a clock that goes on by one at each look

    for module in (async_listener_pool, thread_listener_pool):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    reports: list[tuple[int, object, float]] = []

    def on_done(items: list[int], origin: object, spent_s: float) -> None:
        reports.append((len(items), origin, spent_s))

    async def run_async(item: int, origin: object) -> int:
        await asyncio.sleep(0)
        return item

    pool: Any = (
        ThreadListenerPool(lambda item, origin: item, on_done, 1, "test", ManualClock())
        if kind == "threads"
        else AsyncListenerPool(run_async, on_done, 1, "test", ManualClock())
    )
    for origin in ("a", "b"):
        pool.submit(list(range(50)), origin)
    await _until(lambda: sum(count for count, _, _ in reports) == 100)
    assert all(spent_s == count for count, _, spent_s in reports)
    assert {o: sum(count for count, origin, _ in reports if origin == o) for o in "ab"} == {"a": 50, "b": 50}
    assert await pool.close(1000)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
async def test_what_runs_is_found_with_the_moment_it_began(kind):
    gates, now_ms = _Gates(kind), 5
    done: list[int] = []
    pool = gates.make(done.extend, 4)
    pool._steady_ms = lambda: now_ms
    pool.submit([1, 2], "first")
    await _until(lambda: len(gates.running) == 2)
    now_ms = 7
    pool.submit([3], "second")
    await _until(lambda: len(gates.running) == 3)
    assert sorted(pool.running) == [(1, "first", 5), (2, "first", 5), (3, "second", 7)]
    gates.let_go({1, 3})
    await _until(lambda: len(done) == 2)
    assert pool.running == [(2, "first", 5)]
    gates.let_go({2})
    await _until(lambda: len(done) == 3)
    assert pool.running == []
    assert await pool.close(1000)


async def test_a_listener_that_never_waits_keeps_one_task_busy():
    tasks: set[asyncio.Task[Any] | None] = set()
    done: list[int] = []

    async def run(item: int) -> None:
        tasks.add(asyncio.current_task())

    pool = _tasks(run, done.extend, 20)
    for start in range(0, 1000, 50):
        pool.submit(list(range(start, start + 50)))
    await _until(lambda: len(done) == 1000)
    assert len(tasks) == 1
    assert await pool.close(1000)


async def test_one_that_waits_leaves_the_rest_to_other_tasks_at_once():
    gate = asyncio.Event()
    ran: list[int] = []
    done: list[int] = []

    async def run(item: int) -> None:
        ran.append(item)
        if item in (3, 4):
            await gate.wait()

    pool = _tasks(run, done.extend, 3)
    pool.submit(list(range(10)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert ran == list(range(10))
    await _until(lambda: len(done) == 8)
    gate.set()
    await _until(lambda: len(done) == 10)
    assert await pool.close(1000)


def test_items_wait_until_a_thread_can_be_started(caplog):
    async def main() -> None:
        finished: list[int] = []
        pool = _threads(lambda item: None, finished.extend, 2)
        with refused_threads("test") as refused:
            pool.submit([1, 2])
            await _until(lambda: len(refused) > 2)  # each tick tries again
            assert finished == []
        await _until(lambda: sorted(finished) == [1, 2])
        assert await pool.close(20_000)

    asyncio.run(main())
    assert [record.message for record in caplog.records] == [
        "listeners wait, because no thread can be started: can't start new thread"
    ]
