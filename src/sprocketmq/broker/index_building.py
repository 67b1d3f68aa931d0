# SPDX-License-Identifier: Apache-2.0
"""Keeps the index by key close behind the log (Java: ReputMessageService). The records of the last tenth of a second are indexed together,
a limited number per turn of the loop; without messages, checks become rare. A query lets the index catch up first."""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import Final

from sprocketmq.errors import StoreError
from sprocketmq.store import MessageStore

log = logging.getLogger("sprocketmq.broker")

# While a turn indexes, sends wait: for some 2 ms. Between reads the call costs 0.8 ms and a record 1.3 us, so with 250 records a send costs
# a seventh more CPU, and its 99th percentile is a sixth lower.
_RECORDS_PER_TURN: Final = 1_000
_BUSY_S: Final = 0.1
_IDLE_S: Final = 0.32
_AFTER_FAILURE_S: Final = 5.0
# A query indexes at most so many records first; while the index is being rebuilt from a long log, queries use the present part.
_RECORDS_PER_QUERY: Final = 20_000


_TROUBLE: Final = "index"


class IndexBuilding:
    """Runs on the broker's loop in real time, because no decision depends on it."""

    def __init__(self, store: MessageStore) -> None:
        self._store: Final = store
        self._timer: asyncio.TimerHandle | None = None
        self._pause_s = _BUSY_S
        self._ready: asyncio.Future[object] | None = None

    async def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_BUSY_S, self._turn)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ready is not None:
            await asyncio.wait([self._ready])

    async def catch_up(self) -> None:
        """Before a query: index what is not indexed yet, within limits, a share in each turn of the loop."""
        records = 0
        try:
            while records < _RECORDS_PER_QUERY:
                done = self._store.dispatch(_RECORDS_PER_TURN)
                if not done:
                    return
                records += done
                if self._store.undispatched_bytes:
                    await asyncio.sleep(0)
        except (StoreError, OSError, ImportError) as error:
            self._failed(error)

    def _turn(self) -> None:
        pause_s = _AFTER_FAILURE_S
        try:
            pause_s = self._index_some()
        finally:  # an error that nobody expected must not end the index
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._turn)

    def _index_some(self) -> float:
        """Returns the seconds until the next turn."""
        done = 0
        if self._store.undispatched_bytes:
            if self._ready is None:
                # Importing NumPy takes a tenth of a second: do it on a thread, and only if there is a message.
                loop = asyncio.get_running_loop()
                try:
                    self._ready = loop.run_in_executor(
                        None, importlib.import_module, "sprocketmq.store.log.record_batch"
                    )
                except RuntimeError as error:  # no thread can be started
                    self._failed(error)
            if self._ready is not None and self._ready.done():
                try:
                    self._ready.result()
                    done = self._store.dispatch(_RECORDS_PER_TURN)
                    self._store.troubles.over(_TROUBLE, "the index by key is built on")
                except StoreError as error:
                    self._failed(error)
                except (OSError, ImportError) as error:  # the library cannot be read: no file descriptors are left
                    self._ready = None
                    self._failed(error)
        if _TROUBLE in self._store.troubles:
            return _AFTER_FAILURE_S
        if done and self._store.undispatched_bytes:
            return 0.0
        self._pause_s = _BUSY_S if done else min(_IDLE_S, self._pause_s * 2)
        return self._pause_s

    def _failed(self, error: Exception) -> None:
        sentence = "the index by key stays behind, queries by key miss the newest messages: %s"
        self._store.troubles.failed(_TROUBLE, sentence, error, level=logging.ERROR, lasts=True)
