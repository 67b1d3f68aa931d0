# SPDX-License-Identifier: Apache-2.0
"""The real peers, in one place to import from: clusters, Java programs, mqadmin, and our own server beside them."""

from __future__ import annotations

from collections.abc import Callable

from interop.apache_cluster import ApacheCluster, free_ports, mqadmin
from interop.apache_proxy import ApacheProxy, LocalProxy
from interop.child import Child, JsonLines, poll_until, unwind_on_sigterm
from interop.java_peers import ALL_VERSIONS, APACHE_4, APACHE_5, APACHE_55, VERSIONS, JavaPeers, PeersUnavailable
from interop.java_program import JavaProgram
from interop.sprocket_server import SprocketServer

Server = ApacheCluster | SprocketServer
StartProgram = Callable[..., JavaProgram]

__all__ = [
    "ALL_VERSIONS",
    "APACHE_4",
    "APACHE_5",
    "APACHE_55",
    "VERSIONS",
    "ApacheCluster",
    "ApacheProxy",
    "Child",
    "JavaPeers",
    "JavaProgram",
    "JsonLines",
    "LocalProxy",
    "PeersUnavailable",
    "Server",
    "SprocketServer",
    "StartProgram",
    "free_ports",
    "mqadmin",
    "poll_until",
    "unwind_on_sigterm",
]
