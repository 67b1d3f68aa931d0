# SPDX-License-Identifier: Apache-2.0
"""The doctor of `sprocketmq group doctor`: each verdict brought about with Java's members and with ours, at Apache's brokers and at ours.

What needs a broker with long delay levels (only retries wait) is in tests/inproc/cli/test_cli_doctor.py.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from interop.peers import APACHE_4, APACHE_5, JavaProgram
from interop.shared_servers import SharedServers

HOLD_MS = 600_000
DEADLINE_S = 60
_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """Whose broker, and whose members."""

    server: str
    members: str

    def __str__(self) -> str:
        return f"{self.members} at {self.server}"


PLACES = (
    Place(APACHE_4, "Java 4.9.7"),
    Place(APACHE_5, "Java 5.4.0"),
    Place("ours", "Java 5.4.0"),
    Place(APACHE_4, "ours"),
    Place(APACHE_5, "ours"),
)
BOTH_APACHES = PLACES[:2]


@dataclass
class Patient:
    """A group with a topic of two queues, its members, and the doctor."""

    namesrv_addr: str
    java_version: str | None
    stack: ExitStack
    name: str = field(default_factory=lambda: f"patient-{time.time_ns()}-{next(_numbers)}")
    released: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._line = CommandLine(self.namesrv_addr)
        self.ok(f"topic create {self.name} --queues 2")
        self.ok(f"group create {self.name}")

    def ok(self, command: str) -> None:
        self._line.ok(f"{command} --timeout 10s")

    def send(self, count: int) -> None:
        with rmq.Producer("doctor", namesrv_addr=self.namesrv_addr) as producer:
            for number in range(count):
                producer.send(rmq.Message(self.name, b"%d" % number))

    def member(self, *, tags: str = "*", orderly: bool = False, hold_ms: int = 0, **more: Any) -> None:
        if self.java_version is not None:
            program = "OrderlyConsumer" if orderly else "PushConsumer"
            options = {
                "group": self.name,
                "topic": self.name,
                "tags": tags,
                "hold_ms": hold_ms,
                "instance": f"doctor-{next(_numbers)}",
            }
            java = JavaProgram(self.java_version, program, namesrv=self.namesrv_addr, **options, **more)
            self.stack.callback(java.stop)
            java.ready()
            return
        queues = [rmq.MessageQueue(topic, "broker-a", 0) for topic in (self.name, f"%RETRY%{self.name}")]
        only = {"allocate_strategy": "CONFIG", "allocate_queues": queues} if "only_queue" in more else {}
        consumer = rmq.PushConsumer(
            self.name,
            namesrv_addr=self.namesrv_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            pull_threshold_for_queue=more.get("most_cached", 1_000),
            **only,  # type: ignore[arg-type]
        )
        consumer.subscribe(self.name, tags)

        def take() -> None:
            if hold_ms:
                self.released.wait(hold_ms / 1000)
            if "fail" in more:
                raise ValueError("no such account")

        if orderly:
            consumer.orderly_listener()(lambda messages, context: take())
        else:
            consumer.on_message(lambda message: take())
        self.stack.enter_context(consumer)

    def becomes(self, verdict: str, options: str = "--watch-for 0s", said: str = "") -> dict[str, Any]:
        """Ask until the doctor says so: members come, and queues are shared out, in their own time."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found: dict[str, Any] = self._line.run(f"group doctor {self.name} --timeout 10s --json {options}").json
            if found["verdict"] == verdict and said in found["sentence"]:
                return found
            assert time.monotonic() < deadline, found


def is_switched_off(patient: Patient) -> None:
    patient.member()
    patient.ok(f"group alter {patient.name} --disable")
    assert patient.becomes("switched off or not allowed")["sentence"].endswith("is switched off at broker-a")


def members_differ(patient: Patient) -> None:
    patient.member(tags="A || B")
    patient.member(tags="C")
    found = patient.becomes("members subscribe differently")
    assert "'TAG: A || B'" in "\n".join(found["evidence"])
    assert "'TAG: C'" in "\n".join(found["evidence"])


def a_queue_is_nobodys(patient: Patient) -> None:
    patient.send(4)
    patient.member(only_queue=0)
    found = patient.becomes("a queue nobody owns", said=f"reads {patient.name}/broker-a/1")
    assert found["evidence"][0] == "waiting there: 2 messages"


def a_lock_is_anothers(patient: Patient) -> None:
    patient.send(4)
    patient.member(orderly=True, hold_ms=HOLD_MS)
    patient.becomes("listener stuck", "--watch-for 0s --stuck-after 1s")
    patient.member(orderly=True, hold_ms=HOLD_MS)
    found = patient.becomes("locked by another member")
    assert found["evidence"][0] == "waiting there: 2 messages"
    assert " runs its listener, in " in found["evidence"][1]


def a_listener_is_stuck(patient: Patient) -> None:
    patient.send(2)
    patient.member(hold_ms=HOLD_MS)
    found = patient.becomes("listener stuck", "--watch-for 0s --stuck-after 1s")
    line = r"it is in (peers\.Consumers\.hold\(Consumers\.java:\d+\)|.+\.take\(test_group_doctor\.py:\d+\))"
    assert re.fullmatch(line, found["evidence"][0]), found


def a_listener_fails(patient: Patient) -> None:
    patient.send(20)
    patient.member(fail=1_000)
    told = "\n".join(patient.becomes("listener fails")["evidence"])
    assert "failures a second in the last minute" in told
    assert ("ValueError: no such account" if patient.java_version is None else "the log of the member has it") in told


def flow_is_controlled(patient: Patient) -> None:
    patient.send(200)
    patient.member(hold_ms=HOLD_MS, most_cached=10)
    assert " of 10 messages (pullThresholdForQueue)" in patient.becomes("flow control")["sentence"]


def it_moves(patient: Patient) -> None:
    patient.send(200)
    patient.member(hold_ms=200)
    assert "messages a second" in patient.becomes("moving", "--watch-for 500ms")["evidence"][0]
    patient.becomes("nothing waits")


CASES: tuple[Callable[[Patient], None], ...] = (
    is_switched_off,
    members_differ,
    a_queue_is_nobodys,
    a_lock_is_anothers,
    a_listener_is_stuck,
    a_listener_fails,
    flow_is_controlled,
    it_moves,
)


@pytest.fixture
def patient(request: pytest.FixtureRequest, servers: SharedServers) -> Iterator[Patient]:
    place: Place = request.param
    server = servers.under_test() if place.server == "ours" else servers.apache(place.server)
    version = None if place.members == "ours" else place.members.removeprefix("Java ")
    with ExitStack() as stack:
        made = Patient(server.namesrv_addr, version, stack)
        yield made
        made.released.set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize(
    "patient",
    [pytest.param(place, marks=pytest.mark.nightly if place in BOTH_APACHES else ()) for place in PLACES],
    ids=str,
    indirect=True,
)
def test_a_verdict_is_found(patient, case):
    case(patient)
