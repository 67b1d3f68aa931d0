# SPDX-License-Identifier: Apache-2.0
"""Heartbeats, member lists, notifications, liveness, and the locks of queues."""

from __future__ import annotations

import pytest

from sprocketmq.wire import requests
from sprocketmq.wire.bodies import (
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
)
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import UnregisterClientRequestHeader
from sprocketmq.wire.records.message import MessageQueue

TOPICS = {"flights": "*"}


def members(client, group: str = "g") -> list[str] | int:
    answer = client.do(requests.consumers.GET_CONSUMER_LIST_BY_GROUP, group)
    if answer.code:
        return answer.code
    return sorted(GetConsumerListByGroupResponseBody.decode(answer.body).consumer_id_list)


def notices(client) -> int:
    return sum(command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED for command in client.pushed)


def test_members_are_notified_one_way_when_a_member_joins_or_leaves(cluster, client):
    client.heartbeat("c1", group="g", topics=TOPICS)
    cluster.eventually(lambda: notices(client) == 1)
    other = cluster.client()
    other.heartbeat("c2", group="g", topics=TOPICS)
    cluster.eventually(lambda: notices(client) == 2)
    assert client.pushed[-1].is_oneway
    assert client.pushed[-1].ext_fields == {"consumerGroup": "g"}
    other.close()
    cluster.eventually(lambda: notices(client) == 3)
    assert members(client) == ["c1"]


def test_a_heartbeat_that_changes_nothing_notifies_no_member(cluster, client):
    for _ in range(3):
        client.heartbeat("c1", group="g", topics=TOPICS)
    members(client)
    assert notices(client) == 1


def test_members_are_notified_of_new_topics_and_not_of_newer_tags(cluster, client):
    client.heartbeat("c1", group="g", topics={"flights": "UA"}, sub_version=1)
    client.heartbeat("c1", group="g", topics={"flights": "AA"}, sub_version=2)
    members(client)
    assert notices(client) == 1
    client.heartbeat("c1", group="g", topics={"flights": "AA", "trains": "*"}, sub_version=3)
    cluster.eventually(lambda: notices(client) == 2)


def test_broadcasting_groups_are_not_notified(cluster, client):
    client.heartbeat("c1", group="g", topics=TOPICS, model="BROADCASTING")
    cluster.client().heartbeat("c2", group="g", topics=TOPICS, model="BROADCASTING")
    assert members(client) == ["c1", "c2"]
    assert notices(client) == 0


@pytest.mark.parametrize("cluster", [{"notify_consumer_ids_changed_enable": False}], indirect=True)
def test_notification_can_be_disabled(cluster, client):
    client.heartbeat("c1", group="g", topics=TOPICS)
    cluster.client().heartbeat("c2", group="g", topics=TOPICS)
    assert members(client) == ["c1", "c2"]
    assert notices(client) == 0


def test_a_silent_member_is_gone_after_two_minutes_and_its_connection_closed(cluster, client):
    silent = cluster.client()
    silent.heartbeat("c2", group="g", topics=TOPICS)
    for _ in range(12):
        client.heartbeat("c1", group="g", topics=TOPICS)
        cluster.clock.advance(10_000)
    assert members(client) == ["c1", "c2"]
    client.heartbeat("c1", group="g", topics=TOPICS)
    cluster.clock.advance(10_000)
    assert members(client) == ["c1"]
    cluster.eventually(lambda: silent.pool.addresses == [])


def test_a_long_heartbeat_that_says_nothing_new_is_not_read_again(cluster, client, monkeypatch):
    topics = {f"topic-{number}": "A || B" for number in range(200)}
    read: list[int] = []
    decode = HeartbeatData.of_request
    monkeypatch.setattr(HeartbeatData, "of_request", lambda body: (read.append(len(body)), decode(body))[1])

    def heartbeat(version: int = 1) -> int:
        """How many bodies were read for it."""
        read.clear()
        answer = client.heartbeat("c1", group="g", producer="p", topics=topics, sub_version=version)
        assert answer.code == ResponseCode.SUCCESS
        cluster.broker.consumers.check_invariants()
        return len(read)

    assert heartbeat() == 1
    for _ in range(20):  # it keeps the member in its groups
        assert heartbeat() == 0
        cluster.clock.advance(30_000)
    assert members(client) == ["c1"]
    assert cluster.broker.producers.find("c1") is not None
    assert heartbeat(version=2) == 1
    other = cluster.client()
    other.heartbeat("c2", group="g", topics=topics, sub_version=3)  # it changes the group
    assert (heartbeat(version=2), heartbeat(version=2)) == (1, 0)
    assert cluster.broker.consumers.get("g").subscriptions["topic-0"].sub_version == 3
    for group in ("g", None):  # it left the consumer group, or that of producers
        header = UnregisterClientRequestHeader("c1", consumer_group=group, producer_group=None if group else "p")
        client.ask(RequestCode.UNREGISTER_CLIENT, header)
        assert (heartbeat(version=2), heartbeat(version=2)) == (1, 0)
    assert members(client) == ["c1", "c2"]
    assert "p" in cluster.broker.producers.groups
    del cluster.broker.topics.table["%RETRY%g"]
    assert heartbeat(version=2) == 1
    assert cluster.broker.topics.get("%RETRY%g") is not None
    del cluster.broker.groups.table["g"]
    assert heartbeat(version=2) == 1
    assert "g" in cluster.broker.groups.table


def test_the_connections_of_a_group(cluster, client):
    client.heartbeat("c1", group="g", topics={"flights": "UA"})
    body = client.get(requests.consumers.GET_CONSUMER_CONNECTION_LIST, "g")
    (connection,) = body.connection_set
    assert (connection.client_id, connection.language) == ("c1", "PYTHON")
    assert connection.client_addr.startswith("127.0.0.1:")
    assert body.subscription_table["flights"].sub_string == "UA"
    assert (body.consume_type, body.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    absent = client.do(requests.consumers.GET_CONSUMER_CONNECTION_LIST, "nobody")
    assert absent.code == ResponseCode.CONSUMER_NOT_ONLINE


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_is_set_ends_no_member_and_no_lock(cluster, client, days):
    client.heartbeat("c1", group="g", topics={"flights": "*"}, producer="producers")
    queue = MessageQueue("flights", "broker-a", 0)
    first = LockBatchRequestBody(consumer_group="g", client_id="c1", mq_set=[queue])
    other = LockBatchRequestBody(consumer_group="g", client_id="c2", mq_set=[queue])
    client.ask(RequestCode.LOCK_BATCH_MQ, body=first.encode())
    cluster.clock.jump(days * 24 * 3_600_000)
    cluster.clock.advance(11_000)  # a round of housekeeping
    assert cluster.on_loop(lambda: "g" in cluster.broker.consumers.groups)
    client.heartbeat("c1", group="g", topics={"flights": "*"}, producer="producers")
    cluster.clock.advance(11_000)
    assert cluster.on_loop(lambda: "g" in cluster.broker.consumers.groups)
    answer = client.ask(RequestCode.LOCK_BATCH_MQ, body=other.encode())
    assert LockBatchResponseBody.decode(answer.body).lock_ok_mq_set == []
    cluster.clock.advance(130_000)  # and silence still does
    assert cluster.on_loop(lambda: "g" not in cluster.broker.consumers.groups)


def test_a_clock_that_is_set_forward_expires_no_files_until_an_administrator_asks(cluster, client, monkeypatch):
    times = []
    monkeypatch.setattr(cluster.broker.store, "clean", lambda now_ms, **_: times.append(now_ms) or 0)
    before_ms = cluster.clock.now_ms()
    cluster.clock.jump(24 * 3_600_000)
    cluster.clock.advance(10_000)
    assert times == [before_ms + 10_000]
    client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
    assert times[1] == cluster.clock.now_ms()
