# SPDX-License-Identifier: Apache-2.0
"""Starting and shutting down of every async client. ``core.lifecycle`` decides, this file runs it: opening and closing are tasks,
for which callers wait. The parts that send and receive have no reference to the client, so that it can be garbage-collected.

Rules, in addition to those of the machine
1. A caller that is cancelled returns at once; a shutdown that has begun continues.
2. A call of ``shutdown`` in a callback that the closing waits for (a listener, a check) does not wait for the closing.
3. A client that was not shut down is closed with a ResourceWarning, as a file is: when it is garbage-collected, or, if a loop of
   another thread runs it (the blocking clients), at the end of the program, all together within ``EXIT_TIMEOUT_S``. A running push
   consumer is not collected, like a running thread, because its listener is in use.
4. When a loop is closed, everything of its clients has ended with it.
5. After a fork the child closes nothing: connections and threads are the parent's.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from sprocketmq.client.listen.listener_pool import outside_listener_call
from sprocketmq.core.lifecycle import Lifecycle, LifeState, ShutdownStep, StartStep
from sprocketmq.errors import ClosedError, ConfigurationError

if TYPE_CHECKING:
    from typing import Self

from sprocketmq.net.process.tasks import Tasks

log = logging.getLogger("sprocketmq.client")

EXIT_TIMEOUT_S: Final = 5.0
"""How long the end of a program waits for the clients that were not shut down, all of them together."""


class Parts(Protocol):
    async def start(self) -> None:
        """Called once. If it fails or is cancelled, ``stop`` is called."""
        ...

    async def stop(self) -> None:
        """Release everything. Called once; a cancellation ends the current step only (``in_order``)."""
        ...

    @property
    def runs_caller(self) -> bool:
        """Whether the caller is a callback (a listener, a check) that ``stop`` waits for."""
        ...


P = TypeVar("P", bound=Parts)


async def in_order(*steps: Callable[[], Awaitable[object]]) -> None:
    """Run each step, even if those before it failed. A failure is logged, a cancellation ends the current step only."""
    for step in steps:
        try:
            await step()
        except asyncio.CancelledError:
            log.info("a step of a shutdown was cut short")
        except Exception:
            log.exception("a step of a shutdown failed")


class AsyncClient(Generic[P]):
    """Base of the async clients. A subclass makes its parts in ``_make``, and may keep references to some in ``_use``."""

    _restarts: ClassVar[bool] = True
    """Whether it may be started again after a shutdown."""

    _runs_by_itself: bool = False
    """Whether it continues to run when no variable refers to it."""

    _parts: P | None = None  # from the beginning of the opening to the end of the closing
    _running: P | None = None  # from the end of the opening to the beginning of the closing
    _loop: asyncio.AbstractEventLoop | None = None
    _work: asyncio.Task[BaseException | None]  # the last opening or closing
    _pid = 0
    _is_opening = False
    _ended_by_own_callback = False  # before it had started

    def __init__(self) -> None:
        self._life = Lifecycle(restarts=self._restarts)
        self._ended = asyncio.Event()

    def _make(self) -> P:
        """Make its parts. Raises ConfigurationError: they cannot be made."""
        raise NotImplementedError

    def _use(self, parts: P | None) -> None:
        """It runs with ``parts`` from now on; None: it has stopped."""
        self._running = parts

    @property
    def _name(self) -> str:
        """Its name in messages: ``consumer 'delays'``."""
        raise NotImplementedError

    def _started(self) -> P:
        if self._running is None:
            raise self._not_started()
        return self._running

    def _started_here(self) -> P:
        """``_started`` for what is awaited on the client's loop."""
        self._check_running_loop()
        return self._started()

    def _not_started(self) -> ClosedError:
        return ClosedError(f"{self._name} is not started or was shut down; call start(), or use it in a with block")

    @property
    def _would_be_lost(self) -> str:
        """What is lost without a shutdown, as the rest of a sentence."""
        return ""

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is open and nothing is being opened."""
        return self._life.is_stopped

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Several callers share one start; does nothing if it runs. Raises ClosedError (it was shut down)."""
        while True:
            self._check_loop()
            step = self._life.start()
            if step is StartStep.DONE:
                return
            if step is StartStep.REFUSED:
                raise ClosedError(f"{self._name} was shut down, make a new one")
            if step is StartStep.AFTER_CLOSING:
                await asyncio.shield(self._work)
                continue
            if step is StartStep.OPEN:
                self._ended.clear()
                self._ended_by_own_callback = False
                self._begin(self._opening())
            break
        try:
            failure = await asyncio.shield(self._work)
        except asyncio.CancelledError:
            if self._life.start_abandoned():
                self._cancel_opening()
            raise
        if isinstance(failure, asyncio.CancelledError):
            if self._ended_by_own_callback:  # it ran, and its own callback shut it down
                return
            raise ClosedError(f"{self._name} was shut down while it started")
        if failure is not None:
            raise failure

    def _open_now(self) -> None:
        """``start`` for parts that do not wait for anything. May be called without a loop; the next call on a loop binds the client
        to it. Raises ClosedError (it is being shut down)."""
        self._check_loop()
        step = self._life.start()
        if step is StartStep.OPEN:
            self._parts = self._make()
            self._life.opened()
            self._begun_here()
            self._use(self._parts)
        elif step is StartStep.DONE:
            self._begun_here()
        else:
            raise ClosedError(f"{self._name} is being shut down; wait for that, or make a new one")

    async def shutdown(self) -> None:
        """Shut down and wait until everything is closed. Several callers share one shutdown; does nothing if not started. In a
        listener or check of this client it returns at once; the shutdown ends after that callback."""
        self._check_loop()
        runs_caller = self._parts is not None and self._parts.runs_caller
        step = self._life.shutdown()
        if step is ShutdownStep.DONE:
            return
        if step is ShutdownStep.CLOSE:
            self._use(None)
            self._begin(self._closing())
        elif step is ShutdownStep.CANCEL_OPENING:
            self._ended_by_own_callback = runs_caller
            self._cancel_opening()
        if not runs_caller:
            await asyncio.shield(self._work)

    async def wait(self) -> None:
        """Wait until it is shut down, by whichever caller; returns at once if it is not started."""
        if not self._life.is_stopped:
            await self._ended.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    # -- the work --------------------------------------------------------------------------------------------------------------

    def _begun_here(self) -> None:
        self._loop = _running_loop()
        self._pid = os.getpid()
        _begun.add(self)

    def _begin(self, work: Coroutine[Any, Any, BaseException | None]) -> None:
        self._begun_here()
        with (
            outside_listener_call()
        ):  # who starts a client in a listener does not make that client's own callbacks part of it
            self._work = asyncio.ensure_future(work)

    def _cancel_opening(self) -> None:
        work = self._work

        def cancel() -> None:
            # If it has opened or failed meanwhile, the task is closing now, and closing is never cancelled.
            if self._is_opening:
                work.cancel()

        # After its first step: a task that is cancelled before its first step does not run at all.
        asyncio.get_running_loop().call_soon(cancel)

    async def _opening(self) -> BaseException | None:
        """Returns its failure instead of raising it, because there may be many callers, or none."""
        try:
            self._parts = parts = self._make()
            self._is_opening = True
            try:
                await parts.start()
            finally:
                self._is_opening = False
            if self._life.opened():
                self._use(parts)
                if self._runs_by_itself:
                    _keep(self)
                return None
            failure: BaseException = asyncio.CancelledError()
        except BaseException as error:  # noqa: BLE001 - the callers that wait raise it
            failure = error
        await self._closing()
        return failure

    async def _closing(self) -> None:
        _kept.discard(self)
        try:
            if self._parts is not None:
                await in_order(self._parts.stop)
        finally:
            self._parts = None
            self._life.closed()
            self._ended.set()

    def _check_loop(self) -> None:
        """Forget a loop that was closed (rule 4); raise an error for a call from another loop."""
        loop = self._loop
        if loop is None or self._life.is_stopped:
            return
        if loop.is_closed():
            self._life.shutdown()
            self._life.closed()
            self._parts = None
            self._use(None)
            self._ended = asyncio.Event()
            _kept.discard(self)
        elif _running_loop() not in (loop, None) and self._pid == os.getpid():
            # In a fork, what is used next says that it is one.
            raise ConfigurationError(
                f"{self._name} belongs to another event loop; start, use and shut it down on the same one, or make one for each loop"
            )

    def _check_running_loop(self) -> None:
        """``_check_loop`` for what is awaited on the client's loop; quick."""
        if asyncio._get_running_loop() is not self._loop:
            self._check_loop()

    # -- forgotten clients (rule 3) ---------------------------------------------------------------------------------------------

    def _warn(self, where: str) -> None:
        sentence = f"{self!r} was not shut down {where}; call shutdown(), or use it in a with block"
        warnings.warn(sentence, ResourceWarning, stacklevel=2, source=self)

    def __del__(self) -> None:
        parts, loop = self._parts, self._loop
        if parts is None or loop is None or self._pid != os.getpid() or sys.is_finalizing():
            return
        if self._life.state is LifeState.RUNNING:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_stop_forgotten, parts)
            self._warn("before it was garbage-collected")  # last: a user may have made it an error
            if loop.is_closed() and (lost := self._would_be_lost):
                log.warning("%s was not shut down before its event loop was closed%s", self._name, lost)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_begun: weakref.WeakSet[AsyncClient[Any]] = weakref.WeakSet()
_kept: set[AsyncClient[Any]] = set()  # rule 3: those that run by themselves
_stopping = Tasks(log, "stopping a client that was forgotten")


def _keep(client: AsyncClient[Any]) -> None:
    for other in [other for other in _kept if other._loop is not None and other._loop.is_closed()]:  # rule 4
        _kept.discard(other)
    _kept.add(client)


def unreferenced_clients() -> list[AsyncClient[Any]]:
    """The clients that run by themselves and that nothing else refers to: no variable, no blocking client, no closure."""
    if not hasattr(sys, "getrefcount"):  # not every Python counts references
        return []
    probe: Any = object()  # has one reference, this variable; a client that only ``_kept`` refers to has one, too
    counted = [(client, sys.getrefcount(client)) for client in (probe, *_kept)]
    return [client for client, count in counted[1:] if count <= counted[0][1]]


def _stop_forgotten(parts: Parts) -> None:
    _stopping.start(in_order(parts.stop))


def _is_driven_elsewhere(client: AsyncClient[Any]) -> bool:
    loop = client._loop
    return client._pid == os.getpid() and not client.is_stopped and loop is not None and loop.is_running()


def _shut_down_at_exit() -> None:
    """Rule 3. At this point non-daemon threads have ended, the engines' loops still run, and no thread can be started."""
    clients = [client for client in list(_begun) if _is_driven_elsewhere(client)]
    forgotten = [client for client in clients if client._life.state is LifeState.RUNNING]
    ends: dict[concurrent.futures.Future[None], AsyncClient[Any]] = {}
    for client in clients:
        assert client._loop is not None
        ends[asyncio.run_coroutine_threadsafe(client.shutdown(), client._loop)] = client
    for client in forgotten:
        with contextlib.suppress(Warning):  # a user may have made it an error, and no caller could catch it here
            client._warn("before the program ended")
    if ends:
        _, late = concurrent.futures.wait(ends, EXIT_TIMEOUT_S)
        for end in late:
            client = ends[end]
            log.warning(
                "%s was not shut down within %g s at the end of the program%s",
                client._name,
                EXIT_TIMEOUT_S,
                client._would_be_lost,
            )


atexit.register(_shut_down_at_exit)
