# SPDX-License-Identifier: Apache-2.0
"""Consumer offsets and the offsets of queues: codes 14, 15, 29 to 32."""

from __future__ import annotations

import pytest

from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import (
    GetEarliestMsgStoretimeRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)


def commit(client, group: str, topic: str, queue_id: int, offset: int):
    client.do(requests.topics.GET_SUBSCRIPTIONGROUP_CONFIG, group)  # makes the group
    return client.commit(group, topic, queue_id, offset)


def query(client, group: str, topic: str, queue_id: int = 0, **options):
    return client.do(requests.offsets.QUERY_CONSUMER_OFFSET, group, topic, queue_id, **options)


def test_a_lower_commit_counts(client):
    client.send("flights")
    commit(client, "g", "flights", 0, 7)
    commit(client, "g", "flights", 0, 3)
    assert query(client, "g", "flights").ext_fields["offset"] == "3"


def test_offset_zero_is_an_offset(client):
    client.send("flights")
    commit(client, "g", "flights", 1, 0)
    answer = query(client, "g", "flights", 1)
    assert (answer.code, answer.ext_fields["offset"]) == (0, "0")


def test_a_new_group_starts_at_zero_while_the_first_message_is_there(client):
    client.send("flights")
    assert query(client, "new", "flights").ext_fields["offset"] == "0"
    not_found = query(client, "new", "flights", set_zero_if_not_found=False)
    assert not_found.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize("cluster", [{"access_message_in_memory_max_ratio": 0}], indirect=True)
def test_a_new_group_is_not_found_when_the_first_message_lies_far_back(client):
    client.send("flights")
    assert query(client, "new", "flights").code == ResponseCode.QUERY_NOT_FOUND


def test_a_new_group_is_not_found_on_an_empty_queue(client):
    client.send("flights", queue_id=1)
    assert query(client, "new", "flights", 0).code == ResponseCode.QUERY_NOT_FOUND


def test_commits_for_unknown_topics_and_negative_numbers_are_refused(client):
    client.send("flights")
    assert commit(client, "g", "nowhere", 0, 1).code == ResponseCode.TOPIC_NOT_EXIST
    assert commit(client, "g", "flights", 0, -1).code == ResponseCode.INVALID_PARAMETER
    assert commit(client, "g", "flights", -1, 1).code == ResponseCode.INVALID_PARAMETER


def test_commits_for_unknown_groups_are_refused_and_make_no_group(client):
    client.send("flights")
    for _ in range(2):
        assert client.commit("g", "flights", 0, 1).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_one_way_commit_counts(client):
    client.send("flights")
    client.pull("g", "flights")
    client.tell(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader("g", "flights", 0, 5))
    assert query(client, "g", "flights").ext_fields["offset"] == "5"


def test_the_range_of_a_queue(client):
    assert client.do(requests.offsets.GET_MAX_OFFSET, "flights", 0).ext_fields["offset"] == "0"
    for _ in range(3):
        client.send("flights")
    assert client.do(requests.offsets.GET_MAX_OFFSET, "flights", 0).ext_fields["offset"] == "3"
    assert client.do(requests.offsets.GET_MIN_OFFSET, "flights", 0).ext_fields["offset"] == "0"


def test_searching_by_time(cluster, client):
    begin = cluster.clock.now_ms()
    for _ in range(3):
        client.send("flights")
        cluster.clock.advance(1_000)

    def search(timestamp: int, boundary: str | None = None) -> int:
        header = SearchOffsetRequestHeader("flights", 0, timestamp, boundary)
        return int(client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header).ext_fields["offset"])

    assert [search(begin + shift) for shift in (-5, 0, 1, 1_000, 1_001, 2_000, 2_001)] == [0, 0, 1, 1, 2, 2, 3]
    assert search(begin + 1_500, "UPPER") == 1


def test_the_earliest_store_time(cluster, client):
    header = GetEarliestMsgStoretimeRequestHeader("flights", 0)
    assert client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, header).ext_fields["timestamp"] == "-1"
    first = cluster.clock.now_ms()
    client.send("flights")
    cluster.clock.advance(10)
    client.send("flights")
    assert client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, header).ext_fields["timestamp"] == str(first)
