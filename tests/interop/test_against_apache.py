# SPDX-License-Identifier: Apache-2.0
"""The same questions of a Java client to Apache's servers and to ours must get the same answers."""

from __future__ import annotations

from typing import Any

from interop.peers import APACHE_5, ApacheCluster, JavaProgram, SprocketServer

Server = ApacheCluster | SprocketServer

# What may differ between two runs of the same server.
VOLATILE = (
    "msgId",
    "commitLogOffset",
    "offset",
    "bornTimestamp",
    "storeTimestamp",
    "bornHost",
    "storeHost",
    "earliest",
)
VOLATILE_PROPERTIES = ("UNIQ_KEY", "CONSUME_START_TIME")


def comparable(line: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in line.items() if name not in VOLATILE}
    if "properties" in kept:
        kept["properties"] = {k: v for k, v in kept["properties"].items() if k not in VOLATILE_PROPERTIES}
    return kept


def probed(server: Server, version: str, topic: str) -> list[dict[str, Any]]:
    """Four messages in one queue, then every question of the Probe."""
    with JavaProgram(
        version, "Producer", namesrv=server.namesrv_addr, topic=topic, count=4, tags="A,B", mode="ordered", keys=1
    ) as p:
        assert len(p.read_rest("sent")) == 4, p.last_words()
    with JavaProgram(version, "Probe", namesrv=server.namesrv_addr, topic=topic, group=f"probe-{topic}") as probe:
        lines: list[dict[str, Any]] = []
        while (line := probe.read())["event"] != "done":
            lines.append(comparable(line))
    return lines


def test_the_probe_gets_the_answers_that_apache_5_gives(server, apache5, topic):
    apache5.create_topic(topic, 4)
    assert probed(server, APACHE_5, topic) == probed(apache5, APACHE_5, topic)
