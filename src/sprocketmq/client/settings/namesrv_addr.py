# SPDX-License-Identifier: Apache-2.0
"""The option ``namesrv_addr``: a list of addresses, or the URL of a page that holds it; by default the environment's NAMESRV_ADDR."""

from __future__ import annotations

import os

from sprocketmq.errors import ConfigurationError
from sprocketmq.net.pool import split_address


def parse_addresses(namesrv_addr: str) -> list[str]:
    """``a:9876;b:9876`` as a list (blanks and a leading ``http://`` are forgiven, as in Java); of an address server's URL it is
    that URL. Raises ConfigurationError (nothing is left, or an address is not host:port)."""
    if not isinstance(namesrv_addr, str):
        raise ConfigurationError(
            f"namesrv_addr is {namesrv_addr!r}, text such as '127.0.0.1:9876' or 'a:9876;b:9876' is allowed"
        )
    if is_address_server(namesrv_addr):
        return [namesrv_addr.strip()]
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


def is_address_server(namesrv_addr: str) -> bool:
    """Whether this is the URL of a page that holds the list: one with a path, unlike ``http://endpoint:8080``."""
    scheme, separator, rest = namesrv_addr.strip().partition("://")
    return (
        bool(separator)
        and scheme in ("http", "https")
        and rest.find("/") not in (-1, len(rest) - 1)
        and ";" not in rest
    )


def resolve_namesrv_addr(namesrv_addr: str | None) -> str:
    """What the caller gave, else the environment variable NAMESRV_ADDR; the list with ``;`` between addresses. Raises
    ConfigurationError (neither is set, or it cannot be read)."""
    given = namesrv_addr if namesrv_addr is not None else os.environ.get("NAMESRV_ADDR")
    if not given:
        raise ConfigurationError(
            "no name server is known: pass namesrv_addr='host:9876' or set the environment variable NAMESRV_ADDR"
        )
    return ";".join(parse_addresses(given))
