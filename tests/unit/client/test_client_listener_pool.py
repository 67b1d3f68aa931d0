"""The pools that run listeners: once each, all reported, nobody held up by a stuck neighbour."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sprocketmq.client.listener_pool import AsyncListenerPool, ThreadListenerPool


async def _until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    end = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < end, "the condition did not come true"
        await asyncio.sleep(0.002)


def _make(kind: str, run: Callable[[Any], None], on_done: Callable[[list[Any]], None], workers: int) -> Any:
    if kind == "threads":
        return ThreadListenerPool(run, on_done, workers, "test")

    async def run_async(item: Any) -> None:
        await asyncio.sleep(0)
        run(item)

    return AsyncListenerPool(run_async, on_done, workers, "test")


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_every_item_runs_once_and_is_reported_once_on_the_loop(kind: str) -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_a_stuck_item_does_not_hold_up_the_rest_of_its_chunk_nor_the_report_of_those_before_it() -> None:
    async def main() -> None:
        release = threading.Event()
        done: list[int] = []
        pool: ThreadListenerPool[int] = ThreadListenerPool(
            lambda item: release.wait(20) and None if item == 503 else None, done.extend, 3, "test"
        )
        # First make the pool believe that the listener is fast, so that a chunk goes to one worker.
        pool.submit(list(range(500)))
        await _until(lambda: len(done) == 500)
        assert pool._mean_s < 100e-6
        pool.submit(list(range(500, 520)))
        await _until(lambda: len(done) == 519)
        assert 503 not in done
        assert list(pool.running) == [503]
        release.set()
        await _until(lambda: len(done) == 520)
        assert await pool.close(1000)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_no_more_than_the_workers_run_at_once_and_all_of_them_do(kind: str) -> None:
    async def main() -> None:
        running, most, done = 0, 0, []
        lock = threading.Lock()
        gate = asyncio.Event()
        release = threading.Event()

        def enter() -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)

        def leave() -> None:
            nonlocal running
            with lock:
                running -= 1

        def run(item: int) -> None:
            enter()
            release.wait(20)
            leave()

        async def run_async(item: int) -> None:
            enter()
            await gate.wait()
            leave()

        pool: Any = (
            ThreadListenerPool(run, done.extend, 5, "test")
            if kind == "threads"
            else AsyncListenerPool(run_async, done.extend, 5, "test")
        )
        pool.submit(list(range(12)))
        await _until(lambda: running == 5)
        release.set()
        gate.set()
        await _until(lambda: len(done) == 12)
        assert most == 5
        assert await pool.close(1000)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_after_close_nothing_starts_and_what_ran_is_reported(kind: str) -> None:
    async def main() -> None:
        release, started, done = threading.Event(), [], []
        gate = asyncio.Event()

        def run(item: int) -> None:
            started.append(item)
            release.wait(20)

        async def run_async(item: int) -> None:
            started.append(item)
            await gate.wait()

        pool: Any = (
            ThreadListenerPool(run, done.extend, 1, "test")
            if kind == "threads"
            else AsyncListenerPool(run_async, done.extend, 1, "test")
        )
        pool.submit([1, 2, 3])
        await _until(lambda: started == [1])
        closing = asyncio.ensure_future(pool.close(10_000))
        await asyncio.sleep(0)
        pool.submit([4])
        release.set()
        gate.set()
        assert await closing
        assert started == done == [1]

    asyncio.run(main())


def test_close_says_when_a_listener_does_not_end() -> None:
    async def main() -> None:
        release = threading.Event()
        pool: ThreadListenerPool[int] = ThreadListenerPool(
            lambda item: release.wait(20) and None, lambda items: None, 2, "test"
        )
        pool.submit([1])
        await _until(lambda: list(pool.running) == [1])
        assert not await pool.close(20)
        release.set()
        await _until(lambda: not pool._threads)

    asyncio.run(main())


def test_resize_takes_idle_workers_away_and_allows_new_ones() -> None:
    async def main() -> None:
        together = threading.Barrier(6)
        done: list[int] = []
        pool: ThreadListenerPool[int] = ThreadListenerPool(
            lambda item: together.wait(20) and None, done.extend, 2, "test"
        )
        pool.resize(6)
        pool.submit(list(range(6)))
        await _until(lambda: len(done) == 6)
        pool.resize(1)
        await _until(lambda: len(pool._threads) == 1)
        assert await pool.close(1000)

    asyncio.run(main())
