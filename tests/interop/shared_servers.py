# SPDX-License-Identifier: Apache-2.0
"""Servers that all tests of a run share, one for each kind and settings, and the watch over their settings.

A test names what it needs, and gets a server that was started with exactly that: who ran before does not matter. A test may change
settings of a running server if it puts them back; `put_back` finds who did not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from interop.apache_proxy import READY_TOPIC
from interop.peers import ApacheCluster, ApacheProxy, SprocketServer
from interop.remoting import ask

Settings = dict[str, str]
GET_BROKER_CONFIG, UPDATE_BROKER_CONFIG = 26, 25
GET_NAMESRV_CONFIG, UPDATE_NAMESRV_CONFIG = 319, 318

# Waits that would make the tests slow, as short as they can be. 5.x gathers the marks of what was committed for 3 s
# (transactionOpBatchInterval): below that a check-back would ask for transactions that are long decided.
FAST: Final[dict[str, Any]] = {
    "messageDelayLevel": "1s 1s 1s 1s",
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 6000,
    "enablePropertyFilter": True,
}


def settings_of(server: ApacheCluster | SprocketServer | ApacheProxy) -> dict[str, Settings]:
    """What broker and name server are set to now; nothing of a proxy. Raises OSError when one of them does not answer."""
    if isinstance(server, ApacheProxy):
        if not server.has_route(READY_TOPIC):
            raise ConnectionError(f"the proxy at {server.namesrv_addr} knows no route")
        return {}
    return {
        "broker": _properties(ask(server.broker_addr, GET_BROKER_CONFIG).body),
        "name server": _properties(ask(server.namesrv_addr, GET_NAMESRV_CONFIG).body),
    }


def _properties(body: bytes) -> Settings:
    pairs = (line.partition("=") for line in body.decode().splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


class SharedServers:
    """Starts a server when it is first asked for, and ends all of them together. Use with ``with``."""

    def __init__(self) -> None:
        self._running: dict[tuple[object, ...], Any] = {}
        self._given: dict[tuple[object, ...], dict[str, Settings]] = {}
        self._stack = contextlib.ExitStack()

    def apache(self, version: str, **settings: str | int | bool) -> ApacheCluster:
        """Apache's servers of a version: with `FAST`, and `settings` in place of those or beside them."""
        cluster: ApacheCluster = self.get(version, ApacheCluster, version, **{**FAST, **settings})
        return cluster

    def proxy(self, version: str, **proxy_conf: str | int | bool) -> ApacheProxy:
        """Apache's proxy in CLUSTER mode before the servers of `apache(version)`. Tests make topics with its `create_topic`."""
        cluster = self.apache(version)
        # A server that died is replaced, and then its proxy is, too.
        proxy: ApacheProxy = self.get(f"proxy {version} of {cluster.namesrv_addr}", ApacheProxy, cluster, **proxy_conf)
        return proxy

    def under_test(self, **settings: str | int | bool) -> ApacheCluster | SprocketServer:
        """Our servers, unless SPROCKETMQ_INTEROP_SERVER names an Apache version; settings as of `apache`."""
        if version := os.environ.get("SPROCKETMQ_INTEROP_SERVER"):
            return self.apache(version, **settings)
        server: SprocketServer = self.get("ours", SprocketServer, **{**FAST, **settings})
        return server

    def get(self, kind: str, start: Callable[..., Any], *args: object, **settings: str | int | bool) -> Any:
        """The server of this kind and these settings, whatever their order."""
        key = (kind, *sorted(settings.items()))
        if key not in self._running:
            self._running[key] = self._stack.enter_context(start(*args, **settings))
            self._given[key] = settings_of(self._running[key])
        return self._running[key]

    def put_back(self) -> list[str]:
        """What was changed and left so, in words; it is as it was afterwards. A server that does not answer is replaced when asked for."""
        found: list[str] = []
        for key, server in list(self._running.items()):
            try:
                now = settings_of(server)
            except OSError as error:
                found.append(f"the shared server {key[0]} does not answer any more: {error}")
                del self._running[key]
                continue
            for part, given in self._given[key].items():
                changed = dict(_changed(given, now[part]))
                found += [
                    f"{name} of the {part} of {key[0]} is {now[part].get(name)}, it was {value}"
                    for name, value in changed.items()
                ]
                if changed:
                    self._set(server, part, changed)
        return found

    @staticmethod
    def _set(server: ApacheCluster | SprocketServer, part: str, values: Settings) -> None:
        body = "".join(f"{name}={value}\n" for name, value in values.items()).encode()
        if part == "broker":
            ask(server.broker_addr, UPDATE_BROKER_CONFIG, {}, body)
        else:
            ask(server.namesrv_addr, UPDATE_NAMESRV_CONFIG, {}, body)

    def __enter__(self) -> SharedServers:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()


def _changed(given: Settings, now: Settings) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in given.items() if now.get(name) != value)
