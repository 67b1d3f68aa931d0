# SPDX-License-Identifier: Apache-2.0
"""What a running member does without being asked, and what tools learn of it."""

from __future__ import annotations

import asyncio
import threading

import pytest
from recorder import HELD_S, QUEUE, Recorder, noted, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.core.consume.flow_control import FlowLimits
from sprocketmq.testing import HEARTBEATS, EmbeddedRocketMQ
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.sys_flag import PULL_SUSPEND


def _count_heartbeats(rocketmq: EmbeddedRocketMQ) -> list[Command]:
    """The heartbeats from now on; none of them is touched."""
    return noted(rocketmq, HEARTBEATS)


def test_heartbeats_keep_a_quiet_member_in_its_group(rocketmq, admin, consumers):
    consumer = consumers(Recorder())
    heartbeats = _count_heartbeats(rocketmq)
    begin_ms = rocketmq.clock.now_ms()
    while rocketmq.clock.now_ms() < begin_ms + 150_000:  # a broker forgets who is silent for 120 s
        before = len(heartbeats)
        rocketmq.advance_until(
            lambda before=before: len(heartbeats) > before, step_ms=5_000, limit_ms=90_000, patience_ms=100
        )
        assert admin.consumer_ids("delays") == [consumer.client_id]
    named = [one for beat in heartbeats for one in bodies.HeartbeatData.decode(beat.body).consumer_data_set]
    versions = {one.sub_version for data in named for one in data.subscription_data_set if one.topic == "flights"}
    assert len(versions) == 1, "while nobody joins or leaves, nothing is said anew"


def test_a_pull_that_finds_nothing_is_held_at_the_broker_for_15_s(rocketmq, consumers):
    pulls = noted(
        rocketmq,
        RequestCode.PULL_MESSAGE,
        lambda command: command.header(headers.PullMessageRequestHeader),
        topic="flights",
    )
    consumers(Recorder())
    rocketmq.wait_until(lambda: rocketmq.broker.parked.waiting("flights", 0))
    pull = pulls[-1]  # one before it may have been refused, because its heartbeat was not there yet
    assert pull.sys_flag & PULL_SUSPEND
    assert pull.suspend_timeout_millis == 15_000


def test_the_options_reach_each_pull_loop(rocketmq, consumers):
    options = {
        "pull_interval_ms": 300,
        "pull_time_delay_when_exception_ms": 700,
        "pull_threshold_for_queue": 11,
        "pull_threshold_size_for_queue": 12,
        "consume_concurrently_max_span": 13,
        "pull_threshold_for_topic": 100,  # for the queue and that of the retry topic
        "pull_threshold_size_for_topic": 20,
    }
    for kind, listener in (("message", Recorder()), ("orderly", lambda messages, context: None)):
        running = consumers(listener, kind=kind, group=kind, **options)._async._running
        assert running is not None
        rocketmq.advance_until(lambda running=running: len(running._loops) == 2)
        assert (running.suspend_ms, running.pull_timeout_ms) == (15_000, 30_000)
        for loop in list(running._loops.values()):
            cursor = loop.cursor
            assert (cursor.pull_interval_ms, cursor.exception_delay_ms) == (300, 700)
            assert cursor.orderly == (kind == "orderly")
            mib = 1024 * 1024
            assert cursor.limits == FlowLimits(50, 10 * mib, 13, 100, 20 * mib)


def test_a_broker_that_no_route_names_any_more_is_disconnected(rocketmq, admin, second_broker, producer):
    for broker in ("broker-a", "broker-b"):
        admin.create_topic("flights", queues=1, broker=broker)
    send_all(producer, ["0"], queue=rmq.MessageQueue("flights", "broker-b", 0))
    instance = producer._async._instance
    assert instance is not None
    assert second_broker.address in instance.cluster.pool.addresses
    # The name server hears no more of broker-b, which lives on: after 120 s no route names it.
    rocketmq.faults.drop(
        RequestCode.REGISTER_BROKER,
        times=None,
        when=lambda command: command.ext_fields.get("brokerName") == "broker-b",
    )
    rocketmq.advance_until(lambda: "broker-b" not in instance.cluster.routes.table.brokers(), step_ms=5_000)
    # Within the 30 s of a heartbeat; after 120 s without one the broker would close the connection itself.
    rocketmq.advance_until(
        lambda: second_broker.address not in instance.cluster.pool.addresses,
        step_ms=5_000,
        limit_ms=60_000,
        patience_ms=200,
    )
    assert rocketmq.broker_addr in instance.cluster.pool.addresses


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_messages_that_wait_for_a_worker_are_not_consumed_after_their_queue_was_given_up(
    rocketmq, producer, consumers, kind
):
    rocketmq.create_topic("weather", queues=1)
    running, release = threading.Event(), threading.Event()

    def block(message: rmq.MessageExt) -> None:
        running.set()
        release.wait(HELD_S)

    recorder = Recorder(block if kind == "blocking" else None)

    async def block_async(message: rmq.MessageExt) -> None:
        recorder(message)
        running.set()
        while not release.is_set():
            await asyncio.sleep(0.005)

    consumer = consumers(recorder if kind == "blocking" else block_async, consume_thread_count=1)
    send_all(producer, ["0", "1", "2"])
    assert running.wait(20)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count == 3)
    consumer.unsubscribe("flights")
    consumer.subscribe("weather")
    rocketmq.advance_until(lambda: QUEUE not in consumer.process_queues, patience_ms=200)
    weather = rmq.MessageQueue("weather", "broker-a", 0)
    send_all(producer, ["rain"], topic="weather")
    rocketmq.wait_until(lambda: weather in consumer.process_queues and consumer.process_queues[weather].count == 1)
    release.set()
    rocketmq.wait_until(lambda: "rain" in recorder.bodies)  # the only worker came to it after "1" and "2"
    assert recorder.bodies == ["0", "rain"]


@pytest.mark.slow
def test_brokers_that_do_not_answer_delay_a_shutdown_for_a_limited_time_and_no_heartbeat_names_a_member_that_left(
    rocketmq, producer, consumers, monkeypatch, caplog
):
    recorder = Recorder()
    consumer = consumers(recorder, instance_name="shared", mq_client_api_timeout_ms=5_000)
    other = consumers(Recorder(), group="other", instance_name="shared", mq_client_api_timeout_ms=5_000)
    send_all(producer, ["x"])
    rocketmq.wait_until(lambda: len(recorder) == 1)
    monkeypatch.setattr("sprocketmq.client.consume.running_consumer._LEAVE_TIMEOUT_S", 0.05)
    silent = rocketmq.faults.drop((RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.UNREGISTER_CLIENT), times=None)
    consumer.shutdown()
    assert silent.hits
    assert any("did not answer within 0.05 s" in record.getMessage() for record in caplog.records)
    silent.remove()
    heartbeats = _count_heartbeats(rocketmq)

    def named() -> set[str]:
        beats = [bodies.HeartbeatData.decode(beat.body) for beat in list(heartbeats)]
        return {group.group_name for beat in beats for group in beat.consumer_data_set}

    rocketmq.advance_until(lambda: "other" in named(), limit_ms=60_000)
    assert named() == {"other"}
    assert other.assigned_queues


def test_a_listener_pool_grows_while_much_waits_at_the_brokers_and_shrinks_afterwards(rocketmq, producer, consumers):
    send_all(producer, [str(number) for number in range(12)])
    release = threading.Event()
    recorder = Recorder(lambda message: release.wait(HELD_S))
    consumer = consumers(
        recorder,
        consume_thread_count=1,
        consume_thread_max=3,
        adjust_thread_pool_nums_threshold=5,
        pull_threshold_for_queue=1,
        pull_batch_size=1,
    )
    rocketmq.wait_until(lambda: len(recorder) == 1)
    running = parts_of(consumer)
    seen: list[int] = []
    service_resize = running.service.resize

    def resize(workers: int) -> None:
        seen.append(workers)
        service_resize(workers)

    running.service.resize = resize  # type: ignore[method-assign]
    rocketmq.advance_until(lambda: seen == [2, 3], step_ms=10_000)
    release.set()
    rocketmq.advance_until(lambda: seen == [2, 3, 2, 1], step_ms=10_000)
    assert len(recorder) == 12


def test_name_servers_that_moved_are_found_through_the_environment(rocketmq, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")  # nobody listens there
    with rmq.Producer("ops", clock=rocketmq.clock) as producer:
        with pytest.raises(rmq.NetworkError):
            producer.send(rmq.Message("flights", b"x"))
        monkeypatch.setenv("NAMESRV_ADDR", rocketmq.namesrv_addr)
        instance = producer._async._instance
        assert instance is not None
        rocketmq.advance_until(
            lambda: instance.cluster.name_servers.addresses == [rocketmq.namesrv_addr], step_ms=10_000, limit_ms=130_000
        )
        assert producer.send(rmq.Message("flights", b"x")).status is rmq.SendStatus.SEND_OK
