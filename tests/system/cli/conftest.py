# SPDX-License-Identifier: Apache-2.0
"""The command line as users run it: child processes, stopped by their own handle when the test ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import pytest

DEADLINE_S = 60


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


class Server:
    """A running ``serve``, ``namesrv`` or ``broker``."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sprocketmq.cli", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ready_line = ""
        self.addresses: dict[str, str] = {}

    def wait_ready(self) -> None:
        self.ready_line = self._line_of(self.process.stdout)
        self.addresses = dict(re.findall(r"(namesrv|broker)=(\S+)", self.ready_line))

    def log_line(self) -> str:
        """The next line that it logs."""
        return self._line_of(self.process.stderr)

    def _line_of(self, stream: IO[str] | None) -> str:
        assert stream is not None
        watchdog = threading.Timer(DEADLINE_S, self.process.kill)
        watchdog.start()
        line = stream.readline()
        watchdog.cancel()
        return line

    def end(self, number: int = signal.SIGTERM) -> Ended:
        """Send a signal and wait; ``out`` is what came after the ready line."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self) -> Ended:
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return Ended(self.process.returncode, out, err)


class Cli:
    """Starts commands; remembers them for the end of the test."""

    def __init__(self) -> None:
        self._servers: list[Server] = []

    def spawn(self, *arguments: str) -> Server:
        """A server that is not waited for."""
        server = Server(*arguments)
        self._servers.append(server)
        return server

    def start(self, *arguments: str) -> Server:
        server = self.spawn(*arguments)
        server.wait_ready()
        return server

    def serve(self, *arguments: str) -> Server:
        return self.start("serve", "--namesrv-port", "0", "--broker-port", "0", *arguments)

    def run(self, *arguments: str) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "sprocketmq.cli", *arguments],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def stop_all(self) -> None:
        for server in self._servers:
            if server.process.poll() is None:
                server.process.kill()
            server.process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def cli() -> Iterator[Cli]:
    cli = Cli()
    yield cli
    cli.stop_all()
