# SPDX-License-Identifier: Apache-2.0
"""Filters other than tags, end to end in the broker: heartbeats, pulls, held pulls, CHECK_CLIENT_CONFIG, the file, what a pull may do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sprocketmq.broker.handlers.messages.pull_checks import NO_FILTER
from sprocketmq.wire.bodies import (
    CheckClientConfigRequestBody,
    ConsumerData,
    ConsumerFilterWrapper,
    HeartbeatData,
    SubscriptionData,
)
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.record import decode_records

ON = {"enable_property_filter": True}
DAY_MS = 24 * 3600 * 1000

with_filters = pytest.mark.parametrize("cluster", [ON], indirect=True)


def bodies(answer: Command) -> list[bytes]:
    return [message.body for message in decode_records(answer.body)]


def beat(client: Any, group: str = "g", *, version: int = 1, client_id: str = "c1", fingerprint: int = 0,
         without_sub: bool = False, consume_type: str = "CONSUME_PASSIVELY", **topics: str) -> Command:  # fmt: skip
    """A heartbeat with SQL92 subscriptions."""
    subscriptions = [
        SubscriptionData(topic=topic, sub_string=sql, sub_version=version, expression_type="SQL92")
        for topic, sql in topics.items()
    ]
    consumer = ConsumerData(group_name=group, subscription_data_set=subscriptions, consume_type=consume_type)
    data = HeartbeatData(
        client_id=client_id, consumer_data_set=[consumer], heartbeat_fingerprint=fingerprint, without_sub=without_sub
    )
    answer: Command = client.ask(RequestCode.HEART_BEAT, body=data.encode())
    assert answer.code == 0
    return answer


def pull(client: Any, expression: str | None, *, kind: str = "SQL92", code: int = RequestCode.PULL_MESSAGE,
         topic: str = "flights", **options: Any) -> Command:  # fmt: skip
    """A pull that brings its filter along, or with None asks for what the heartbeat said."""
    header = client.pull_header("g", topic, 0, expression=expression, **options)
    answer: Command = client.ask(code, msgspec.structs.replace(header, expression_type=kind))
    return answer


def fill(client: Any, *distances: int, **options: Any) -> None:
    for distance in distances:
        named = {"distance": str(distance)}
        assert client.send("flights", str(distance).encode(), properties=named, **options).code == 0


@with_filters
def test_a_pull_may_bring_its_own_expression_along(cluster, client):
    fill(client, 100, 2000)
    assert bodies(pull(client, "distance <= 100")) == [b"100"]
    assert bodies(pull(client, "distance <= 100", code=RequestCode.LITE_PULL_MESSAGE)) == [b"100"]
    assert pull(client, "distance > 'x'").code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert pull(client, "").code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert pull(client, "distance > 1", kind="XPATH").code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


@with_filters
def test_properties_of_the_system_are_properties_too(cluster, client):
    client.send("flights", b"ua", tags="UA")
    client.send("flights", b"aa", tags="AA")
    assert bodies(pull(client, "TAGS = 'UA' AND UNIQ_KEY = 'key-ua'")) == [b"ua"]


def test_without_enable_property_filter_nothing_but_tags_is_filtered(cluster, client):
    fill(client, 100)
    assert pull(client, "distance > 1").code == ResponseCode.SYSTEM_ERROR
    beat(client, flights="distance > 1")
    assert pull(client, None).code == ResponseCode.SYSTEM_ERROR
    assert "enablePropertyFilter" in (pull(client, None).remark or "")


@pytest.mark.parametrize(
    ("cluster", "served"), [({}, ResponseCode.SYSTEM_ERROR), (ON, ResponseCode.SUCCESS)], indirect=["cluster"]
)
def test_errors_in_a_filter_are_reported_whether_filters_are_enabled_or_not(cluster, client, served):
    """In Java's order: filter known, filter new enough, then whether filters are served at all. Java: PullMessageProcessor."""
    fill(client, 100)
    beat(client, version=5, flights="distance > 1")
    assert pull(client, None, sub_version=5).code == served
    beat(client, version=6, flights="distance > 'x'")
    assert pull(client, None, sub_version=6).code == ResponseCode.FILTER_DATA_NOT_EXIST
    beat(client, version=4, flights="distance > 1")  # the filter is taken, the subscription stays at version 6
    assert pull(client, None, sub_version=6).code == ResponseCode.FILTER_DATA_NOT_LATEST
    beat(client, version=7, flights="distance > 1")
    assert pull(client, None, sub_version=7).code == served


@with_filters
def test_a_held_pull_is_woken_only_by_what_its_filter_wants(cluster, client):
    fill(client, 100)
    header = client.pull_header("g", "flights", 0, 1, expression="distance > 1000", suspend_ms=15_000)
    waiting = client.begin(RequestCode.PULL_MESSAGE, msgspec.structs.replace(header, expression_type="SQL92"))
    cluster.eventually(lambda: len(cluster.broker.parked) == 1)
    other = cluster.client()
    fill(other, 200, 300)
    assert not waiting.done()
    assert cluster.on_loop(lambda: len(cluster.broker.parked)) == 1
    fill(other, 5000)
    assert bodies(waiting.result(10)) == [b"5000"]


@with_filters
def test_a_held_pull_that_found_nothing_moves_on_at_its_end(cluster, client):
    fill(client, 100)
    header = client.pull_header("g", "flights", 0, 1, expression="distance > 1000", suspend_ms=15_000)
    waiting = client.begin(RequestCode.PULL_MESSAGE, msgspec.structs.replace(header, expression_type="SQL92"))
    cluster.eventually(lambda: len(cluster.broker.parked) == 1)
    fill(cluster.client(), 200, 300)
    cluster.clock.advance(15_000)
    answer = waiting.result(10)
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "3")


@pytest.mark.parametrize("cluster", [{**ON, "max_filter_message_size": 200}], indirect=True)
def test_a_pull_that_finds_nothing_scans_a_limited_part_and_moves_on(cluster, client):
    fill(client, *range(1, 40))
    answer = pull(client, "distance > 1000", max_messages=5)
    # 200 bytes of consume queue are ten entries; 20 bytes for each message asked for are five
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "10")


def filter_of_a_group_that_left(cluster, client):
    fill(client, 100)
    beat(client, flights="distance > 1")
    client.close()
    known = cluster.on_loop(lambda: cluster.broker.filters.get("g", "flights"))
    cluster.eventually(lambda: known.is_dead)
    return known


@pytest.mark.parametrize("cluster", [{**ON, "filter_data_clean_time_span_ms": 60_000}], indirect=True)
def test_a_filter_dies_with_its_group_and_is_forgotten_later(cluster, client):
    known = filter_of_a_group_that_left(cluster, client)
    cluster.clock.advance(59_999)
    assert cluster.on_loop(lambda: cluster.broker.filters.get("g", "flights")) is known
    cluster.clock.advance(20_000)
    assert cluster.on_loop(lambda: cluster.broker.filters.get("g", "flights")) is None


@with_filters
def test_a_clock_that_is_set_forward_forgets_no_filter(cluster, client):
    known = filter_of_a_group_that_left(cluster, client)
    cluster.clock.jump(400 * DAY_MS)
    cluster.clock.advance(20_000)
    assert cluster.on_loop(lambda: cluster.broker.filters.get("g", "flights")) is known


@pytest.mark.parametrize("disk_cluster", [ON], indirect=True)
def test_filters_survive_a_restart_dead_until_the_group_comes_back(disk_cluster, tmp_path):
    client = disk_cluster.client()
    fill(client, 100, 2000)
    beat(client, version=7, flights="distance > 1000")
    disk_cluster.restart_broker()
    content = ConsumerFilterWrapper.decode((tmp_path / "store/config/consumerFilter.json").read_bytes())
    data = content.filter_data_by_topic["flights"].group_filter_data["g"]
    assert (data.expression, data.expression_type, data.client_version) == ("distance > 1000", "SQL92", 7)
    known = disk_cluster.on_loop(lambda: disk_cluster.broker.filters.get("g", "flights"))
    assert known.is_dead
    client = disk_cluster.client()
    beat(client, version=7, flights="distance > 1000")
    assert not known.is_dead
    assert bodies(pull(client, None, sub_version=7)) == [b"2000"]


@pytest.mark.parametrize("cluster", [ON, {**ON, "filter_support_retry": True}], indirect=True)
def test_retry_copies_are_judged_by_the_filter_of_their_origin_if_asked_for(cluster, client):
    beat(client, flights="distance > 1000")
    topics = {"flights": "distance > 1000", "%RETRY%g": "distance IS NOT NULL OR TRUE"}
    beat(client, version=2, **topics)
    for distance in ("100", "2000"):
        named = {props.RETRY_TOPIC: "flights", "distance": distance}
        client.send("%RETRY%g", distance.encode(), properties=named)
    expected = [b"2000"] if cluster.broker.config.filter_support_retry else [b"100", b"2000"]
    assert bodies(pull(client, None, topic="%RETRY%g")) == expected


@pytest.mark.parametrize(
    ("settings", "sql", "kind", "code"),
    [
        (ON, "a > 1", "SQL92", ResponseCode.SUCCESS),
        (ON, "a > 'x'", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (ON, "", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (ON, "a > 1", "XPATH", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (ON, "NOT " * 5000 + "a", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({}, "a > 1", "SQL92", ResponseCode.SYSTEM_ERROR),
        ({}, "a >", "XPATH", ResponseCode.SYSTEM_ERROR),
        ({}, "||", "TAG", ResponseCode.SUCCESS),
        ({}, "||", "", ResponseCode.SUCCESS),
    ],
)
@pytest.mark.parametrize("cluster", [{}], indirect=True)
def test_a_consumer_is_told_whether_its_filter_is_understood(cluster, client, settings, sql, kind, code):
    config = cluster.broker.config
    cluster.broker.config = msgspec.structs.replace(config, **settings)
    data = SubscriptionData(topic="flights", sub_string=sql, expression_type=kind)
    body = CheckClientConfigRequestBody(client_id="c1", group="g", subscription_data=data)
    answer = client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())
    assert answer.code == code
    assert "\n" not in (answer.remark or "")


# -- heartbeat version 2 ---------------------------------------------------------------------------------------------------------------


def changed(answer: Command) -> str:
    assert answer.ext_fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
    return answer.ext_fields["IS_SUB_CHANGE"]


@with_filters
def test_heartbeats_of_version_2_may_leave_out_what_did_not_change(cluster, client):
    assert changed(beat(client, fingerprint=11, without_sub=True)) == "true", "nobody knows the group"
    assert changed(beat(client, flights="distance > 1")) == "true"  # version 1
    assert changed(beat(client, fingerprint=11, flights="distance > 1")) == "true"  # the first of version 2
    assert changed(beat(client, fingerprint=11, without_sub=True)) == "false"
    assert set(cluster.broker.consumers.get("g").subscriptions) == {"flights"}
    assert not cluster.broker.filters.get("g", "flights").is_dead
    assert changed(beat(client, fingerprint=12, without_sub=True)) == "true"
    assert changed(beat(client, fingerprint=12, version=2, weather="wind > 5")) == "false"
    assert set(cluster.broker.consumers.get("g").subscriptions) == {"weather"}


# -- may it pull at all ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "code", "forbidden_type"),
    [
        ({"broker_permission": 2}, RequestCode.PULL_MESSAGE, "1"),
        ({"lite_pull_message_enable": False}, RequestCode.LITE_PULL_MESSAGE, "1"),
    ],
)
@pytest.mark.parametrize("cluster", [{}], indirect=True)
def test_a_refusal_names_the_missing_permission(cluster, client, settings, code, forbidden_type):
    cluster.broker.config = msgspec.structs.replace(cluster.broker.config, **settings)
    answer = client.ask(code, client.pull_header("g", "flights"))
    assert (answer.code, answer.ext_fields) == (ResponseCode.NO_PERMISSION, {"forbiddenType": forbidden_type})


def test_each_missing_permission_has_its_type(cluster, client):
    broker = cluster.broker
    fill(client, 100)
    client.heartbeat("c1", group="g", topics={"flights": "*"}, model="BROADCASTING")

    def refused() -> str:
        answer = client.pull("g", "flights", expression=None)
        assert answer.code == ResponseCode.NO_PERMISSION
        return answer.ext_fields["forbiddenType"]

    group, topic = broker.groups.find("g", 0), broker.topics.get("flights")
    broker.groups.table["g"] = msgspec.structs.replace(group, consume_enable=False)
    assert refused() == "2"
    broker.groups.table["g"] = msgspec.structs.replace(group, consume_broadcast_enable=False)
    broker.topics.table["flights"] = msgspec.structs.replace(topic, perm=2)
    assert refused() == "3"
    broker.topics.table["flights"] = topic
    assert refused() == "4"
    broker.groups.table["g"] = group
    assert client.pull("g", "flights", expression=None).code == 0


@pytest.mark.parametrize("cluster", [{"reject_pull_consumer_enable": True}], indirect=True)
def test_pull_consumers_may_be_shut_out(cluster, client):
    fill(client, 100)
    assert client.pull("g", "flights").code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    beat(client, consume_type="CONSUME_ACTIVELY", flights="distance > 1")
    assert cluster.broker.consumers.get("g") is None
    assert client.pull("TOOLS_CONSUMER", "flights").code == 0
    client.heartbeat("c1", group="g", topics={"flights": "*"})
    assert client.pull("g", "flights").code == 0


def test_what_pulls_bring_along_is_known_for_ten_minutes(cluster, client):
    fill(client, 100)
    client.pull("reader", "flights", expression="UA || DL")
    consumers = cluster.broker.consumers
    assert consumers.compensated_subscriptions["reader", "flights"].tags_set == {"UA", "DL"}
    cluster.clock.advance(540_000)
    client.pull("reader", "flights", expression="UA || DL")
    cluster.clock.advance(540_000)
    assert ("reader", "flights") in consumers.compensated_subscriptions
    cluster.clock.advance(80_000)
    assert ("reader", "flights") not in consumers.compensated_subscriptions


def test_a_class_filter_lets_everything_pass(cluster, client):
    fill(client, 100)
    client.heartbeat("c1", group="g", topics={"flights": "UA"})
    subscription = cluster.broker.consumers.get("g").subscriptions["flights"]
    assert cluster.broker.consumers.get("g").match("flights") is not NO_FILTER.match
    cluster.broker.consumers.get("g").subscriptions["flights"] = msgspec.structs.replace(
        subscription, class_filter_mode=True
    )
    assert bodies(client.pull("g", "flights", expression=None)) == [b"100"]


def test_the_retry_topic_of_a_group_has_the_marks_for_order_and_units(cluster, client):
    fill(client, 100)
    cluster.on_loop(lambda: cluster.broker.topics.mark_ordered(["flights"], 1))
    subscription = SubscriptionData(topic="flights", sub_string="*")
    consumer = ConsumerData(group_name="g", subscription_data_set=[subscription], unit_mode=True)
    data = HeartbeatData(client_id="c1", consumer_data_set=[consumer])
    assert client.ask(RequestCode.HEART_BEAT, body=data.encode()).code == 0
    topic = cluster.broker.topics.get("%RETRY%g")
    assert (topic.order, topic.topic_sys_flag) == (True, 2)
