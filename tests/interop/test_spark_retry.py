# SPDX-License-Identifier: Apache-2.0
"""P12 through a real Spark at Apache's brokers, both generations: retry by row, in Apache's own terms, as Java's clients see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sprocketmq as rmq
from interop.child import poll_until
from interop.java_program import JavaProgram
from interop.spark_flow import Flow
from sprocketmq.spark import foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

# The servers of these tests have four levels of one second each.
LEVELS = 4


def waited(flow: Flow) -> list[int]:
    """How many messages have been delayed so far, by level."""
    return [flow.admin.max_offset(rmq.MessageQueue("SCHEDULE_TOPIC_XXXX", "broker-a", at)) for at in range(LEVELS)]


def seen_by_java(flow: Flow, topic: str, count: int, group: str) -> list[dict[str, Any]]:
    """The first messages of a topic, as a group of Java's gets them that has none of its own."""
    program = JavaProgram(
        flow.apache.version, "PushConsumer", jvm_flags=(), namesrv=flow.namesrv_addr, topic=topic, group=group
    )
    with program:
        return program.read_events("message", count)


def number_and_try(event: dict[str, Any]) -> tuple[int, int]:
    return int(event["body"]), event["reconsumeTimes"]


def test_bad_rows_come_again_as_often_as_recorded_and_then_are_a_table_to_replay(flow):
    topic, group = flow.topic(), flow.name()
    flow.send(topic, range(10), tag=lambda number: "UA")
    before = waited(flow)
    tries: list[tuple[int, int, str]] = []

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        judged = rows.selectExpr(
            "*",
            # 3 is always bad, by the broker's own levels; 5 once, at level 1 and with a reason; 7 is given up at once.
            "CASE cast(body AS string) WHEN '3' THEN 'retry' WHEN '5' THEN if(reconsumeTimes = 0, 'retry', 'ack') WHEN '7' THEN 'dlq' END "
            "AS action",
            "CASE cast(body AS string) WHEN '5' THEN 1 ELSE 0 END AS delayLevel",
            "CASE cast(body AS string) WHEN '5' THEN 'not yet' END AS reason",
        ).persist()
        tries.extend((int(row.body), row.reconsumeTimes, row.topic) for row in judged.collect())
        return judged

    retry = foreach_batch(
        judge, write=lambda good, batch_id: None, group=group, max_reconsume=2, namesrv_addr=flow.namesrv_addr
    )
    source = flow.spark.readStream.format("rocketmq").options(
        namesrvAddr=flow.namesrv_addr, topic=topic, group=group, includeRetry=True, startingOffsets="earliest"
    )
    query = (
        source.load().writeStream.foreachBatch(retry).option("checkpointLocation", str(flow.scratch / "retry")).start()
    )
    expected = [(number, 0, topic) for number in range(10)] + [(3, 1, topic), (3, 2, topic), (5, 1, topic)]
    try:

        def is_over() -> bool:
            if (failure := query.exception()) is not None:
                raise failure
            return len(tries) >= len(expected) and retry.dead_lettered >= 2

        poll_until(is_over, "all tries")
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(tries) == sorted(expected), "each under its origin topic, as often as it was sent back"
    assert (retry.retried, retry.dead_lettered) == (3, 2)
    # 5 asked for level 1; the broker chose level 3 for the first try of 3, and the next one for its second.
    assert [now - then for now, then in zip(waited(flow), before, strict=True)] == [1, 0, 1, 1]

    copies = seen_by_java(flow, f"%RETRY%{group}", 3, f"{group}-java")
    assert sorted(map(number_and_try, copies)) == [(3, 1), (3, 2), (5, 1)]
    assert {event["properties"].get("RETRY_REASON") for event in copies if event["body"] == "5"} == {"not yet"}
    assert {event["properties"]["RETRY_TOPIC"] for event in copies} == {topic}

    letters = flow.spark.read.format("rocketmq").options(namesrvAddr=flow.namesrv_addr, deadLettersOf=group).load()
    found = {int(letter.body): letter for letter in letters.collect()}
    assert {number: (letter.topic, letter.tags) for number, letter in found.items()} == {
        3: (topic, "UA"),
        7: (topic, "UA"),
    }
    assert (found[3].reconsumeTimes, found[7].reconsumeTimes) == (3, 1)

    mended = letters.where("cast(body AS string) = '3'").selectExpr(
        "topic", "properties", "cast('33' AS binary) AS body"
    )
    mended.write.format("rocketmq").mode("append").options(namesrvAddr=flow.namesrv_addr, mode="replay").save()
    events = seen_by_java(flow, topic, 11, f"{group}-replay")
    replayed = next(event for event in events if event["body"] == "33")
    first = next(event for event in events if event["body"] == "3")
    assert (replayed["msgId"], replayed["tags"], replayed["reconsumeTimes"]) == (first["msgId"], "UA", 0)
    assert "RETRY_TOPIC" not in replayed["properties"]


def test_what_the_ack_sink_sends_back_a_java_member_of_the_group_gets(flow):
    topic, group = flow.topic(2), flow.name()
    flow.send(topic, range(6), 0)
    flow.send(topic, range(6, 12), 1)
    judged = flow.read(topic=topic).selectExpr(
        "*",
        "CASE cast(body AS string) WHEN '1' THEN 'retry' WHEN '8' THEN 'RETRY' WHEN '2' THEN 'dlq' WHEN '9' THEN 'drop' ELSE 'ack' END "
        "AS action",
        "IF(cast(body AS string) = '8', 'later', NULL) AS reason",
    )
    sink = judged.unionByName(judged).write.format("rocketmq").mode("append")  # each message gave two rows
    sink.options(namesrvAddr=flow.namesrv_addr, group=group, mode="ack").save()
    program = JavaProgram(
        flow.apache.version, "PushConsumer", jvm_flags=(), namesrv=flow.namesrv_addr, topic=topic, group=group
    )
    with program:
        events = program.read_events("message", 14)
    assert sorted(map(number_and_try, events)) == sorted([(number, 0) for number in range(12)] + [(1, 1), (8, 1)])
    assert {event["topic"] for event in events} == {topic}, "Java, too, shows the origin"
    letters = flow.spark.read.format("rocketmq").options(namesrvAddr=flow.namesrv_addr, deadLettersOf=group).load()
    assert [int(letter.body) for letter in letters.collect()] == [2]
