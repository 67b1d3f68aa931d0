# SPDX-License-Identifier: Apache-2.0
"""A client instance without a broker: when its periodic work runs, what goes on when a part of it fails, and what its heartbeats say."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest

from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire import bodies
from sprocketmq.wire.bodies import BrokerData, QueueData, TopicRouteData

NAME_SERVER: Final = "127.0.0.1:1"  # nobody listens there, and nobody is asked
FAILURES: Final = (None, NetworkError, ValueError)
WORK: Final = {
    "routes": (ClientInstance, "_refresh_routes"),
    "heartbeats": (ClientInstance, "_clean_and_heartbeat"),
    "progress": (ClientInstance, "_persist_offsets"),
    "pools": (ClientInstance, "_adjust_pools"),
    "name servers": (NameServers, "reread"),
}


class Member:
    """A consumer that notes what it is asked to do, and when."""

    def __init__(self, group: str, clock: ManualClock) -> None:
        self.name = group
        self.topics: set[str] = set()
        self._clock, self._begin_ms = clock, clock.now_ms()
        self.called: defaultdict[str, list[int]] = defaultdict(list)
        self.balanced = True
        self.failure: type[Exception] | None = None
        self.hangs = False

    async def _do(self, work: str) -> None:
        self.called[work].append(self._clock.now_ms() - self._begin_ms)
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure("no")

    def consumer_data(self) -> bodies.ConsumerData:
        return bodies.ConsumerData(group_name=self.name)

    async def rebalance(self) -> bool:
        await self._do("rebalance")
        return self.balanced

    async def persist_offsets(self) -> None:
        await self._do("progress")

    def adjust_pool(self) -> None:
        self.called["pools"].append(self._clock.now_ms() - self._begin_ms)
        if self.failure is not None:
            raise self.failure("no")


class Bench:
    """Instances on a loop of their own, whose time the test moves. Each call runs on that loop."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.engine = Engine("instance-under-test")
        self._taken: list[ClientInstance] = []

    def on_loop(self, call: Callable[..., Any], *given: Any) -> Any:
        async def run() -> Any:
            done = call(*given)
            return await done if isinstance(done, Awaitable) else done

        return self.engine.run(run())

    def advance(self, delay_ms: int) -> None:
        """Move the time on by seconds; what falls due has come to its next wait before the time goes on."""

        async def settle() -> None:
            for _ in range(10):
                await asyncio.sleep(0)

        for _ in range(delay_ms // 1_000):
            self.clock.advance(1_000)
            self.engine.run(settle())

    def acquire(self, **options: Any) -> ClientInstance:
        instance = self.on_loop(ClientInstance.acquire, ClientOptions(clock=self.clock, **options), "10.0.0.1@one")
        self._taken.append(instance)
        return instance

    def release(self) -> None:
        instance = self._taken.pop()
        self.on_loop(instance.release, instance._options)

    def member(self, instance: ClientInstance, group: str) -> Member:
        member = Member(group, self.clock)
        self.on_loop(instance.add_consumer, member)
        return member

    def close(self) -> None:
        while self._taken:
            self.release()
        self.engine.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def _noted_work(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, failure: type[Exception] | None = None
) -> dict[str, list[int]]:
    """The times of each periodic work from now on; each fails with ``failure``."""
    times: dict[str, list[int]] = {name: [] for name in WORK}
    begin_ms = bench.clock.now_ms()

    def noted(name: str) -> Callable[[object], Awaitable[None]]:
        async def work(self: object) -> None:
            times[name].append(bench.clock.now_ms() - begin_ms)
            if failure is not None:
                raise failure("no")

        return work

    for name, (owner, method) in WORK.items():
        monkeypatch.setattr(owner, method, noted(name))
    return times


@pytest.mark.parametrize("failure", FAILURES)
def test_periodic_work_runs_when_javas_does_also_after_failures(bench, monkeypatch, failure):
    monkeypatch.setenv("NAMESRV_ADDR", NAME_SERVER)
    times = _noted_work(bench, monkeypatch, failure)
    bench.acquire()
    bench.advance(260_000)
    assert times == {
        "routes": list(range(30_000, 260_000, 30_000)),  # Java: first after 10 ms, though who starts has just asked
        "heartbeats": list(range(1_000, 260_000, 30_000)),
        "progress": list(range(10_000, 260_001, 5_000)),
        "pools": [60_000, 120_000, 180_000, 240_000],
        "name servers": [10_000, 130_000, 250_000],
    }


def test_a_list_of_name_servers_that_was_given_is_not_read_again(bench, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:2")
    times = _noted_work(bench, monkeypatch)
    instance = bench.acquire(namesrv_addr=NAME_SERVER)
    bench.advance(260_000)
    assert times["name servers"] == []
    assert instance.cluster.name_servers.addresses == [NAME_SERVER]


def test_an_instance_works_from_its_first_user_to_its_last(bench, monkeypatch):
    times = _noted_work(bench, monkeypatch)
    first, second = (bench.acquire(namesrv_addr=NAME_SERVER) for _ in range(2))
    assert first is second
    bench.advance(5_000)
    bench.release()
    bench.advance(30_000)
    assert times["heartbeats"] == [1_000, 31_000], "once each, also after the first user has left"
    bench.release()
    bench.advance(60_000)
    assert times["heartbeats"] == [1_000, 31_000]
    assert bench.acquire(namesrv_addr=NAME_SERVER) is not first


def test_a_group_has_one_consumer_at_a_time_and_an_instance_has_many_groups(bench):
    instance = bench.acquire(namesrv_addr=NAME_SERVER)
    bench.member(instance, "delays")
    bench.member(instance, "weather")
    with pytest.raises(ConfigurationError, match="has a consumer of group 'delays' already"):
        bench.member(instance, "delays")
    bench.on_loop(instance.remove_consumer, "delays")
    bench.member(instance, "delays")


def test_a_consumer_is_rebalanced_each_20_s_and_each_second_while_it_has_not_what_it_should_have(bench):
    instance = bench.acquire(namesrv_addr=NAME_SERVER)
    member = bench.member(instance, "delays")
    times = member.called["rebalance"]
    bench.advance(45_000)
    assert times == [20_000, 40_000]
    bench.on_loop(instance.rebalance_soon)  # the broker says that the group changed
    bench.on_loop(asyncio.sleep, 0)
    assert times[2:] == [45_000]
    for _ in range(1_000):
        bench.on_loop(instance.rebalance_soon)
    member.balanced = False
    bench.advance(4_000)
    assert times[3:] == [46_000, 47_000, 48_000, 49_000]
    member.balanced = True
    bench.advance(41_000)
    assert times[7:] == [50_000, 70_000, 90_000]


@pytest.mark.parametrize("failure", FAILURES[1:])
def test_a_member_that_fails_is_asked_again_and_keeps_no_other_from_its_work(bench, caplog, failure):
    instance = bench.acquire(namesrv_addr=NAME_SERVER)
    sick, well = bench.member(instance, "a-sick"), bench.member(instance, "well")
    sick.failure = failure
    bench.advance(61_000)
    for member in (sick, well):
        assert member.called["progress"] == list(range(10_000, 61_000, 5_000))
        assert member.called["pools"] == [60_000]
    assert well.called["rebalance"] == [20_000, 40_000, 60_000]
    assert sick.called["rebalance"] == list(range(20_000, 61_001, 1_000))
    said = [record.getMessage() for record in caplog.records]
    works = ("the periodic offsets", "the periodic pools", "rebalance")[: 1 if failure is NetworkError else 3]
    assert all(any(f"group a-sick: {work} failed" in text for text in said) for work in works)
    assert len(said) <= 5


def test_a_member_that_hangs_keeps_no_other_from_its_work(bench):
    instance = bench.acquire(namesrv_addr=NAME_SERVER)
    sick, well = bench.member(instance, "a-sick"), bench.member(instance, "well")
    sick.hangs = True
    bench.advance(41_000)
    assert sick.called == {"progress": [10_000], "rebalance": [20_000]}
    assert well.called["progress"] == [10_000]
    assert well.called["rebalance"] == [20_000, 40_000]


def _route(*brokers: tuple[str, dict[int, str]]) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[QueueData(name, 1, 1, 6) for name, _ in brokers],
        broker_datas=[BrokerData("c", name, addresses) for name, addresses in brokers],
    )


def test_a_heartbeat_names_all_groups_and_goes_to_all_brokers_of_all_topics(bench):
    instance = bench.acquire(namesrv_addr=NAME_SERVER)
    said: dict[str, tuple[list[str], list[str]]] = {}

    async def heartbeat(asked: object, *, at: str, body: bytes) -> None:
        data = bodies.HeartbeatData.decode(body)
        producers = [producer.group_name for producer in data.producer_data_set]
        said[at] = (producers, [consumer.group_name for consumer in data.consumer_data_set])
        assert data.client_id == "10.0.0.1@one"

    async def unknown(topic: str) -> None:
        """The name server does not know it: what is known stays."""

    instance.cluster.ask = heartbeat  # type: ignore[assignment, method-assign]
    instance.cluster.name_servers.route = unknown  # type: ignore[method-assign, assignment]
    instance.cluster.routes.table.update("sent", _route(("broker-a", {0: "a:1", 1: "slave-of-a:1"})))
    instance.cluster.routes.table.update("read", _route(("broker-b", {0: "b:1"}), ("broker-c", {0: "c:1"})))
    bench.on_loop(instance.add_sender, SendSettings(group="ops", topics=["sent"]))
    producers = ["CLIENT_INNER_PRODUCER", "ops"]
    bench.advance(1_000)
    assert said == dict.fromkeys(("a:1", "b:1", "c:1"), (producers, [])), "slaves do not know producers"
    assert instance.topics == {"sent"}
    bench.member(instance, "delays").topics = {"read"}
    bench.member(instance, "weather").topics = {"read", "new"}
    said.clear()
    bench.advance(30_000)
    everybody = ("a:1", "slave-of-a:1", "b:1", "c:1")
    assert said == dict.fromkeys(everybody, (producers, ["delays", "weather"]))
    assert instance.topics == {"sent", "read", "new"}


def test_only_connections_to_brokers_that_no_route_names_are_closed(bench):
    class Pool:
        addresses = ("10.0.0.1:10911", "10.0.0.1:10909", "10.0.0.2:10911", "10.0.0.2:10909", NAME_SERVER)

        def __init__(self) -> None:
            self.closed: list[str] = []

        def close_connection(self, address: str) -> None:
            self.closed.append(address)

    instance = bench.acquire(namesrv_addr=NAME_SERVER)
    instance.cluster.routes.table.update("flights", _route(("broker-a", {0: "10.0.0.1:10911"})))

    async def silent(*args: object, **how: object) -> None:
        """Nothing is sent."""

    instance.cluster.ask = silent  # type: ignore[assignment, method-assign]
    pool = Pool()
    real, instance.cluster.pool = instance.cluster.pool, pool  # type: ignore[assignment]
    try:
        bench.advance(1_000)
    finally:
        instance.cluster.pool = real
    assert pool.closed == ["10.0.0.2:10911", "10.0.0.2:10909"]
