# SPDX-License-Identifier: Apache-2.0
"""Topics, queues and groups that do not exist: each read by an administrator says so, where brokers answer as for empty ones."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
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


# What the other parameters are given.
GIVEN = {
    "client_ids": ["a"],
    "key": "k",
    "unique_key": "AB",
    "offset": 0,
    "timestamp_ms": 0,
    "destination": "copy",
    "watch_ms": 0,
}
CHANGING = (
    *("add", "alter", "clean", "copy", "create", "delete", "handover", "put", "resume", "update", "wipe"),
    *("set_consume_mode", "set_order_conf", "set_topic_perm"),
)
# A new one is tried, too: what takes a topic, a queue or a group and returns something.
READS = {
    name: inspect.signature(verb).parameters
    for name, verb in inspect.getmembers(rmq.Admin, inspect.isfunction)
    if not name.startswith(("_", *CHANGING))
}
# What fails because a member is asked, which is not there either, or the group is one of producers.
OF_A_MEMBER = {"running_info", "consume_status", "consume_directly", "producer_connection"}
MOVES = ("reset_offset", "reset_offset_by_time", "skip_accumulated", "set_consumer_offset")
OF_A_GROUP = [
    (name, topic)
    for name, parameters in READS.items()
    if {"group", "source"} & parameters.keys() and name not in OF_A_MEMBER and name not in MOVES
    for topic in ("flights", None)
    if (topic is None) is ("topic" not in parameters) or ("topic" in parameters and parameters["topic"].default is None)
]
OF_A_TOPIC = [name for name in READS if {"topic", "queue"} & READS[name].keys() and name != "consume_directly"]


def ask(admin: rmq.Admin, verb: str, **given: Any) -> Any:
    given = {**GIVEN, **given, "source": given["group"]}
    answer = getattr(admin, verb)(**{name: given[name] for name in READS[verb] if given.get(name) is not None})
    return list(answer) if inspect.isgenerator(answer) else answer


@pytest.mark.parametrize(("verb", "topic"), OF_A_GROUP)
def test_a_group_that_does_not_exist_is_reported_as_missing(admin, producer, verb, topic):
    send_all(producer, ["0", "1"])  # for a topic with messages brokers answer with its queues
    with pytest.raises(rmq.GroupNotExist):
        ask(admin, verb, group="dealys", topic=topic, queue=QUEUE)
    assert "dealys" not in admin.groups(), "a look makes no group"


@pytest.mark.parametrize(("verb", "topic"), OF_A_GROUP)
def test_a_group_that_has_done_nothing_yet_is_no_mistake(admin, producer, verb, topic):
    producer.send(rmq.Message("flights", b"x"), queue=QUEUE)
    admin.create_group("copy")
    admin.create_group("dealys")
    ask(admin, verb, group="dealys", topic=topic, queue=QUEUE)


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


@pytest.mark.parametrize("verb", OF_A_TOPIC)
def test_a_topic_that_does_not_exist_is_reported_as_missing(admin, verb):
    admin.create_group("delays")
    admin.max_offset(QUEUE)  # the address of the broker is known
    with pytest.raises(rmq.TopicNotExist):
        ask(admin, verb, group="delays", topic="flihgts", queue=NOWHERE)


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
    with pytest.raises(rmq.ConfigurationError, match="does not exist: topic 'flights' has (queues 0 to 1|no queue) on"):
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
@pytest.mark.parametrize("verb", MOVES[:3])
def test_a_group_that_does_not_exist_is_not_moved(rocketmq, admin, verb):
    """A 4.9 broker takes progress of any name."""
    rocketmq.faults.fail(RequestCode.GET_TOPIC_CONFIG, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, times=None)
    with pytest.raises(rmq.GroupNotExist):
        ask(admin, verb, group="dealys", topic="flights", queue=QUEUE)
