# SPDX-License-Identifier: Apache-2.0
"""The engine's thread, its end, its fork guard; the manual clock's order."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from sprocketmq.errors import ClosedError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.net.process.engine import Engine


def test_close_cancels_what_runs_and_ends_the_thread():
    engine = Engine("test-closing")
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    engine.submit(forever())
    engine.run(asyncio.sleep(0))
    engine.close()
    assert cancelled.is_set()
    assert "test-closing" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ClosedError):
        engine.run(asyncio.sleep(0))


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=lambda error: type(error).__name__
)
def test_a_callback_that_raises_what_ends_programs_ends_only_itself(engine, error, caplog):
    def fail() -> None:
        raise error

    async def begin() -> None:
        asyncio.get_running_loop().call_soon(fail)

    for _ in range(3):
        engine.run(begin())
    assert engine.run(asyncio.sleep(0, "it goes on")) == "it goes on"
    assert f"a callback raised {type(error).__name__}" in caplog.text or isinstance(error, GeneratorExit)


def test_an_engine_whose_callback_fails_in_the_turn_of_its_close_ends():
    engine = Engine("test-failing-close")
    engine.run(asyncio.sleep(0))

    def stop() -> None:
        raise SystemExit

    engine.loop.stop = stop  # type: ignore[method-assign]
    engine.close()
    assert engine.loop.is_closed()


def test_giving_up_a_blocking_call_cancels_its_coroutine(engine):
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(concurrent.futures.TimeoutError):
        engine.run(forever(), timeout_s=0.05)
    assert cancelled.wait(30)


def test_a_call_that_was_given_up_before_it_began_never_begins(engine):
    began = threading.Event()
    go_on = threading.Event()

    async def begin() -> None:
        began.set()

    engine.call(lambda: go_on.wait(30))  # keeps the engine's thread busy
    with pytest.raises(concurrent.futures.TimeoutError):
        engine.run(begin(), timeout_s=0.05)
    go_on.set()
    engine.run(asyncio.sleep(0))
    assert not began.is_set()


def test_a_result_after_the_timeout_is_passed_on_before_the_callers_next_coroutine(engine):
    unreceived: list[str] = []
    go_on = threading.Event()

    async def result() -> str:
        go_on.wait(30)  # keeps the engine's thread busy, so that the end comes before the cancellation
        return "messages"

    async def look() -> list[str]:
        return list(unreceived)

    timer = threading.Timer(0.2, go_on.set)
    timer.start()
    with pytest.raises(concurrent.futures.TimeoutError):
        engine.run(result(), timeout_s=0.05, unreceived=unreceived.append)
    go_on.set()
    assert engine.run(look(), unreceived=unreceived.append) == ["messages"]
    assert unreceived == ["messages"]
    timer.join()


def test_the_manual_clock_runs_timers_in_due_order_and_chains_of_them(engine):
    clock = ManualClock(start_ms=1_000)
    fired: list[tuple[str, int]] = []

    async def schedule() -> None:
        clock.call_later(300, lambda: fired.append(("late", clock.now_ms())))

        def again() -> None:
            fired.append(("tick", clock.now_ms()))
            clock.call_later(100, again)

        clock.call_later(100, again)
        clock.call_later(150, lambda: fired.append(("cancelled", 0))).cancel()

    engine.run(schedule())
    clock.advance(350)
    assert fired == [("tick", 1100), ("tick", 1200), ("late", 1300), ("tick", 1300)]
    assert clock.now_ms() == 1350


def test_a_timer_that_a_running_callback_is_about_to_set_is_not_passed_by(engine):
    """A test saw the callback begin, and moves the clock by what the timer takes."""
    clock, began, fired = ManualClock(), threading.Event(), threading.Event()

    async def known() -> None:
        clock.call_later(3_600_000, lambda: None)

    def callback() -> None:
        began.set()
        threading.Event().wait(0.05)
        clock.call_later(100, fired.set)

    engine.run(known())
    engine.call(callback)
    assert began.wait(60)
    clock.advance(100)
    assert fired.is_set()
