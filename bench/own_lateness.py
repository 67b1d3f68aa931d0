# SPDX-License-Identifier: Apache-2.0
"""What the machine itself takes from two processes that do nothing but answer each other: measured beside what hostile_frames.py times.

A child of its own asks another one each 20 ms over a socket, as the honest producer asks the server, and keeps the longest time between
two answers. Both run at the priority of the bench. A silence of honest clients that is not longer than this one is not the server's.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Final

__all__ = ["OwnLateness"]

_EACH_S: Final = 0.02


class OwnLateness:
    """``with OwnLateness() as own: ... own.longest_gap_s()``, which begins anew with each call."""

    def __enter__(self) -> OwnLateness:
        self._asking = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._asking.communicate()  # its end is the end of its input

    def longest_gap_s(self) -> float:
        """Since the last call, or the start."""
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
