# SPDX-License-Identifier: Apache-2.0
"""What a producer can be told beyond the forms of sending: retries, slow brokers, delays, recall, compression, the second port, routes."""

from __future__ import annotations

from typing import Any

import pytest
from recorder import noted

import sprocketmq as rmq
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.hashing import java_hash
from sprocketmq.wire.records import properties as props


def sender(producer: rmq.Producer) -> Sender:
    started = producer._async._sender
    assert started is not None
    return started


def two_brokers(rocketmq: EmbeddedRocketMQ, queues: int = 2) -> None:
    with rocketmq.admin() as admin:
        admin.create_topic("flights", queues=queues)


def test_the_codes_that_are_tried_again_are_the_users_choice(rocketmq, second_broker):
    two_brokers(rocketmq)
    with rocketmq.producer("ops", retry_response_codes={13}) as producer:
        fault = rocketmq.faults.fail(SENDS, ResponseCode.MESSAGE_ILLEGAL, times=1)
        assert producer.send(rmq.Message("flights", b"x")).status is rmq.SendStatus.SEND_OK
        assert fault.hits == 1
        rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, times=1)
        with pytest.raises(rmq.RemoteError, match="code 2"):
            producer.send(rmq.Message("flights", b"x"))
    for bad in ([0], ["2"], [True]):
        with pytest.raises(rmq.ConfigurationError):
            rocketmq.producer("ops", retry_response_codes=bad)


def test_no_retry_means_one_try(rocketmq, second_broker):
    two_brokers(rocketmq)
    with rocketmq.producer("ops", retry_times_when_send_failed=0) as producer:
        fault = rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, times=None)
        with pytest.raises(rmq.RemoteError, match="code 2"):
            producer.send(rmq.Message("flights", b"x"))
        assert fault.hits == 1


def test_a_broker_that_failed_is_avoided_for_ten_seconds_and_then_used_again(rocketmq, second_broker):
    two_brokers(rocketmq)

    def brokers(producer: rmq.Producer, count: int = 8) -> set[str]:
        return {producer.send(rmq.Message("flights", b"x")).message_queue.broker_name for _ in range(count)}

    with rocketmq.producer("ops", send_latency_fault_enable=True) as producer:
        assert brokers(producer) == {"broker-a", "broker-b"}
        queue = rmq.MessageQueue("flights", "broker-b", 0)
        rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, times=1)
        with pytest.raises(rmq.RemoteError):
            producer.send(rmq.Message("flights", b"x"), queue=queue)
        assert brokers(producer) == {"broker-a"}
        rocketmq.advance(9_999)
        assert brokers(producer) == {"broker-a"}
        rocketmq.advance(1)
        assert brokers(producer) == {"broker-a", "broker-b"}


def test_the_detector_finds_a_broker_that_can_be_reached_again(rocketmq, second_broker):
    two_brokers(rocketmq)
    asked = noted(rocketmq, RequestCode.GET_MAX_OFFSET)
    with rocketmq.producer("ops", send_latency_fault_enable=True, start_detector_enable=True) as producer:
        producer.send(rmq.Message("flights", b"x"))
        latency = sender(producer).queue_choice._latency
        assert latency is not None
        latency.update("broker-a", 10, rocketmq.clock.now_ms(), isolated=True, reachable=False)
        latency.update("broker-b", 10, rocketmq.clock.now_ms(), isolated=True, reachable=True)
        names = {producer.send(rmq.Message("flights", b"x")).message_queue.broker_name for _ in range(4)}
        assert names == {"broker-b"}, "all are avoided, one of them cannot be reached"
        rocketmq.advance_until(lambda: latency.is_reachable("broker-a"), step_ms=1_000, limit_ms=9_000)
        assert len(asked) == 1
        latency.update("broker-gone", 10, rocketmq.clock.now_ms(), isolated=True, reachable=False)
        rocketmq.advance_until(lambda: latency.is_reachable("broker-gone"), step_ms=1_000, limit_ms=9_000)
        assert len(asked) == 1, "no route names it any more, so nobody was asked"


def test_delays_in_milliseconds_and_delivery_times_are_kept_to_the_second(rocketmq, producer):
    producer.send(rmq.Message("flights", b"in 5 s"), delay_ms=5_000)
    producer.send(rmq.Message("flights", b"at 9 s"), deliver_time_ms=rocketmq.clock.now_ms() + 9_000)
    producer.send_oneway(rmq.Message("flights", b"in 3 s"), delay_ms=3_000)
    rocketmq.advance(1_000)
    assert rocketmq.messages("flights") == []
    rocketmq.advance_until(lambda: len(rocketmq.messages("flights")) == 3, step_ms=500)
    assert [message.body for message in rocketmq.messages("flights")] == [b"in 3 s", b"in 5 s", b"at 9 s"]
    for how in ({"delay_ms": 1, "delay_level": 1}, {"delay_ms": 1, "deliver_time_ms": 1}):
        with pytest.raises(rmq.ConfigurationError):
            producer.send(rmq.Message("flights", b"x"), **how)  # type: ignore[arg-type]
    with pytest.raises(rmq.ConfigurationError):
        producer.send(rmq.Message("flights", b"x"), delay_ms=-1)


@pytest.mark.rocketmq(recallMessageEnable=True)
def test_a_message_that_waits_for_its_time_can_be_taken_back(rocketmq, producer):
    assert producer.send(rmq.Message("flights", b"now")).recall_handle is None
    kept = producer.send(rmq.Message("flights", b"kept"), delay_ms=20_000)
    gone = producer.send(rmq.Message("flights", b"gone"), delay_ms=20_000)
    assert kept.recall_handle
    assert gone.recall_handle
    assert producer.recall("flights", gone.recall_handle) == gone.message_id
    rocketmq.advance_until(lambda: len(rocketmq.messages("flights")) == 2, step_ms=1_000)
    rocketmq.advance(5_000)
    assert [message.body for message in rocketmq.messages("flights")] == [b"now", b"kept"]
    for handle, sentence in (("nonsense", "recall_handle is 'nonsense'"), (None, "recall_handle is None")):
        with pytest.raises(rmq.ConfigurationError, match=sentence):
            producer.recall("flights", handle)  # type: ignore[arg-type]
    with pytest.raises(rmq.ConfigurationError):
        producer.recall("%RETRY%delays", gone.recall_handle)


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_a_body_compressed_in_any_way_comes_back_whole(rocketmq, kind):
    if kind != "ZLIB":
        pytest.importorskip({"LZ4": "lz4", "ZSTD": "zstandard"}[kind])
    body = b"UA1545 " * 2_000
    sizes: dict[int, int] = {}
    for level in (1, 9):
        with rocketmq.producer("ops", compress_type=kind, compress_level=level) as producer:
            message = rmq.Message("flights", body)
            producer.send(message)
            assert message.body == body
        stored = rocketmq.messages("flights")[-1]
        assert stored.body == body
        sizes[level] = stored.store_size_bytes
    assert max(sizes.values()) < 1_500
    with pytest.raises(rmq.ConfigurationError):
        rocketmq.producer("ops", compress_type=kind, compress_level=23)


def test_sends_go_to_the_second_port_when_that_is_wanted(rocketmq):
    asked: list[str] = []
    with rocketmq.producer("ops", vip_channel_enabled=True) as producer:
        cluster = sender(producer).cluster
        original = cluster.invoke

        async def to_the_first_port(address: str, command: Command, timeout_ms: int) -> Any:
            if command.code != RequestCode.SEND_MESSAGE_V2:
                return await original(address, command, timeout_ms)
            asked.append(address)
            return await original(rocketmq.broker_addr, command, timeout_ms)

        cluster.invoke = to_the_first_port
        producer.send(rmq.Message("flights", b"x"))
    host, _, port = rocketmq.broker_addr.rpartition(":")
    assert asked == [f"{host}:{int(port) - 2}"]


def test_brokers_of_the_option_topics_get_a_heartbeat_when_a_producer_starts(rocketmq):
    groups = noted(rocketmq, RequestCode.HEART_BEAT, lambda command: bytes(command.body))
    with rocketmq.producer("ops", topics=["flights", "not-there-yet"]):
        assert any(b'"ops"' in body for body in groups)
    with pytest.raises(rmq.ConfigurationError):
        rocketmq.producer("ops", topics="flights")


def _grown(rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, queues: int) -> None:
    rocketmq.create_topic("flights", queues=queues)
    routes = sender(producer)._routes
    rocketmq.advance_until(
        lambda: len(routes.table.publish_queues("flights")) == queues, step_ms=1_000, limit_ms=60_000
    )


def test_a_key_moves_as_javas_does_when_queues_are_added_and_awaited_sends_keep_their_order(rocketmq, producer):
    rocketmq.create_topic("flights", queues=2)
    keys = [f"N{number}" for number in range(6)]
    for number in range(3):
        for key in keys:
            producer.send(rmq.Message("flights", b"%s %d" % (key.encode(), number)), sharding_key=key)
    _grown(rocketmq, producer, 5)
    for number in range(3, 6):
        for key in keys:
            result = producer.send(rmq.Message("flights", b"%s %d" % (key.encode(), number)), sharding_key=key)
            assert result.message_queue.queue_id == abs(java_hash(key)) % 5
    stored = sorted(rocketmq.messages("flights"), key=lambda message: message.commit_log_offset)
    for key in keys:
        of_key = [message for message in stored if message.properties[props.SHARDING_KEY] == key]
        assert [message.body for message in of_key] == [b"%s %d" % (key.encode(), number) for number in range(6)]
        assert [message.queue_id for message in of_key[:3]] == [abs(java_hash(key)) % 2] * 3
