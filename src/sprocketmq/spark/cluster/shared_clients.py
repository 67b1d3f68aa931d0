# SPDX-License-Identifier: Apache-2.0
"""Clients that the Spark parts of one process share: clusters, producers, members of a producer group.

Spark reuses its Python workers for many tasks, and a driver runs for weeks. So a client is kept for the next task with the same settings,
and closed when there are too many.

1. A client is closed by its finalizer (``close_when_dropped``). So it is never closed while somebody refers to it, on whatever thread.
2. While a client is used or kept, ``get`` returns it for its key.
3. One caller makes a client. Other callers for its key wait for it; callers for other keys do not.
4. Of the unused clients the last used ``most`` are kept, and those that ``surplus`` returned and nobody dropped.
5. A forked child does not use its parent's clients and does not close them.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sprocketmq.errors import ClosedError
from sprocketmq.net.process import fork
from sprocketmq.net.process.engine import Engine

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")

_MOST_KEPT: Final = 8
_WAIT_S: Final = 1.0


class Surplus(NamedTuple, Generic[K, C]):
    key: K
    client: C
    last_use: int


class SharedClients(Generic[K, C]):
    """Clients by key. Thread-safe. ``drops``: whether ``get`` drops the surplus. If not, the owner calls ``surplus`` and ``drop``."""

    def __init__(self, most: int = _MOST_KEPT, drops: bool = True) -> None:
        self._most, self._drops = most, drops
        self._inherited: dict[K, C] = {}
        self._begin()
        fork.register(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._alive: weakref.WeakValueDictionary[K, C] = weakref.WeakValueDictionary()
        self._kept: dict[K, C] = {}  # least recently used first
        self._last_use: dict[K, int] = {}  # number of the last use, over all keys
        self._use_count = 0
        self._making: dict[K, threading.Event] = {}  # set when the client is made, or could not be made

    def after_fork_in_child(self) -> None:
        """The clients stay referenced so that no finalizer runs in the child."""
        self._inherited = self._kept
        self._begin()

    def get(self, key: K, make: Callable[[C | None], C], fits: Callable[[C], bool] = lambda client: True) -> C:
        """The client of ``key``; ``make`` makes it if there is none or if it does not fit, with the one that does not fit."""
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
            while not making.wait(_WAIT_S):
                if sys.is_finalizing():
                    raise ClosedError(
                        "the interpreter is ending, so the client that another thread makes is not waited for"
                    )
        if self._drops:
            for surplus in self.surplus():
                self.drop(surplus)
        return client

    def keep(self, key: K, client: C) -> None:
        """Count as a use of ``client``, if it is still the client of ``key``."""
        with self._lock:
            if self._alive.get(key) is client:
                self._use(key, client)

    def surplus(self) -> list[Surplus[K, C]]:
        """The least recently used clients beyond the limit."""
        with self._lock:
            over = list(self._kept.items())[: max(0, len(self._kept) - self._most)]
            return [Surplus(key, client, self._last_use[key]) for key, client in over]

    def drop(self, surplus: Surplus[K, C]) -> None:
        """Do not keep the client any longer, unless it was used again since."""
        with self._lock:
            if self._last_use.get(surplus.key) == surplus.last_use:
                self._forget(surplus.key)

    def remove(self, client: C) -> None:
        with self._lock:
            for key, known in list(self._alive.items()):
                if known is client:
                    del self._alive[key]
                    self._forget(key)

    def values(self) -> list[C]:
        with self._lock:
            return list(self._alive.values())

    def _made(self, key: K, make: Callable[[C | None], C], known: C | None) -> C:
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
    """Run ``close()``, which must not refer to ``owner``, on ``engine`` when ``owner`` is garbage collected. The finalizer does
    not wait for it: it may run on any thread, also on the engine's own."""
    finalizer = weakref.finalize(owner, _close, engine, close)
    finalizer.atexit = False


def _close(engine: Engine, close: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    if not engine.is_inherited:
        with contextlib.suppress(ClosedError, RuntimeError):  # the loop is closed, and the connections with it
            engine.submit(close())
