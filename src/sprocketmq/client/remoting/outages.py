# SPDX-License-Identifier: Apache-2.0
"""Servers that do not answer, and what the log says of them.

Lost (a request failed, no connection): one WARNING, on_disconnected; then one a minute while requests to it fail. Back (an answer on a
new connection): one WARNING, on_reconnected. What fails because a server is lost is logged at DEBUG; another failure once a minute,
with the number of those in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

import msgspec

from sprocketmq.client.hooks import run_callback
from sprocketmq.client.results import ServerOutage
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout
from sprocketmq.net.process.clock import Clock, SystemClock

log = logging.getLogger("sprocketmq.client")

_LOG_INTERVAL_MS: Final = 60_000


class _Failure(msgspec.Struct):
    logged_ms: int
    unlogged: int = 0


class Outages:
    """The servers that one client instance has lost. Belongs to its loop. ``who``: whose servers they are, for the log.
    ``name_of``: the broker at an address, "" for a name server. ``spawn``: starts a task that ends with the instance."""

    def __init__(
        self,
        clock: Clock | None = None,
        who: Callable[[], str] = lambda: "client",
        name_of: Callable[[str], str] = lambda address: "",
        spawn: Callable[[Coroutine[Any, Any, Any]], object] = asyncio.ensure_future,
    ) -> None:
        self._clock, self._who, self._name_of, self._spawn = clock or SystemClock(), who, name_of, spawn
        self._lost: dict[str, ServerOutage] = {}
        self._heard: set[str] = set()
        self._failures: dict[str, _Failure] = {}
        self.watchers: list[ClientOptions] = []  # of the users of the instance

    # -- what connections tell -------------------------------------------------------------------------------------------------

    def lost(self, address: str, error: Exception) -> None:
        """A request failed because its connection broke, stayed silent, or could not be opened."""
        outage = self._lost.get(address)
        if outage is not None:
            seconds = (self._clock.steady_ms() - outage.began_ms) // 1000
            what = "has been lost" if address in self._heard else "cannot be reached"
            self.failed(address, None, "%s: %s %s for %d s: %s", self._who(), _shown(outage), what, seconds, str(error))
            return
        outage = self._lost[address] = ServerOutage(
            address, self._name_of(address), str(error), self._clock.steady_ms()
        )
        what = "is lost" if address in self._heard else "cannot be reached"
        log.warning("%s: %s %s: %s", self._who(), _shown(outage), what, outage.error)
        self._failures[address] = _Failure(outage.began_ms)
        for options in self.watchers:
            self._call(options.on_disconnected, outage)

    def heard(self, address: str) -> None:
        outage = self._lost.pop(address, None)
        self._failures.pop(address, None)
        what = "is back" if address in self._heard else "is reached"
        self._heard.add(address)
        if outage is None:
            return
        outage = msgspec.structs.replace(outage, lasted_ms=self._clock.steady_ms() - outage.began_ms)
        log.warning("%s: %s %s after %d s", self._who(), _shown(outage), what, outage.lasted_ms // 1000)
        for options in self.watchers:
            self._call(options.on_reconnected, outage)

    def forget_all_but(self, addresses: Collection[str]) -> None:
        self._heard.intersection_update(addresses)
        for address in self._lost.keys() - addresses:
            del self._lost[address]
            self._failures.pop(address, None)

    # -- what fails ------------------------------------------------------------------------------------------------------------

    def failed(
        self, cause: str, error: Exception | None, sentence: str, *args: Any, level: int = logging.WARNING
    ) -> None:
        """Log what may fail again and again: once a minute for each ``cause``, a text of few, and each code of a refusal."""
        if isinstance(error, RemoteError):
            cause = f"{cause}: {error.address} {error.code}"
        now_ms = self._clock.steady_ms()
        failure = self._failures.get(cause)
        is_of_lost_server = isinstance(error, NetworkError | RequestTimeout) and error.address in self._lost
        if is_of_lost_server or (failure is not None and now_ms - failure.logged_ms < _LOG_INTERVAL_MS):
            if failure is not None:
                failure.unlogged += 1
            log.debug(sentence, *args)
            return
        if failure is not None and failure.unlogged:
            sentence += f" ({failure.unlogged} more of these since the last line)"
        self._failures[cause] = _Failure(now_ms)
        log.log(level, sentence, *args)

    def _call(self, callback: Callable[[ServerOutage], object] | None, outage: ServerOutage) -> None:
        if callback is not None:
            self._spawn(run_callback(callback, outage, "a callback for a lost server failed"))


def _shown(outage: ServerOutage) -> str:
    return f"broker {outage.broker_name} ({outage.address})" if outage.broker_name else f"name server {outage.address}"
