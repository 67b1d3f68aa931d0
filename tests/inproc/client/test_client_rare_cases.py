# SPDX-License-Identifier: Apache-2.0
"""What a client meets seldom, or only after long, by the public API alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from recorder import QUEUE, Recorder, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.core.produce.route_table import RouteTable
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import PULLS, EmbeddedRocketMQ
from sprocketmq.wire.bodies import RegisterBrokerBody
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command, request
from sprocketmq.wire.headers import RegisterBrokerRequestHeader
from sprocketmq.wire.records.sys_flag import PULL_COMMIT_OFFSET

LIMIT_S = 30


class Held:
    """A listener that runs until it is let go, and then ends as ``failure`` says."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.began, self.let_go = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self, message: rmq.MessageExt) -> None:
        self.calls += 1
        self.began.set()
        assert self.let_go.wait(LIMIT_S)
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


@pytest.fixture
def held() -> Iterator[Held]:
    listener = Held()
    yield listener
    listener.let_go.set()


def _consumer(rocketmq: EmbeddedRocketMQ, listener: Callable[[rmq.MessageExt], Any]) -> rmq.PushConsumer:
    consumer = rocketmq.push_consumer("delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe("flights")
    consumer.on_message(listener)
    return consumer


def test_a_pull_that_is_never_answered_does_not_keep_its_queue(rocketmq, producer, consumers):
    recorder = Recorder()
    on_flights = rocketmq.faults.drop(
        RequestCode.PULL_MESSAGE, when=lambda command: command.ext_fields["topic"] == "flights"
    )
    consumers(recorder)
    rocketmq.wait_until(lambda: on_flights.hits == 1)
    send_all(producer, ["x"])
    took_ms = rocketmq.advance_until(lambda: recorder.bodies == ["x"], step_ms=5_000)
    assert took_ms >= 120_000


@pytest.mark.parametrize("route", ["known", "forgotten"])
def test_a_pull_goes_to_the_copy_that_the_last_answer_suggested(route):
    """The slave is another broker of this name. It suggests the master, as each broker without ``slaveReadEnable``."""
    with EmbeddedRocketMQ(slaveReadEnable=True) as rocketmq, EmbeddedRocketMQ() as slave:
        at_slave: list[dict[str, str]] = []

        def note(command: Command) -> bool:
            at_slave.append(dict(command.ext_fields))
            return False

        slave.faults.drop(PULLS, times=None, when=note)
        rocketmq.create_topic("flights", queues=1)
        slave.create_topic("flights", queues=1)
        with rocketmq.admin() as admin, rocketmq.producer("ops") as producer:
            admin.create_group("delays", broker_id=1)
            header = RegisterBrokerRequestHeader("broker-a", slave.broker_addr, "DefaultCluster", "", 1)
            command = request(RequestCode.REGISTER_BROKER, header, RegisterBrokerBody().encode())
            answer = Engine.shared().run(admin._async._cluster.invoke(rocketmq.namesrv_addr, command, 60_000))
            assert answer.code == 0, answer.remark
            recorder = Recorder()
            with _consumer(rocketmq, recorder) as consumer:
                rocketmq.wait_until(lambda: len(rocketmq.broker.parked) > 0)
                assert at_slave == []
                if route == "forgotten":  # then it is asked for, and the suggestion still counts
                    running = parts_of(consumer)
                    running.instance.cluster.routes.table = RouteTable()
                send_all(producer, ["0"])
                rocketmq.wait_until(lambda: at_slave)
        assert (at_slave[0]["topic"], at_slave[0]["queueOffset"]) == ("flights", "1")
        assert int(at_slave[0]["sysFlag"]) & PULL_COMMIT_OFFSET == 0  # only a master stores progress


def test_a_copy_that_is_suggested_and_missing_is_replaced_by_another():
    with EmbeddedRocketMQ(slaveReadEnable=True) as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        with rocketmq.admin() as admin:
            admin.create_group("delays", broker_id=1)
        recorder = Recorder()
        with rocketmq.producer("ops") as producer, _consumer(rocketmq, recorder):
            for number in range(5):
                send_all(producer, [str(number)])
                rocketmq.advance_until(lambda number=number: len(recorder) == number + 1)


@pytest.mark.parametrize("expired", [False, True])
def test_offsets_that_the_queue_does_not_have_are_corrected(tmp_path, expired):
    with EmbeddedRocketMQ(store_dir=tmp_path, mappedFileSizeCommitLog=4096, fileReservedTime=1) as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        with rocketmq.producer("ops") as producer, rocketmq.admin() as admin:
            send_all(producer, [str(number) * 500 for number in range(10)])
            admin.create_group("delays")
            admin.set_consumer_offset("delays", QUEUE, 0 if expired else 1_000)
            if expired:
                rocketmq.advance(2 * 3_600_000)
                send_all(producer, [str(number) * 500 for number in range(10)])
                admin.delete_expired_commit_logs()
                assert admin.min_offset(QUEUE) > 0
            first = admin.min_offset(QUEUE) if expired else 10
            recorder = Recorder()
            with _consumer(rocketmq, recorder):
                rocketmq.advance_until(
                    lambda: rocketmq.consumer_offset("delays", "flights").get(0) == first or recorder.messages
                )
                send_all(producer, ["last"])
                rocketmq.advance_until(lambda: recorder.bodies[-1:] == ["last"])
            assert recorder.messages[0].queue_offset == first


def test_a_reset_is_pushed_to_members_by_a_broker_that_is_set_to():
    with EmbeddedRocketMQ(useServerSideResetOffset=False) as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        recorder = Recorder()
        with rocketmq.producer("ops") as producer, rocketmq.admin() as admin, _consumer(rocketmq, recorder):
            send_all(producer, ["0", "1", "2"])
            rocketmq.advance_until(lambda: len(recorder) == 3)
            admin.reset_offset_by_time("delays", "flights", 0)
            rocketmq.advance_until(lambda: sorted(recorder.bodies) == ["0", "0", "1", "1", "2", "2"])


def test_a_failure_of_a_group_that_was_deleted_meanwhile_is_tried_again_here():
    with EmbeddedRocketMQ(autoCreateSubscriptionGroup=False) as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        held = Held(ValueError("no"))
        with rocketmq.admin() as admin:
            admin.create_group("delays")
        with rocketmq.producer("ops") as producer, rocketmq.admin() as admin, _consumer(rocketmq, held):
            send_all(producer, ["x"])
            rocketmq.advance_until(held.began.is_set)
            admin.delete_group("delays")
            held.let_go.set()
            rocketmq.advance_until(lambda: held.calls == 2)
            assert rocketmq.messages("%RETRY%delays") == []


def test_a_message_that_its_broker_has_no_more_comes_again_by_the_inner_producer(rocketmq, producer, consumers, held):
    held.failure = ValueError("no")
    consumers(held)
    send_all(producer, ["x"])
    assert held.began.wait(LIMIT_S)
    rocketmq.restart_broker()  # without a folder: all that it had is gone
    held.let_go.set()
    rocketmq.advance_until(lambda: held.calls == 2)
    assert [message.body for message in rocketmq.messages("%RETRY%delays")] == [b"x"]
