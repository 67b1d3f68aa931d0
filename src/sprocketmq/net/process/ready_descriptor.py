# SPDX-License-Identifier: Apache-2.0
"""A descriptor that is readable while something is ready, for event loops that are not asyncio's.

It is one byte in a pair of sockets, written by ``set(True)`` and taken back by ``set(False)``; not in a pipe, because select on
Windows takes sockets only. No wake-up is lost, and none comes while nothing is ready, because the byte is a state and not an event,
and only the owner's loop changes it. So the user never reads the byte: of two threads that wake for it, the second one finds nothing
and waits again. The end is a state, too: whoever sets True last leaves it True, until ``close``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import weakref

from sprocketmq.net.process import fork


class ReadyDescriptor:
    """Not readable at first. ``set`` belongs to one loop; ``close`` may follow in any thread when nothing is set any more, and garbage
    collection does it, too."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._is_ready = False
        self.close = weakref.finalize(self, _close, self._reader, self._writer)
        fork.register(self)

    def fileno(self) -> int:
        """The number to wait for; -1 when it is closed."""
        return self._reader.fileno()

    def set(self, is_ready: bool) -> None:
        if is_ready == self._is_ready:
            return
        self._is_ready = is_ready
        with contextlib.suppress(OSError):  # somebody read the byte, or closed the number
            if is_ready:
                self._writer.send(b"\0")
            else:
                self._reader.recv(1)

    def after_fork_in_child(self) -> None:
        """In a forked child: a pair of its own under the same numbers, because the byte is the parent's. It is readable, so that a loop
        which waits for it asks, and is told that nothing comes here."""
        if self.fileno() < 0:
            return
        for inherited, own in zip((self._reader, self._writer), socket.socketpair(), strict=True):
            with own:
                own.setblocking(False)
                os.dup2(own.fileno(), inherited.fileno(), inheritable=False)
        self._is_ready = False
        self.set(True)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        one.close()
