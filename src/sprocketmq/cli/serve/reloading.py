# SPDX-License-Identifier: Apache-2.0
"""``run --reload``: the application as a child process, which is started again when a file of Python changes."""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra
from sprocketmq.net.process.stop_signals import stop_signals

log = logging.getLogger("sprocketmq.cli")

_ROUND_MS: Final = 200


def run_reloading(arguments: Sequence[str], directories: Sequence[Path]) -> None:
    """Run `sprocketmq run ARGUMENTS` until a signal, again after each change below ``directories``. A child that has ended waits for the
    next change. The first signal stops the child as a change does; further ones reach it, too, and end it at once."""
    needs_extra("--reload", "reload", "watchfiles")
    from watchfiles import PythonFilter, watch

    for directory in directories:
        if not directory.is_dir():
            raise ConfigurationError(
                f"--reload-dir is {str(directory)!r}, which is no directory; one with your modules is allowed"
            )
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    stop = threading.Event()
    child = _Child(arguments)

    def on_signal(number: int, _frame: object) -> None:
        if stop.is_set():
            child.signal(number)
        stop.set()  # the watch ends, then the child is stopped: by one signal, because its second one ends it at once

    before = {number: signal.getsignal(number) for number in stop_signals()}
    for number in before:
        signal.signal(number, on_signal)
    try:
        # It yields an empty set each round, so the first start comes when the watch has begun: no change is missed.
        for changes in watch(
            *directories,
            watch_filter=PythonFilter(),
            stop_event=stop,
            rust_timeout=_ROUND_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            if changes:
                log.warning(
                    "%s changed, the application starts again",
                    ", ".join(sorted({Path(file).name for _, file in changes})),
                )
                child.stop()
            if not stop.is_set():
                child.run(again=bool(changes))
    finally:
        child.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Child:
    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False

    def run(self, *, again: bool) -> None:
        """Start it if it has not run yet or is to run again; say so once if it has ended by itself."""
        if self._process is not None and not again:
            code = self._process.poll()
            if code is not None and not self._has_ended:
                self._has_ended = True
                log.warning("the application ended with exit code %d; it starts again when a file changes", code)
            return
        self._has_ended = False
        # ``-P``: the working directory is on its path only if it is the directory of the application. ``-B``: compiled code knows its
        # source by size and second, and would be taken for one that was saved twice in a second.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", "-m", "sprocketmq.cli", "run", "--until-stdin-closes", *self._arguments],
            stdin=subprocess.PIPE,  # it ends with this process, also after a kill
            start_new_session=True,  # Ctrl-C of the terminal is for this process, which ends it
        )

    def signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def stop(self) -> None:
        """End it as a signal does; it ends at last within its own --stop-timeout."""
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait()
        if process is not None and process.stdin is not None:
            process.stdin.close()
