# SPDX-License-Identifier: Apache-2.0
"""One JVM per client version for all our Java programs (java/peers/Host.java): a program starts in milliseconds, not in seconds."""

from __future__ import annotations

import atexit
import itertools
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import ClassVar, Final

from interop.child import HANG_S, Child
from interop.java_peers import JavaPeers

# No time for the second compiler, no need of a parallel collector, not 20 s between two rebalances.
JAVA_FLAGS: Final = (
    "-Xms32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Drocketmq.client.rebalance.waitInterval=1000",
)
_STOP_TIMEOUT_S: Final = 60.0


class HostedRun:
    """One run of a program inside a host; what a `Child` is for a program with a process of its own."""

    def __init__(self, host: JavaHost, number: int) -> None:
        self.exit_code: int | None = None
        self._host, self._number = host, number
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._ended = threading.Event()

    def take(self, text: str) -> None:
        """A line of this run, or its end."""
        if text.startswith("!"):
            self.end(int(text[1:]))
        else:
            self._lines.put(text)

    def end(self, code: int) -> None:
        if not self._ended.is_set():
            self.exit_code = code
            self._lines.put(None)
            self._ended.set()

    def read_line(self, timeout_s: float = HANG_S) -> str:
        try:
            line = self._lines.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            raise TimeoutError(f"the program wrote no line within {timeout_s:g} s; {self.last_words()}") from None
        if line is None:
            self._lines.put(None)
            raise EOFError(f"the program has ended; {self.last_words()}")
        return line

    def last_words(self) -> str:
        """The end of the standard error that all programs of the host share."""
        return self._host.last_words()

    def wait(self, timeout_s: float = HANG_S) -> int:
        if not self._ended.wait(timeout_s) or self.exit_code is None:
            raise subprocess.TimeoutExpired(f"program {self._number}", timeout_s)
        return self.exit_code

    def close_input(self) -> None:
        if not self._ended.is_set():
            self._host.tell("close", str(self._number))

    def stop(self, timeout_s: float = 30.0) -> int:
        """What does not end when its input is closed takes the host down: nothing else ends a thread of Java's."""
        self.close_input()
        if not self._ended.wait(timeout_s):
            self._host.stop(0.0)
        return self.wait(timeout_s)


class JavaHost(Child):
    """The process. `JavaHost.of(version)` starts it when it is first asked for, and again after it was stopped."""

    _running: ClassVar[dict[str, JavaHost]] = {}

    def __init__(self, version: str) -> None:
        java = JavaPeers.java(version)
        self._home = Path(tempfile.mkdtemp(prefix=f"java-host-{version}-"))
        self._archive = java.archive("programs")
        self._runs: dict[int, HostedRun] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        flags = (*JAVA_FLAGS, "-Xmx512m", *self._archive.flags)
        # Programs leave files where they are started.
        super().__init__(
            java.command("peers.Host", flags=flags, home=self._home), self._home / "err.log", cwd=self._home
        )

    @classmethod
    def of(cls, version: str) -> JavaHost:
        host = cls._running.get(version)
        if host is None or host.exit_code is not None:
            host = cls._running[version] = JavaHost(version)
        return host

    @classmethod
    def stop_all(cls) -> None:
        """End every host; the first clean end leaves an archive of its classes."""
        while cls._running:
            cls._running.popitem()[1].stop(_STOP_TIMEOUT_S)

    def run(self, program: str, *args: str) -> HostedRun:
        """Start a program."""
        with self._lock:
            number = next(self._numbers)
            run = self._runs[number] = HostedRun(self, number)
        self.tell("run", str(number), program, *args)
        return run

    def tell(self, *words: str) -> None:
        with self._lock:
            self.write_line("\t".join(words))

    def stop(self, timeout_s: float = 30.0) -> int:
        """Close its input and wait for its end, or kill it."""
        self.close_input()
        deadline = time.monotonic() + timeout_s
        while self.exit_code is None and time.monotonic() < deadline:
            time.sleep(0.05)
        code = self.kill()
        self._archive.keep(code)
        shutil.rmtree(self._home, ignore_errors=True)
        return code

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        for line in pipe:
            number, _, text = line.decode("utf-8", "replace").rstrip("\r\n").partition("\t")
            if number.isdigit():  # otherwise a JVM that crashes says so
                self._runs[int(number)].take(text)
        with self._lock:
            for run in self._runs.values():
                run.end(-9)


atexit.register(JavaHost.stop_all)
