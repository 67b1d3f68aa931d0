"""What a forked child must not touch: the sockets of its parent.

A child of ``fork`` has the parent's objects and descriptors, but none of its threads. Two processes that read and write one connection
destroy it for both; and a connection that the child merely holds stays open when the parent closes it or dies, so that the brokers go on
taking the parent for a living member. So in the child, before anything else runs:

1. Every inherited socket's descriptor is pointed to /dev/null. The connection is the parent's alone again; whatever the child's copies of
   loops and transports still do to the descriptor (close it, take it out of the epoll set that both processes share) hits nothing.
2. The objects are marked, so that who uses them is told that they belong to the parent (``FORKED``). They are kept alive, because a loop
   that is collected as garbage would close what it shares.

The parent notices nothing. ``spawn`` and ``forkserver`` start clean processes, where none of this is needed.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Any, Final, Protocol

__all__ = ["FORKED", "LeftBehind", "point_to_nothing", "watch"]

FORKED: Final = (
    "this client belongs to the parent of a fork, and its connections with it; "
    "make and start a new one in this process, after the fork"
)


class LeftBehind(Protocol):
    """Something with sockets, or made of what has sockets."""

    def left_behind(self) -> None:
        """Called once in each forked child: let go of the sockets, refuse further use. Must not wait, and must not lock."""
        ...


_watched: weakref.WeakSet[Any] = weakref.WeakSet()
_kept: list[Any] = []


def watch(thing: LeftBehind) -> None:
    """Tell ``thing`` about forks for as long as it lives."""
    _watched.add(thing)


def point_to_nothing(descriptor: int) -> None:
    """Let go of an inherited socket and keep its number taken: nothing else may get it that an old object then closes."""
    if descriptor < 0:
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # not open any more
            os.dup2(nothing, descriptor, inheritable=False)
    finally:
        os.close(nothing)


def _in_child() -> None:
    inherited = list(_watched)
    _kept.extend(inherited)
    for thing in inherited:  # they stay watched: this child may start what its parent only made, and fork again
        thing.left_behind()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_in_child)
