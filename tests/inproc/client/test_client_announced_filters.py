# SPDX-License-Identifier: Apache-2.0
"""What heartbeats announce and pulls use: whatever changes, no filter that is not the member's own passes over a message.

Each event is tried with each kind of consumer and of filter. Heartbeats after the event reach the broker late, so that pulls go between.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack

import pytest

import sprocketmq as rmq
from embedded_proxy import embedded_proxy
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.net.process.clock import SystemClock
from sprocketmq.testing import HEARTBEATS, EmbeddedRocketMQ
from sprocketmq.testing.faults import FaultInjector

pytestmark = pytest.mark.usefixtures("the_parser_is_loaded")

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUEUES = 2
FILTERS: dict[str, dict[str, FilterExpression | str]] = {
    "tag": {"A": "A", "AB": "A || B"},
    "sql92": {"A": rmq.sql92("kind = 'A'"), "AB": rmq.sql92("kind IN ('A', 'B')")},
}

WORDS_OF_A = {"A", "kind = 'A'"}


class Member:
    """A consumer of group "delays" and the bodies that it got."""

    def __init__(self, rocketmq: EmbeddedRocketMQ, kind: str, name: str, addr: str) -> None:
        self.rocketmq, self.bodies = rocketmq, list[str]()
        options = {"consume_from_where": FIRST, "instance_name": name, "namesrv_addr": addr}
        self.consumer: rmq.PushConsumer | rmq.PullConsumer
        if kind == "pull":
            self.consumer = rmq.PullConsumer("delays", clock=rocketmq.clock, **options)
            return
        self.consumer = rmq.PushConsumer(
            "delays",
            clock=rocketmq.clock,
            post_subscription_when_pull=kind == "carrying",
            await_termination_ms=1_000,
            **options,
        )
        if kind == "orderly":
            self.consumer.orderly_listener(self._listen)
        else:
            self.consumer.concurrent_listener(self._listen)

    def _listen(self, messages: list[rmq.MessageExt], context: object) -> object:
        self.bodies += [message.body.decode() for message in messages]
        if isinstance(context, rmq.ConsumeOrderlyContext):
            return rmq.ConsumeOrderlyStatus.SUCCESS
        return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def look(self) -> list[str]:
        if isinstance(self.consumer, rmq.PullConsumer):
            self.bodies += [message.body.decode() for message in self.consumer.poll(timeout_ms=0)]
        return self.bodies

    def owns(self, count: int) -> bool:
        self.look()
        return sum(queue.topic == "flights" for queue in self.consumer.assigned_queues) == count


class World:
    def __init__(self, rocketmq: EmbeddedRocketMQ, kind: str, filters: str, addr: str, stack: ExitStack) -> None:
        self.rocketmq, self.kind, self.addr, self.filters, self.stack = rocketmq, kind, addr, filters, stack
        self.producer = stack.enter_context(rocketmq.producer("ops"))
        self.names = itertools.count()
        self.sent: list[str] = []

    def member(self, wanted: str) -> Member:
        member = Member(self.rocketmq, self.kind, str(next(self.names)), self.addr)
        member.consumer.subscribe("flights", FILTERS[self.filters][wanted])
        self.stack.enter_context(member.consumer)
        return member

    def send(self) -> None:
        """B before A in each queue: who passes over B goes on with A."""
        for queue_id, tag in itertools.product(range(QUEUES), "BABA"):
            body = f"{tag}{len(self.sent)}"
            message = rmq.Message("flights", body.encode(), tags=tag, properties={"kind": tag})
            self.producer.send(message, queue=rmq.MessageQueue("flights", "broker-a", queue_id))
            self.sent.append(body)

    def heartbeats_are_late(self) -> None:
        late = FaultInjector(SystemClock())  # real time, because some calls wait for a heartbeat
        late.delay(HEARTBEATS, 50, times=None)
        self.rocketmq.broker.intercept = late.intercept

    def until(self, condition: Callable[[], object]) -> None:
        self.rocketmq.advance_until(condition, step_ms=100, limit_ms=90_000, patience_ms=10)

    def has_the_last_word(self, peer: Member) -> None:
        """Its subscription is the newest, and so the one by which the broker filters."""
        self.rocketmq.advance(2_000)
        peer.consumer.subscribe("flights", FILTERS[self.filters]["A"])
        self.until(
            lambda: self.rocketmq.broker.consumers.groups["delays"].subscriptions["flights"].sub_string in WORDS_OF_A
        )
        self.rocketmq.advance(2_000)

    def alone(self, wanted: str) -> Member:
        member = self.member(wanted)
        self.until(lambda: member.owns(QUEUES))
        self.rocketmq.advance(2_000)
        return member


def peer_leaves(world: World) -> list[Member]:
    member = world.alone("AB")
    peer = world.member("A")
    world.until(lambda: member.owns(1) and peer.owns(1))
    world.has_the_last_word(peer)
    world.heartbeats_are_late()
    peer.consumer.shutdown()
    world.send()
    return [member]


def peer_joins(world: World) -> list[Member]:
    """With another filter, if pulls carry their own."""
    carries = world.kind in ("pull", "proxy", "carrying")
    member = world.alone("AB")
    peer = world.member("A" if carries else "AB")
    world.heartbeats_are_late()
    world.until(lambda: member.owns(1) and peer.owns(1))
    if carries:
        world.has_the_last_word(peer)
    own = {queue.queue_id for queue in member.consumer.assigned_queues if queue.topic == "flights"}
    world.send()
    if carries:
        world.sent = [body for number, body in enumerate(world.sent) if number // 4 in own]
    return [member, peer]


def subscribes_more(world: World) -> list[Member]:
    member = world.alone("A")
    world.heartbeats_are_late()
    member.consumer.subscribe("flights", FILTERS[world.filters]["AB"])
    world.send()
    return [member]


def subscribes_again(world: World) -> list[Member]:
    member = world.alone("A")
    world.heartbeats_are_late()
    member.consumer.unsubscribe("flights")
    member.consumer.subscribe("flights", FILTERS[world.filters]["AB"])
    world.send()
    return [member]


def changes_type(world: World) -> list[Member]:
    other = "tag" if world.filters == "sql92" else "sql92"
    member = world.alone("A")
    world.heartbeats_are_late()
    member.consumer.subscribe("flights", FILTERS[other]["AB"])
    world.send()
    return [member]


def broker_restarts(world: World) -> list[Member]:
    member = world.alone("AB")
    world.rocketmq.restart_broker()
    world.heartbeats_are_late()
    world.send()
    return [member]


EVENTS = (peer_leaves, peer_joins, subscribes_more, subscribes_again, changes_type, broker_restarts)
KINDS = ("concurrent", "orderly", "pull", "carrying", "proxy")
ALL = list(itertools.product(EVENTS, KINDS, FILTERS))
USUAL = [
    case
    for case in ALL
    if case[1:] in (("concurrent", "tag"), ("concurrent", "sql92"), ("pull", "tag"), ("proxy", "tag"))
]


@pytest.mark.parametrize(("event", "kind", "filters"), USUAL)
def test_nothing_that_the_members_own_filter_wants_is_passed_over(event, kind, filters, tmp_path):
    with EmbeddedRocketMQ(store_dir=tmp_path) as rocketmq, ExitStack() as stack:
        rocketmq.create_topic("flights", queues=QUEUES)
        addr = rocketmq.namesrv_addr
        if kind == "proxy" and event is not broker_restarts:  # the embedded proxy keeps to one broker
            addr = stack.enter_context(embedded_proxy(rocketmq, [rocketmq.broker]))
        world = World(rocketmq, kind, filters, addr, stack)
        members = event(world)
        world.until(lambda: {body for member in members for body in member.look()} >= set(world.sent))


@pytest.mark.nightly
@pytest.mark.parametrize(("event", "kind", "filters"), [case for case in ALL if case not in USUAL])
def test_the_same_for_all_other_kinds(event, kind, filters, tmp_path):
    test_nothing_that_the_members_own_filter_wants_is_passed_over(event, kind, filters, tmp_path)


def test_a_broker_that_restarted_knows_its_members_again_though_their_pulls_carry_the_filter(tmp_path):
    with EmbeddedRocketMQ(store_dir=tmp_path) as rocketmq, ExitStack() as stack:
        rocketmq.create_topic("flights", queues=QUEUES)
        world = World(rocketmq, "pull", "tag", rocketmq.namesrv_addr, stack)
        world.alone("AB")
        rocketmq.restart_broker()
        # Long before the next heartbeat and rebalance.
        rocketmq.advance_until(lambda: rocketmq.broker.consumers.get("delays"), step_ms=100, limit_ms=5_000)
