# SPDX-License-Identifier: Apache-2.0
"""An interrupt, as by Ctrl-C, in the middle of a blocking call."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from sprocketmq.net.process import engine

needs_signals = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of POSIX")


class Interrupted(BaseException):
    """As Ctrl-C, from a handler of our own."""


@contextlib.contextmanager
def signal_while_waiting(handler: Callable[[], None]) -> Iterator[None]:
    """Runs ``handler`` in this thread, as that of a signal, once it waits in a blocking call."""
    here, before = threading.get_ident(), signal.signal(signal.SIGUSR1, lambda *_: handler())

    def send() -> None:
        while sys._current_frames()[here].f_code.co_filename != engine.__file__:
            threading.Event().wait(0.001)
        signal.pthread_kill(here, signal.SIGUSR1)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)
        signal.signal(signal.SIGUSR1, before)
