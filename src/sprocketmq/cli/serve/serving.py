# SPDX-License-Identifier: Apache-2.0
"""Running servers in the foreground until a signal. Scripts, tests and the demo rely on the ready line: it is printed when all servers
accept connections and are registered, and it is the only line on stdout; logs go to stderr. The exit code after a signal is 0."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sprocketmq.net.process.descriptors import raise_descriptor_limit
from sprocketmq.net.process.engine import new_event_loop
from sprocketmq.net.process.malloc_settings import raise_malloc_thresholds
from sprocketmq.net.process.stop_signals import stop_signals

if TYPE_CHECKING:
    from sprocketmq.cli.serve.status_line import StatusLine

log = logging.getLogger("sprocketmq.cli")


class Part(Protocol):
    """A server that can be started and stopped on the running loop: NameServer, Broker, ConsoleServer or ConsoleProcess."""

    async def astart(self) -> object: ...

    async def astop(self) -> None: ...

    @property
    def ready(self) -> asyncio.Event:
        """Set when clients find the server, which may be later than its start."""
        ...

    @property
    def ended(self) -> asyncio.Event: ...


def serve_until_stopped(
    parts: Sequence[Callable[[], Part]],
    ready: Callable[[list[Part]], str],
    *,
    until_stdin_closes: bool = False,
    show: Callable[[list[Part]], StatusLine | None] = lambda parts: None,
    stop_within_s: float | None = None,
) -> None:
    """Start each part after the one before it, so that a broker can use its name server's port; when clients find all, print
    ``ready(parts)`` with the process id; wait for SIGTERM, SIGINT or SIGHUP (the terminal was closed; not under ``nohup``); stop them in
    reverse order. What a part raises when it is started is raised. ``until_stdin_closes``: so that the servers end with the program that
    started them. ``stop_within_s``: the parts run code of users, which may hang: the process ends when they have not stopped in that time
    (exit code 1), and at once with a second signal."""
    raise_descriptor_limit()
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_serve(parts, ready, until_stdin_closes, show, stop_within_s))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()


async def _serve(
    parts: Sequence[Callable[[], Part]],
    ready: Callable[[list[Part]], str],
    until_stdin_closes: bool,
    show: Callable[[list[Part]], StatusLine | None],
    stop_within_s: float | None,
) -> None:
    stopping = asyncio.Event()
    started: list[Part] = []
    shown: StatusLine | None = None
    with _signals(stopping, stop_within_s):
        if until_stdin_closes:
            loop = asyncio.get_running_loop()
            # A daemon thread, because a read of stdin cannot be cancelled and must not delay the stop after a signal.
            threading.Thread(target=_wait_for_end_of_stdin, args=(loop, stopping), daemon=True).start()
        try:
            for make in parts:
                part = make()
                await part.astart()
                started.append(part)
                await _first_of(stopping.wait(), part.ready.wait(), part.ended.wait())
                if stopping.is_set():
                    return
            print(f"ready {ready(started)} pid={os.getpid()}", flush=True)
            if stop_within_s is None:
                _tune_garbage_collector()
                raise_malloc_thresholds()
            shown = show(started)
            if shown is not None:
                shown.start()
            await _stopped(stopping, started)
        finally:
            if shown is not None:
                shown.stop()
            await _stop([part.astop for part in reversed(started)])


async def _stopped(stopping: asyncio.Event, parts: list[Part]) -> None:
    """Wait until a stop is requested, or until every part has ended by itself (a broker after a handover)."""

    async def all_ended() -> None:
        for part in parts:
            await part.ended.wait()

    await _first_of(stopping.wait(), all_ended())


async def _first_of(*these: Coroutine[Any, Any, Any]) -> None:
    """Raises what the first one raised; the others are cancelled."""
    waits = [asyncio.ensure_future(this) for this in these]
    try:
        ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in ended:
            wait.result()
    finally:
        for wait in waits:
            wait.cancel()


def _tune_garbage_collector() -> None:
    """Requests create short-lived objects without cycles, which reference counting frees at once. With the default thresholds the
    cyclic collector took a tenth of the time of a send."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def _stop(steps: list[Callable[[], Awaitable[None]]]) -> None:
    """Run every step even if one fails; the first failure is raised at the end."""
    failure: BaseException | None = None
    for step in steps:
        try:
            await step()
        except Exception as error:  # noqa: BLE001 - the other parts still have to write their files
            log.error("stopping failed: %s", error)
            failure = failure or error
    if failure is not None:
        raise failure


@contextlib.contextmanager
def _signals(stopping: asyncio.Event, stop_within_s: float | None) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    has_begun = False

    def stop(name: str) -> None:
        log.info("%s: stopping", name)
        stopping.set()

    def stop_soon(number: int, _frame: object) -> None:
        nonlocal has_begun
        if has_begun and stop_within_s is not None:
            os._exit(128 + number)
        has_begun = True  # first, because the second signal may come in the middle of this
        if stop_within_s is not None:
            late = threading.Timer(stop_within_s, _end_late, (stop_within_s,))
            late.daemon = True
            late.start()
        loop.call_soon_threadsafe(stop, signal.Signals(number).name)

    before = {number: signal.getsignal(number) for number in stop_signals()}
    try:
        for number in before:
            # Windows has no add_signal_handler, and a loop that a user's code blocks would not call one.
            if sys.platform == "win32" or stop_within_s is not None:
                signal.signal(number, stop_soon)
            else:
                loop.add_signal_handler(number, stop, number.name)
        yield
    finally:
        for number, handler in before.items():
            if sys.platform != "win32" and stop_within_s is None:
                loop.remove_signal_handler(number)
            if handler is not None:  # else it was not installed from Python, and cannot be put back
                signal.signal(number, handler)


def _end_late(stop_within_s: float) -> None:
    log.error(
        "not stopped within %g s: ending at once; messages whose listener calls have not ended come again",
        stop_within_s,
    )
    os._exit(1)


def _wait_for_end_of_stdin(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed stdin counts as its end
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop is closed already
        loop.call_soon_threadsafe(stopping.set)
