"""The descriptors that connections of this process may take, on all ports of all its servers together (see core.descriptor_budget)."""

from __future__ import annotations

import os
import threading
from typing import Final

from sprocketmq.core.descriptor_budget import descriptor_shares

__all__ = ["ConnectionShare", "connection_share", "raise_descriptor_limit"]

_NO_LIMIT: Final = 1 << 30


class ConnectionShare:
    """So many connections may be open. For any thread: each server has its own loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open = 0
        self._lock = threading.Lock()

    def has_room(self, others: int = 0) -> bool:
        return self._open + others < self.limit

    def take(self) -> bool:
        """One more is open; False, and it is not counted, when it is one too many."""
        with self._lock:
            if self._open >= self.limit:
                return False
            self._open += 1
            return True

    def give_back(self) -> None:
        with self._lock:
            self._open -= 1


_shares: dict[int, ConnectionShare] = {}


def connection_share() -> ConnectionShare:
    """The one of this process; a forked child has its own, for its parent's connections are not its own."""
    share = _shares.get(os.getpid())
    if share is None:
        limit = _descriptor_limit()
        share = ConnectionShare(_NO_LIMIT if limit is None else descriptor_shares(limit).connections)
        share = _shares.setdefault(os.getpid(), share)
    return share


def raise_descriptor_limit() -> None:
    """As high as the system allows, as Java does it at its start; before the first server starts."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS names no limit and allows less
        return


def _descriptor_limit() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
