# SPDX-License-Identifier: Apache-2.0
"""docs/internals/served-requests.md: every request that client, Spark, command line and console send, and which server knows it.

Each server is asked with each code and an empty header. Only code 3 says that it does not know the request.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest

from interop.apache_proxy import ApacheProxy
from interop.peers import APACHE_4, APACHE_5, APACHE_55, ApacheCluster
from interop.remoting import ask
from sprocketmq.wire.requests import declared
from sprocketmq.wire.requests.declaration import AnyRequest, Peer

pytestmark = pytest.mark.nightly

WRITE: Final = os.environ.get("SPROCKETMQ_WRITE_PAGE") == "1"
ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs/internals/served-requests.md"
ROOMS: Final = ("client", "spark", "console", "cli")
NOT_SUPPORTED: Final = 3
PATIENCE_S: Final = 5.0  # of a request that is one-way, or that a server leaves unanswered
HEAD: Final = """\
# Who serves which request

Every request that SprocketMQ's client, its Spark source and sink, its command line and its console send, and whether Apache's servers know
it: name server and broker of each version, and the proxy, which is both in one address. `tests/interop/test_served_requests.py` asks them,
and writes this page.

A dash: the server answers code 3. At a proxy the client then takes another way, or raises `RequestNotServed`;
[Managed RocketMQ 5](../guides/managed.md) says what that means for you.
"""


def sent() -> list[AnyRequest]:
    """What the sources name, by code."""
    texts = [path.read_text() for room in ROOMS for path in (ROOT / "src/sprocketmq" / room).rglob("*.py")]
    names = {
        name for text in texts for name in re.findall(r"\b(?:requests\.[a-z_]+|RequestCode)\.([A-Z][A-Z0-9_]+)", text)
    }
    servers = Peer.BROKER | Peer.NAME_SERVER
    return [one for one in declared() if one.name in names and one.served_by & servers]


def serves(address: str, one: AnyRequest) -> bool:
    try:
        return ask(address, one.code, timeout_s=PATIENCE_S).code != NOT_SUPPORTED
    except TimeoutError:
        return True  # who does not know it says so


def page(columns: dict[str, set[int]]) -> str:
    names = sorted(columns, key=lambda name: (name.startswith("proxy"), name))
    lines = [f"| code | request | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    for one in sent():
        cells = " | ".join("yes" if one.code in columns[name] else "-" for name in names)
        lines.append(f"| {int(one.code)} | {one.name} | {cells} |")
    return HEAD + "\n" + "\n".join(lines) + "\n"


@pytest.mark.timeout(1800)
def test_the_page_is_what_the_servers_answer(java_peers):
    columns: dict[str, set[int]] = {}
    for version in (APACHE_4, APACHE_5, APACHE_55):
        with ApacheCluster(version) as cluster:  # of its own: some requests change settings even without a header
            of_broker, of_namesrv = cluster.broker_addr, cluster.namesrv_addr
            columns[version] = {
                one.code for one in sent() if serves(of_broker if Peer.BROKER in one.served_by else of_namesrv, one)
            }
        if version.startswith("5"):
            with ApacheCluster(version) as cluster, ApacheProxy(cluster) as proxy:
                columns[f"proxy {version}"] = {one.code for one in sent() if serves(proxy.namesrv_addr, one)}
    now = page(columns)
    if WRITE:
        PAGE.write_text(now, "utf-8")
    before = PAGE.read_text("utf-8") if PAGE.exists() else ""
    assert now == before, (
        "docs/internals/served-requests.md tells something else; SPROCKETMQ_WRITE_PAGE=1 writes it anew"
    )
