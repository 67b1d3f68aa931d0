# SPDX-License-Identifier: Apache-2.0
"""Requests about topics of very many queues, long settings, and frames of large requests: none holds the loop for long."""

from __future__ import annotations

import json

import pytest
from test_loop_share import Turns, turns  # noqa: F401 - a fixture

from inproc.broker.conftest import Fields
from sprocketmq.broker.chunked_work import CHUNK_SIZE
from sprocketmq.broker.handlers.group import assignment
from sprocketmq.wire.bodies import QueryConsumeQueueResponseBody, ResetOffsetBody
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.text.java_properties import parse_properties

QUEUES = 10 * CHUNK_SIZE


@pytest.fixture
def wide(cluster, client):
    client.send("flights", b"1")
    client.heartbeat("c1", group="g", topics={"flights": "*"})
    config = cluster.broker.topics.table["flights"]
    config.read_queue_nums = config.write_queue_nums = QUEUES
    return cluster


@pytest.mark.parametrize("by_broker", [True, False])
def test_a_group_is_moved_in_all_queues_of_a_topic_in_steps(wide, client, turns, by_broker, monkeypatch):  # noqa: F811
    if not by_broker:
        monkeypatch.setattr(type(wide.broker.config), "use_server_side_reset_offset", False)
        wide.on_loop(lambda: [wide.broker.offsets.commit("g", "flights", number, 0) for number in range(QUEUES)])
    turns.count = 0
    answer = client.ask(222, Fields(topic="flights", group="g", timestamp="-1", isForce="true"))
    offsets = ResetOffsetBody.decode(answer.body).offset_table
    assert {queue.queue_id: offset for queue, offset in offsets.items()} == {0: 1, **dict.fromkeys(range(1, QUEUES), 0)}
    assert turns.count >= QUEUES // CHUNK_SIZE - 1


def test_a_long_look_into_a_queue_is_taken_in_steps(cluster, client, turns):  # noqa: F811
    for number in range(3):
        client.send("flights", b"%d" % number)
    unit = cluster.broker.store.units("flights", 0, 1, 2)
    asked = Fields(topic="flights", queueId="0", index="1", count="2147483647")
    body = QueryConsumeQueueResponseBody.decode(client.ask(321, asked).body)
    assert [data.physic_offset for data in body.queue_data] == [one.physical_offset for one in unit]
    for _ in range(3 * CHUNK_SIZE):
        client.send("flights", b"more", oneway=True)
    cluster.eventually(lambda: cluster.broker.store.max_offset("flights", 0) == 3 + 3 * CHUNK_SIZE)
    turns.count = 0
    body = QueryConsumeQueueResponseBody.decode(client.ask(321, asked).body)
    assert len(body.queue_data) == 2 + 3 * CHUNK_SIZE
    assert turns.count == 3


def test_a_broker_assigns_no_more_queues_than_it_can_in_one_go(wide, client, monkeypatch):
    asked = {"topic": "flights", "consumerGroup": "g", "clientId": "c1", "strategyName": "AVG"}
    body = json.dumps({**asked, "messageModel": "CLUSTERING"}).encode()
    refusal = client.ask(400, None, body)
    assert refusal.code == ResponseCode.SYSTEM_ERROR
    assert refusal.remark == (
        f"topic flights has {QUEUES} queues, {assignment._MOST_QUEUES} are allowed where the broker assigns them; "
        "let the clients do it"
    )
    monkeypatch.setattr(assignment, "_MOST_QUEUES", QUEUES)
    assert client.ask(400, None, body).code == 0


@pytest.mark.parametrize(("server", "code"), [("broker", 25), ("namesrv", 318)])
def test_long_settings_are_refused(cluster, client, server, code):
    asker = client if server == "broker" else cluster.namesrv_client()
    answer = asker.ask(code, None, b"x=1\n" * 20_000)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark == "the settings have 80000 bytes, 65536 are allowed; change fewer at once"


def test_continued_lines_are_joined_in_linear_time():
    assert parse_properties("a=1\\\n  2\\\n3\nb\\\n=4\nc=5\\") == {"a": "123", "b": "4", "c": "5"}
    assert parse_properties("x\\\n" * 200_000 + "y=1") == {"x" * 200_000 + "y": "1"}
