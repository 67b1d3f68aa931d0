# SPDX-License-Identifier: Apache-2.0
"""A broker whose threads cannot be started for some time: nothing acknowledged is lost, and afterwards all goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from refused_threads import refused_threads
from sprocketmq.broker import index_building, lazy_imports
from sprocketmq.wire.bodies import CheckClientConfigRequestBody, SubscriptionData
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import QueryMessageRequestHeader

OF_THE_LOOP = ("uvloop_", "asyncio_")
OF_THE_BROKER = ("sprocketmq-space", "sprocketmq-table", "sprocketmq-offsets")


def commit(client, offset: int) -> None:
    client.pull("g", "flights")  # makes the group
    client.commit("g", "flights", 0, offset)


def offsets_on_disk(cluster) -> str:
    path = Path(cluster.store_dir) / "config/consumerOffset.json"
    return path.read_text() if path.exists() else ""


def send_all(client, bodies) -> None:
    assert [client.send("flights", body, properties={"UNIQ_KEY": "k"}).code for body in bodies] == [0] * len(bodies)


@pytest.mark.parametrize("kinds", [*((kind,) for kind in OF_THE_BROKER), OF_THE_BROKER], ids=" ".join)
def test_nothing_acknowledged_is_lost_while_a_thread_cannot_be_started(disk_cluster, kinds):
    first = [b"x" * 70_000]  # from this length on a log is allocated ahead
    meanwhile = [*(b"%d" % n + b"-" * 2_000 for n in range(20)), b"L" * 80_000, *(b"%d" % n * 1_000 for n in range(20))]
    afterwards = [b"%d" % n + b"=" * 2_000 for n in range(40)]
    send_all(disk_cluster.client(), first)
    with refused_threads(*kinds) as refused:
        disk_cluster.restart_broker()
        client = disk_cluster.client()
        send_all(client, meanwhile)
        assert client.create_topic("late", 1).code == 0
        commit(client, 7)
        disk_cluster.clock.advance(60_000)
        disk_cluster.eventually(lambda: {name.rpartition("_")[0] for name in refused} == set(kinds))
    send_all(client, afterwards)
    commit(client, 9)
    disk_cluster.clock.advance(60_000)
    disk_cluster.eventually(lambda: "0:9" in offsets_on_disk(disk_cluster))
    disk_cluster.restart_broker()
    assert [message.body for message in disk_cluster.client().messages("flights")] == first + meanwhile + afterwards
    assert disk_cluster.broker.topics.get("late") is not None


def test_the_index_goes_on_when_its_thread_can_be_started_again(cluster, client, monkeypatch):
    monkeypatch.setattr(index_building, "_AFTER_FAILURE_S", 0.01)
    with refused_threads(*OF_THE_LOOP) as refused:
        client.send("flights", b"first")
        cluster.eventually(lambda: len(refused) > 1)
    cluster.eventually(lambda: not cluster.broker.store.undispatched_bytes)


def test_the_timers_progress_is_written_later(disk_cluster, caplog):
    client = disk_cluster.client()
    metrics = Path(disk_cluster.store_dir) / "config/timermetrics"
    with refused_threads(*OF_THE_LOOP):
        client.send("flights", b"later", properties={"TIMER_DELAY_MS": "60000"})
        disk_cluster.clock.advance(10_000)
        disk_cluster.eventually(lambda: "the timer's progress is not written yet: can't start" in caplog.text)
    disk_cluster.clock.advance(10_000)
    disk_cluster.eventually(lambda: metrics.exists() and "flights" in metrics.read_text())


def test_a_request_that_needs_a_library_is_told_to_try_again_and_then_served(cluster, client, monkeypatch):
    monkeypatch.setattr(lazy_imports, "_loaded", set())
    subscription = SubscriptionData(topic="flights", sub_string="a > 1", expression_type="SQL92")
    body = CheckClientConfigRequestBody(client_id="c", group="g", subscription_data=subscription).encode()
    query = QueryMessageRequestHeader(topic="flights", key="k", max_num=1, begin_timestamp=0, end_timestamp=1 << 60)
    with refused_threads(*OF_THE_LOOP) as refused:
        answer = client.ask(RequestCode.QUERY_MESSAGE, query)
    assert refused
    assert (answer.code, "try again in a second" in answer.remark) == (ResponseCode.SYSTEM_BUSY, True)
    assert client.ask(RequestCode.QUERY_MESSAGE, query).code == ResponseCode.QUERY_NOT_FOUND
    assert client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body=body).code != ResponseCode.SYSTEM_BUSY
