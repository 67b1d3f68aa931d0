# SPDX-License-Identifier: Apache-2.0
"""Each verdict of the doctor, brought about with our members and found by the command."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import sprocketmq as rmq
from cli_run import CommandLine, Ended
from embedded_proxy import second_broker_of
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire import bodies, requests

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
DEADLINE_S = 60
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as mq:
        yield mq


class Patient:
    """A group with a topic of its own, its members, and the doctor."""

    def __init__(self, server: EmbeddedRocketMQ, stack: ExitStack) -> None:
        self.server, self._stack = server, stack
        number = next(_numbers)
        self.topic, self.group = f"orders-{number}", f"billing-{number}"
        self._line = CommandLine(server.namesrv_addr)
        self.released = threading.Event()
        self.ok("topic create TOPIC --queues 2")
        self.ok("group create GROUP")

    def ok(self, command: str) -> Ended:
        return self._line.ok(command.replace("TOPIC", self.topic).replace("GROUP", self.group))

    def send(self, count: int, **how: Any) -> None:
        with self.server.producer() as producer:
            for number in range(count):
                producer.send(rmq.Message(self.topic, b"%d" % number, **how))

    def member(
        self, listener: Callable[..., Any], *, expression: str = "*", orderly: bool = False, **options: Any
    ) -> rmq.PushConsumer:
        options = {"consume_from_where": FIRST, "persist_consumer_offset_interval_ms": 100, **options}
        consumer = self.server.push_consumer(self.group, **options)
        consumer.subscribe(self.topic, expression)
        if orderly:
            consumer.orderly_listener()(listener)
        else:
            consumer.on_message(listener)
        self._stack.enter_context(consumer)
        return consumer

    def held_up(self, message: rmq.MessageExt) -> None:
        self.released.wait(DEADLINE_S)

    def becomes(self, verdict: str, options: str = "--watch-for 0s") -> dict[str, Any]:
        """Ask until the doctor says so, as members come and queues are shared out in their own time."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            ended = self._line.run(f"group doctor {self.group} {options} --json")
            found: dict[str, Any] = ended.json
            if found["verdict"] == verdict:
                assert ended.code == (0 if found["is_well"] else 1)
                assert all(line.isprintable() for line in found["evidence"])
                return found
            assert time.monotonic() < deadline, found


@pytest.fixture
def patient(server: EmbeddedRocketMQ) -> Iterator[Patient]:
    with ExitStack() as stack:
        made = Patient(server, stack)
        yield made
        made.released.set()


def nothing(message: rmq.MessageExt) -> None:
    pass


def test_a_group_is_switched_off_or_may_not_read(patient):
    patient.member(nothing)
    patient.becomes("nothing waits")
    patient.ok("group alter GROUP --disable")
    found = patient.becomes("switched off or not allowed")
    assert found["advice"] == f"sprocketmq group alter {patient.group} --enable"
    patient.ok("group alter GROUP --enable")
    patient.ok("topic perm TOPIC w")
    found = patient.becomes("switched off or not allowed")
    assert "its permission at broker-a is 2" in found["evidence"][0]
    patient.ok("topic perm TOPIC rw")
    with rmq.Admin(namesrv_addr=patient.server.namesrv_addr) as admin:
        admin.group_readable(patient.group, patient.topic, False)
        found = patient.becomes("switched off or not allowed")
        assert found["evidence"] == [f"{patient.topic}: broker-a forbids it to this group"]
        admin.group_readable(patient.group, patient.topic, True)
    patient.becomes("nothing waits")


def test_members_subscribe_differently(patient):
    one = patient.member(nothing, expression="A || B")
    same = patient.member(nothing, expression="B || A")
    patient.becomes("nothing waits")
    other = patient.member(nothing, expression="C")
    found = patient.becomes("members subscribe differently")
    assert patient.topic in found["sentence"]
    told = "\n".join(found["evidence"])
    assert other.client_id in told
    assert one.client_id in told or same.client_id in told


def test_the_doctor_reports_a_queue_without_owner(patient):
    mine = rmq.MessageQueue(patient.topic, "broker-a", 0)
    retry = rmq.MessageQueue(f"%RETRY%{patient.group}", "broker-a", 0)
    patient.send(4)
    patient.member(nothing, allocate_strategy="CONFIG", allocate_queues=[mine, retry])
    found = patient.becomes("a queue nobody owns")
    assert found["sentence"].endswith(f"reads {patient.topic}/broker-a/1")
    assert found["evidence"][0] == "waiting there: 2 messages"


@pytest.mark.parametrize("holder", ["a member", "nobody that is online"])
def test_an_orderly_queue_is_locked_by_another(patient, holder):
    patient.send(4)

    def wait(messages: Any, context: Any) -> None:
        patient.held_up(messages[0])

    if holder == "a member":
        first = patient.member(wait, orderly=True)
        patient.becomes("listener stuck", "--watch-for 0s --stuck-after 100ms")
        patient.member(wait, orderly=True)
        found = patient.becomes("locked by another member")
        assert found["evidence"][0] == "waiting there: 2 messages"
        assert found["evidence"][1].startswith(f"{first.client_id} runs its listener, in ")
    else:
        with rmq.Admin(namesrv_addr=patient.server.namesrv_addr) as admin:
            queues = admin.queues(patient.topic)

        async def lock() -> None:
            async with rmq.AsyncAdmin(namesrv_addr=patient.server.namesrv_addr) as admin:
                body = bodies.LockBatchRequestBody(consumer_group=patient.group, client_id="gone", mq_set=queues)
                at = patient.server.broker_addr
                await admin._cluster.ask(requests.consumers.LOCK_BATCH_MQ, at=at, body=body.encode())

        asyncio.run(lock())
        patient.member(wait, orderly=True)
        found = patient.becomes("locked by another member")
        assert found["evidence"][:2] == ["waiting there: 4 messages", "no listener of an online member is running"]
    assert "holds the lock of " in found["sentence"]


@pytest.mark.parametrize("kind", ["thread", "task", "orderly"])
def test_the_doctor_reports_a_stuck_listener_with_its_line(patient, kind):
    patient.send(2)

    async def waits(message: rmq.MessageExt) -> None:
        while not patient.released.is_set():
            await asyncio.sleep(0.05)

    def orderly(messages: Any, context: Any) -> None:
        patient.held_up(messages[0])

    listener = {"thread": patient.held_up, "task": waits, "orderly": orderly}[kind]
    member = patient.member(listener, orderly=kind == "orderly")
    found = patient.becomes("listener stuck", "--watch-for 0s --stuck-after 500ms")
    assert found["sentence"].startswith(
        f"the listener of {member.client_id} has finished no message of {patient.topic}/"
    )
    name = "waits" if kind == "task" else "held_up"
    assert f".{name}(test_cli_doctor.py:" in found["evidence"][0], found
    assert "has offset 0, id " in found["evidence"][-1]


def test_the_doctor_names_the_message_that_an_orderly_queue_waits_for(patient):
    def refuse(messages: Any, context: Any) -> None:
        raise ValueError("no such account")

    with patient.server.producer() as producer:
        queue = rmq.MessageQueue(patient.topic, "broker-a", 1)
        first, _ = (producer.send(rmq.Message(patient.topic, b"x", keys=[f"order-{n}"]), queue=queue) for n in range(2))
    patient.member(refuse, orderly=True)
    found = patient.becomes("listener fails")
    assert found["advice"].endswith(
        f"group reset {patient.group} --topic {patient.topic} --queue broker-a/1 --offset 1"
    )
    assert "dead-letters" not in found["advice"], "there are none"
    assert f"has offset 0, keys order-0, id {first.message_id}: sprocketmq message show" in found["evidence"][-1]
    assert found["head"] == {"topic": patient.topic, "broker_name": "broker-a", "queue_id": 1, "offset": 0, "keys": ["order-0"],
                             "message_id": first.message_id}  # fmt: skip


def test_flow_control_names_its_limit(patient):
    patient.send(200)
    patient.member(patient.held_up, pull_threshold_for_queue=10)
    found = patient.becomes("flow control")
    assert "messages (pullThresholdForQueue)" in found["sentence"]
    assert " of 10 " in found["sentence"]


def test_a_pull_consumer_that_does_not_poll(patient):
    patient.send(4)
    consumer = patient.server.pull_consumer(patient.group, consume_from_where=FIRST)
    consumer.subscribe(patient.topic)
    with consumer:
        found = patient.becomes("listener stuck", "--watch-for 0s --stuck-after 100ms")
        assert re.match(r"the application of \S+ has taken no message of ", found["sentence"])


def test_for_people_it_is_a_verdict_its_evidence_and_an_advice(patient):
    ended = CommandLine(patient.server.namesrv_addr).run(f"group doctor {patient.group} --watch-for 0s")
    lines = ended.out.splitlines()
    assert lines[0] == f"no member online: no member of group {patient.group} is online"
    assert lines[1] == "  how many messages wait is not known: the group has no progress"
    assert lines[-1].startswith("what to do: start a member")


def _fails(message: rmq.MessageExt) -> None:
    raise ValueError("no such account")


def test_retries_that_wait_are_told_beside_the_lag_with_and_without_members(patient):
    patient.send(3)
    member = patient.member(_fails)

    def counts() -> tuple[int, int | None]:
        found = patient.ok("lag GROUP --json").json
        return found["lag"], found["retries_waiting"]

    patient.server.wait_until(lambda: counts() == (0, 3))
    assert "lag of GROUP: 0; and 3 failed messages to try again, the first in ".replace("GROUP", patient.group) in (
        patient.ok("lag GROUP").out
    )
    rows = {row["group"]: row["retries_waiting"] for row in patient.ok("lag --all --json").json}
    assert rows[patient.group] == 3
    found = patient.becomes("listener fails")
    assert found["sentence"].endswith("never succeeded since its start")
    assert found["evidence"][0].endswith(", 3 since its start")
    member.shutdown()
    found = patient.becomes("no member online")
    assert "retries that are due: 0, that wait for their time: 3" in found["evidence"]
    assert "3 failed messages to try again are lost with it" in patient.ok("group delete GROUP --yes").err


def test_new_queues_are_no_mistake_of_the_members(patient):
    patient.member(nothing)
    patient.becomes("nothing waits")
    patient.ok("topic alter TOPIC --queues 4")
    found = patient.becomes("a queue nobody owns")
    assert found["advice"].startswith("look again in a minute")


def test_a_broker_that_no_member_has_reached_is_not_called_switched_off(patient):
    patient.member(nothing)
    patient.becomes("nothing waits")
    with second_broker_of(patient.server):
        patient.ok("topic create TOPIC --queues 2 --broker broker-b")
        found = patient.becomes("a queue nobody owns")
        assert "no member has reached broker-b yet" in found["evidence"]
        patient.ok("broker config set broker-b autoCreateSubscriptionGroup=false")
        found = patient.becomes("switched off or not allowed")
        assert found["advice"] == f"sprocketmq group create {patient.group} --broker broker-b"
        patient.ok(found["advice"].removeprefix("sprocketmq "))
