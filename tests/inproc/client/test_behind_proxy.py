# SPDX-License-Identifier: Apache-2.0
"""What a client does when its name server is a proxy: the embedded servers look like one here. tests/interop has Apache's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sprocketmq as rmq
from sprocketmq.net.connection import Connection, RequestHandler
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records import properties as props

NOT_SERVED = (
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
)


@pytest.fixture
def proxy(rocketmq: EmbeddedRocketMQ) -> Iterator[EmbeddedRocketMQ]:
    """Routes with the mark of a proxy; heartbeats make no retry topic; a part of what it does not serve."""
    faults = rocketmq.namesrv.intercept
    assert faults is not None

    def marked(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        answer = faults(connection, command, handler)
        if answer is not None:
            answer.ext_fields[props.MSG_REGION] = "DefaultRegion"
        return answer

    rocketmq.namesrv.intercept = marked
    rocketmq.faults.fail(NOT_SERVED, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported", times=None)
    yield rocketmq
    rocketmq.namesrv.intercept = faults


def test_a_consumer_has_its_retry_topic_made_before_it_asks_where_it_is(proxy: EmbeddedRocketMQ) -> None:
    """Otherwise the proxy remembers that there is none, and the first retry comes 40 s later."""
    proxy.create_topic("flights", queues=1)
    asked: list[str] = []

    def note(command: Command) -> bool:
        if command.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            asked.append(f"made at {command.ext_fields['bname']}")
        elif command.ext_fields.get("topic") == "%RETRY%delays":
            asked.append("route")
        return False

    proxy.faults.drop((RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.GET_ROUTEINFO_BY_TOPIC), None, when=note)
    consumer = proxy.push_consumer("delays")
    consumer.subscribe("flights")
    consumer.on_message(lambda message: None)
    with consumer:
        proxy.advance_until(lambda: asked.count("route") > 1)
    assert asked[:2] == ["made at broker-a", "route"]
    assert asked.count("made at broker-a") == 1
    assert proxy.broker.topics.get("%RETRY%delays") is not None
    assert proxy.messages("%RETRY%delays") == proxy.messages("%DLQ%delays") == []


def test_a_broadcasting_consumer_makes_none(proxy: EmbeddedRocketMQ) -> None:
    proxy.create_topic("flights", queues=1)
    made = proxy.faults.drop(RequestCode.CONSUMER_SEND_MSG_BACK, None, when=lambda command: False)
    consumer = proxy.push_consumer("all", message_model=rmq.MessageModel.BROADCASTING)
    consumer.subscribe("flights")
    consumer.on_message(lambda message: None)
    with consumer:
        proxy.advance(60_000)
    assert made.hits == 0


def test_what_it_does_not_serve_is_said_in_one_sentence(proxy: EmbeddedRocketMQ) -> None:
    sentence = f"^the proxy at {proxy.namesrv_addr} does not serve"
    with proxy.admin() as admin:
        with pytest.raises(rmq.RequestNotServed, match=f"{sentence} GET_BROKER_CLUSTER_INFO; use the ") as raised:
            admin.cluster_info()
        assert (raised.value.code, raised.value.address) == (3, proxy.namesrv_addr)
        with pytest.raises(
            rmq.RequestNotServed, match=f"{sentence} GET_ALL_TOPIC_LIST_FROM_NAMESERVER; name each topic"
        ):
            admin.topics()
