# SPDX-License-Identifier: Apache-2.0
"""The demo's child processes: a group's members, and the Spark driver. They report with JSON lines on stdout and end when stdin ends,
also after a kill of the demo. Each is in its own session, so that Ctrl-C reaches only the demo, which stops its children in order."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

_STOP_TIMEOUT_S: Final = 20.0
O = TypeVar("O")  # noqa: E741


class MemberDied(Exception):
    """A child process ended by itself; the message names its log file."""


class Member:
    """A child running ``python -m module``; stderr goes to ``log``. ``options`` (a msgspec Struct) are the first line of its stdin,
    because ps shows arguments to other users and there may be a secret key in them."""

    def __init__(self, module: str, options: msgspec.Struct, log: Path, events: queue.SimpleQueue[tuple[Member, Any]]):
        self.name, self.log = log.stem, log
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        self._events = events
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already, which the reader reports
            self.process.stdin.write(msgspec.json.encode(options) + b"\n")
            self.process.stdin.flush()
        self._reader = threading.Thread(target=self._read, name=f"read-{self.name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        decode = msgspec.json.Decoder().decode
        for line in self.process.stdout:
            with contextlib.suppress(msgspec.DecodeError):  # a library of the child printed something
                self._events.put((self, decode(line)))
        self._events.put((self, None))

    def ask_to_stop(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> int:
        """Close its stdin and wait; kill it and its children if it does not end. Returns its exit code."""
        self.ask_to_stop()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = -9
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)  # its session, because it may have started a JVM
        else:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


class Members:
    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._events: queue.SimpleQueue[tuple[Member, Any]] = queue.SimpleQueue()
        self._members: list[Member] = []

    def start(self, module: str, options: msgspec.Struct, name: str) -> Member:
        member = Member(module, options, self._logs / f"{name}.log", self._events)
        self._members.append(member)
        return member

    def events(self, patience_s: float, tick: Callable[[], None] = lambda: None) -> Iterator[Any]:
        """Yield what the members report, until nothing comes for ``patience_s``; ``tick`` is called about ten times a second."""
        waited_s = 0.0
        while waited_s < patience_s:
            try:
                member, event = self._events.get(timeout=0.1)
            except queue.Empty:
                waited_s += 0.1
                tick()
                continue
            if event is None:
                raise MemberDied(f"{member.name} ended by itself with code {member.process.wait()}; see {member.log}")
            waited_s = 0.0
            yield event

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> list[Any]:
        for member in self._members:
            member.ask_to_stop()
        for member in self._members:
            member.stop(timeout_s)
        self._members.clear()
        last: list[Any] = []
        while not self._events.empty():
            _, event = self._events.get()
            if event is not None:
                last.append(event)
        return last

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


# -- in the child ----------------------------------------------------------------------------------------------------------

_report_lock = threading.Lock()


def member_options(options_type: type[O]) -> O:
    return msgspec.json.decode(sys.stdin.buffer.readline(), type=options_type)


def report(event: object) -> None:
    """Send one event to the parent, from any thread. Errors are ignored: if the parent has ended, stdin ends the child."""
    line = msgspec.json.encode(event) + b"\n"
    with _report_lock, contextlib.suppress(OSError):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def run_until_stdin_closes(each_100_ms: Callable[[], None]) -> None:
    """Call ``each_100_ms`` about every 100 ms until the parent closes stdin, and once more then."""
    ended = threading.Event()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    while not ended.wait(0.1):
        each_100_ms()
    each_100_ms()
