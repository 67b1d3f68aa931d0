# SPDX-License-Identifier: Apache-2.0
"""Callers of an engine in programs of their own: signals during the wait, and a fork while the shared engine is being made."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from sprocketmq.errors import ClosedError
from sprocketmq.net.process.engine import _WAIT_S, Engine, _BlockingCall


def _printed(program: str) -> str:
    arguments = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="sends a signal to one thread")
def test_a_waiting_caller_sees_a_signal_that_does_not_end_its_wait():
    """Another thread gets the signal, so nothing interrupts the wait of the main thread, which has to run the handler."""
    program = """
        import asyncio, signal, sys, threading, time
        from sprocketmq.net.process.engine import Engine

        started = threading.Event()

        async def forever():
            started.set()
            await asyncio.Event().wait()

        def is_waiting():
            return sys._current_frames()[threading.main_thread().ident].f_code.co_filename.endswith("engine.py")

        def interrupt():
            started.wait()
            while not is_waiting():
                time.sleep(0.01)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        engine = Engine()
        threading.Thread(target=interrupt).start()
        try:
            engine.run(forever())
        except KeyboardInterrupt:
            print("interrupted")
        """
    assert _printed(program) == "interrupted\n"


class Gate:
    """A lock that opens after as many waits in vain as are given, and notes the timeout of each."""

    def __init__(self, in_vain: int) -> None:
        self._in_vain = in_vain
        self.timeouts: list[float] = []

    def acquire(self, timeout: float) -> bool:
        self.timeouts.append(timeout)
        return len(self.timeouts) > self._in_vain


def _call(gate: Gate) -> _BlockingCall[int]:
    async def answer() -> int:
        return 7

    coroutine, loop = answer(), asyncio.new_event_loop()
    try:
        call = _BlockingCall(loop, coroutine, None)
        call._task = loop.create_task(coroutine)
        loop.run_until_complete(call._task)
    finally:
        loop.close()
    call._loop = SimpleNamespace(is_closed=lambda: False)
    call._gate = gate
    return call


@pytest.mark.parametrize("in_vain", [0, 1, 3])
def test_a_call_without_a_timeout_waits_again_until_it_has_ended(in_vain):
    gate = Gate(in_vain)
    assert _call(gate).result(None) == 7
    assert gate.timeouts == [_WAIT_S] * (in_vain + 1)


def test_a_call_with_a_timeout_waits_once():
    gate = Gate(1)
    with pytest.raises(concurrent.futures.TimeoutError):
        _call(gate).result(2.5)
    assert gate.timeouts == [2.5]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_forked_while_the_shared_engine_is_made_makes_its_own():
    program = """
        import os, signal, threading
        from sprocketmq.net.process import engine as module

        make, is_making, may_go_on = module.new_event_loop, threading.Event(), threading.Event()

        def make_slowly():
            is_making.set()
            may_go_on.wait()
            return make()

        async def answer():
            return 7

        module.new_event_loop = make_slowly
        thread = threading.Thread(target=module.Engine.shared)
        thread.start()
        is_making.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends a child that waits forever
            module.new_event_loop = make
            os._exit(module.Engine.shared().run(answer()))
        may_go_on.set()
        thread.join()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    assert _printed(program) == "7\n"


def test_a_call_that_begins_while_the_engine_closes_ends():
    """Its coroutine begins when all tasks of that moment were cancelled already, and the loop stops right after that."""
    engine = Engine("closing")
    outcomes: list[concurrent.futures.Future[None]] = []

    async def forever(started: asyncio.Event) -> None:
        started.set()
        await asyncio.Event().wait()

    async def when_cancelled(caller: concurrent.futures.ThreadPoolExecutor) -> None:
        started = [asyncio.Event(), asyncio.Event()]
        try:
            await asyncio.Event().wait()
        finally:
            outcomes.append(caller.submit(engine.run, forever(started[0])))
            outcomes.append(engine.submit(forever(started[1])))
            for event in started:
                await event.wait()

    with concurrent.futures.ThreadPoolExecutor(1) as caller:
        engine.submit(when_cancelled(caller))
        engine.close()
        for outcome in outcomes:
            with pytest.raises(concurrent.futures.CancelledError):
                outcome.result(20)
    assert len(outcomes) == 2
    assert engine.loop.is_closed()


def test_a_call_whose_engine_was_closed_before_it_began_ends():
    async def never() -> None:
        raise AssertionError("it began")

    loop = asyncio.new_event_loop()
    loop.close()
    coroutine = never()
    call = _BlockingCall(loop, coroutine, None)
    with pytest.raises(ClosedError):
        call.result(None)
    call.give_up()
    assert coroutine.cr_frame is None  # it was closed: Python warns of one that was never awaited


@pytest.mark.slow
def test_an_engine_whose_executor_hangs_is_closed_all_the_same():
    """In a process of its own: asyncio's thread that waits for the executor fails later, because the loop is closed."""
    program = """
        import asyncio, os, threading
        from sprocketmq.net.process.engine import Engine

        engine = Engine()

        async def use_a_thread():
            asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)

        engine.run(use_a_thread())
        engine.close()
        print(engine.loop.is_closed(), engine._thread.is_alive(), flush=True)
        os._exit(0)
        """
    assert _printed(program) == "True False\n"


def test_a_closed_engine_takes_no_calls():
    engine = Engine("closed")
    engine.close()
    with pytest.raises(ClosedError):
        engine.call(lambda: None)
