# SPDX-License-Identifier: Apache-2.0
"""The number of descriptors for connections of this process, on all ports of all its servers together (see core.descriptor_budget)."""

from __future__ import annotations

import os
import threading
from typing import Final

from sprocketmq.core.descriptor_budget import descriptor_shares

_NO_LIMIT: Final = 1 << 30


class ConnectionShare:
    """A limit of open connections. Can be used from any thread, because each server has its own loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open = 0
        self._lock = threading.Lock()

    def has_room(self, others: int = 0) -> bool:
        return self._open + others < self.limit

    def take(self) -> bool:
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
    """The share of this process. A forked child has its own, because its parent's connections do not belong to it."""
    share = _shares.get(os.getpid())
    if share is None:
        limit = _descriptor_limit()
        share = ConnectionShare(_NO_LIMIT if limit is None else descriptor_shares(limit).connections)
        share = _shares.setdefault(os.getpid(), share)
    return share


def raise_descriptor_limit() -> None:
    """Raise the limit of descriptors as far as the system allows, as Java does at its start; call it before the first server starts."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS reports no limit but allows less
        return


def _descriptor_limit() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
