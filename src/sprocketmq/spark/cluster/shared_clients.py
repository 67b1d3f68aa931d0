"""The clients that the Spark parts of one process share: clusters, producers, members of a producer group.

Spark uses its Python workers for many tasks, and a driver lives for weeks: a client is kept for the next task that has the same settings,
and closed when it is one of too many.

    get(key) --> a client, held by its user --> the user lets go of it --> kept, as one of the ``most`` that were asked for last
                                                                      `--> else nobody holds it: its finalizer closes it

Laws
1. Whoever has a reference to a client uses it. A client is closed by its finalizer (``close_when_dropped``), so never while it is used,
   whichever thread uses it.
2. While a client is used or kept, who asks for its key gets that client.
3. A client is made by one caller; who asks for its key meanwhile waits for it, who asks for another key does not.
4. Of those that nobody uses no more than ``most`` stay, and those that ``surplus`` told and nobody dropped.
5. A forked child knows none of its parent's clients, and closes none of them.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sprocketmq.errors import ClosedError
from sprocketmq.net.process import fork
from sprocketmq.net.process.engine import Engine

__all__ = ["SharedClients", "Surplus", "close_when_dropped"]

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")

_MOST_KEPT: Final = 8


class Surplus(NamedTuple, Generic[K, C]):
    """A client beyond the limit, and which use of it was the last one by then."""

    key: K
    client: C
    last_use: int


class SharedClients(Generic[K, C]):
    """Clients by key. Thread-safe.

    Args:
        most: how many stay that nobody uses.
        drops: whether ``get`` drops the surplus; else it is for who asks for ``surplus``.
    """

    def __init__(self, most: int = _MOST_KEPT, drops: bool = True) -> None:
        self._most, self._drops = most, drops
        self._inherited: dict[K, C] = {}
        self._begin()
        fork.register(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._alive: weakref.WeakValueDictionary[K, C] = weakref.WeakValueDictionary()
        self._kept: dict[K, C] = {}  # the one asked for last is the last
        self._last_use: dict[K, int] = {}  # numbers that rise with each use of any key
        self._use_count = 0
        self._making: dict[K, threading.Event] = {}  # set when the client is there, or was not to be had

    def after_fork_in_child(self) -> None:
        """In a forked child: the clients are the parent's, and a lock that the parent held would stay locked."""
        self._inherited = self._kept
        self._begin()

    def get(self, key: K, make: Callable[[C | None], C], fits: Callable[[C], bool] = lambda client: True) -> C:
        """The client of ``key``, made when there is none, or none that ``fits``. Who comes meanwhile waits for it.

        Args:
            make: makes it; called with the one that does not fit, which no other caller gets any more.
        """
        while True:
            with self._lock:
                client = self._alive.get(key)
                making = self._making.get(key)
                if making is None:
                    if client is not None and fits(client):
                        self._use(key, client)
                        break
                    self._making[key] = threading.Event()
            if making is None:
                client = self._made(key, make, client)
                break
            making.wait()
        if self._drops:
            for surplus in self.surplus():
                self.drop(surplus)
        return client

    def keep(self, key: K, client: C) -> None:
        """As if ``client`` had been asked for now, if it is still the one of its key."""
        with self._lock:
            if self._alive.get(key) is client:
                self._use(key, client)

    def surplus(self) -> list[Surplus[K, C]]:
        """The clients beyond the limit, those that nobody asked for in the longest time."""
        with self._lock:
            over = list(self._kept.items())[: max(0, len(self._kept) - self._most)]
            return [Surplus(key, client, self._last_use[key]) for key, client in over]

    def drop(self, surplus: Surplus[K, C]) -> None:
        """Do not keep it, unless it was asked for again since."""
        with self._lock:
            if self._last_use.get(surplus.key) == surplus.last_use:
                self._forget(surplus.key)

    def remove(self, client: C) -> None:
        """Whoever asks for its key gets another one."""
        with self._lock:
            for key, known in list(self._alive.items()):
                if known is client:
                    del self._alive[key]
                    self._forget(key)

    def values(self) -> list[C]:
        """All clients that are used or kept."""
        with self._lock:
            return list(self._alive.values())

    def _made(self, key: K, make: Callable[[C | None], C], known: C | None) -> C:
        """A new client, made outside the lock: a slow one, or one that does not come, holds up nobody who wants another."""
        client = None
        try:
            client = make(known)
            return client
        finally:
            with self._lock:
                if client is not None:
                    self._alive[key] = client
                    self._use(key, client)
                self._making.pop(key).set()

    def _use(self, key: K, client: C) -> None:
        self._use_count += 1
        self._last_use[key] = self._use_count
        self._kept.pop(key, None)
        self._kept[key] = client

    def _forget(self, key: K) -> None:
        self._kept.pop(key, None)
        self._last_use.pop(key, None)


def close_when_dropped(owner: object, engine: Engine, close: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Run ``close()`` on ``engine`` once nobody holds ``owner``; ``close`` must not hold it.

    Nobody waits for it, as this runs in whatever thread let go of the owner last, the engine's own among them.
    """
    finalizer = weakref.finalize(owner, _close, engine, close)
    finalizer.atexit = False


def _close(engine: Engine, close: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    if not engine.is_inherited:
        with contextlib.suppress(ClosedError, RuntimeError):  # its loop was closed, and took the connections along
            engine.submit(close())
