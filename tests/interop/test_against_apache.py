"""The same questions to Apache's servers and to ours must get the same answers; Apache's admin tools must understand ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interop.peers import APACHE_5, ApacheCluster, JavaProgram, SprocketServer, mqadmin

Server = ApacheCluster | SprocketServer
StartProgram = Callable[..., JavaProgram]

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


def test_the_probe_gets_the_answers_that_apache_5_gives(server: Server, apache5: ApacheCluster, topic: str) -> None:
    apache5.create_topic(topic, 4)
    assert probed(server, APACHE_5, topic) == probed(apache5, APACHE_5, topic)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("clusterList", "-n", "NAMESRV"), "{broker}"),
        (("topicList", "-n", "NAMESRV"), "{topic}"),
        (("topicRoute", "-n", "NAMESRV", "-t", "TOPIC"), "writeQueueNums"),
        (("topicStatus", "-n", "NAMESRV", "-t", "TOPIC"), "broker-a"),
        (("brokerStatus", "-n", "NAMESRV", "-b", "BROKER"), "brokerVersionDesc"),
        (("consumerProgress", "-n", "NAMESRV", "-g", "GROUP"), "Consume TPS"),
        (("brokerConsumeStats", "-n", "NAMESRV", "-b", "BROKER"), "Diff Total"),
        (("queryMsgByKey", "-n", "NAMESRV", "-t", "TOPIC", "-k", "key-0"), "Message ID"),
        (("updateTopic", "-n", "NAMESRV", "-b", "BROKER", "-t", "TOPIC", "-r", "6", "-w", "6"), "success"),
        (("updateSubGroup", "-n", "NAMESRV", "-b", "BROKER", "-g", "GROUP", "-r", "3"), "success"),
        (("resetOffsetByTime", "-n", "NAMESRV", "-g", "GROUP", "-t", "TOPIC", "-s", "-1"), "TOPIC"),
        (("skipAccumulatedMessage", "-n", "NAMESRV", "-g", "GROUP", "-t", "TOPIC"), "broker-a"),
        (("updateBrokerConfig", "-n", "NAMESRV", "-b", "BROKER", "-k", "longPollingEnable", "-v", "true"), "success"),
        (("exportConfigs", "-n", "NAMESRV", "-c", "DefaultCluster", "-f", "."), "success"),
        (("queryCq", "-n", "NAMESRV", "-b", "BROKER", "-t", "TOPIC", "-q", "0", "-i", "0", "-c", "2"), "physicOffset"),
        (("statsAll", "-n", "NAMESRV", "-t", "TOPIC"), "TOPIC"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_mqadmin_understands_the_answer(
    server: Server, java_version: str, topic: str, start: StartProgram, command: tuple[str, ...], expected: str
) -> None:
    group = f"of-{topic}"
    assert start("Producer", topic=topic, count=4).read_events("done", 1)
    consumer = start("PushConsumer", topic=topic, group=group, count=4)
    assert len(consumer.read_rest("message")) == 4
    given = {"NAMESRV": server.namesrv_addr, "BROKER": server.broker_addr, "TOPIC": topic, "GROUP": group}
    printed = mqadmin(java_version, *(given.get(word, word) for word in command))
    # Every tool prints a stack trace and still ends with 0 when an answer is not to its liking.
    assert "Exception" not in printed, printed
    assert expected.format(broker=server.broker_addr, topic=topic).replace("TOPIC", topic) in printed
