# SPDX-License-Identifier: Apache-2.0
"""Moving a group by an administrator (222), cloning (314), correction (308), all offsets (43)."""

from __future__ import annotations

import pytest

from sprocketmq.wire import requests
from sprocketmq.wire.bodies import ConsumerOffsetSnapshot, ResetOffsetBody, ResetOffsetBodyForC
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import ResetOffsetRequestHeader
from sprocketmq.wire.records.message import MessageQueue

AS_4_9 = {"use_server_side_reset_offset": False}


@pytest.fixture
def moving(cluster, client):
    """Five messages a second apart in each of two queues, and a group that consumed three of queue 0 and all of queue 1."""
    cluster.begin_ms = cluster.clock.now_ms()
    for _ in range(5):
        client.send("flights", queue_id=0)
        client.send("flights", queue_id=1)
        cluster.clock.advance(1_000)
    client.pull("g", "flights", 0, 0)
    for queue_id, offset in ((0, 3), (1, 5), (2, 0), (3, 0)):
        client.commit("g", "flights", queue_id, offset)
    return cluster


def offset_of(client, queue_id: int = 0, group: str = "g") -> str | None:
    return client.committed(group, "flights", queue_id)


def reset(client, timestamp: int = -1, *, topic: str = "flights", group: str = "g", is_force: bool = True, **fields):
    return client.do(requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET, topic, group, timestamp, is_force, **fields)


def moved(answer) -> dict[int, int]:
    assert answer.code == 0, answer.remark
    return {queue.queue_id: offset for queue, offset in ResetOffsetBody.decode(answer.body).offset_table.items()}


def test_the_next_pull_is_sent_to_the_new_place_once_and_its_own_commit_does_not_count(moving, client):
    reset(client, 0)
    first = client.pull("g", "flights", 0, 3, commit_offset=3)
    assert (first.code, first.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")
    assert (first.ext_fields["minOffset"], first.ext_fields["maxOffset"]) == ("0", "5")
    assert offset_of(client) == "0"
    assert client.pull("g", "flights", 0, 0).code == 0


def test_a_pull_that_waits_is_sent_to_the_new_place_at_once(moving, client):
    begin = {"suspend_ms": 15_000}
    pulls = [client.begin_pull(group, "flights", queue, 5, **begin) for group, queue in (("g", 0), ("g", 1), ("h", 0))]
    moving.eventually(lambda: len(moving.broker.parked) == 3)
    reset(client, queue_id=0, offset=2)
    answer = pulls[0].result(60)
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "2")
    assert len(moving.broker.parked) == 2
    assert client.pull("g", "flights", 0, 2).code == 0


def test_what_the_group_commits_before_that_pull_is_ignored_and_counts_after_it(moving, client):
    reset(client, 0)
    assert client.commit("g", "flights", 0, 4).code == 0
    assert offset_of(client) == "0"
    client.pull("g", "flights", 0, 4)
    assert offset_of(client) == "0"
    assert client.commit("g", "flights", 0, 4).code == 0
    assert offset_of(client) == "4"


def test_a_reset_leaves_other_groups_and_other_queues_alone(moving, client):
    client.pull("other", "flights", 0, 0)
    client.commit("other", "flights", 0, 2)
    assert moved(reset(client, 0, queue_id=0)) == {0: 0}
    assert client.pull("other", "flights", 0, 2).code == 0
    assert client.pull("g", "flights", 1, 0).code == 0
    assert offset_of(client, 1) == "5"


def test_one_queue_moves_to_an_exact_offset_inside_its_range_only(moving, client):
    assert moved(reset(client, queue_id=0, offset=2)) == {0: 2}
    outside = reset(client, queue_id=0, offset=7)
    assert (outside.code, offset_of(client)) == (ResponseCode.SYSTEM_ERROR, "2")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"group": "nobody"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"queue_id": 9}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_a_reset_of_what_is_not_there_is_refused(moving, client, given, code):
    answer = reset(client, **given)
    assert (answer.code, bool(answer.remark)) == (code, True)
    assert offset_of(client) == "3"


@pytest.mark.parametrize("cluster", [AS_4_9], indirect=True)
def test_as_4_9_the_offsets_are_pushed_to_each_member_and_nothing_moves_here(moving, client):
    second = moving.client()
    for member, name in ((client, "c1"), (second, "c2")):
        member.heartbeat(name, group="g", topics={"flights": "*"})
    assert moved(reset(client, 0)) == {0: 0, 1: 0, 2: 0, 3: 0}
    for member in (client, second):
        moving.eventually(lambda member=member: pushes(member))
        (push,) = pushes(member)
        assert push.is_oneway
        assert push.ext_fields["topic"] == "flights"
        assert ResetOffsetBody.decode(push.body).offset_table[MessageQueue("flights", "broker-a", 0)] == 0
    assert offset_of(client) == "3"
    assert client.pull("g", "flights", 0, 3).code == 0


@pytest.mark.parametrize("cluster", [AS_4_9], indirect=True)
def test_as_4_9_a_reset_without_force_moves_no_queue_forward(moving, client):
    client.heartbeat("c1", group="g", topics={"flights": "*"})
    assert moved(reset(client, -1, is_force=False)) == {0: 3, 1: 5, 2: 0, 3: 0}
    assert moved(reset(client, moving.begin_ms + 1_500, is_force=False)) == {0: 2, 1: 2, 2: 0, 3: 0}


@pytest.mark.parametrize("cluster", [AS_4_9], indirect=True)
def test_as_4_9_a_cpp_caller_has_the_offsets_pushed_as_a_list(moving, client):
    client.heartbeat("c1", group="g", topics={"flights": "*"})
    header = ResetOffsetRequestHeader("flights", "g", 0, True)
    assert client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, language="CPP").code == 0
    moving.eventually(lambda: pushes(client))
    rows = ResetOffsetBodyForC.decode(pushes(client)[0].body).offset_table
    assert {(row.topic, row.broker_name, row.queue_id, row.offset) for row in rows} == {
        ("flights", "broker-a", number, 0) for number in range(4)
    }


@pytest.mark.parametrize("cluster", [AS_4_9], indirect=True)
def test_as_4_9_a_group_that_is_offline_or_never_committed_is_not_moved(moving, client):
    assert reset(client, 0).code == ResponseCode.CONSUMER_NOT_ONLINE
    assert reset(client, 0, group="never").code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("cluster", [AS_4_9], indirect=True)
def test_as_4_9_a_member_that_is_too_old_stops_the_reset(moving, client):
    client.heartbeat("c1", group="g", topics={"flights": "*"})
    (member,) = moving.broker.consumers.get("g").members.values()
    member.version = 27
    assert reset(client, 0).code == ResponseCode.SYSTEM_ERROR
    assert not pushes(client)


def pushes(client):
    return [command for command in client.pushed if command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET]


# -- clone, correction, all ----------------------------------------------------------------------------------------------------------


def test_without_a_topic_all_topics_of_the_source_are_cloned(moving, client):
    client.send("delays")
    client.pull("g", "delays", 0, 0, commit_offset=1)
    client.do(requests.offsets.CLONE_GROUP_OFFSET, "g", "copy")
    assert set(moving.broker.offsets.topics_of("copy")) == {"flights", "delays"}


def test_an_online_source_clones_only_what_it_subscribes_to_unless_told_otherwise(moving, client):
    client.heartbeat("c1", group="g", topics={"delays": "*"})
    client.do(requests.offsets.CLONE_GROUP_OFFSET, "g", "copy", "flights")
    assert offset_of(client, group="copy") is None
    client.do(requests.offsets.CLONE_GROUP_OFFSET, "g", "copy", "flights", True)
    assert offset_of(client, group="copy") == "3"


def test_the_correction_is_the_lowest_offset_or_none_if_the_compared_group_is_behind_it(moving, client):
    for group, offset in (("slow", 1), ("fast", 4)):
        client.pull(group, "flights", 0, 0, commit_offset=offset)

    def correction(compare: str, without: str | None = None) -> int:
        return client.get(requests.offsets.QUERY_CORRECTION_OFFSET, "flights", compare, without).correction_offsets[0]

    assert correction("fast") == 1
    assert correction("fast", "slow") == 3
    assert correction("slow", "slow") == 2**63 - 1
    assert offset_of(client, group="slow") == "1", "leaving a group out must not cost it its offsets"


def test_all_offsets_come_with_the_topics_by_group(moving, client):
    body = ConsumerOffsetSnapshot.decode(client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body)
    assert body.offset_table == {"flights@g": {0: 3, 1: 5, 2: 0, 3: 0}}
    assert body.group_topic_map == {"g": ["flights"]}
