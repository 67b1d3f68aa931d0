# SPDX-License-Identifier: Apache-2.0
"""Two brokers, with groups in every kind of trouble: ``lag``, ``group list``, metrics, console and doctor say the same of each."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import sprocketmq as rmq
from embedded_proxy import second_broker_of
from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.broker.observe.metrics import collect_samples
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.console.cluster.cluster import Cluster
from sprocketmq.console.safety.mask import Mask
from sprocketmq.console.watch.watcher import ClusterView, Watcher
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
HELD_S = 60

# kind, and the name of its group and topic: lag for lag, list, metrics and console; dead letters; the doctor's verdict; the console's level
TABLE = [
    ("hangs-on-first", 3, 0, "listener stuck", "bad"),
    ("orderly-blocked", 3, 0, "listener fails", "bad"),
    ("slow", 3, 0, "moving", "warn"),  # without two looks nobody knows when it has caught up
    ("nobody", 3, 0, "no member online", "bad"),
    ("half-known", 2, 0, "switched off or not allowed", "bad"),
    ("misspelt", 0, 0, "a topic does not exist", "warn"),
    ("dead-letters", 0, 1, "nothing waits", "well"),
    ("retries", 0, 0, "only retries wait", "well"),
    ("hidden-queues", 2, 0, "switched off or not allowed", "bad"),
    ("same-ids", 0, 0, "members with one client id", "bad"),
    ("paused", 2, 0, "paused", "warn"),
    ("fine", 0, 0, "nothing waits", "well"),
]
# A broker that does not know a group has no metrics of it, nor does it know the group's members.
NOT_IN_METRICS = Counter({"half-known": 2})


class TroubledCluster:
    """broker-a, and broker-b, which creates no groups. A topic has the name of its group."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.mq = stack.enter_context(EmbeddedRocketMQ())
        self.broker_b = stack.enter_context(
            second_broker_of(self.mq, BrokerConfig(auto_create_subscription_group=False))
        )
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

    def console(self) -> ClusterView:
        async def look() -> ClusterView:
            cluster = Cluster({"namesrv_addr": self.mq.namesrv_addr, "clock": self.mq.clock}, 10_000)
            cluster.admin.diagnose_group = functools.partial(cluster.admin.diagnose_group, watch_ms=0)
            watcher = Watcher(cluster, self.mq.clock.now_ms, 5_000, Mask(()))
            await watcher.update()
            for name in (row[0] for row in TABLE):
                await watcher.diagnose(name)
            await watcher.update()
            view = watcher.view
            await cluster.shutdown()
            return view

        return asyncio.run(look())

    def metrics(self) -> tuple[Counter[str], Counter[str]]:
        """Lag and dead letters by group."""

        async def samples(broker: Broker) -> list[Any]:
            return list(collect_samples(broker))

        lag, dead = Counter[str](), Counter[str]()
        for broker in (self.mq.broker, self.broker_b):
            for name, labels, value in self.mq._engine.run(samples(broker)):
                if name == "rocketmq_consumer_lag_messages":
                    lag[labels["consumer_group"]] += int(value)
                elif name == "rocketmq_send_to_dlq_messages_total":
                    dead[labels["consumer_group"]] += int(value)
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


def test_every_tool_says_the_same_of_every_kind_of_trouble(
    troubled: TroubledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mq, admin = troubled.mq, troubled.admin
    for name, messages in {"hangs-on-first": 3, "orderly-blocked": 3, "slow": 5, "nobody": 3}.items():
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
    admin.reset_offset("nobody", rmq.MessageQueue("nobody", "broker-a", 0), 0)
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

    summaries = {one.group: one.lag for one in admin.group_summaries()}
    in_metrics, dead = troubled.metrics()
    console = troubled.console().groups
    rows = []
    for name, *_ in TABLE:
        diagnosis = admin.diagnose_group(name, watch_ms=0)
        lags = {
            "lag": admin.lag(name),
            "group list": summaries[name],
            "metrics": in_metrics[name] + NOT_IN_METRICS[name],
            "console": console[name].lag,
        }
        assert len(set(lags.values())) == 1, (name, lags)
        verdict = console[name].verdict.diagnosis.verdict
        assert verdict is diagnosis.verdict, (name, console[name].verdict, diagnosis)
        rows.append((name, lags["lag"], dead[name], verdict.value, console[name].level.value))
    assert rows == TABLE


def _lag_with_progress(admin: rmq.Admin, members: list[rmq.PushConsumer], group: str) -> int:
    for member in members:
        member.persist_offsets()
    return admin.lag(group)
