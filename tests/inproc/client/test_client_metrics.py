# SPDX-License-Identifier: Apache-2.0
"""Metrics of clients: what a scrape shows after sends, pulls and listener calls."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.client.metrics import ClientMetrics
from sprocketmq.testing import SENDS
from sprocketmq.wire.codes import ResponseCode


def scrape(metrics: ClientMetrics) -> Callable[..., float | None]:
    """``value(name, label=...)`` of one scrape; labels that are not named may be anything, their values are added."""
    registry = CollectorRegistry()
    registry.register(metrics)
    samples = [sample for metric in registry.collect() for sample in metric.samples]

    def value(name: str, **labels: str) -> float | None:
        found = [one.value for one in samples if one.name == name and labels.items() <= one.labels.items()]
        return sum(found) if found else None

    return value


def test_sends_are_timed_by_topic_and_outcome(rocketmq):
    producer = rocketmq.producer("ops")
    metrics = ClientMetrics(producer, labels={"service": "billing"}, with_client_id=True)
    with producer:
        rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, times=1)
        send_all(producer, ["1", "2", "3"])
        value = scrape(metrics)
        counted = "rocketmq_send_cost_time_count"
        own = {"topic": "flights", "client_id": producer.client_id, "service": "billing"}
        assert value(counted, invocation_status="success", **own) == 3
        assert value(counted, invocation_status="failure", **own) == 1
        assert value("rocketmq_send_cost_time_bucket", le="+Inf", **own) == 4


def test_a_consumers_queues_messages_and_calls_are_shown(rocketmq, consumers, producer):
    def answer(message: rmq.MessageExt) -> None:
        if message.body == b"bad":
            raise ValueError("no")

    seen = Recorder(answer)
    rocketmq.create_topic("flights", queues=4)
    send_all(producer, ["1", "2", "bad"])
    consumer = consumers(seen, start=False, enable_trace=True)
    metrics = ClientMetrics(consumer)
    assert scrape(metrics)("sprocketmq_consumer_queues") is None, "nothing is told of a client that does not run"
    consumer.start()
    flights = {"topic": "flights", "consumer_group": "delays"}
    counted = "rocketmq_process_time_count"
    rocketmq.wait_until(lambda: sum(scrape(metrics)(counted, **flights, invocation_status=status) or 0
                                    for status in ("success", "failure")) == 3)  # fmt: skip
    rocketmq.wait_until(lambda: scrape(metrics)("rocketmq_consumer_cached_messages", topic="flights") == 0)
    value = scrape(metrics)
    assert value(counted, **flights, invocation_status="failure") == 1
    assert value("sprocketmq_consumer_queues", **flights) == 4
    assert value("rocketmq_consumer_cached_bytes", **flights) == 0
    assert value("sprocketmq_consumer_pulled_messages_total", **flights) == 3
    assert value("sprocketmq_consumer_consumed_messages_total", **flights, result="ok") == 2
    assert value("sprocketmq_consumer_consumed_messages_total", **flights, result="failed") == 1
    assert value("sprocketmq_consumer_timeouts_total", **flights) == 0
    assert value("rocketmq_delivery_latency_count", **flights) == 3
    assert value("sprocketmq_trace_dropped_total") == 0
    assert value("rocketmq_process_time_count", client_id=consumer.client_id) is None, "it is new at each start"
    rocketmq.wait_until(lambda: scrape(metrics)("sprocketmq_consumer_retried_messages_total", **flights) == 1)


def test_dead_letters_are_counted_and_the_numbers_of_clients_with_equal_labels_added(rocketmq, consumers, producer):
    def refuse(message: rmq.MessageExt) -> None:
        raise ValueError("no")

    def suspend(messages: object, context: object) -> rmq.ConsumeOrderlyStatus:
        return rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    rocketmq.create_topic("flights", queues=2)
    both = [consumers(refuse, start=False, max_reconsume_times=0, instance_name=name) for name in ("a", "b")]
    orderly = consumers(suspend, start=False, kind="orderly", group="orderly", max_reconsume_times=0)
    metrics, each = ClientMetrics(*both, orderly), ClientMetrics(*both, with_client_id=True)
    for consumer in (*both, orderly):
        consumer.start()
    rocketmq.advance_until(
        lambda: [[one.topic for one in consumer.assigned_queues].count("flights") for consumer in both] == [1, 1]
    )
    send_all(producer, ["1", "2", "3"])
    group = {"topic": "flights", "consumer_group": "delays"}
    dead = "sprocketmq_consumer_dead_letters_total"
    rocketmq.wait_until(lambda: scrape(metrics)(dead, **group) == 3)
    rocketmq.advance_until(lambda: scrape(metrics)(dead, topic="flights", consumer_group="orderly") == 3)
    assert scrape(metrics)("sprocketmq_consumer_retried_messages_total", **group) == 0
    assert sum(scrape(each)(dead, **group, client_id=consumer.client_id) or 0 for consumer in both) == 3
    assert scrape(each)("rocketmq_process_time_count", **group) == 3


def test_a_page_of_its_own_is_served_until_it_is_closed(rocketmq, producer):
    reader = rocketmq.pull_consumer("readers")
    metrics = ClientMetrics(reader)
    port = metrics.serve(0)
    with reader:
        send_all(producer, ["1"])
        reader.subscribe("flights")
        rocketmq.wait_until(lambda: reader.assigned_queues)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            text = page.read().decode()
        with pytest.raises(rmq.ConfigurationError, match="served already"):
            metrics.serve(0)
        other = ClientMetrics()
        with pytest.raises(rmq.ConfigurationError, match="choose another port"):
            other.serve(port)
        metrics.close()
        metrics.close()
    assert "sprocketmq_consumer_queues{" in text
    assert 'consumer_group="readers"' in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)


def test_what_cannot_be_watched_is_refused(rocketmq, producer):
    wrong: Any = object()
    with pytest.raises(rmq.ConfigurationError, match="cannot be watched; producers and consumers can"):
        ClientMetrics(wrong)
    with pytest.raises(rmq.ConfigurationError, match="before start"):
        ClientMetrics(producer)
