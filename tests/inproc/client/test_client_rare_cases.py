# SPDX-License-Identifier: Apache-2.0
"""What a client meets seldom, or only after long, by the public API alone."""

from __future__ import annotations

import pytest
from recorder import QUEUE, Held, Recorder, noted, parts_of, send_all

from sprocketmq.core.produce.route_table import RouteTable
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import PULLS, EmbeddedRocketMQ
from sprocketmq.wire.bodies import RegisterBrokerBody
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import request
from sprocketmq.wire.headers import RegisterBrokerRequestHeader
from sprocketmq.wire.records.sys_flag import PULL_COMMIT_OFFSET


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


@pytest.mark.rocketmq(slaveReadEnable=True)
@pytest.mark.parametrize("route", ["known", "forgotten"])
def test_a_pull_goes_to_the_copy_that_the_last_answer_suggested(rocketmq, admin, producer, consumers, route):
    """The slave is another broker of this name. It suggests the master, as each broker without ``slaveReadEnable``."""
    with EmbeddedRocketMQ() as slave:
        at_slave = noted(slave, PULLS, lambda command: dict(command.ext_fields))
        slave.create_topic("flights", queues=1)
        admin.create_group("delays", broker_id=1)
        header = RegisterBrokerRequestHeader("broker-a", slave.broker_addr, "DefaultCluster", "", 1)
        command = request(RequestCode.REGISTER_BROKER, header, RegisterBrokerBody().encode())
        answer = Engine.shared().run(admin._async._cluster.invoke(rocketmq.namesrv_addr, command, 60_000))
        assert answer.code == 0, answer.remark
        consumer = consumers(Recorder())
        rocketmq.wait_until(lambda: len(rocketmq.broker.parked) > 0)
        assert at_slave == []
        if route == "forgotten":  # then it is asked for, and the suggestion still counts
            parts_of(consumer).instance.cluster.routes.table = RouteTable()
        send_all(producer, ["0"])
        rocketmq.wait_until(lambda: at_slave)
        consumer.shutdown()
    assert (at_slave[0]["topic"], at_slave[0]["queueOffset"]) == ("flights", "1")
    assert int(at_slave[0]["sysFlag"]) & PULL_COMMIT_OFFSET == 0  # only a master stores progress


@pytest.mark.rocketmq(slaveReadEnable=True)
def test_a_copy_that_is_suggested_and_missing_is_replaced_by_another(rocketmq, admin, producer, consumers):
    admin.create_group("delays", broker_id=1)
    recorder = Recorder()
    consumers(recorder)
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
            recorder, consumer = Recorder(), rocketmq.push_consumer("delays")
            consumer.subscribe("flights")
            consumer.on_message(recorder)
            with consumer:
                rocketmq.advance_until(
                    lambda: rocketmq.consumer_offset("delays", "flights").get(0) == first or recorder.messages
                )
                send_all(producer, ["last"])
                rocketmq.advance_until(lambda: recorder.bodies[-1:] == ["last"])
            assert recorder.messages[0].queue_offset == first


@pytest.mark.rocketmq(autoCreateSubscriptionGroup=False)
def test_a_failure_of_a_group_that_was_deleted_meanwhile_is_tried_again_here(rocketmq, admin, producer, consumers):
    admin.create_group("delays")
    held = Held(failure=ValueError("no"))
    consumers(held)
    send_all(producer, ["x"])
    rocketmq.advance_until(held.running.is_set)
    admin.delete_group("delays")
    held.release.set()
    rocketmq.advance_until(lambda: len(held) == 2)
    assert rocketmq.messages("%RETRY%delays") == []


def test_a_message_that_its_broker_has_no_more_comes_again_by_the_inner_producer(rocketmq, producer, consumers):
    held = Held(failure=ValueError("no"))
    consumers(held)
    send_all(producer, ["x"])
    assert held.running.wait(20)
    rocketmq.restart_broker()  # without a folder: all that it had is gone
    held.release.set()
    rocketmq.advance_until(lambda: len(held) == 2)
    assert [message.body for message in rocketmq.messages("%RETRY%delays")] == [b"x"]
