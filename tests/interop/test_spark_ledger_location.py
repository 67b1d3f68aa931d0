# SPDX-License-Identifier: Apache-2.0
"""The ledger of transactional Spark writes beside Apache's brokers: they keep its place, and their name server says so."""

from __future__ import annotations

import time

import pytest

from interop.peers import VERSIONS
from sprocketmq.broker.broker import Broker
from sprocketmq.errors import NetworkError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.transactions.ledger_location import PERM_NONE, PERM_READ_WRITE, find_ledger
from sprocketmq.wire.records.message import MessageQueue


@pytest.mark.parametrize("apache", VERSIONS, indirect=True)
@pytest.mark.parametrize(
    ("ours", "home"), [("a-home", "a-home"), ("other", "broker-a")], ids=["elsewhere", "at Apache"]
)
def test_a_broker_that_is_not_the_home_of_a_ledger_keeps_its_place(apache, ours, home, tmp_path):
    ledger = f"SPROCKETMQ_DECISIONS_place-{time.time_ns()}"
    cluster = Cluster.at(apache.namesrv_addr, 10_000)
    broker = Broker(apache.namesrv_addr, "127.0.0.1", 0, tmp_path, ours)
    broker.start()
    try:
        place = cluster.run(lambda: find_ledger(cluster, ledger, create=True))
        assert place.queue == MessageQueue(ledger, home, 0)
        route = cluster.engine.run(cluster.name_servers.route(ledger))
        assert route is not None
        permissions = {data.broker_name: data.perm for data in route.queue_datas}
        assert permissions == {name: PERM_READ_WRITE if name == home else PERM_NONE for name in (ours, "broker-a")}
        assert cluster.run(lambda: find_ledger(cluster, ledger, create=True)) == place
    finally:
        broker.stop()
    if home == ours:
        with pytest.raises(
            NetworkError, match="lies on a broker that is not registered now, and only a placeholder is on broker-a"
        ):
            cluster.engine.run(find_ledger(cluster, ledger, create=True))
