# SPDX-License-Identifier: Apache-2.0
"""SQL92 subscriptions of our clients at our broker."""

from __future__ import annotations

import pytest

import sprocketmq as rmq
from sprocketmq.wire import bodies
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command

pytestmark = pytest.mark.usefixtures("the_parser_is_loaded")

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
FAR = rmq.sql92("distance > 1000 AND carrier IN ('UA', 'DL')")


def _send(producer: rmq.Producer, *flights: tuple[str, int]) -> None:
    for carrier, distance in flights:
        message = rmq.Message("flights", f"{carrier} {distance}".encode(), tags=carrier)
        message.properties.update(carrier=carrier, distance=str(distance))
        producer.send(message)


@pytest.mark.parametrize("with_each_pull", [False, True])
def test_a_push_consumer_gets_what_its_condition_wants_and_waits_for_more(rocketmq, producer, with_each_pull):
    _send(producer, ("UA", 2000), ("UA", 200), ("AA", 2000))
    seen: list[str] = []
    consumer = rocketmq.push_consumer("far", consume_from_where=FIRST, post_subscription_when_pull=with_each_pull)
    consumer.subscribe("flights", FAR)
    consumer.on_message(lambda message: seen.append(message.body.decode()))
    with consumer:
        rocketmq.wait_until(lambda: seen == ["UA 2000"])
        rocketmq.wait_until(lambda: len(rocketmq.broker.parked) > 0)
        _send(producer, ("DL", 300), ("DL", 3000))
        rocketmq.wait_until(lambda: len(seen) == 2)
    assert seen == ["UA 2000", "DL 3000"]


def test_a_pull_consumer_filters_alike(rocketmq, producer):
    _send(producer, ("UA", 2000), ("UA", 200), ("AA", 2000), ("DL", 1001))
    with rocketmq.pull_consumer("far", consume_from_where=FIRST) as consumer:
        consumer.subscribe("flights", FAR)
        seen: list[str] = []
        while len(seen) < 2:
            messages = consumer.poll(timeout_ms=5_000)
            assert messages
            seen += [message.body.decode() for message in messages]
    assert seen == ["UA 2000", "DL 1001"]


def test_a_wrong_condition_is_an_error_at_the_start(rocketmq):
    for topic in ("arrivals", "departures", "flights"):
        rocketmq.create_topic(topic, queues=1)
    consumer = rocketmq.push_consumer("far", consume_from_where=FIRST)
    consumer.subscribe("arrivals", "UA")
    consumer.subscribe("departures", FAR)
    consumer.subscribe("flights", rmq.sql92("distance > 'far'"))
    consumer.on_message(lambda message: None)
    asked: list[str] = []

    def look(command: Command) -> bool:
        body = bodies.CheckClientConfigRequestBody.decode(command.body)
        assert body.subscription_data is not None
        asked.append(body.subscription_data.topic)
        return False

    rocketmq.faults.drop(RequestCode.CHECK_CLIENT_CONFIG, times=None, when=look)
    sentence = "the filter \"distance > 'far'\" of topic 'flights' is refused: .*only numbers and properties can.*; correct the expression"
    with pytest.raises(rmq.RocketMQError, match=sentence):
        consumer.start()
    # Not for tags. A broker that loads its parser first sees the question again afterwards.
    assert set(asked) == {"departures", "flights"}
    consumer.shutdown()


@pytest.mark.rocketmq(enablePropertyFilter=False)
def test_without_enable_property_filter_a_condition_is_refused(rocketmq):
    consumer = rocketmq.push_consumer("far", consume_from_where=FIRST)
    consumer.subscribe("flights", FAR)
    consumer.on_message(lambda message: None)
    with pytest.raises(
        rmq.RocketMQError, match="of topic 'flights' is refused: .*enablePropertyFilter=true at the brokers"
    ) as raised:
        consumer.start()
    assert str(raised.value).count("enablePropertyFilter") == 1
    consumer.shutdown()
