# SPDX-License-Identifier: Apache-2.0
"""Our clients under the eyes of Apache's tools, both generations: traces, running info with stacks, direct consumption; and Java's traces
under ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sprocketmq as rmq
from interop.mqadmin_session import MqadminSession
from interop.peers import Server, poll_until

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def _asked(mqadmin: MqadminSession, *words: str) -> str:
    """What a command prints; once more while the machine is too busy for its time-outs of a second."""
    return str(
        poll_until(lambda: printed if "TimeoutException" not in (printed := mqadmin.run(*words)) else None, words[0])
    )


def _consumer(server: Server, group: str, topic: str, listener: Callable[..., Any], **options: Any) -> rmq.PushConsumer:
    consumer = rmq.PushConsumer(group, namesrv_addr=server.namesrv_addr, consume_from_where=FIRST, **options)
    consumer.subscribe(topic)
    consumer.concurrent_listener(listener)
    return consumer


def _success(messages: Any, context: Any) -> rmq.ConsumeConcurrentlyStatus:
    return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS


@pytest.mark.parametrize("trace_topic", [None, "interop-traces"])
def test_mqadmin_reads_what_our_clients_trace(server, java_version, topic, tools, trace_topic):
    group = f"{topic}-readers"
    traced = {"namesrv_addr": server.namesrv_addr, "enable_trace": True, "trace_topic": trace_topic}
    seen: list[str] = []

    def consume(messages: Any, context: Any) -> Any:
        seen.extend(message.message_id for message in messages)
        return None if len(seen) == 1 else rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with rmq.Producer("traced-ops", **traced) as producer:
        sent = producer.send(rmq.Message(topic, b"flight", tags="UA", keys=["k1", "k2"]))
    with _consumer(server, group, topic, consume, enable_trace=True, trace_topic=trace_topic):
        poll_until(lambda: len(seen) >= 2, "two calls")  # None is retried, with the same id
    words = ["queryMsgTraceById", "-n", server.namesrv_addr, "-i", sent.message_id]
    if trace_topic is not None:
        words += ["-t", trace_topic]

    def rows() -> list[list[str]]:
        printed = _asked(tools(java_version), *words)
        return [line.split() for line in printed.splitlines() if line.startswith(("Pub ", "Sub "))]

    found = poll_until(lambda: shown if len(shown := rows()) >= 3 else None, "three rows of the trace")
    (sent_row,) = [row for row in found if row[0] == "Pub"]
    assert (sent_row[1], sent_row[-1]) == ("traced-ops", "success")
    assert {(row[1], row[-1]) for row in found if row[0] == "Sub"} == {(group, "failed"), (group, "success")}


def test_our_admin_reads_what_java_clients_trace(server, java_version, topic, start):
    group = f"{topic}-java"

    def traced() -> list[rmq.TraceRecord]:
        try:
            return admin.message_trace(sent["msgId"])
        except rmq.TopicNotExist:
            return []

    # Both stay until it is seen: 4.9 gathers traces for half a second, and loses those at its end.
    with (
        rmq.Admin(namesrv_addr=server.namesrv_addr) as admin,
        start("Producer", topic=topic, count=1, tags="UA", keys=1, trace=True, group="java-ops", stay=True) as producer,
        start("PushConsumer", topic=topic, group=group, trace=True),
    ):
        sent = producer.read_events("sent", 1)[0]
        found = poll_until(lambda: records if len(records := traced()) >= 3 else None, "three records")
    by_type = {record.trace_type: record for record in found}
    pub, before, after = (
        by_type[kind] for kind in (rmq.TraceType.PUB, rmq.TraceType.SUB_BEFORE, rmq.TraceType.SUB_AFTER)
    )
    assert (pub.group, pub.topic, pub.tags, pub.keys, pub.success) == ("java-ops", topic, "UA", "key-0", True)
    assert pub.offset_message_id == sent["offsetMsgId"]
    assert (before.group, before.retry_times) == (group, 0)
    assert before.request_id == after.request_id
    assert (after.success, after.context_code) == (True, rmq.ConsumeReturnType.SUCCESS)


def test_mqadmin_sees_our_consumers_state_and_where_it_stands(server, java_version, topic, tools):
    group = f"{topic}-seen"
    with (
        rmq.Producer("ops", namesrv_addr=server.namesrv_addr) as producer,
        rmq.Admin(namesrv_addr=server.namesrv_addr) as admin,
    ):
        producer.send(rmq.Message(topic, b"flight"))
        with _consumer(server, group, topic, _success, consume_timeout_ms=600_000) as consumer:
            poll_until(lambda: (online := admin.consumer_connection(group)) and online.connection_set, "it is online")
            poll_until(lambda: len(consumer.assigned_queues) >= 4, "it has its queues")
            mqadmin = tools(java_version)
            words = ("consumerStatus", "-n", server.namesrv_addr, "-g", group, "-i", consumer.client_id, "-s")
            printed = _asked(mqadmin, *words)
            everybody = _asked(mqadmin, "consumerStatus", "-n", server.namesrv_addr, "-g", group)
    assert "\tat org.apache" not in printed, printed
    options = dict(
        (part.strip() for part in line.split(":", 1)) for line in printed.splitlines() if line[:1].isalpha() and ": " in line
    )  # fmt: skip
    assert (options["consumerGroup"], options["PROP_CONSUME_TYPE"]) == (group, "CONSUME_PASSIVELY")
    assert (options["consumeTimeout"], options["PROP_CONSUMEORDERLY"]) == ("10", "false")
    assert f"SprocketMQ {rmq.__version__}" in printed
    for heading in ("#Consumer Subscription#", "#Consumer Offset#", "#Consumer MQ Detail#", "#Consumer RT&TPS#"):
        assert heading in printed
    assert "#Consumer jstack#" in printed
    assert "pull_loop.py:" in printed, "the stacks are ours"
    assert "Same subscription in the same group of consumer" in everybody, everybody


@pytest.mark.parametrize("outcome", ["CR_SUCCESS", "CR_THROW_EXCEPTION"])
def test_mqadmin_lets_our_listener_run_on_one_message(server, java_version, topic, tools, outcome):
    group, other = f"{topic}-direct", f"{topic}-other"
    server.create_topic(other, 1)
    seen: list[bytes] = []

    def consume(messages: Any, context: Any) -> Any:
        seen.extend(message.body for message in messages)
        if outcome == "CR_THROW_EXCEPTION":
            raise ValueError("no such plane")
        return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with (
        rmq.Producer("ops", namesrv_addr=server.namesrv_addr) as producer,
        rmq.Admin(namesrv_addr=server.namesrv_addr) as admin,
        _consumer(server, group, other, consume) as consumer,
    ):
        sent = producer.send(rmq.Message(topic, b"flight"))
        poll_until(lambda: (online := admin.consumer_connection(group)) and online.connection_set, "it is online")
        words = ("queryMsgByUniqueKey", "-n", server.namesrv_addr, "-t", topic, "-i", sent.message_id)
        printed = _asked(tools(java_version), *words, "-g", group, "-d", consumer.client_id)
    assert f"consumeResult={outcome}" in printed, printed
    assert "order=false, autoCommit=true" in printed
    if outcome == "CR_THROW_EXCEPTION":
        assert "ValueError: no such plane" in printed
    assert set(seen) == {b"flight"}
