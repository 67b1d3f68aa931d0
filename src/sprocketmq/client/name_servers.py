"""The client's view of the name servers: an address list, one of which is kept until it fails.

Each client starts at a random place, so that many clients spread over many name servers, then stays (name servers do not share state at
once; staying avoids seeing routes go back and forth). On a failed connection or a timeout the next one is tried; an answer, even a
refusal, is an answer.
"""

from __future__ import annotations

import logging
import os
import random

from sprocketmq.errors import ConfigurationError, NetworkError, RequestTimeout
from sprocketmq.net.pool import ConnectionPool, split_address
from sprocketmq.wire.command import Command

__all__ = ["NameServers", "parse_addresses", "resolve_namesrv_addr"]

log = logging.getLogger("sprocketmq.client")


def parse_addresses(namesrv_addr: str) -> list[str]:
    """``a:9876;b:9876`` as a list (blanks and a leading ``http://`` are forgiven, as in Java).

    Raises:
        ConfigurationError: nothing is left, or an address is not host:port.
    """
    if not isinstance(namesrv_addr, str):
        raise ConfigurationError(
            f"namesrv_addr is {namesrv_addr!r}, text such as '127.0.0.1:9876' or 'a:9876;b:9876' is allowed"
        )
    addresses = [
        part.strip().removeprefix("http://").removeprefix("https://").rstrip("/")
        for part in namesrv_addr.replace(",", ";").split(";")
        if part.strip()
    ]
    for address in addresses:
        split_address(address, "namesrv_addr")
    if not addresses:
        raise ConfigurationError(
            f"namesrv_addr is {namesrv_addr!r}, at least one host:port is needed, as in 127.0.0.1:9876"
        )
    return addresses


def resolve_namesrv_addr(namesrv_addr: str | None) -> str:
    """What the caller gave, else the environment variable NAMESRV_ADDR; the list with ``;`` between addresses.

    Raises:
        ConfigurationError: neither is set, or it cannot be read.
    """
    given = namesrv_addr if namesrv_addr is not None else os.environ.get("NAMESRV_ADDR")
    if not given:
        raise ConfigurationError(
            "no name server is known: pass namesrv_addr='host:9876' or set the environment variable NAMESRV_ADDR"
        )
    return ";".join(parse_addresses(given))


class NameServers:
    """Sends requests to the chosen name server, changes it when it does not answer."""

    def __init__(self, pool: ConnectionPool, addresses: list[str]) -> None:
        self._pool = pool
        self._addresses = list(addresses)
        self._chosen = random.randrange(len(addresses))

    @property
    def addresses(self) -> list[str]:
        return list(self._addresses)

    @property
    def chosen(self) -> str:
        """The address asked last."""
        return self._addresses[self._chosen]

    def replace(self, addresses: list[str]) -> None:
        """Adopt a new list; the chosen one is kept if it is still in it."""
        current = self.chosen
        self._addresses = list(addresses)
        self._chosen = self._addresses.index(current) if current in self._addresses else 0

    async def invoke(self, command: Command, timeout_ms: int) -> Command:
        """Ask the chosen name server, on failure each other one once.

        Raises:
            NetworkError, RequestTimeout: of the last one tried, when none answered.
        """
        failure: NetworkError | RequestTimeout | None = None
        for _ in range(len(self._addresses)):
            address = self.chosen
            try:
                return await self._pool.invoke(address, command, timeout_ms)
            except (NetworkError, RequestTimeout) as error:
                failure = error
                self._chosen = (self._chosen + 1) % len(self._addresses)
                if len(self._addresses) > 1:
                    log.warning("name server %s did not answer (%s), trying %s", address, error, self.chosen)
        assert failure is not None
        raise failure
