# SPDX-License-Identifier: Apache-2.0
"""Our client while bad luck strikes an Apache cluster of either generation: nothing acknowledged is lost, each ordered queue stays in
order, and is in one hand as long as the broker keeps its locks.

Each test has live traffic (one producer, a concurrent group, an orderly group of two members), strikes, sees messages flow again, and
checks everything.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

import sprocketmq as rmq
from interop.live_traffic import LiveTraffic, pause
from interop.peers import VERSIONS, ApacheCluster, poll_until
from interop.remoting import create_topic

QUEUES = 4
FROZEN_S = 4.0  # longer than a send waits (3 s), so that sends fail


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, java_peers: None) -> Iterator[ApacheCluster]:
    """One of its own: it is killed."""
    with ApacheCluster(request.param) as started:
        yield started


@pytest.fixture
def traffic(cluster: ApacheCluster) -> Iterator[LiveTraffic]:
    topic = f"luck-{time.time_ns()}"
    cluster.create_topic(topic, QUEUES)
    with LiveTraffic(cluster.namesrv_addr, topic) as running:
        yield running


def test_a_broker_that_is_killed(cluster, traffic):
    cluster.kill()
    cluster.start_broker()
    traffic.flows()
    traffic.check(locks_were_lost=True)
    assert traffic.refused


@pytest.mark.nightly
def test_a_frozen_name_server_stops_no_client(cluster, traffic):
    os.kill(cluster.namesrv_pid, signal.SIGSTOP)
    try:
        traffic.flows(300)
        pause(FROZEN_S)
        traffic.flows()
    finally:
        os.kill(cluster.namesrv_pid, signal.SIGCONT)
    traffic.check()


@pytest.mark.nightly
def test_queues_that_come_and_go_under_load(cluster, traffic):
    create_topic(cluster.broker_addr, traffic.topic, 2 * QUEUES, {})
    poll_until(lambda: len(traffic.ordered.offsets) == 2 * QUEUES, "the new queues are consumed")
    traffic.flows()
    # Fewer to write, all to read: what lies in the others is still consumed.
    create_topic(cluster.broker_addr, traffic.topic, 2 * QUEUES, {"writeQueueNums": str(QUEUES)})
    with rmq.Producer("luck", namesrv_addr=cluster.namesrv_addr, poll_name_server_interval_ms=500) as producer:
        poll_until(lambda: len(producer.publish_queues(traffic.topic)) == QUEUES, "the route says so")
    traffic.flows()
    traffic.check()


@pytest.mark.nightly
def test_a_topic_that_refuses_writes_for_a_while(cluster, traffic):
    create_topic(cluster.broker_addr, traffic.topic, QUEUES, {"perm": "4"})
    poll_until(lambda: traffic.refused, "sends are refused")
    create_topic(cluster.broker_addr, traffic.topic, QUEUES, {"perm": "6"})
    traffic.flows()
    traffic.check()
