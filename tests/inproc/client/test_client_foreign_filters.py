# SPDX-License-Identifier: Apache-2.0
"""A member with another filter that was in the group for a moment, whatever its clock: nothing is passed over that stays wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from recorder import QUEUE, Recorder, parts_of

import sprocketmq as rmq
from inproc.broker.conftest import RawClient
from sprocketmq.broker.delivery.filters import PullFilter
from sprocketmq.broker.handlers.messages import pull
from sprocketmq.broker.tables.consumers import ConsumerGroup, ConsumerTable
from sprocketmq.core.group.subscription import FilterExpression, build_subscription
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import ConsumerData, HeartbeatData
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.headers import UnregisterClientRequestHeader
from sprocketmq.wire.records.sys_flag import PULL_SUBSCRIPTION

pytestmark = pytest.mark.usefixtures("the_parser_is_loaded")

HOUR_MS = 3_600_000
FILTERS: dict[str, tuple[FilterExpression | str, FilterExpression | str]] = {
    "tags": ("A", "A || B"),
    "sql92": (rmq.sql92("kind = 'A'"), rmq.sql92("kind IN ('A', 'B')")),
    "everything": ("A", "*"),
}


class Peer:
    """A member of another process, as its requests look like."""

    def __init__(self, rocketmq: EmbeddedRocketMQ) -> None:
        self.client, self.model = RawClient(Engine.shared(), rocketmq.broker_addr), "CLUSTERING"

    def joins(self, expression: FilterExpression | str, version: int) -> None:
        subscriptions = [build_subscription("flights", expression, version)]
        if self.model == "CLUSTERING":
            subscriptions.append(build_subscription("%RETRY%delays", "*", version))
        data = ConsumerData("delays", message_model=self.model, subscription_data_set=subscriptions)
        body = HeartbeatData("peer@1", consumer_data_set=[data]).encode()
        assert self.client.ask(RequestCode.HEART_BEAT, body=body).code == 0

    def leaves(self) -> None:
        header = UnregisterClientRequestHeader(client_id="peer@1", consumer_group="delays")
        assert self.client.ask(RequestCode.UNREGISTER_CLIENT, header).code == 0


@pytest.fixture
def peer(rocketmq: EmbeddedRocketMQ) -> Iterator[Peer]:
    made = Peer(rocketmq)
    yield made
    made.client.close()


def send(producer: rmq.Producer, sent: list[str], count: int) -> None:
    for number in range(len(sent), len(sent) + count):
        tag = "BA"[number % 2]
        message = rmq.Message("flights", f"{tag}{number}".encode(), tags=tag, properties={"kind": tag})
        producer.send(message, queue=QUEUE)
        sent.append(f"{tag}{number}")


@pytest.mark.parametrize("ahead_ms", [-5, 0, 12, HOUR_MS], ids=["behind", "same", "ahead", "hour"])
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("broker", ["ours", "apache", "apache 4"])
def test_nothing_is_passed_over_after_a_member_with_another_filter_was_there_for_a_moment(
    rocketmq, producer, consumers, peer, broker, filters, ahead_ms, monkeypatch
):
    if broker != "ours":  # ConsumerGroupInfo: the highest version stays, whoever has it
        monkeypatch.setattr(ConsumerGroup, "without", lambda group, connection: [])
    if broker == "apache 4":  # it does not know this request
        rocketmq.faults.fail(
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, times=None
        )
    theirs, own = FILTERS[filters]
    seen, sent = Recorder(), list[str]()
    consumer = consumers(seen, expression=own)
    rocketmq.advance_until(lambda: consumer.assigned_queues)
    rocketmq.advance(100)
    peer.joins(theirs, rocketmq.clock.now_ms() + ahead_ms)
    send(producer, sent, 4)
    peer.leaves()
    send(producer, sent, 4)
    rocketmq.advance_until(lambda: set(seen.bodies) >= set(sent[-4:]), limit_ms=90_000)
    send(producer, sent, 4)
    rocketmq.advance_until(lambda: set(seen.bodies) >= set(sent), limit_ms=90_000)


def test_pulls_carry_their_filter_while_another_one_is_in_force_and_the_log_says_whose(
    rocketmq, consumers, peer, caplog
):
    def carries_filter() -> list[bool]:
        waiting = rocketmq._on_loop(lambda: list(rocketmq.broker.parked._pulls.queues.get(("flights", 0), ())))
        return [bool(pull.request.header.sys_flag & PULL_SUBSCRIPTION) for pull in waiting]

    consumers(Recorder(), expression="A || B")
    rocketmq.advance_until(lambda: carries_filter() == [False])
    peer.joins("A", rocketmq.clock.now_ms() + HOUR_MS)
    rocketmq.advance_until(lambda: carries_filter() == [True])
    assert "another member subscribes to flights by 'A', this one by 'A || B'" in caplog.text
    peer.leaves()
    rocketmq.advance_until(lambda: carries_filter() == [False])


def test_a_member_that_wants_everything_loses_nothing_to_one_that_renews_its_filter_later(
    rocketmq, producer, consumers, peer
):
    """Its renewal is no change of the members: nobody hears of it."""
    seen, sent = Recorder(), list[str]()
    consumer = consumers(seen)
    rocketmq.advance_until(lambda: consumer.assigned_queues)
    peer.joins("A", 1)
    rocketmq.advance(2_000)
    rocketmq.advance_until(lambda: rocketmq._on_loop(lambda: "flights" not in parts_of(consumer).unconfirmed))
    peer.joins("A", rocketmq.clock.now_ms() + 1_000)
    send(producer, sent, 8)
    rocketmq.advance_until(lambda: set(seen.bodies) == set(sent), limit_ms=90_000)


def test_a_queue_with_holes_is_read_to_its_end(rocketmq, producer, consumers, monkeypatch):
    """As a compacted topic of 5.x has: its pulls look as if another filter were in force, whatever filter they carry."""
    monkeypatch.setattr(pull, "wants_everything", lambda *_: False)
    monkeypatch.setattr(pull, "check_pull", lambda *_: PullFilter(lambda code: code != tags_code("B")))
    seen, sent = Recorder(), list[str]()
    consumers(seen)
    send(producer, sent, 8)
    rocketmq.advance_until(lambda: set(seen.bodies) == set(sent[1::2]), limit_ms=90_000)


def test_members_with_two_filters_are_told_of_once_a_minute(rocketmq, consumers, caplog):
    """Each renewal brings the filter of the other one into force."""
    consumers(Recorder(), instance_name="one", expression="A")
    two = consumers(Recorder(), instance_name="two", expression="A || B", start=False)
    two.subscribe("trains")  # so that each heartbeat changes the group's topics, and the other member is notified
    two.start()
    for _ in range(40):
        rocketmq.advance(1_000)
    told = [one.getMessage() for one in caplog.records if "another member subscribes" in one.getMessage()]
    assert told
    assert len(told) <= 2


def test_members_with_other_topics_do_not_send_heartbeats_without_end(rocketmq, consumers, monkeypatch):
    heartbeats: list[str] = []
    register = ConsumerTable.register

    def counted(table: ConsumerTable, *args: Any, **named: Any) -> bool:
        heartbeats.append("one")
        return register(table, *args, **named)

    monkeypatch.setattr(ConsumerTable, "register", counted)
    rocketmq.create_topic("trains", queues=1)
    for number in range(4):
        consumer = consumers(Recorder(), instance_name=f"m{number}", start=False)
        if number % 2:
            consumer.subscribe("trains")
        consumer.start()
    for _ in range(30):
        rocketmq.advance(1_000)
    assert len(heartbeats) < 4 * (20 + 2 * 30)


def test_a_broadcasting_member_gets_all_again_when_one_with_another_filter_has_left(
    rocketmq, producer, consumers, peer, tmp_path
):
    seen, sent = Recorder(), list[str]()
    model = rmq.MessageModel.BROADCASTING
    consumer = consumers(seen, expression="A || B", message_model=model, local_offset_store_dir=str(tmp_path))
    peer.model = "BROADCASTING"
    rocketmq.advance_until(lambda: consumer.assigned_queues)
    rocketmq.advance(2_000)
    peer.joins("A", rocketmq.clock.now_ms() + HOUR_MS)
    peer.leaves()
    send(producer, sent, 4)
    rocketmq.advance_until(lambda: set(seen.bodies) == set(sent), limit_ms=90_000)
