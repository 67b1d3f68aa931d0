# SPDX-License-Identifier: Apache-2.0
"""Each administrative request at a proxy: the same result as at its brokers, or the sentence that says it is not served."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import sprocketmq as rmq
from embedded_proxy import embedded_proxy, second_broker_of
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire import bodies
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.records.message_id import offset_message_id

TOPIC, IDLE, ONLINE = "flights", "idle", "online"
QUEUE = rmq.MessageQueue(TOPIC, "broker-b", 1)
HOUR_MS = 3_600_000


@dataclass
class Place:
    """Two brokers behind one proxy, with messages, a group that is online and one that is not."""

    rocketmq: EmbeddedRocketMQ
    proxy_addr: str
    at_brokers: rmq.Admin
    at_proxy: rmq.Admin
    member: rmq.PushConsumer

    @property
    def message(self) -> rmq.MessageExt:
        found = self.at_brokers.message_at(QUEUE, 0)
        assert found is not None
        return found


# A stored message at a broker that only the proxy reaches.
AWAY = offset_message_id((b"\x7f\0\0\1", 1), 0)

Call = Callable[[rmq.Admin, Place], Any]

SAME: dict[str, Call] = {
    "allocate": lambda admin, at: admin.allocate(TOPIC, ["a", "b"]),
    "clone_offsets": lambda admin, at: admin.clone_offsets(IDLE, "copy", TOPIC),
    "consume_time_span": lambda admin, at: [
        (span.message_queue, span.min_time_stamp, span.max_time_stamp, span.consume_time_stamp, span.delay_time)
        for span in admin.consume_time_span(TOPIC, IDLE)
    ],
    "consumer_connection": lambda admin, at: admin.consumer_connection(ONLINE),
    "consumer_ids": lambda admin, at: admin.consumer_ids(ONLINE),
    "consumer_offset": lambda admin, at: admin.consumer_offset(IDLE, QUEUE),
    "consumer_progress": lambda admin, at: admin.consumer_progress(IDLE, TOPIC),
    "decode_message_id": lambda admin, at: admin.decode_message_id(AWAY),
    "earliest_store_time_ms": lambda admin, at: admin.earliest_store_time_ms(QUEUE),
    "lag": lambda admin, at: admin.lag(IDLE, TOPIC),
    "max_offset": lambda admin, at: admin.max_offset(QUEUE),
    "message_at": lambda admin, at: (found := admin.message_at(QUEUE, 1)) and found.offset_message_id,
    "min_offset": lambda admin, at: admin.min_offset(QUEUE),
    "offset_by_time": lambda admin, at: admin.offset_by_time(QUEUE, at.message.store_timestamp_ms + 1),
    "queues": lambda admin, at: admin.queues(TOPIC),
    "read_messages": lambda admin, at: [one.offset_message_id for one in admin.read_messages(QUEUE, expression="even")],
    "read_onward": lambda admin, at: admin.read_onward(dict.fromkeys(admin.queues(TOPIC), 0))[1],
    "reset_offset": lambda admin, at: (admin.reset_offset(IDLE, QUEUE, 1), at.at_brokers.consumer_offset(IDLE, QUEUE)),
    "reset_offset_by_time": lambda admin, at: admin.reset_offset_by_time(
        IDLE, TOPIC, at.message.store_timestamp_ms + 1
    ),
    "set_consumer_offset": lambda admin, at: (
        admin.set_consumer_offset(IDLE, QUEUE, 2),
        at.at_brokers.consumer_offset(IDLE, QUEUE),
    ),
    "skip_accumulated": lambda admin, at: admin.skip_accumulated(IDLE, TOPIC),
    "speaks_5x": lambda admin, at: admin.speaks_5x("broker-a"),
    "subscription": lambda admin, at: (subscription := admin.subscription(ONLINE, TOPIC)) and subscription.sub_string,
    "topic_clusters": lambda admin, at: admin.topic_clusters(TOPIC),
    "topic_stats": lambda admin, at: (admin.topic_stats(TOPIC), admin.topic_stats(TOPIC, broker="broker-b")),
}
# What is known there is less, or is about the proxy.
LESS: dict[str, Call] = {
    "diagnose_group": lambda admin, at: admin.diagnose_group(ONLINE, watch_ms=0),
    "name_servers": lambda admin, at: admin.name_servers,
    "proxy": lambda admin, at: admin.proxy(),
    "route": lambda admin, at: admin.route(TOPIC),
}
NOT_SERVED: dict[str, Call] = {
    "account_versions": lambda admin, at: admin.account_versions("broker-a"),
    "acl": lambda admin, at: admin.acl("broker-a", "User:ann"),
    "acls": lambda admin, at: admin.acls("broker-a"),
    "add_write_perm": lambda admin, at: admin.add_write_perm("broker-a"),
    "alter_group": lambda admin, at: admin.alter_group(IDLE, retry_max_times=1),
    "alter_topic": lambda admin, at: admin.alter_topic(TOPIC, perm=4),
    "broker_config": lambda admin, at: admin.broker_config("broker-a"),
    "broker_consume_stats": lambda admin, at: admin.broker_consume_stats("broker-a"),
    "broker_runtime_info": lambda admin, at: admin.broker_runtime_info("broker-a"),
    "broker_stats": lambda admin, at: admin.broker_stats("broker-a", "TOPIC_PUT_NUMS", TOPIC),
    "brokers": lambda admin, at: admin.brokers(),
    "clean_expired_consume_queues": lambda admin, at: admin.clean_expired_consume_queues(),
    "clean_unused_topics": lambda admin, at: admin.clean_unused_topics(),
    "cluster_info": lambda admin, at: admin.cluster_info(),
    "consume_directly": lambda admin, at: admin.consume_directly(ONLINE, "x", AWAY),
    "consume_queue": lambda admin, at: admin.consume_queue(QUEUE),
    "consume_status": lambda admin, at: admin.consume_status(TOPIC, ONLINE),
    "consumers_of": lambda admin, at: admin.consumers_of(TOPIC),
    "copy_acls": lambda admin, at: admin.copy_acls("broker-a", "broker-b"),
    "copy_users": lambda admin, at: admin.copy_users("broker-a", "broker-b"),
    "create_acl": lambda admin, at: admin.create_acl("User:ann", ["Topic:*"], ["Pub"]),
    "create_group": lambda admin, at: admin.create_group("new"),
    "create_groups": lambda admin, at: admin.create_groups([bodies.SubscriptionGroupConfig("new")]),
    "create_topic": lambda admin, at: admin.create_topic("new"),
    "create_topics": lambda admin, at: admin.create_topics([bodies.TopicConfig("new")]),
    "create_user": lambda admin, at: admin.create_user("ann", "secret"),
    "delete_account": lambda admin, at: admin.delete_account("ann"),
    "delete_acl": lambda admin, at: admin.delete_acl("User:ann"),
    "delete_expired_commit_logs": lambda admin, at: admin.delete_expired_commit_logs(),
    "delete_group": lambda admin, at: admin.delete_group(IDLE, remove_offsets=True),
    "delete_kv_config": lambda admin, at: admin.delete_kv_config("space", "key"),
    "delete_order_conf": lambda admin, at: admin.delete_order_conf(TOPIC),
    "delete_topic": lambda admin, at: admin.delete_topic(TOPIC),
    "delete_user": lambda admin, at: admin.delete_user("ann"),
    "export_metadata": lambda admin, at: admin.export_metadata("broker-a"),
    "group_config": lambda admin, at: admin.group_config(IDLE),
    "group_configs": lambda admin, at: admin.group_configs("broker-a"),
    "group_readable": lambda admin, at: admin.group_readable(IDLE, TOPIC, False),
    "group_summaries": lambda admin, at: admin.group_summaries(),
    "groups": lambda admin, at: admin.groups(),
    "ha_status": lambda admin, at: admin.ha_status("broker-a"),
    "kv_config": lambda admin, at: admin.kv_config("space", "key"),
    "kv_configs": lambda admin, at: admin.kv_configs("space"),
    "message_trace": lambda admin, at: admin.message_trace("id", trace_topic=TOPIC),
    "message_track": lambda admin, at: admin.message_track(at.message),
    "messages_by_key": lambda admin, at: admin.messages_by_key(TOPIC, "key"),
    "messages_by_unique_key": lambda admin, at: admin.messages_by_unique_key(TOPIC, "id"),
    "namesrv_config": lambda admin, at: admin.namesrv_config(),
    "order_conf": lambda admin, at: admin.order_conf(TOPIC),
    "producer_connection": lambda admin, at: admin.producer_connection("tests", TOPIC),
    "producers": lambda admin, at: admin.producers("broker-a"),
    "put_kv_config": lambda admin, at: admin.put_kv_config("space", "key", "value"),
    "resume_half_message": lambda admin, at: admin.resume_half_message(TOPIC, AWAY),
    "running_info": lambda admin, at: admin.running_info(ONLINE, at.at_brokers.consumer_ids(ONLINE)[0]),
    "running_infos": lambda admin, at: admin.running_infos(ONLINE),
    "set_consume_mode": lambda admin, at: admin.set_consume_mode(TOPIC, IDLE, "POP"),
    "set_order_conf": lambda admin, at: admin.set_order_conf(TOPIC, {"broker-a": 1}),
    "set_topic_perm": lambda admin, at: admin.set_topic_perm(TOPIC, 4),
    "system_topics": lambda admin, at: admin.system_topics(),
    "topic_config": lambda admin, at: admin.topic_config(TOPIC),
    "topic_configs": lambda admin, at: admin.topic_configs("broker-a"),
    "topic_summaries": lambda admin, at: admin.topic_summaries(),
    "topic_traffic": lambda admin, at: admin.topic_traffic(TOPIC),
    "topics": lambda admin, at: admin.topics(),
    "topics_of_group": lambda admin, at: admin.topics_of_group(ONLINE),
    "update_account": lambda admin, at: admin.update_account("ann", "secret12"),
    "update_acl": lambda admin, at: admin.update_acl("User:ann", ["Topic:*"], ["Pub"]),
    "update_broker_config": lambda admin, at: admin.update_broker_config({"maxMessageSize": 1024}, broker="broker-a"),
    "update_global_white_addresses": lambda admin, at: admin.update_global_white_addresses(["10.0.0.1"]),
    "update_namesrv_config": lambda admin, at: admin.update_namesrv_config({"x": "y"}),
    "update_user": lambda admin, at: admin.update_user("ann", user_status="disable"),
    "user": lambda admin, at: admin.user("broker-a", "ann"),
    "users": lambda admin, at: admin.users("broker-a"),
    "view_message": lambda admin, at: admin.view_message(AWAY),
    "wipe_write_perm": lambda admin, at: admin.wipe_write_perm("broker-a"),
}
OF_LIFE = {"start", "shutdown", "after_fork_in_child"}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with (
        EmbeddedRocketMQ() as rocketmq,
        second_broker_of(rocketmq) as second,
        embedded_proxy(rocketmq, [rocketmq.broker, second]) as proxy_addr,
        rmq.Admin(namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock) as at_brokers,
        rmq.Admin(namesrv_addr=proxy_addr, clock=rocketmq.clock) as at_proxy,
    ):
        at_brokers.create_topic(TOPIC, queues=2)
        for group in (IDLE, ONLINE, "copy"):
            at_brokers.create_group(group)
        with rmq.Producer("tests", namesrv_addr=proxy_addr, clock=rocketmq.clock) as producer:
            for queue in at_brokers.queues(TOPIC):
                for number in range(3):
                    tag = "odd" if number % 2 else "even"
                    producer.send(rmq.Message(TOPIC, str(number).encode(), tags=tag), queue=queue)
                    rocketmq.advance(1_000)
                at_brokers.set_consumer_offset(IDLE, queue, 2)
        member = rmq.PushConsumer(
            ONLINE,
            namesrv_addr=proxy_addr,
            clock=rocketmq.clock,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        member.subscribe(TOPIC)
        member.on_message(lambda message: None)
        with member:
            rocketmq.advance_until(lambda: not at_brokers.lag(ONLINE, TOPIC))
            yield Place(rocketmq, proxy_addr, at_brokers, at_proxy, member)


def stored(at: Place) -> Any:
    """What a request could have changed."""
    admin = at.at_brokers
    return (
        admin.topics(),
        admin.topic_config(TOPIC),
        admin.topic_stats(TOPIC),
        admin.groups(),
        admin.group_config(IDLE),
        admin.consumer_progress(IDLE),
        admin.users("broker-a"),
        admin.broker_config("broker-a"),
        admin.kv_configs("space"),
    )


def test_each_request_is_in_the_table() -> None:
    listed = [*SAME, *LESS, *NOT_SERVED]
    assert sorted(listed) == sorted({name for name in dir(rmq.Admin) if not name.startswith("_")} - OF_LIFE)


@pytest.mark.parametrize("name", SAME)
def test_the_result_is_that_of_the_brokers(place: Place, name: str) -> None:
    found = []
    for admin in (place.at_proxy, place.at_brokers):
        for queue in place.at_brokers.queues(TOPIC):
            place.at_brokers.set_consumer_offset(IDLE, queue, 2)
        found.append(SAME[name](admin, place))
    assert found[0] == found[1]
    assert found[0] is not None


@pytest.mark.parametrize("name", LESS)
def test_what_is_known_is_less(place: Place, name: str) -> None:
    LESS[name](place.at_proxy, place)


@pytest.mark.parametrize("name", NOT_SERVED)
def test_what_is_not_served_is_said_and_changes_nothing(place: Place, name: str) -> None:
    before = stored(place)
    with pytest.raises(rmq.RequestNotServed) as raised:
        NOT_SERVED[name](place.at_proxy, place)
    assert re.match(rf"the proxy at {place.proxy_addr} does not serve [A-Z0-9_]+; \S", str(raised.value))
    assert raised.value.address == place.proxy_addr
    assert stored(place) == before


def test_a_group_that_is_online_is_not_moved(place: Place) -> None:
    before = place.at_brokers.consumer_progress(ONLINE)
    for move in (
        lambda: place.at_proxy.reset_offset(ONLINE, QUEUE, 0),
        lambda: place.at_proxy.reset_offset_by_time(ONLINE, TOPIC, 0),
        lambda: place.at_proxy.skip_accumulated(ONLINE, TOPIC),
    ):
        with pytest.raises(
            rmq.RequestNotServed, match=r"members of group 'online' are online \(.+\), .+; stop them first"
        ):
            move()
    assert place.at_brokers.consumer_progress(ONLINE) == before


def test_one_queue_is_not_moved_beyond_its_messages(place: Place) -> None:
    with pytest.raises(rmq.ConfigurationError, match="offset is 4, .+ 0 to 3 is allowed"):
        place.at_proxy.reset_offset(IDLE, QUEUE, 4)


def test_members_that_are_online_say_what_their_group_reads(place: Place) -> None:
    found = place.at_proxy.consumer_progress(ONLINE)
    assert [queue for queue in found if queue.topic == TOPIC] == place.at_brokers.queues(TOPIC)
    assert {queue.topic for queue in found} - {TOPIC} <= {f"%RETRY%{ONLINE}"}
    with pytest.raises(rmq.RequestNotServed, match=r"GET_CONSUME_STATS; no member of group 'idle' .+ name the topic$"):
        place.at_proxy.consumer_progress(IDLE)


def test_a_stored_message_is_read_where_its_id_says_if_that_can_be_reached(place: Place) -> None:
    stored_id = place.message.offset_message_id
    assert place.at_proxy.view_message(stored_id).offset_message_id == stored_id


def test_the_doctor_says_what_it_could_not_see(place: Place) -> None:
    online = place.at_proxy.diagnose_group(ONLINE, watch_ms=0)
    assert online.verdict.value == "nothing waits"
    assert online.sentence == "group online has consumed all messages of 4 queues"
    may, state = online.not_learned
    assert may.startswith("whether the group may consume, and how many retries wait: the proxy at ")
    assert "did not report its state: the proxy at " in state
    idle = place.at_proxy.diagnose_group(IDLE, watch_ms=0)
    assert idle.verdict.value == "unknown"
    assert idle.sentence == (
        f"no member of group idle is connected to the proxy at {place.proxy_addr}, which does not see others"
    )
    assert idle.evidence == ("how many messages wait is not known: nobody says what the group reads",)


def test_nobody_asks_for_a_retry_topic_that_a_proxy_would_remember_as_missing(place: Place) -> None:
    asked: list[str] = []
    route = RequestCode.GET_ROUTEINFO_BY_TOPIC
    with place.rocketmq.faults.drop(
        route, None, when=lambda command: asked.append(command.ext_fields["topic"]) is not None
    ):
        place.at_proxy.diagnose_group(IDLE, watch_ms=0)
        assert place.at_proxy.consumer_ids("nobody") == []
        assert place.at_proxy.consumer_connection("nobody") is None
        place.at_proxy.consumer_offset("nobody", QUEUE)
    assert not [topic for topic in asked if topic.startswith("%")]
