# SPDX-License-Identifier: Apache-2.0
"""The signals that stop a program, and their handlers for the async consumers of one event loop: one handler for each signal, installed
when the first consumer begins to wait. When the last one has ended, those of ``signal.signal`` are put back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Any, Final

# On Windows loops handle no signals; elsewhere only those of the main thread do.
_NOT_HERE: Final = (NotImplementedError, ValueError, RuntimeError)


def stop_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT, and SIGHUP (the terminal was closed) if the program does not ignore it, as it does under ``nohup``."""
    found = [signal.SIGTERM, signal.SIGINT]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found


class _SharedHandlers:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before: dict[int, Any] = {}
        self.events: set[asyncio.Event] = set()

    def install(self) -> None:
        for number in stop_signals():
            # Noted first, so that ``remove`` knows it also if an interrupt comes right after the installation.
            before = self._before[number] = signal.getsignal(number)
            with contextlib.suppress(*_NOT_HERE):
                self._loop.add_signal_handler(number, self._set_all)
                if signal.getsignal(number) == before:
                    # The loop had a handler already. It cannot be read back, and what the loop gave to ``signal.signal`` for it does
                    # nothing without it: put back, it would swallow the signal.
                    self._before[number] = None

    def remove(self) -> None:
        for number, before in self._before.items():
            with contextlib.suppress(*_NOT_HERE):
                # False if the loop was closed: then the handlers are gone, and perhaps the application has set its own. None is also what
                # a handler that was not installed from Python reads as; then the default stays, which the removal has set.
                if self._loop.remove_signal_handler(number) and before is not None:
                    signal.signal(number, before)

    def _set_all(self) -> None:
        for event in self.events:
            event.set()


_of_loop: Final[dict[asyncio.AbstractEventLoop, _SharedHandlers]] = {}


@contextlib.contextmanager
def stop_event() -> Iterator[asyncio.Event]:
    """An event of the running loop that ``stop_signals`` set; only ever set in the main thread, and not on Windows."""
    loop = asyncio.get_running_loop()
    shared = _of_loop.get(loop)
    if shared is None:
        for other in [other for other in list(_of_loop) if other.is_closed()]:  # while consumers still waited
            _of_loop.pop(other, None)
        shared = _of_loop[loop] = _SharedHandlers(loop)
    event = asyncio.Event()
    is_first = not shared.events
    try:
        shared.events.add(event)
        if is_first:
            shared.install()
        yield event
    finally:
        shared.events.discard(event)
        if not shared.events:
            _of_loop.pop(loop, None)
            shared.remove()
