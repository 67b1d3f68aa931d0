# SPDX-License-Identifier: Apache-2.0
"""What a forked child does with the sockets that it inherited. If two processes read and write one connection, both lose it; one that the
child only keeps open stays open when the parent dies, and brokers treat the parent as a live member. So before anything else runs in the
child:

1. The descriptor of each inherited socket is redirected to /dev/null. Whatever the child's copies of loops and transports still do with it
   (close it, remove it from the epoll set that both processes share) has no effect on the parent.
2. The objects are marked, so that using one raises ClosedError with the text ``FORKED``. They are kept alive, because a loop that is
   garbage-collected would close what it shares.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

FORKED: Final = (
    "this client and its connections belong to the parent of a fork; "
    "create and start a new one in this process, after the fork"
)


class ForkAware(Protocol):
    def after_fork_in_child(self) -> None:
        """Called once in each forked child: release the sockets and refuse further use. Must not wait, and must not take a lock."""
        ...


_registered: weakref.WeakSet[Any] = weakref.WeakSet()
_kept: list[Any] = []


def register(client: ForkAware) -> None:
    """Call ``client.after_fork_in_child()`` in forked children for as long as ``client`` lives."""
    _registered.add(client)


class LockAcrossForks:
    """A lock for the whole process; take its ``lock`` anew each time: a forked child gets a new one, because another thread may have
    held it."""

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make: Final = make
        self.lock = make()
        register(self)

    def after_fork_in_child(self) -> None:
        self.lock = self._make()


def redirect_to_devnull(descriptor: int) -> None:
    """Release an inherited socket but keep its number in use, so that no new file gets a number that an old object later closes."""
    if descriptor < 0:
        return
    devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # not open any more
            os.dup2(devnull, descriptor, inheritable=False)
    finally:
        os.close(devnull)


def _after_fork_in_child() -> None:
    inherited = list(_registered)
    _kept.extend(inherited)
    # They stay registered: this child may start a client that its parent only created, and fork again.
    for client in inherited:
        client.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
