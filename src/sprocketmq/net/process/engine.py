# SPDX-License-Identifier: Apache-2.0
"""One event loop on one background thread: how blocking callers use the async code, without a second copy of any logic. ``Engine.shared()``
serves all blocking clients of a process; a broker has an engine of its own, so that a busy client cannot delay it.

A callback that raises SystemExit or KeyboardInterrupt ends ``run_forever``; that must end neither the loop nor the process, so it is logged
and the loop goes on.

End of the interpreter: after the functions of ``atexit`` no other thread runs any more, and a ``__del__`` would wait for the engine for
ever, so calls are refused. Before that, when the main thread has ended and others go on, ``concurrent.futures`` has shut its executors down
(and cannot be imported any more, nor can uvloop, which imports it): the engine's loop runs their work on threads of its own.

gevent and eventlet replace threads by greenlets of one thread, where the engine's loop would block all others; between them and a real
thread the standard library's locks, queues and selectors fail or wake nobody (tried with gevent 26.9). So no engine is made there.

Fork: a child process has the parent's objects but not its thread. So the shared engine is keyed by process id and created again there,
and an inherited engine refuses calls.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

from sprocketmq.errors import ClosedError, ConfigurationError
from sprocketmq.net.process import fork
from sprocketmq.threads import ClaimedWork

log = logging.getLogger("sprocketmq.net")

T = TypeVar("T")

_CLOSED: Final = "this engine was closed; create the client with another one"
_FINALIZING: Final = (
    "the interpreter is ending, and the threads of clients and brokers have ended; make this call earlier"
)
# How long a caller waits at a time. A signal that arrives as the wait begins, or in another thread, does not end the wait, and on Windows
# none does before Python 3.14; its handler (Ctrl-C) then runs when the wait is over.
_WAIT_S: Final = 0.5
_LATE_S: Final = 1.0  # how long tasks that began while the engine closed may take to end


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A uvloop loop if uvloop is installed, else asyncio's own; it can run work on threads as long as any thread runs."""
    base: type[asyncio.AbstractEventLoop]
    try:
        import uvloop

        base = uvloop.Loop
    except (ImportError, RuntimeError):  # Windows, PyPy; the main thread has ended
        base = getattr(asyncio, "ProactorEventLoop", asyncio.SelectorEventLoop)
    return _lasting(base)()


def _lasting(base: type[asyncio.AbstractEventLoop]) -> type[asyncio.AbstractEventLoop]:
    class Loop(base):  # type: ignore[valid-type, misc]
        """``base``, whose executors work after the main thread has ended."""

        def run_in_executor(
            self, executor: concurrent.futures.Executor | None, function: Callable[..., Any], *args: Any
        ) -> asyncio.Future[Any]:
            try:
                future: asyncio.Future[Any] = super().run_in_executor(executor, function, *args)
            except RuntimeError:
                if self.is_closed() or threading.main_thread().is_alive():
                    raise
                work = ClaimedWork(partial(function, *args))
                threading.Thread(target=work, daemon=True).start()
                future = asyncio.wrap_future(work.outcome, loop=self)
            return future

    return Loop


def _check_threads() -> None:
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        name, instead = "gevent", "monkey.patch_all(thread=False)"
    elif eventlet is not None and eventlet.is_monkey_patched("thread"):
        name, instead = "eventlet", "eventlet.monkey_patch(thread=False)"
    else:
        return
    raise ConfigurationError(
        f"{name} has replaced the threads of this process, and clients need a real one; "
        f"use {instead}, or workers with threads or processes (gunicorn -k gthread, celery --pool threads)"
    )


# Under its lock the shared engine is made. An engine could not renew it in a child: the first one registers itself while the lock is held.
_shared_guard: Final = fork.LockAcrossForks(threading.Lock)


class Engine:
    """A running event loop on a daemon thread. Create, ``run``/``submit`` coroutines from any other thread, ``close`` at the end.
    Raises ConfigurationError (gevent or eventlet has replaced threads), ClosedError (the interpreter is ending)."""

    _shared: ClassVar[dict[int, Engine]] = {}

    def __init__(self, name: str = "sprocketmq-engine") -> None:
        _check_threads()
        if sys.is_finalizing():  # before Python 3.12 the start of the thread would wait for ever
            raise ClosedError(_FINALIZING)
        self.loop = new_event_loop()
        self._is_closing = self._is_stuck = False
        self.is_inherited = False  # it runs in the parent of a fork, and not here; asking for the process id takes a system call each time
        fork.register(self)
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> Engine:
        """The process's engine for blocking clients; it is never closed, because its thread is a daemon."""
        with _shared_guard.lock:
            engine = cls._shared.get(os.getpid())
            if engine is None or engine.loop.is_closed():
                engine = cls._shared[os.getpid()] = cls()
            return engine

    def after_fork_in_child(self) -> None:
        self.is_inherited = True

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._is_closing:
                self._run_guarded(self.loop.run_forever)
            # What other threads began between the cancelling and the stop: their callers wait for an end.
            if not self._is_stuck:
                self._run_guarded(lambda: self.loop.run_until_complete(_cancel_late()))
        finally:
            self.loop.close()

    def _run_guarded(self, run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:  # of a user's callback; see the module's docstring
            sentence = "a callback raised %s on the thread %s; that ends neither the thread nor the process"
            log.error(sentence, type(error).__name__, self._thread.name, exc_info=error)

    @property
    def on_engine_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _refusal(self) -> str | None:
        if self.is_inherited:
            return fork.FORKED
        if self._is_closing or self.loop.is_closed():
            return _CLOSED
        return _FINALIZING if sys.is_finalizing() else None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        refusal = self._refusal()
        if refusal is not None:
            coroutine.close()
            raise ClosedError(refusal)
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(
        self,
        coroutine: Coroutine[Any, Any, T],
        timeout_s: float | None = None,
        unreceived: Callable[[T], object] | None = None,
    ) -> T:
        """Run ``coroutine`` on the engine and wait for its result; an interrupt (Ctrl-C) cancels it there. ``unreceived``: called on the
        engine with a result that the caller did not get because of an interrupt or timeout at the same time; it is called before the
        next coroutine of this caller runs. Raises ClosedError (the engine is closed, or the interpreter is ending), RuntimeError (called
        on the engine's own thread, where waiting would never end)."""
        if self.on_engine_thread:
            coroutine.close()
            raise RuntimeError("a blocking call was made on the engine's own thread; use the async client there")
        if self._refusal() is not None:
            self.submit(coroutine)  # raises
        call = _BlockingCall(self.loop, coroutine, unreceived)
        try:
            self.loop.call_soon_threadsafe(call.start)
            return call.result(timeout_s)
        except BaseException:
            call.give_up()
            raise
        finally:
            del call  # as in ``_BlockingCall.result``

    def call(self, callback: Callable[[], object]) -> None:
        """Run ``callback()`` on the engine soon, without waiting. Raises ClosedError if the engine is closed or the interpreter ends."""
        if self._is_closing:
            raise ClosedError(_CLOSED)
        if sys.is_finalizing():
            raise ClosedError(_FINALIZING)
        try:
            self.loop.call_soon_threadsafe(callback)
        except RuntimeError as error:
            raise ClosedError(_CLOSED) from error

    def close(self) -> None:
        """Cancel running tasks, stop the loop, join the thread. Does nothing if closed already."""
        if self.loop.is_closed() or self.is_inherited or sys.is_finalizing():
            return
        try:
            asyncio.run_coroutine_threadsafe(_cancel_all(), self.loop).result(5)
        except (concurrent.futures.TimeoutError, RuntimeError):
            # Cancelling the wait for an executor's thread would block the loop (before Python 3.13).
            self._is_stuck = True
            print("sprocketmq: tasks were still running when the engine closed", file=sys.stderr)  # noqa: T201
        self._is_closing = True  # before the stop, which is lost if a callback of the same turn raises
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)


class _BlockingCall(Generic[T]):
    """A coroutine for which another thread waits. One lock replaces two futures and the condition between them.

    start (loop) --> the task ends --> gate opens --> result (caller)
    give_up (caller) --> the task is cancelled, possibly before its first step; a result that it already has is unreceived
    """

    __slots__ = ("_coroutine", "_gate", "_given_up", "_has_ended", "_loop", "_task", "_unreceived")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T],
        unreceived: Callable[[T], object] | None,
    ) -> None:
        self._loop, self._coroutine, self._unreceived = loop, coroutine, unreceived
        self._task: asyncio.Task[T] | None = None
        self._given_up = self._has_ended = False  # both are used on the loop only
        self._gate = threading.Lock()
        self._gate.acquire()

    def start(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._has_ended = True
        self._gate.release()
        if self._given_up:
            self._retrieve(task)

    def result(self, timeout_s: float | None) -> T:
        if not self._gate.acquire(timeout=_WAIT_S if timeout_s is None else timeout_s):
            if timeout_s is not None:
                raise concurrent.futures.TimeoutError
            while not self._gate.acquire(timeout=_WAIT_S) and not self._loop.is_closed():
                pass
        task = self._task
        if task is None or not task.done():  # the engine was closed as this call began: nothing opens the gate any more
            raise ClosedError(_CLOSED)
        if task.cancelled():
            raise concurrent.futures.CancelledError
        try:
            return task.result()
        finally:
            del task, self  # they hold the error, whose traceback holds this frame

    def give_up(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # the loop was closed meanwhile
            if self._task is None:
                self._coroutine.close()
            elif self._task.done():
                self._retrieve(self._task)

    def _cancel(self) -> None:
        self._given_up = True
        if self._task is None:  # the interrupt came before the loop started it
            self._coroutine.close()
        elif self._has_ended:
            self._retrieve(self._task)
        else:  # perhaps it is done, and ``_ended`` on its way
            self._task.cancel()

    def _retrieve(self, task: asyncio.Task[T]) -> None:
        """Retrieve an outcome that no other code retrieves, so that asyncio does not warn."""
        if not task.cancelled() and task.exception() is None and self._unreceived is not None:
            self._unreceived(task.result())


def _cancelled_tasks() -> list[asyncio.Task[Any]]:
    current = asyncio.current_task()
    tasks = [task for task in asyncio.all_tasks() if task is not current]
    for task in tasks:
        task.cancel()
    return tasks


async def _cancel_late() -> None:
    end_s = asyncio.get_running_loop().time() + _LATE_S
    while tasks := _cancelled_tasks():
        _, pending = await asyncio.wait(tasks, timeout=max(0.0, end_s - asyncio.get_running_loop().time()))
        if pending:
            return


async def _cancel_all() -> None:
    await asyncio.gather(*_cancelled_tasks(), return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
