# SPDX-License-Identifier: Apache-2.0
"""Topics, queues and groups that do not exist: each read by an administrator says so, where brokers answer as for empty ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode

QUEUE = rmq.MessageQueue("flights", "broker-a", 0)
NOWHERE = rmq.MessageQueue("flihgts", "broker-a", 0)
BEYOND = rmq.MessageQueue("flights", "broker-a", 2)


@pytest.fixture
def admin(rocketmq: EmbeddedRocketMQ) -> Iterator[rmq.Admin]:
    rocketmq.create_topic("flights", queues=2)
    with rocketmq.admin() as made:
        yield made


OF_A_GROUP: dict[str, Callable[[rmq.Admin, str], object]] = {
    "lag": lambda admin, group: admin.lag(group),
    "lag in a topic": lambda admin, group: admin.lag(group, "flights"),
    "consumer_progress": lambda admin, group: admin.consumer_progress(group),
    "consumer_connection": lambda admin, group: admin.consumer_connection(group),
    "consumer_ids": lambda admin, group: admin.consumer_ids(group),
    "running_infos": lambda admin, group: admin.running_infos(group),
    "topics_of_group": lambda admin, group: admin.topics_of_group(group),
    "subscription": lambda admin, group: admin.subscription(group, "flights"),
    "group_readable": lambda admin, group: admin.group_readable(group, "flights"),
    "group_config": lambda admin, group: admin.group_config(group),
    "consumer_offset": lambda admin, group: admin.consumer_offset(group, QUEUE),
    "consume_time_span": lambda admin, group: admin.consume_time_span("flights", group),
    "consume_queue": lambda admin, group: admin.consume_queue(QUEUE, group=group),
    "clone_offsets": lambda admin, group: admin.clone_offsets(group, "copy"),
    "diagnose_group": lambda admin, group: admin.diagnose_group(group, watch_ms=0),
}
# What fails because a member is asked, which is not there either.
OF_A_MEMBER = {"running_info", "consume_status", "consume_directly", "message_track"}


@pytest.mark.parametrize("verb", OF_A_GROUP)
def test_a_group_that_does_not_exist_is_reported_as_missing(rocketmq, admin, producer, verb):
    send_all(producer, ["0", "1"])  # for a topic with messages brokers answer with its queues
    with pytest.raises(rmq.GroupNotExist):
        OF_A_GROUP[verb](admin, "dealys")
    assert admin.groups() == [group for group in admin.groups() if group != "dealys"], "a look makes no group"


@pytest.mark.parametrize("verb", OF_A_GROUP)
def test_a_group_that_has_done_nothing_yet_is_no_mistake(admin, producer, verb):
    producer.send(rmq.Message("flights", b"x"), queue=QUEUE)
    admin.create_group("copy")
    admin.create_group("dealys")
    OF_A_GROUP[verb](admin, "dealys")


def test_a_group_of_one_of_two_brokers_exists(admin, second_broker):
    admin.create_group("delays", broker="broker-b")
    assert (admin.lag("delays"), admin.consumer_ids("delays")) == (0, [])


def test_a_group_that_consumes_exists(admin, producer, consumers, rocketmq):
    send_all(producer, ["0"])
    seen = Recorder()
    consumers(seen)
    rocketmq.wait_until(lambda: len(seen) == 1)
    assert admin.lag("delays") in (0, 1)


@pytest.mark.parametrize("code", [ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR])
def test_without_the_right_to_list_groups_an_unknown_group_is_not_an_error(rocketmq, admin, code):
    rocketmq.faults.fail(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, code, times=None)
    assert admin.lag("dealys") == 0


def test_a_group_is_not_reported_missing_while_a_broker_does_not_answer(rocketmq, second_broker):
    with rocketmq.admin(mq_client_api_timeout_ms=300) as admin:
        admin.create_group("delays", broker="broker-b")
        lost = rocketmq.faults.drop(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)  # of broker-a, which is asked first
        assert (admin.lag("delays"), lost.hits) == (0, 1)
        rocketmq.faults.drop(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        with pytest.raises(rmq.RequestTimeout):
            admin.lag("dealys")


@pytest.mark.parametrize("read", ["count", "read", "get", "replay_all"])
def test_dead_letters_of_a_group_that_does_not_exist(rocketmq, admin, read):
    def ask(group: str) -> Any:
        with rmq.DeadLetters(group, namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock) as letters:
            answer = letters.get("AB") if read == "get" else getattr(letters, read)()
            return list(answer) if inspect.isgenerator(answer) else answer

    with pytest.raises(rmq.GroupNotExist):
        ask("dealys")
    admin.create_group("delays")
    if read == "get":
        with pytest.raises(rmq.ConfigurationError, match="has no dead letter with the id 'AB'"):
            ask("delays")
    else:
        ask("delays")


OF_A_TOPIC: dict[str, Callable[[rmq.Admin], object]] = {
    "min_offset": lambda admin: admin.min_offset(NOWHERE),
    "max_offset": lambda admin: admin.max_offset(NOWHERE),
    "offset_by_time": lambda admin: admin.offset_by_time(NOWHERE, 0),
    "earliest_store_time_ms": lambda admin: admin.earliest_store_time_ms(NOWHERE),
    "consumer_offset": lambda admin: admin.consumer_offset("delays", NOWHERE),
    "message_at": lambda admin: admin.message_at(NOWHERE, 0),
    "read_messages": lambda admin: admin.read_messages(NOWHERE),
    "consume_queue": lambda admin: admin.consume_queue(NOWHERE),
    "consumer_progress": lambda admin: admin.consumer_progress("delays", "flihgts"),
    "lag": lambda admin: admin.lag("delays", "flihgts"),
    "subscription": lambda admin: admin.subscription("delays", "flihgts"),
    "consume_time_span": lambda admin: admin.consume_time_span("flihgts", "delays"),
    "group_readable": lambda admin: admin.group_readable("delays", "flihgts"),
    "consume_status": lambda admin: admin.consume_status("flihgts", "delays"),
    "clone_offsets": lambda admin: admin.clone_offsets("delays", "copy", "flihgts"),
    "route": lambda admin: admin.route("flihgts"),
    "queues": lambda admin: admin.queues("flihgts"),
    "topic_clusters": lambda admin: admin.topic_clusters("flihgts"),
    "topic_stats": lambda admin: admin.topic_stats("flihgts"),
    "topic_config": lambda admin: admin.topic_config("flihgts"),
    "allocate": lambda admin: admin.allocate("flihgts", ["a"]),
    "order_conf": lambda admin: admin.order_conf("flihgts"),
    "consumers_of": lambda admin: admin.consumers_of("flihgts"),
    "topic_traffic": lambda admin: admin.topic_traffic("flihgts"),
    "producer_connection": lambda admin: admin.producer_connection("ops", "flihgts"),
    "messages_by_key": lambda admin: admin.messages_by_key("flihgts", "k"),
    "messages_by_unique_key": lambda admin: admin.messages_by_unique_key("flihgts", "AB"),
    "message_trace": lambda admin: admin.message_trace("AB", trace_topic="flihgts"),
    "reset_offset_by_time": lambda admin: admin.reset_offset_by_time("delays", "flihgts", 0),
    "skip_accumulated": lambda admin: admin.skip_accumulated("delays", "flihgts"),
    "reset_offset": lambda admin: admin.reset_offset("delays", NOWHERE, 0),
    "set_consumer_offset": lambda admin: admin.set_consumer_offset("delays", NOWHERE, 0),
}


@pytest.mark.parametrize("verb", OF_A_TOPIC)
def test_a_topic_that_does_not_exist_is_reported_as_missing(admin, verb):
    admin.create_group("delays")
    admin.max_offset(QUEUE)  # the address of the broker is known
    with pytest.raises(rmq.TopicNotExist):
        OF_A_TOPIC[verb](admin)


def test_every_read_of_a_topic_or_group_is_tried_here():
    """A new one is looked at, too: what takes a topic, a queue or a group and returns something."""
    changing = (
        "alter_",
        "create_",
        "delete_",
        "set_",
        "update_",
        "put_",
        "clean_",
        "resume_",
        "copy_",
        "wipe_",
        "add_",
        "handover",
    )
    verbs = {
        name
        for name, verb in inspect.getmembers(rmq.Admin, inspect.isfunction)
        if not name.startswith(("_", *changing))
        and {"topic", "queue", "group"} & inspect.signature(verb).parameters.keys()
    }
    assert verbs - OF_A_GROUP.keys() - OF_A_TOPIC.keys() - OF_A_MEMBER == set()


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.max_offset(BEYOND),
        lambda admin: admin.read_messages(BEYOND),
        lambda admin: admin.message_at(rmq.MessageQueue("flights", "broker-b", 0), 0),
    ],
)
def test_a_queue_that_does_not_exist_is_reported_as_missing(admin, second_broker, ask):
    admin.create_topic("ships", queues=1)  # on both, so that both addresses are known
    admin.max_offset(rmq.MessageQueue("ships", "broker-b", 0))
    with pytest.raises(
        rmq.ConfigurationError, match="does not exist: topic 'flights' has (queues 0 to 1|no queue) on broker"
    ):
        ask(admin)


def test_a_queue_that_a_topic_had_is_there_as_long_as_something_is_in_it(admin, producer):
    last = rmq.MessageQueue("flights", "broker-a", 1)
    producer.send(rmq.Message("flights", b"x"), queue=last)
    admin.create_topic("flights", queues=1)
    assert (admin.min_offset(last), admin.max_offset(last)) == (0, 1)


def test_a_topic_that_grew_or_went_meanwhile_is_looked_up_again(rocketmq, admin):
    assert admin.max_offset(QUEUE) == 0
    rocketmq.create_topic("flights", queues=3)
    assert admin.max_offset(BEYOND) == 0
    admin.delete_topic("flights")
    with pytest.raises(rmq.TopicNotExist):
        admin.max_offset(QUEUE)


def test_topics_of_a_cluster_that_does_not_exist(admin):
    assert "flights" in admin.topics(cluster="DefaultCluster")
    with pytest.raises(rmq.ConfigurationError, match="cluster 'x' is unknown, the name server knows DefaultCluster"):
        admin.topics(cluster="x")


@pytest.mark.rocketmq(useServerSideResetOffset=False)
@pytest.mark.parametrize("verb", ["reset_offset_by_time", "skip_accumulated", "reset_offset"])
def test_a_group_that_does_not_exist_is_not_moved(rocketmq, admin, verb):
    """A 4.9 broker takes progress of any name."""
    rocketmq.faults.fail(RequestCode.GET_TOPIC_CONFIG, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, times=None)
    moves: dict[str, Callable[[], object]] = {
        "reset_offset_by_time": lambda: admin.reset_offset_by_time("dealys", "flights", 0),
        "skip_accumulated": lambda: admin.skip_accumulated("dealys", "flights"),
        "reset_offset": lambda: admin.reset_offset("dealys", QUEUE, 0),
    }
    with pytest.raises(rmq.GroupNotExist):
        moves[verb]()
