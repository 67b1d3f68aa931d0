# SPDX-License-Identifier: Apache-2.0
"""What the log says of a server that is away: one line when it is lost, one a minute at most, one when it is back."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from recorder import held_port, parts_of

import sprocketmq as rmq
from sprocketmq.client.remoting.outages import Outages
from sprocketmq.client.results import ServerOutage
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode

TOPICS = [f"topic-{number}" for number in range(10)]
SHORT_MS = 100


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [
        one for one in caplog.records if one.name.startswith("sprocketmq.client") and one.levelno >= logging.WARNING
    ]
    caplog.clear()
    return [f"{one.levelname} {one.getMessage()}" for one in found]


def killed(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> Callable[[], object]:
    port = rocketmq.broker.port
    rocketmq.broker.stop()
    held = held_port(port)

    def begins_again() -> None:
        held.close()
        rocketmq._start_broker(port)

    return begins_again


def frozen(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> Callable[[], object]:
    """Only while it is frozen are requests given up soon: on a busy machine others are answered late."""
    every = [code for code in RequestCode if code is not RequestCode.GET_ROUTEINFO_BY_TOPIC]
    fault = rocketmq.faults.drop(every, times=None)
    cluster = parts_of(consumer).instance.cluster
    limit_ms, cluster.timeout_ms = cluster.timeout_ms, SHORT_MS

    def thaws() -> None:
        # What was asked of it is not answered later; its time is real.
        rocketmq.wait_until(rocketmq.clock.is_at_rest)
        cluster.timeout_ms = limit_ms
        fault.remove()

    return thaws


def refusing(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> Callable[[], object]:
    every = [code for code in RequestCode if code is not RequestCode.GET_ROUTEINFO_BY_TOPIC]
    return rocketmq.faults.fail(every, 1, "the disk is full", times=None).remove


def without_name_server(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> Callable[[], object]:
    return rocketmq.faults.close_connection(RequestCode.GET_ROUTEINFO_BY_TOPIC, times=None).remove


@pytest.mark.parametrize(
    ("outage", "most"),
    [(killed, 4), (frozen, 4), (refusing, 20), (without_name_server, 4)],
    ids=["killed", "frozen", "refusing", "without name server"],
)
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_two_minutes_of_an_outage_are_a_few_lines(outage, most, orderly, tmp_path, caplog):
    told: list[tuple[str, ServerOutage]] = []
    with EmbeddedRocketMQ(store_dir=tmp_path) as rocketmq:
        for topic in TOPICS:
            rocketmq.create_topic(topic, queues=4)
        consumer = rocketmq.push_consumer(
            "delays",
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            instance_name="shop",
            max_reconsume_times=100_000,
            on_disconnected=lambda one: told.append(("lost", one)),
            on_reconnected=lambda one: told.append(("back", one)),
        )
        producer = rocketmq.producer(
            "ops",
            instance_name="shop",
            retry_times_when_send_failed=0,
        )
        seen: list[str] = []

        def listen(messages: list[rmq.MessageExt], context: object) -> object:
            seen.extend(message.topic for message in messages)
            if isinstance(context, rmq.ConsumeOrderlyContext):
                return rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            return rmq.ConsumeConcurrentlyStatus.RECONSUME_LATER

        for topic in TOPICS:
            consumer.subscribe(topic)
        (consumer.orderly_listener if orderly else consumer.concurrent_listener)(listen)
        with producer, consumer:
            rocketmq.advance_until(
                lambda: sum(not queue.topic.startswith("%") for queue in consumer.assigned_queues) == 40
            )
            for topic in TOPICS:
                producer.send(rmq.Message(topic, b"x"))
            rocketmq.advance_until(lambda: set(seen) == set(TOPICS))
            lines(caplog)
            ends = outage(rocketmq, consumer)
            for _ in range(24):
                producer.send_async(rmq.Message(TOPICS[0], b"y"), timeout_ms=SHORT_MS if outage is frozen else None)
                rocketmq.advance(5_000)
            if outage is not refusing:
                rocketmq.wait_until(lambda: [what for what, _ in told] == ["lost"])
            during = lines(caplog)
            ends()
            before = len(seen)
            rocketmq.advance_until(lambda: len(seen) > before)  # up to ten minutes, if there were many tries before
            if outage is not refusing:
                rocketmq.advance_until(lambda: [what for what, _ in told] == ["lost", "back"], limit_ms=120_000)
            after = lines(caplog)
    assert len(during) <= most, "\n".join(during)
    assert len(after) <= 2, "\n".join(after)
    if outage is refusing:
        return
    lost, back = (one for _, one in told)
    is_name_server = outage is without_name_server
    assert lost.address == (rocketmq._namesrv if is_name_server else rocketmq._broker).address
    assert (lost.broker_name, lost.lasted_ms) == ("" if is_name_server else "broker-a", 0)
    assert "group delays, ops: " in "".join(during), "who it is whose server is away"
    assert "is lost" in "".join(during)
    assert "is back after" in "".join(after)
    assert back.began_ms == lost.began_ms


def test_a_server_that_was_never_there_is_not_called_lost(caplog):
    with rmq.Producer("ops", namesrv_addr="127.0.0.1:1") as producer, pytest.raises(rmq.ConnectFailed):
        producer.send(rmq.Message("flights", b"x"))
    (line,) = lines(caplog)
    assert "group ops: name server 127.0.0.1:1 cannot be reached: " in line
    assert "lost" not in line


def test_a_refusal_does_not_hide_another_one(caplog):
    outages = Outages()
    for topic, code in [("a", 1), ("b", 16), ("a", 1), ("b", 16)]:
        error = rmq.RemoteError(code, "no", "h:1")
        outages.failed("routes", error, "the route of topic %s could not be refreshed: %s", topic, error)
    assert lines(caplog) == [
        "WARNING the route of topic a could not be refreshed: code 1 from h:1: no",
        "WARNING the route of topic b could not be refreshed: code 16 from h:1: no",
    ]


def test_a_broker_that_comes_back_elsewhere_is_back(caplog):
    names = {"10.0.0.1:10911": "broker-a", "10.0.0.2:10911": "broker-a", "10.0.0.3:10911": "broker-a"}
    outages = Outages(name_of=lambda address: names.get(address, ""))
    outages.heard("10.0.0.1:10911")
    outages.lost("10.0.0.1:10911", rmq.NetworkError("closed", "10.0.0.1:10911"))
    outages.heard("10.0.0.3:10911")  # its replica
    assert outages.address_of("broker-a") == "10.0.0.1:10911"
    outages.look_after(["10.0.0.2:10911"])
    outages.heard("10.0.0.2:10911")
    assert outages.address_of("broker-a") == ""
    assert len(lines(caplog)) == 3
