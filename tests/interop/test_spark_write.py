# SPDX-License-Identifier: Apache-2.0
"""P10 through a real Spark at Apache's brokers, both generations: what Spark writes is what Java's clients read and mqadmin finds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

import sprocketmq as rmq
from interop.java_program import JavaProgram
from interop.peers import APACHE_5
from interop.spark_flow import Flow

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark

COLUMNS = (
    "body string, tags string, keys array<string>, properties map<string,string>, shardingKey string, queueId int, "
    "delayLevel int, deliverTimeMs bigint"
)


def row(
    number: int,
    *,
    sharding_key: str | None = None,
    queue_id: int | None = None,
    delay_level: int | None = None,
    deliver_time_ms: int | None = None,
) -> tuple[Any, ...]:
    tags, keys = ("UA", "DL")[number % 2], [f"k-{number}", "all"]
    properties = {"n": str(number), "TAGS": "left out", "city": "São Paulo"}
    return f"number {number}", tags, keys, properties, sharding_key, queue_id, delay_level, deliver_time_ms


def write(flow: Flow, topic: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """In one task, as order is that of a task."""
    frame = flow.spark.createDataFrame(list(rows), COLUMNS).coalesce(1)
    frame.write.format("rocketmq").mode("append").options(namesrvAddr=flow.namesrv_addr, topic=topic).save()


def read_by_java(flow: Flow, topic: str, count: int) -> dict[int, dict[str, Any]]:
    """By number, from the first message on; each once."""
    program = JavaProgram(
        flow.apache.version, "PushConsumer", jvm_flags=(), namesrv=flow.namesrv_addr, topic=topic, group=f"{topic}-java"
    )
    with program:
        found = program.read_events("message", count)
    numbers = {int(event["body"].split()[1]): event for event in found}
    assert len(numbers) == len(found) == count
    return numbers


def test_what_spark_writes_is_what_java_reads(flow, tools):
    topic = flow.topic(4)
    waiting = rmq.MessageQueue("SCHEDULE_TOPIC_XXXX", "broker-a", 1)
    assert flow.stored(topic) == 0
    waited = flow.admin.max_offset(waiting)
    free = [row(number) for number in range(600)]  # more than a batch takes
    bound = [row(number, sharding_key=f"N{number % 3}") for number in range(600, 660)]
    queued = [row(number, queue_id=2) for number in range(660, 664)]
    delayed = [row(number, delay_level=2) for number in range(664, 667)]
    timed, then_ms = [], time.time_ns() // 1_000_000 + 6_000
    if flow.apache.version == APACHE_5:
        timed = [row(667, deliver_time_ms=then_ms)]
    write(flow, topic, [*free, *bound, *queued, *delayed, *timed])

    found = read_by_java(flow, topic, 667 + len(timed))
    for number, event in found.items():
        properties = event["properties"]
        assert (event["tags"], event["keys"]) == (("UA", "DL")[number % 2], f"k-{number} all")
        assert (properties["n"], properties["city"]) == (str(number), "São Paulo")
    for key in range(3):
        mine = [found[number] for number in range(600, 660) if number % 3 == key]
        assert {event["properties"]["__SHARDINGKEY"] for event in mine} == {f"N{key}"}
        assert len({event["queueId"] for event in mine}) == 1
        assert mine == sorted(mine, key=lambda event: event["queueOffset"]), "the order within a key is the task's"
    assert {found[number]["queueId"] for number in range(660, 664)} == {2}
    for queue in range(4):  # a batch keeps its order, too
        mine = [found[number] for number in range(600) if found[number]["queueId"] == queue]
        assert mine == sorted(mine, key=lambda event: event["queueOffset"])
    assert flow.admin.max_offset(waiting) == waited + 3, "level 2, which waits in queue 1"
    if timed:
        assert found[667]["storeTimestamp"] >= then_ms - 1_000, "a wheel of seconds"

    mqadmin = tools(flow.apache.version)
    for number in (3, 620, 665):
        printed = mqadmin.run("queryMsgByKey", "-n", flow.namesrv_addr, "-t", topic, "-k", f"k-{number}")
        assert printed.split().count(found[number]["msgId"]) == 1, printed
