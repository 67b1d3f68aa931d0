"""P12 through a real Spark at Apache's brokers, both generations: retry by row, in Apache's own terms, as Java's clients see it."""

from __future__ import annotations

from typing import Any

import pytest

from interop.java_program import JavaProgram
from interop.spark_flow import PATIENCE_S, Flow

pytestmark = pytest.mark.spark


def number_and_try(event: dict[str, Any]) -> tuple[int, int]:
    return int(event["body"]), event["reconsumeTimes"]


def test_what_the_ack_sink_sends_back_a_java_member_of_the_group_gets(flow: Flow) -> None:
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
        events = program.read_events("message", 14, PATIENCE_S)
    assert sorted(map(number_and_try, events)) == sorted([(number, 0) for number in range(12)] + [(1, 1), (8, 1)])
    assert {event["topic"] for event in events} == {topic}, "Java, too, shows the origin"
    letters = flow.spark.read.format("rocketmq").options(namesrvAddr=flow.namesrv_addr, deadLettersOf=group).load()
    assert [int(letter.body) for letter in letters.collect()] == [2]
