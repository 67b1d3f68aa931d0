# SPDX-License-Identifier: Apache-2.0
"""What fails at one client, for the log: servers that do not answer, and the troubles of everything that asks them.

A server is lost with a request that failed (no connection), and is back with an answer on a new connection; the callbacks of the user
hear of both. What fails because its server is lost is a detail of that trouble; a refusal belongs to its server and code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final

import msgspec

from sprocketmq.client.hooks import run_callback
from sprocketmq.client.results import ServerOutage
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.errors import NetworkError, NoPermission, RemoteError, RequestTimeout, RocketMQError
from sprocketmq.net.process.clock import Clock, SystemClock
from sprocketmq.troubles import Troubles, raised_at

log = logging.getLogger("sprocketmq.client")

_MOST_SERVERS: Final = 1_000
_IF_LOST: Final = {
    (True, True): "%s: %s is lost, its messages wait, other brokers go on: %s",
    (True, False): "%s: %s cannot be reached, its messages wait, other brokers go on: %s",
    (False, True): "%s: %s is lost, known topics go on, new ones are not found: %s",
    (False, False): "%s: %s cannot be reached: %s",
}


class Outages:
    """Belongs to the loop of one client instance; ``troubles`` to all of its threads. ``who``: whose servers they are, for the log.
    ``name_of``: the broker at an address, "" for a name server. ``spawn``: starts a task that ends with the instance.
    ``if_lost``: the sentences for the log, by whether it is a broker and whether it has answered before."""

    def __init__(
        self,
        clock: Clock | None = None,
        who: Callable[[], str] = lambda: "client",
        name_of: Callable[[str], str] = lambda address: "",
        spawn: Callable[[Coroutine[Any, Any, Any]], object] = asyncio.ensure_future,
        if_lost: Mapping[tuple[bool, bool], str] = _IF_LOST,
    ) -> None:
        self._clock, self._who, self._name_of, self._spawn = clock or SystemClock(), who, name_of, spawn
        self._if_lost = if_lost
        self.troubles = Troubles(log, self._clock.steady_ms)
        self._lost: dict[str, ServerOutage] = {}
        self._unnamed: set[str] = set()  # lost servers that no route has any more
        self._heard: dict[str, str] = {}  # the names of servers that have answered
        self.watchers: list[ClientOptions] = []  # of the users of the instance

    # -- what connections tell -------------------------------------------------------------------------------------------------

    def lost(self, address: str, error: Exception) -> None:
        """A request failed because its connection broke, stayed silent, or could not be opened."""
        outage = self._lost.get(address)
        if outage is None:
            if len(self._lost) >= _MOST_SERVERS:
                self._forget(next(iter(self._lost)))
            outage = ServerOutage(address, self._name_at(address), str(error), self._clock.steady_ms())
            self._lost[address] = outage
            for options in self.watchers:
                self._call(options.on_disconnected, outage)
        was_heard = address in self._heard
        sentence = self._if_lost[bool(outage.broker_name), was_heard]
        self.troubles.failed(address, sentence, self._who(), _shown(outage), str(error), lasts=True)

    def _name_at(self, address: str) -> str:
        return self._name_of(address) or self._heard.get(address, "")

    def address_of(self, broker_name: str) -> str:
        """Where a broker was that is lost; "" for others."""
        lost = list(self._lost.values())  # any thread may ask
        return next((outage.address for outage in lost if outage.broker_name == broker_name), "")

    def heard(self, address: str) -> None:
        what = "is back" if address in self._heard else "is reached"
        if len(self._heard) >= _MOST_SERVERS:
            self._heard.clear()
        name = self._heard[address] = self._name_at(address)
        moved_from = [one for one in self._unnamed if name and self._lost[one].broker_name == name]
        for lost in {address: None, **dict.fromkeys(moved_from)}:
            self._unnamed.discard(lost)
            if (outage := self._lost.pop(lost, None)) is not None:
                self._is_back(lost, outage, what)

    def _is_back(self, address: str, outage: ServerOutage, what: str) -> None:
        outage = msgspec.structs.replace(outage, lasted_ms=self._clock.steady_ms() - outage.began_ms)
        self.troubles.over(address, "%s: %s %s", self._who(), _shown(outage), what)
        for options in self.watchers:
            self._call(options.on_reconnected, outage)

    def look_after(self, addresses: Collection[str]) -> None:
        """The periodic work. ``addresses``: of all servers that are still named."""
        for address in self._lost.keys() - addresses - self._unnamed:
            self._unnamed.add(address)
            log.warning(
                "%s: no name server names %s any more; nothing is asked of it until it registers again",
                self._who(), _shown(self._lost[address]),
            )  # fmt: skip
        self.troubles.sweep()

    def _forget(self, address: str) -> None:
        del self._lost[address]
        self._unnamed.discard(address)

    # -- what fails ------------------------------------------------------------------------------------------------------------

    def failed(
        self, what: str, error: Exception | None, sentence: str, *args: Any, of: str = "", level: int = logging.WARNING
    ) -> None:
        """Log what may fail again and again, with the traceback of an error that nobody expects. ``what``: a text of few, and no name;
        ``of``: the group, topic or queue."""
        cause: Any = what
        if isinstance(error, NetworkError | RequestTimeout):
            named = f"{what} of {of}" if of else what
            if error.address in self._lost:
                self.troubles.more(error.address, named)
                log.debug(sentence, *args)
                return
            cause, of = str(error) if not error.address else (error.address, type(error)), named
        elif isinstance(error, RemoteError):
            cause, of = (error.address, error.code), f"{what} of {of}" if of else what
            if isinstance(error, NoPermission):
                sentence += "; check access_key and secret_key, and what their account may do"
            if name := self._name_at(error.address):
                sentence, args = sentence + " (broker %s; others go on)", (*args, name)
        elif error is not None and not isinstance(error, RocketMQError):
            self.troubles.failed((what, type(error)), sentence, *args, of=of, level=logging.ERROR, error=error)
            return
        self.troubles.failed(cause, sentence, *args, of=of, level=level)

    def raised(self, error: BaseException, sentence: str, *args: Any, of: str = "", extra: Any = None) -> None:
        """Log what a function of the user raised: a trouble of its line of code. ``of``: the message."""
        self.troubles.failed(raised_at(error), sentence, *args, of=of, error=error, extra=extra)

    def _call(self, callback: Callable[[ServerOutage], object] | None, outage: ServerOutage) -> None:
        if callback is not None:
            self._spawn(run_callback(callback, outage, self.troubles, "a callback for a lost server failed"))


def _shown(outage: ServerOutage) -> str:
    return f"broker {outage.broker_name} ({outage.address})" if outage.broker_name else f"name server {outage.address}"
