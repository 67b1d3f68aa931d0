# SPDX-License-Identifier: Apache-2.0
"""Two brokers, with groups in every kind of trouble. What a user sees says the same of each: the output of ``lag``, ``group list``,
``group doctor`` and ``dead-letters list``, the page that Prometheus scrapes, and the console's pages over HTTP."""

from __future__ import annotations

import functools
import html
import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from console_server import RunningConsole
from embedded_proxy import second_broker_of
from sprocketmq.broker import BrokerConfig
from sprocketmq.client.admin.async_admin import AsyncAdmin
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.net.process.clock import SystemClock
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
HELD_S = 60

# kind, and the name of its group and topic: lag; waiting retries; dead letters; the doctor's verdict; the console's level
TABLE = [
    ("hangs-on-first", 3, 0, 0, "listener stuck", "bad"),
    ("orderly-blocked", 3, 0, 0, "listener fails", "bad"),
    ("slow", 3, 0, 0, "moving", "warn"),  # without two looks nobody knows when it has caught up
    ("nobody", 3, 0, 0, "no member online", "bad"),
    ("half-known", 2, 0, 0, "switched off or not allowed", "bad"),
    ("misspelt", 0, 0, 0, "a topic does not exist", "warn"),
    ("dead-letters", 0, 0, 1, "nothing waits", "well"),
    ("retries", 0, 1, 0, "only retries wait", "well"),
    ("hidden-queues", 2, 0, 0, "switched off or not allowed", "bad"),
    ("same-ids", 0, 0, 0, "members with one client id", "bad"),
    ("paused", 2, 0, 0, "paused", "warn"),
    ("fine", 0, 0, 0, "nothing waits", "well"),
]
# A broker that does not know a group has no metrics of it, nor does it know the group's members.
NOT_IN_METRICS = Counter({"half-known": 2})
_ROW = re.compile(
    r'<span class="pill (\w+)">.*?<a href="/group\?name=([^"]+)".*?<td role="cell" class="n">(.*?)</td>'
    r'.*?<td role="cell" class="n wide">(.*?)</td>.*<td role="cell" class="text">(.*?)</td>',
    re.DOTALL,
)


class TroubledCluster:
    """broker-a, and broker-b, which creates no groups. A topic has the name of its group."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.mq = stack.enter_context(EmbeddedRocketMQ(metricsExporterType="PROM", metricsPromExporterPort=0))
        config = BrokerConfig(
            auto_create_subscription_group=False, metrics_exporter_type="PROM", metrics_prom_exporter_port=0
        )
        self.broker_b = stack.enter_context(second_broker_of(self.mq, config))
        self.admin = stack.enter_context(self.mq.admin())
        self.producer = stack.enter_context(self.mq.producer("ops"))
        self.released, self.turns = threading.Event(), threading.Semaphore(0)

    def topic(self, name: str, messages: int, *, queues: int = 1, broker: str = "broker-a", queue_id: int = 0) -> None:
        self.admin.create_topic(name, queues=queues, broker=broker)
        self.admin.create_group(name, broker="broker-a")
        self.send(name, messages, broker=broker, queue_id=queue_id)

    def send(self, topic: str, messages: int, *, broker: str = "broker-a", queue_id: int = 0) -> None:
        for _ in range(messages):
            self.producer.send(rmq.Message(topic, b"x"), queue=rmq.MessageQueue(topic, broker, queue_id))

    def member(
        self, group: str, listener: Callable[..., Any], *, orderly: bool = False, **options: Any
    ) -> rmq.PushConsumer:
        consumer = self.mq.push_consumer(group, consume_from_where=FIRST, **options)
        consumer.subscribe(group)
        (consumer.orderly_listener() if orderly else consumer.on_message)(listener)
        self._stack.enter_context(consumer)
        return consumer

    def hang(self, message: rmq.MessageExt) -> None:
        self.released.wait(HELD_S)

    def one_by_one(self, message: rmq.MessageExt) -> None:
        self.turns.acquire(timeout=HELD_S)

    def console(self) -> tuple[dict[str, list[str]], dict[str, int]]:
        """The page *Groups*, by group: level, lag, waiting retries and the verdict's sentence; the page *Dead letters*: how many."""
        with RunningConsole(self.mq.namesrv_addr, clients={"clock": self.mq.clock}, limit_ms=10_000) as console:
            watcher = console.server._parts.watcher  # type: ignore[union-attr]
            console.run(watcher.update())
            for name in (row[0] for row in TABLE):
                console.run(watcher.diagnose(name))
            console.run(watcher.update())
            page, letters = console.page("/groups"), console.page("/dead-letters")
        cells = [found for row in page.split("</tr>") if (found := _ROW.search(row)) is not None]
        rows = {
            name: [level, lag, retries, html.unescape(said)]
            for level, name, lag, retries, said in (row.groups() for row in cells)
        }
        held = re.findall(r'dead-letters\?group=([^"]+)">.*?<td class="n">(\d+)</td>', letters)
        return rows, {name: int(count) for name, count in held}

    def metrics(self) -> tuple[Counter[str], Counter[str]]:
        """Lag and dead letters by group, from the pages of both brokers."""
        lag, dead = Counter[str](), Counter[str]()
        for broker in (self.mq.broker, self.broker_b):
            port = broker.metrics.port  # type: ignore[union-attr]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
                text = page.read().decode()
            for counts, metric in (
                (lag, "rocketmq_consumer_lag_messages"),
                (dead, "rocketmq_send_to_dlq_messages_total"),
            ):
                for labels, value in re.findall(rf"^{metric}\{{(.*)\}} (\S+)$", text, re.MULTILINE):
                    counts[re.findall(r'consumer_group="([^"]*)"', labels)[0]] += int(float(value))
        return lag, dead


@pytest.fixture
def troubled() -> Iterator[TroubledCluster]:
    with ExitStack() as stack:
        made = TroubledCluster(stack)
        yield made
        made.released.set()
        made.turns.release(5)


def _nothing(message: rmq.MessageExt) -> None:
    pass


def _refuse(message: rmq.MessageExt, context: object = None) -> None:
    raise ValueError("no such plane")


def test_every_tool_says_the_same_of_every_kind_of_trouble(troubled, monkeypatch):
    mq, admin = troubled.mq, troubled.admin
    for name, messages in {"hangs-on-first": 3, "orderly-blocked": 3, "slow": 5}.items():
        troubled.topic(name, messages)
    for name, messages in {
        "misspelt": 1,
        "dead-letters": 1,
        "retries": 1,
        "same-ids": 1,
        "paused": 1,
        "fine": 1,
    }.items():
        troubled.topic(name, messages)
    troubled.topic("half-known", 1)
    troubled.topic("half-known", 2, broker="broker-b")
    troubled.topic("hidden-queues", 2, queues=2, queue_id=1)
    troubled.topic("nobody", 2, queues=2)
    troubled.send("nobody", 1, queue_id=1)
    for queue_id in (0, 1):
        admin.reset_offset("nobody", rmq.MessageQueue("nobody", "broker-a", queue_id), 0)
    admin.reset_offset("hidden-queues", rmq.MessageQueue("hidden-queues", "broker-a", 1), 0)
    admin.alter_topic("hidden-queues", read_queues=1, write_queues=1)

    def later(message: rmq.MessageExt) -> None:
        raise rmq.RetryLater(delay_level=18)  # 2 h

    members = [
        troubled.member("hangs-on-first", troubled.hang),
        troubled.member("orderly-blocked", _refuse, orderly=True),
        troubled.member("slow", troubled.one_by_one, consume_thread_count=1),
        troubled.member("half-known", _nothing),
        troubled.member("misspelt", _nothing),
        troubled.member("dead-letters", _refuse, max_reconsume_times=0),
        troubled.member("retries", later),
        troubled.member("hidden-queues", _nothing),
        troubled.member("same-ids", _nothing, instance_name="same"),
        troubled.member("paused", _nothing),
        troubled.member("fine", _nothing),
    ]
    with monkeypatch.context() as another_process:
        another_process.setattr(ClientInstance, "_instances", {})
        members.append(troubled.member("same-ids", _nothing, instance_name="same"))
    members[4].subscribe("mispselt")
    lag = functools.partial(_lag_with_progress, admin, members)
    quiet = [name for name, count, *_ in TABLE if not count] + ["paused"]
    mq.advance_until(lambda: not any(map(lag, quiet)))
    members[9].pause()
    for _ in range(
        4
    ):  # a listener is stuck after 30 s, failures count for a minute, and a pull that waits still gets a message
        mq.advance(30_000)
    troubled.send("paused", 2)
    troubled.turns.release(2)
    mq.advance_until(lambda: lag("slow") == 3)

    line = CommandLine(mq.namesrv_addr)
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: mq.clock.now_ms())
    monkeypatch.setattr(AsyncAdmin, "diagnose_group", functools.partialmethod(AsyncAdmin.diagnose_group, watch_ms=0))
    listed = {row["group"]: row["lag"] for row in line.ok("group list --json").json}
    of_all = {row["group"]: row["lag"] for row in line.ok("lag --all --json").json}
    dead_letters = {row["group"]: row["dead_letters"] for row in line.ok("dead-letters list --json").json}
    in_metrics, dead = troubled.metrics()
    console, dead_in_console = troubled.console()
    rows = []
    for name, *_ in TABLE:
        level, shown_lag, shown_retries, sentence = console[name]
        lag_of_one = line.run(f"lag {name} --fail-over 1 --json")
        lags = (
            lag_of_one.json["lag"],
            listed[name],
            of_all[name],
            admin.lag(name),
            in_metrics[name] + NOT_IN_METRICS[name],
            int(shown_lag),
        )
        doctor = line.run(f"group doctor {name} --watch-for 0ms --json")
        retries = (doctor.json["retries_waiting"], int(shown_retries))
        letters = (dead[name], dead_letters.get(name, 0), dead_in_console.get(name, 0))
        for said in (lags, retries, letters, (doctor.json["sentence"], sentence)):
            assert len(set(said)) == 1, (name, said)
        assert lag_of_one.code == (3 if lags[0] > 1 else 0)
        assert doctor.code == (0 if level == "well" or name == "slow" else 1)
        rows.append((name, lags[0], retries[0], letters[0], doctor.json["verdict"], level))
    assert rows == TABLE


def _lag_with_progress(admin: rmq.Admin, members: list[rmq.PushConsumer], group: str) -> int:
    for member in members:
        member.persist_offsets()
    return admin.lag(group)
