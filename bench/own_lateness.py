# SPDX-License-Identifier: Apache-2.0
"""The machine's own delay: that of two processes that only answer each other, measured at the same time as hostile_frames.py.

A child process sends a request to another one each 20 ms over a socket, as the honest producer does to the server, and keeps the longest
time between two answers. Both run at the priority of the bench. If the gap of honest clients is not longer, the server did not cause it.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from typing import Final

_EACH_S: Final = 0.02


class OwnLateness:
    """``with OwnLateness() as own: ... own.longest_gap_s()``, which starts again with each call."""

    def __enter__(self) -> OwnLateness:
        self._asking = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *raised: object) -> None:
        self._asking.communicate()  # it ends at the end of its input

    def longest_gap_s(self) -> float:
        """The longest gap since the last call, or since the start."""
        assert self._asking.stdin is not None
        assert self._asking.stdout is not None
        self._asking.stdin.write(b"\n")
        self._asking.stdin.flush()
        return float(self._asking.stdout.readline())


def _answer(peer: socket.socket) -> None:
    while data := peer.recv(1):
        peer.sendall(data)


def main() -> None:
    asking, answering = socket.socketpair()
    if not os.fork():
        asking.close()
        _answer(answering)
        return
    answering.close()
    longest_s, last_s = 0.0, time.monotonic()
    while True:
        asked, _, _ = select.select([sys.stdin], [], [], _EACH_S)
        if asked:
            if not os.read(sys.stdin.fileno(), 1):
                break
            print(longest_s, flush=True)
            longest_s = 0.0
        asking.sendall(b"?")
        asking.recv(1)
        now_s = time.monotonic()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    asking.close()
    os.wait()


if __name__ == "__main__":
    main()
