# SPDX-License-Identifier: Apache-2.0
"""Which host names the console accepts. A name of another site that points to 127.0.0.1 is refused (DNS rebinding)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

_HOST: Final = re.compile(r"(\[(?P<inside>[0-9a-f:.]+)\]|(?P<name>[^\s:/?#@\[\]]+))(:[0-9]*)?")


class Hosts:
    """Args: ``listens`` is the address on which the console listens, ``further`` are names that the operator allows."""

    def __init__(self, listens: str, further: Collection[str] = ()) -> None:
        self._names = {"localhost", _bare(listens), *map(_bare, further)}
        self._any_address = _bare(listens) in ("0.0.0.0", "::")

    def allows(self, header: str) -> bool:
        """Whether a ``Host`` header names this console. The port is ignored, because a proxy has another one."""
        name = _bare(header)
        if not name:
            return False
        if name in self._names:
            return True
        address = _address(name)
        # An IP address cannot be rebound: a browser that uses it as host name has connected to it.
        return address is not None and (address.is_loopback or self._any_address)

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether ``Origin`` is the console that ``Host`` names, so that the form is from a page of the console."""
        try:
            parts = urlsplit(origin)
            return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
        except ValueError:
            return False


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _bare(host: str) -> str:
    host = host.strip().lower()
    if _address(host) is not None:  # an IPv6 address without brackets
        return host
    found = _HOST.fullmatch(host)
    return (found["inside"] or found["name"].rstrip(".")) if found is not None else ""
