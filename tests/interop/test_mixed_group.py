# SPDX-License-Identifier: Apache-2.0
"""A Java and a Python member of one group: they share a topic's queues without overlap or gap, and each takes over from the other.

Both allocate for themselves from the same two lists, so they only agree when each sorts queues and client ids as the other does.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import sprocketmq as rmq
from interop.child import HANG_S
from interop.peers import APACHE_4, APACHE_5, JavaProgram, Server, poll_until
from interop.shared_servers import SharedServers

QUEUES = 8


class JavaMember:
    """The Java program PushConsumer: what it consumed, and which queues its last rebalance gave it."""

    def __init__(self, version: str, namesrv_addr: str, group: str, topic: str) -> None:
        self.deliveries: list[tuple[int, str]] = []  # queue id, body
        self.queues: set[int] = set()
        self._runs = True
        self._program = JavaProgram(version, "PushConsumer", namesrv=namesrv_addr, topic=topic, group=group)

    def look(self) -> JavaMember:
        """Take in what it has said since the last look."""
        if self._runs:
            with contextlib.suppress(TimeoutError):
                while True:
                    self._take(self._program.read(0))
        return self

    def leave(self) -> None:
        """End it in its orderly way and take in its last words. Harmless when it left before."""
        if not self._runs:
            return
        self._runs = False
        self._program.close_input()
        end_s = time.monotonic() + HANG_S
        try:
            with contextlib.suppress(EOFError):
                while True:
                    self._take(self._program.read(end_s - time.monotonic()))
        finally:
            self._program.stop()
        self.queues = set()

    def _take(self, line: dict[str, Any]) -> None:
        if line["event"] == "message":
            self.deliveries.append((line["queueId"], line["body"]))
        elif line["event"] == "allocated":
            self.queues = {int(number) for number in line["queues"].split(",") if number}
        assert line["event"] != "failed", line


class PythonMember:
    """Our PushConsumer, seen the same way."""

    def __init__(self, namesrv_addr: str, group: str, topic: str) -> None:
        self.deliveries: list[tuple[int, str]] = []
        self._topic = topic
        self._lock = threading.Lock()
        self._consumer = rmq.PushConsumer(
            group,
            namesrv_addr=namesrv_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            persist_consumer_offset_interval_ms=1_000,
        )
        self._consumer.subscribe(topic)
        self._consumer.on_message(self._handle)
        self._consumer.start()

    def _handle(self, message: rmq.MessageExt) -> None:
        with self._lock:
            self.deliveries.append((message.queue_id, message.body.decode()))

    @property
    def queues(self) -> set[int]:
        return {queue.queue_id for queue in self._consumer.assigned_queues if queue.topic == self._topic}

    def look(self) -> PythonMember:
        return self

    def leave(self) -> None:
        self._consumer.shutdown()


@dataclass
class MixedGroup:
    """One topic of eight queues, one group with two members, and what was sent to it."""

    server: Server
    topic: str
    group: str
    java: JavaMember
    python: PythonMember
    producer: rmq.Producer
    admin: rmq.Admin
    sent: Counter[tuple[int, str]] = field(default_factory=Counter)

    def send(self, what: str, each: int) -> Counter[tuple[int, str]]:
        """``each`` messages to every queue, as (queue id, body)."""
        more: Counter[tuple[int, str]] = Counter()
        for queue in self.producer.publish_queues(self.topic):
            for number in range(each):
                body = f"{what} {queue.queue_id} {number}"
                self.producer.send(rmq.Message(self.topic, body.encode()), queue=queue)
                more[queue.queue_id, body] += 1
        self.sent += more
        return more

    def delivered(self) -> Counter[tuple[int, str]]:
        return Counter(self.java.look().deliveries) + Counter(self.python.deliveries)

    def wait_until_shared(self) -> None:
        """Each has a half; the queues of both together are all of them."""
        poll_until(
            lambda: (
                len(self.java.look().queues) == len(self.python.queues) == QUEUES // 2
                and self.java.queues | self.python.queues == set(range(QUEUES))
            ),
            "both members have their half of the queues",
            HANG_S,
        )

    def wait_until_all_is_committed(self) -> None:
        """Everything sent was consumed, and the broker knows it: who takes over begins behind it."""
        poll_until(lambda: self.sent.keys() <= self.delivered().keys(), "every message is consumed")
        poll_until(lambda: self.admin.lag(self.group, self.topic) == 0, "all progress is committed")


@pytest.fixture(
    params=[
        pytest.param((APACHE_5, APACHE_5), marks=pytest.mark.nightly),
        (APACHE_4, APACHE_4),
        ("server", APACHE_5),
        ("server", APACHE_4),
    ],
    ids=lambda pair: f"{pair[0]}-java-{pair[1]}",
)
def mixed(request: pytest.FixtureRequest, servers: SharedServers) -> Iterator[MixedGroup]:
    of, version = request.param
    server: Server = servers.under_test() if of == "server" else servers.apache(of)
    name = f"mixed-{os.getpid()}-{time.time_ns()}"
    server.create_topic(name, QUEUES)
    address = server.namesrv_addr
    with contextlib.ExitStack() as stack:
        producer = stack.enter_context(rmq.Producer("mixed", namesrv_addr=address, send_msg_timeout_ms=60_000))
        admin = stack.enter_context(rmq.Admin(namesrv_addr=address))
        java = JavaMember(version, address, f"of-{name}", name)
        stack.callback(java.leave)
        python = PythonMember(address, f"of-{name}", name)
        stack.callback(python.leave)
        yield MixedGroup(server, name, f"of-{name}", java, python, producer, admin)


@pytest.mark.parametrize("leaver", ["java", "python"])
def test_a_java_and_a_python_member_share_the_queues_and_take_over_from_each_other(mixed, leaver):
    mixed.wait_until_shared()
    # One message per queue shows that both have let go of what the other one has now.
    mixed.send("probe", 1)
    mixed.wait_until_all_is_committed()
    mixed.wait_until_shared()
    probes = mixed.delivered()

    halves = mixed.java.queues, mixed.python.queues
    assert not halves[0] & halves[1]
    mixed.send("shared", 25)
    mixed.wait_until_all_is_committed()
    java, python = Counter(mixed.java.deliveries), Counter(mixed.python.deliveries)
    assert {queue_id for queue_id, body in java if body.startswith("shared")} == halves[0]
    assert {queue_id for queue_id, body in python if body.startswith("shared")} == halves[1]
    assert java + python - probes == mixed.sent - probes, "each message is consumed once, by one of the two"

    gone, stays = (mixed.java, mixed.python) if leaver == "java" else (mixed.python, mixed.java)
    gone.leave()
    poll_until(lambda: stays.look().queues == set(range(QUEUES)), "who stays takes over everything")
    before = mixed.delivered()
    after = mixed.send("alone", 10)
    mixed.wait_until_all_is_committed()
    assert mixed.delivered() - before == after, "each message is consumed once"
    assert after.keys() <= set(stays.deliveries)
