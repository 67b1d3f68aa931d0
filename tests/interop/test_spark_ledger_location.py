# SPDX-License-Identifier: Apache-2.0
"""The ledger of transactional Spark writes beside Apache's brokers: they keep its place, and their name server says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.peers import VERSIONS, ApacheCluster
from sprocketmq.broker.broker import Broker
from sprocketmq.errors import NetworkError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.transactions.ledger_location import PERM_NONE, PERM_READ_WRITE, find_ledger
from sprocketmq.wire.records.message import MessageQueue

LEDGER = "SPROCKETMQ_DECISIONS_place"


@pytest.fixture(params=VERSIONS)
def apache(request: pytest.FixtureRequest, java_peers: None) -> Iterator[ApacheCluster]:
    with ApacheCluster(request.param) as cluster:
        yield cluster


def permissions(cluster: Cluster) -> dict[str, int]:
    route = cluster.engine.run(cluster.name_servers.route(LEDGER))
    return {} if route is None else {data.broker_name: data.perm for data in route.queue_datas}


def test_an_apache_broker_keeps_the_place_of_a_ledger_that_is_elsewhere(apache, tmp_path):
    cluster = Cluster.at(apache.namesrv_addr, 10_000)
    home = Broker(apache.namesrv_addr, "127.0.0.1", 0, tmp_path, "a-home")
    home.start()
    try:
        place = cluster.run(lambda: find_ledger(cluster, LEDGER, create=True))
        assert place.queue == MessageQueue(LEDGER, "a-home", 0)
        assert permissions(cluster) == {"a-home": PERM_READ_WRITE, "broker-a": PERM_NONE}
        again = cluster.run(lambda: find_ledger(cluster, LEDGER, create=True))
        assert again == place
    finally:
        home.stop()
    with pytest.raises(
        NetworkError, match="lies on a broker that is not registered now, and only a placeholder is on broker-a"
    ):
        cluster.engine.run(find_ledger(cluster, LEDGER, create=True))


def test_an_apache_broker_is_home(apache, tmp_path):
    cluster = Cluster.at(apache.namesrv_addr, 10_000)
    other = Broker(apache.namesrv_addr, "127.0.0.1", 0, tmp_path, "other")
    other.start()
    try:
        place = cluster.run(lambda: find_ledger(cluster, LEDGER, create=True))
        assert place.queue == MessageQueue(LEDGER, "broker-a", 0)
        assert permissions(cluster) == {"broker-a": PERM_READ_WRITE, "other": PERM_NONE}
    finally:
        other.stop()
