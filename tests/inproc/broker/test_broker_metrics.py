# SPDX-License-Identifier: Apache-2.0
"""The page that Prometheus scrapes: read over HTTP, in its text format."""

from __future__ import annotations

import re
import socket
import time
import urllib.request

import pytest

from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.broker.observe.metrics import fixed_labels
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import QueryConsumerOffsetRequestHeader
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.sys_flag import TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE

PROM = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0, "metrics_label": "zone:a"}
watched = pytest.mark.parametrize("cluster", [PROM], indirect=True)


def scrape(cluster) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.broker.metrics.port}/metrics", timeout=10) as page:
        return page.read().decode()


def value(page: str, name: str, **labels: str) -> float:
    """The one line of ``name`` that has all the labels."""
    found = [
        float(number)
        for text, number in re.findall(rf"^{name}\{{(.*)\}} (\S+)$", page, re.MULTILINE)
        if all(f'{label}="{wanted}"' in text for label, wanted in labels.items())
    ]
    assert len(found) == 1, f"{name} {labels}: {found}\n{page}"
    return found[0]


@watched
def test_messages_in_and_out_are_counted_by_topic_and_group(cluster, client):
    for number in range(3):
        client.send("flights", b"%d" % number)
    client.pull("readers", "flights", 0, 1)
    page = scrape(cluster)
    assert value(page, "rocketmq_messages_in_total", topic="flights", is_system="false") == 3
    assert value(page, "rocketmq_messages_out_total", topic="flights", consumer_group="readers") == 2
    assert value(page, "rocketmq_throughput_in_total", topic="flights") > 3 * 91
    assert 'cluster="DefaultCluster"' in page
    assert 'zone="a"' in page
    assert 'node_id="broker-a"' in page


@pytest.mark.parametrize("cluster", [{**PROM, "max_connections": 1}], indirect=True)
def test_connections_that_are_refused_or_cut_off_are_counted(cluster, client):
    client.send("flights", b"x")
    host, _, port = cluster.broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), 20) as second:
        second.settimeout(20)
        assert second.recv(1) == b""
    page = scrape(cluster)
    assert value(page, "sprocketmq_connections") == 1
    assert value(page, "sprocketmq_refused_connections_total") == 1
    assert value(page, "sprocketmq_cut_off_connections_total") == 0


@watched
def test_lag_is_what_is_not_committed_and_its_age(cluster, client):
    client.send("flights", b"old")
    cluster.clock.advance(5_000)
    client.send("flights", b"new")
    cluster.clock.advance(1_000)

    def commit(offset: int) -> None:
        assert client.commit("readers", "flights", 0, offset).code == 0

    client.heartbeat("me", group="readers", topics={"flights": "*"})
    commit(0)
    page = scrape(cluster)
    assert value(page, "rocketmq_consumer_lag_messages", topic="flights") == 2
    assert value(page, "rocketmq_consumer_lag_latency", topic="flights") == 6_000
    commit(1)
    assert value(scrape(cluster), "rocketmq_consumer_lag_latency", topic="flights") == 1_000
    commit(2)
    page = scrape(cluster)
    assert value(page, "rocketmq_consumer_lag_messages", topic="flights") == 0
    assert value(page, "rocketmq_consumer_lag_latency", topic="flights") == 0


@watched
def test_lag_has_the_queues_without_a_committed_offset_and_those_that_the_topic_lost(cluster, client):
    for queue_id in (0, 1, 3):
        client.send("flights", b"x", queue_id=queue_id)
    client.heartbeat("me", group="readers", topics={"flights": "*"})
    assert client.commit("readers", "flights", 0, 1).code == 0
    cluster.broker.topics.get("flights").read_queue_nums = 2
    assert value(scrape(cluster), "rocketmq_consumer_lag_messages", topic="flights") == 2


@watched
def test_lag_counts_what_waits_behind_the_first_message_of_a_member_that_is_online(cluster, client):
    for number in range(4):
        client.send("flights", b"%d" % number)
    client.pull("readers", "flights", 0, 0, max_messages=3)
    assert "rocketmq_consumer_lag_messages{" not in scrape(cluster), "nobody of the group is online"
    client.heartbeat("me", group="readers", topics={"flights": "*"})
    client.heartbeat("me", group="all", topics={"flights": "*"}, model="BROADCASTING")
    page = scrape(cluster)
    assert value(page, "rocketmq_consumer_lag_messages", topic="flights") == 4
    assert value(page, "rocketmq_consumer_inflight_messages", topic="flights") == 3
    assert value(page, "rocketmq_consumer_ready_messages", topic="flights") == 1
    assert value(page, "rocketmq_consumer_connections", consumer_group="readers", consume_mode="push") == 1


@watched
def test_a_member_that_begins_at_the_end_owes_nothing_of_what_was_there_before(cluster, client):
    cluster.broker.memory_span_bytes = -1  # else a broker answers a new group with the oldest message
    for _ in range(3):
        client.send("flights", b"old")
    client.heartbeat("me", group="readers", topics={"flights": "*"})
    client.heartbeat("me", group="from-first", topics={"flights": "*"}, begin="CONSUME_FROM_FIRST_OFFSET")
    header = QueryConsumerOffsetRequestHeader("readers", "flights", 0)
    assert client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header).code == ResponseCode.QUERY_NOT_FOUND
    page = scrape(cluster)
    assert value(page, "rocketmq_consumer_lag_messages", consumer_group="from-first") == 3
    assert not re.search(r"^rocketmq_consumer_lag_messages\{.*readers", page, re.MULTILINE), "it has not begun"
    client.pull("readers", "flights", 0, 3)
    assert value(scrape(cluster), "rocketmq_consumer_lag_messages", consumer_group="readers") == 0
    client.send("flights", b"new")
    assert value(scrape(cluster), "rocketmq_consumer_lag_messages", consumer_group="readers") == 1


@watched
def test_a_delayed_message_waits_in_its_level(cluster, client):
    client.send("flights", b"later", delay_level=3)
    assert value(scrape(cluster), "sprocketmq_delay_level_waiting_messages", level="3") == 1
    assert value(scrape(cluster), "rocketmq_storage_size") > 0


@watched
def test_transactions_are_counted_open_committed_and_rolled_back(cluster, client):
    def half(body: bytes) -> tuple[int, int]:
        header_fields = {props.TRAN_MSG: "true", props.PGROUP: "producers"}
        answer = client.send("flights", body, properties=header_fields)
        return int(answer.ext_fields["queueOffset"]), decode_offset_message_id(answer.ext_fields["msgId"])[1]

    def end(place: tuple[int, int], outcome: int) -> None:
        assert client.end_transaction(*place, outcome, from_check=False).code == 0

    places = [half(body) for body in (b"a", b"b", b"c")]
    end(places[0], TRANSACTION_COMMIT_TYPE)
    end(places[2], TRANSACTION_ROLLBACK_TYPE)
    page = scrape(cluster)
    assert value(page, "rocketmq_half_messages") == 1
    assert value(page, "rocketmq_commit_messages_total") == 1
    assert value(page, "rocketmq_rollback_messages_total") == 1


def test_a_broker_without_metrics_serves_no_page(cluster):
    assert cluster.broker.metrics.port == 0


@watched
def test_a_stopped_broker_has_closed_its_page(cluster):
    port = cluster.broker.metrics.port
    cluster.broker.stop()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


@watched
def test_a_taken_port_is_named_with_its_key(cluster):
    taken = cluster.broker.metrics.port
    config = BrokerConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=taken)
    with pytest.raises(ConfigurationError, match=f"cannot serve metrics on 127.0.0.1:{taken}.*metricsPromExporterPort"):
        Broker(port=0, config=config).start()


def test_labels_of_the_configuration_stand_beside_the_brokers_own():
    labels = fixed_labels("zone:a, rack:b,broken", "c", "b")
    assert labels == {"zone": "a", "rack": "b", "node_type": "broker", "cluster": "c", "node_id": "b"}


@pytest.mark.parametrize("cluster", [{**PROM, "slow_request_ms": 1}], indirect=True)
def test_a_request_that_holds_the_loop_is_logged_and_counted(cluster, client, caplog):
    def slowly(connection, command, handler):
        time.sleep(0.005)  # what is tested is that time passes in a handler
        return handler(connection, command)

    cluster.broker.intercept = slowly
    client.send("flights")
    cluster.broker.intercept = None
    assert any(message.startswith("SEND_MESSAGE_V2 310 of 127.0.0.1:") for message in caplog.messages)
    assert value(scrape(cluster), "sprocketmq_slow_requests_total") >= 1
