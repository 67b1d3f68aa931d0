"""Running servers in the foreground until a signal: one event loop, one ready line on stdout, exit code 0 when told to stop.

The ready line is a contract with whatever started the process (a shell script, a test, the demo): it comes when everything listens and
is registered, it is the only line on stdout, and logs go to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol

from sprocketmq.net.process.descriptors import raise_descriptor_limit
from sprocketmq.net.process.engine import new_event_loop
from sprocketmq.net.process.malloc_settings import raise_malloc_thresholds

__all__ = ["Part", "StatusDisplay", "serve_until_stopped"]

log = logging.getLogger("sprocketmq.cli")


class Part(Protocol):
    """A server that can be started and stopped on the running loop: NameServer, Broker."""

    async def astart(self) -> object: ...

    async def astop(self) -> None: ...

    @property
    def ended(self) -> asyncio.Event:
        """Set when it has stopped, also by itself."""
        ...


class StatusDisplay(Protocol):
    """What a person sees while the servers run (the status line); started after the ready line, stopped before the servers."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


def serve_until_stopped(
    parts: Sequence[Callable[[], Part]],
    ready: Callable[[list[Part]], str],
    *,
    until_stdin_closes: bool = False,
    show: Callable[[list[Part]], StatusDisplay | None] = lambda parts: None,
) -> None:
    """Start each part in order, print ``ready(parts)`` with the process id, wait for SIGTERM or SIGINT, stop in reverse order.

    Parts are made one after the other, so that a broker may be told the port its name server got. What a part raises at its start is
    raised here, after the parts before it were stopped. ``until_stdin_closes`` also stops at the end of stdin, so that a server never
    outlives the program that started it, however that one died. ``show(parts)`` makes what a person watches meanwhile, or None.
    """
    raise_descriptor_limit()
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_serve(parts, ready, until_stdin_closes, show))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()


async def _serve(
    parts: Sequence[Callable[[], Part]],
    ready: Callable[[list[Part]], str],
    until_stdin_closes: bool,
    show: Callable[[list[Part]], StatusDisplay | None],
) -> None:
    stopping = asyncio.Event()
    started: list[Part] = []
    shown: StatusDisplay | None = None
    with _signals(stopping):
        if until_stdin_closes:
            loop = asyncio.get_running_loop()
            # A daemon thread: a read of stdin cannot be cancelled, and must not hold up a stop that a signal asked for.
            threading.Thread(target=_wait_for_end_of_stdin, args=(loop, stopping), daemon=True).start()
        try:
            for make in parts:
                part = make()
                await part.astart()
                started.append(part)
                if stopping.is_set():
                    return
            print(f"ready {ready(started)} pid={os.getpid()}", flush=True)
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
    """Returns when somebody asked to stop, or when every part has ended by itself (a broker that handed over)."""

    async def all_ended() -> None:
        for part in parts:
            await part.ended.wait()

    waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(all_ended())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _tune_garbage_collector() -> None:
    """Requests make short-lived objects without cycles, which reference counts free at once: looking for cycles each 700 of them,
    and through all modules every now and then, took a tenth of a send. What exists now stays; the rest is looked at more seldom.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def _stop(steps: list[Callable[[], Awaitable[None]]]) -> None:
    """Run every step even if one fails; the first failure is raised at the end."""
    failure: BaseException | None = None
    for step in steps:
        try:
            await step()
        except Exception as error:  # noqa: BLE001 - the other parts must still write their files
            log.error("stopping failed: %s", error)
            failure = failure or error
    if failure is not None:
        raise failure


@contextlib.contextmanager
def _signals(stopping: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        log.info("%s: stopping", name)
        stopping.set()

    numbers = (signal.SIGTERM, signal.SIGINT)
    if sys.platform == "win32":  # no add_signal_handler there
        for number in numbers:
            signal.signal(number, lambda got, _frame: loop.call_soon_threadsafe(stop, signal.Signals(got).name))
        yield
        return
    for number in numbers:
        loop.add_signal_handler(number, stop, number.name)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _wait_for_end_of_stdin(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    with contextlib.suppress(OSError, ValueError):  # no stdin is an ended stdin
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop closed meanwhile
        loop.call_soon_threadsafe(stopping.set)
