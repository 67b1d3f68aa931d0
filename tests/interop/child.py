# SPDX-License-Identifier: Apache-2.0
"""A child process that speaks in lines: started, read with a deadline, stopped by its own pid. Java programs and our server alike."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

_END: Final = None
# No machine is so busy: what takes longer hangs.
HANG_S: Final = 240.0


def poll_until(condition: Callable[[], Any], what: str, timeout_s: float = HANG_S, pause_s: float = 0.05) -> Any:
    """Call `condition` until it answers something true, and return that.

    Raises:
        TimeoutError: it did not within `timeout_s`; the message says `what` was waited for.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(pause_s)


def unwind_on_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does, through every `with` and `finally`: children must not be left behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


class Child:
    """One process. Standard output is read line by line on a thread of its own, standard error goes to a file."""

    def __init__(
        self, command: list[str], log_path: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,  # a Ctrl-C in the terminal is for the test run, which then stops its children in order
            )
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name=f"reader-{self.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def read_line(self, timeout_s: float = HANG_S) -> str:
        """The next line of standard output.

        Raises:
            TimeoutError: none came in time. EOFError: the process closed its output (both messages end with its last words).
        """
        try:
            line = self._lines.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            raise TimeoutError(
                f"process {self.pid} wrote no line within {timeout_s:g} s; {self.last_words()}"
            ) from None
        if line is _END:
            self._lines.put(_END)
            raise EOFError(f"process {self.pid} closed its output; {self.last_words()}")
        return line.decode("utf-8", "replace").rstrip("\r\n")

    def last_words(self) -> str:
        """The end of its standard error, for a failure message."""
        text = self.log_path.read_text("utf-8", "replace").strip()
        return f"its last words: {text[-2000:] or '(none)'}"

    def wait(self, timeout_s: float = HANG_S) -> int:
        """The exit code, once it has ended by itself."""
        return self._process.wait(timeout_s)

    def stop(self, timeout_s: float = 30.0) -> int:
        """Ask it to end (SIGTERM), insist after `timeout_s` (SIGKILL), return the exit code. Harmless when it has ended already."""
        if self.exit_code is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        return self.kill()

    def kill(self) -> int:
        """SIGKILL, as a crash would; then collect what is left of it."""
        if self.exit_code is None:
            self._process.send_signal(signal.SIGKILL)
        code = self._process.wait(HANG_S)
        self._reader.join(HANG_S)
        for pipe in (self._process.stdin, self._process.stdout):
            _close(pipe)
        return code

    def write_line(self, line: str) -> None:
        """One line to its standard input."""
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(line.encode() + b"\n")
        pipe.flush()

    def close_input(self) -> None:
        """End of input: the Java programs take it as the request to finish."""
        _close(self._process.stdin)

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        for line in pipe:
            self._lines.put(line)
        self._lines.put(_END)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


class JsonLines:
    """Lines of which each is a JSON object with an `event`; other lines are kept in `noise`."""

    def __init__(self) -> None:
        self.noise: list[str] = []

    def read_line(self, timeout_s: float = HANG_S) -> str:
        """The next line; raises as that of `Child`."""
        raise NotImplementedError

    def read(self, timeout_s: float = HANG_S) -> dict[str, Any]:
        """The next object; raises as `read_line`."""
        deadline = time.monotonic() + timeout_s
        while True:
            line = self.read_line(deadline - time.monotonic())
            if line.startswith("{"):
                found = json.loads(line)
                assert isinstance(found, dict)
                return found
            self.noise.append(line)

    def read_events(self, event: str, count: int, timeout_s: float = HANG_S) -> list[dict[str, Any]]:
        """The next `count` objects of this event; a `failed` one among them ends the wait.

        Raises:
            TimeoutError, EOFError: as `read_line`. RuntimeError: the program reported a failure.
        """
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count:
            try:
                line = self.read(deadline - time.monotonic())
            except (TimeoutError, EOFError) as short:
                raise type(short)(f"{len(found)} of {count} {event!r} lines came; {short}") from None
            if line["event"] == event:
                found.append(line)
            elif line["event"] == "failed":
                raise RuntimeError(f"the program reports: {line['why']}")
        return found

    def read_rest(self, event: str, timeout_s: float = HANG_S) -> list[dict[str, Any]]:
        """All further objects of this event until the program ends; raises RuntimeError when it reported a failure."""
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self.read(deadline - time.monotonic())
            except EOFError:
                return found
            if line["event"] == event:
                found.append(line)
            elif line["event"] == "failed":
                raise RuntimeError(f"the program reports: {line['why']}")


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
