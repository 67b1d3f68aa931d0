# SPDX-License-Identifier: Apache-2.0
"""SQL92 subscriptions of our clients at our broker."""

from __future__ import annotations

import pytest
from recorder import Recorder, noted

import sprocketmq as rmq
from sprocketmq.wire import bodies
from sprocketmq.wire.codes import RequestCode

pytestmark = pytest.mark.usefixtures("the_parser_is_loaded")

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
FAR = rmq.sql92("distance > 1000 AND carrier IN ('UA', 'DL')")


def _send(producer: rmq.Producer, *flights: tuple[str, int]) -> None:
    for carrier, distance in flights:
        message = rmq.Message("flights", f"{carrier} {distance}".encode(), tags=carrier)
        message.properties.update(carrier=carrier, distance=str(distance))
        producer.send(message)


@pytest.mark.parametrize("with_each_pull", [False, True])
def test_a_push_consumer_gets_what_its_condition_wants_and_waits_for_more(
    rocketmq, producer, consumers, with_each_pull
):
    _send(producer, ("UA", 2000), ("UA", 200), ("AA", 2000))
    seen = Recorder()
    consumers(seen, expression=FAR, post_subscription_when_pull=with_each_pull)
    rocketmq.wait_until(lambda: seen.bodies == ["UA 2000"])
    rocketmq.wait_until(lambda: len(rocketmq.broker.parked) > 0)
    _send(producer, ("DL", 300), ("DL", 3000))
    rocketmq.wait_until(lambda: len(seen) == 2)
    assert seen.bodies == ["UA 2000", "DL 3000"]


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


def test_a_wrong_condition_is_an_error_at_the_start(rocketmq, consumers):
    for topic in ("arrivals", "departures"):
        rocketmq.create_topic(topic, queues=1)
    consumer = consumers(Recorder(), topic="arrivals", expression="UA", start=False)
    consumer.subscribe("departures", FAR)
    consumer.subscribe("flights", rmq.sql92("distance > 'far'"))
    asked = noted(
        rocketmq,
        RequestCode.CHECK_CLIENT_CONFIG,
        lambda command: bodies.CheckClientConfigRequestBody.decode(command.body).subscription_data.topic,
    )
    sentence = "the filter \"distance > 'far'\" of topic 'flights' is refused: .*only numbers and properties can.*; correct the expression"
    with pytest.raises(rmq.RocketMQError, match=sentence):
        consumer.start()
    # Not for tags. A broker that loads its parser first sees the question again afterwards.
    assert set(asked) == {"departures", "flights"}


@pytest.mark.rocketmq(enablePropertyFilter=False)
def test_without_enable_property_filter_a_condition_is_refused(consumers):
    with pytest.raises(rmq.RocketMQError, match="of topic 'flights' is refused: .*enablePropertyFilter=true") as raised:
        consumers(Recorder(), expression=FAR)
    assert str(raised.value).count("enablePropertyFilter") == 1
