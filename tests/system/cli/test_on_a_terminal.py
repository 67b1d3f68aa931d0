# SPDX-License-Identifier: Apache-2.0
"""The status line where it lives: below the ready line of a server whose stderr is a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pty = pytest.importorskip("pty", reason="no pseudo terminals on this system")

DEADLINE_S = 60


def read_until(terminal: int, text: bytes) -> bytes:
    """What the terminal shows until ``text`` is there."""
    seen, deadline = b"", time.monotonic() + DEADLINE_S
    while text not in seen:
        assert time.monotonic() < deadline, f"{text!r} was never shown, only {seen!r}"
        seen += os.read(terminal, 4096)
    return seen


def test_a_terminal_shows_a_status_line_and_log_lines_above_it():
    ours, theirs = pty.openpty()
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sprocketmq.cli",
            "serve",
            "--namesrv-port",
            "0",
            "--broker-port",
            "0",
            "--log-level",
            "info",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(theirs)
    try:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"ready ")
        assert b"in 0/s" in read_until(ours, b"up 0:00:01")
        server.send_signal(signal.SIGTERM)
        assert b"SIGTERM: stopping" in read_until(ours, b"stopping")
        assert server.wait(DEADLINE_S) == 0
    finally:
        server.kill()
        server.wait()
        server.stdout.close() if server.stdout else None
        os.close(ours)
