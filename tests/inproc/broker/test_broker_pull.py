# SPDX-License-Identifier: Apache-2.0
"""PULL_MESSAGE: checks in their order, statuses, limits, tags, and offsets committed on the way."""

from __future__ import annotations

import msgspec
import pytest

from sprocketmq.broker.handlers.messages.pull import _JSON_ANSWER, _JSON_FOUND
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.record import decode_records


def bodies(answer) -> list[bytes]:
    return [message.body for message in decode_records(answer.body)]


def fill(client, count: int, **options) -> None:
    for n in range(count):
        assert client.send("flights", b"%d" % n, **options).code == 0


def test_the_usual_answer_is_the_general_one_with_its_constant_values():
    assert _JSON_FOUND % (5, 2, 9, -7) == _JSON_ANSWER % (0, b"0", 5, 2, 9, 0, 0, -7, b"FOUND")


@pytest.mark.parametrize("flags", [(3, 0), (0, 5)])
def test_flags_of_topic_and_group_are_in_the_answer(cluster, client, flags):
    fill(client, 1)
    client.pull("g", "flights", 0, 0)  # the group exists from here on
    topics, groups = cluster.broker.topics.table, cluster.broker.groups.table
    topics["flights"] = msgspec.structs.replace(topics["flights"], topic_sys_flag=flags[0])
    groups["g"] = msgspec.structs.replace(groups["g"], group_sys_flag=flags[1])
    answer = client.pull("g", "flights", 0, 0)
    assert (answer.ext_fields["topicSysFlag"], answer.ext_fields["groupSysFlag"]) == tuple(map(str, flags))
    assert bodies(answer) == [b"0"]


@pytest.mark.parametrize(
    ("offset", "code", "next_offset", "status"),
    [
        (3, ResponseCode.PULL_NOT_FOUND, 3, "OFFSET_OVERFLOW_ONE"),
        (9, ResponseCode.PULL_OFFSET_MOVED, 3, "OFFSET_OVERFLOW_BADLY"),
        (-1, ResponseCode.PULL_OFFSET_MOVED, 0, "OFFSET_TOO_SMALL"),
    ],
)
def test_offsets_outside_the_queue_are_answered_with_where_to_go_on(client, offset, code, next_offset, status):
    fill(client, 3)
    answer = client.pull("g", "flights", 0, offset)
    assert (answer.code, answer.ext_fields["nextBeginOffset"], answer.remark) == (code, str(next_offset), status)


def test_an_empty_queue_is_not_found_at_zero_and_moved_elsewhere(client):
    fill(client, 1)
    empty = client.pull("g", "flights", 3, 0)
    assert (empty.code, empty.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
    moved = client.pull("g", "flights", 3, 7)
    assert (moved.code, moved.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")


@pytest.mark.parametrize("cluster", [{"max_transfer_count_in_memory": 32}], indirect=True)
def test_one_pull_brings_no_more_messages_than_the_broker_is_set_to_give(client):
    fill(client, 40)
    assert len(bodies(client.pull("g", "flights", max_messages=1000))) == 32
    assert len(bodies(client.pull("g", "flights", max_messages=3))) == 3
    assert len(bodies(client.pull("g", "flights", max_messages=0))) == 1


def test_one_pull_brings_as_many_messages_as_are_asked_for(client):
    fill(client, 40)
    assert len(bodies(client.pull("g", "flights", max_messages=1000))) == 40
    assert len(bodies(client.pull("g", "flights"))) == 32


@pytest.mark.parametrize("cluster", [{"max_transfer_bytes_in_memory": 1000}], indirect=True)
def test_one_pull_is_limited_in_bytes_but_the_first_message_always_goes(client):
    for size in (5000, 300, 300, 300):
        client.send("flights", b"x" * size, properties={"UNIQ_KEY": "k"})
    assert [len(body) for body in bodies(client.pull("g", "flights", 0, 0))] == [5000]
    assert [len(body) for body in bodies(client.pull("g", "flights", 0, 1))] == [300, 300]


def test_tags_of_the_request_filter_and_the_pull_moves_past_unmatched_messages(client):
    for tag in ("UA", "AA", "UA", "DL", "B6"):
        client.send("flights", tag.encode(), tags=tag)
    answer = client.pull("g", "flights", expression="UA || DL")
    assert bodies(answer) == [b"UA", b"UA", b"DL"]
    nothing = client.pull("g", "flights", expression="WN")
    assert (nothing.code, nothing.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert nothing.ext_fields["nextBeginOffset"] == "5"


def test_without_a_subscription_of_its_own_the_heartbeat_decides(client):
    for tag in ("UA", "AA"):
        client.send("flights", tag.encode(), tags=tag)
    assert client.pull("g", "flights", expression=None).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    client.heartbeat("c1", group="g", topics={"flights": "AA"}, sub_version=5)
    assert bodies(client.pull("g", "flights", expression=None, sub_version=5)) == [b"AA"]
    newer = client.pull("g", "flights", expression=None, sub_version=6)
    assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    client.heartbeat("c1", group="g", topics={"flights": "UA"}, sub_version=6)
    assert bodies(client.pull("g", "flights", expression=None, sub_version=6)) == [b"UA"]
    client.heartbeat("c1", group="g", topics={"other": "*"}, sub_version=7)
    assert client.pull("g", "flights", expression=None).code == ResponseCode.SUBSCRIPTION_NOT_EXIST


@pytest.mark.parametrize("cluster", [{"auto_create_subscription_group": False}], indirect=True)
def test_without_auto_creation_an_unknown_group_is_refused(client):
    fill(client, 1)
    assert client.pull("g", "flights").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert client.pull("TOOLS_CONSUMER", "flights").code == 0
