# SPDX-License-Identifier: Apache-2.0
"""The ledger has one place: its broker may be away when a batch begins, and comes back; two ledgers are made one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sprocketmq as rmq
from inproc.spark.transactional_sink import LEDGER, SCHEMA, appeared, stream_writer, write
from spark_task import Task, leave_group
from sprocketmq.broker.broker import Broker
from sprocketmq.broker.settings.config import BrokerConfig
from sprocketmq.cli.frame.target import Target
from sprocketmq.cli.settle import merge_ledgers
from sprocketmq.core.transactions.decision_ledger import Decision, DecisionLedger, QuerySummary
from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions.ledger_location import (
    PERM_NONE,
    PERM_READ,
    PERM_READ_WRITE,
    _make_placeholder,
    set_permission,
)
from sprocketmq.spark.transactions.ledger_merge import MergedDecisions
from sprocketmq.spark.write.writer import BatchWriter, StreamWriter
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import MessageQueue

HOME, OTHER = "a-home", "broker-a"


class Pair:
    """A name server with the brokers ``broker-a``, which has the topic, and ``a-home``, the first by name, which stops and starts."""

    def __init__(self, mq: EmbeddedRocketMQ, store_dir: Path) -> None:
        self.mq = mq
        self._store_dir = store_dir
        self.home: Broker | None = None
        self._port = 0
        self.start()

    def start(self, flush: str = "SYNC_FLUSH") -> None:
        config = BrokerConfig.from_properties({"flushDiskType": flush})
        self.home = Broker(self.mq.namesrv_addr, "127.0.0.1", self._port, self._store_dir, HOME, config=config)
        self.home.start()
        self._port = self.home.port

    def stop(self) -> None:
        if self.home is not None:
            self.home.stop()
            self.home = None

    def address(self, name: str) -> str:
        if name == OTHER:
            return self.mq.broker_addr
        assert self.home is not None
        return self.home.address

    @property
    def cluster(self) -> Cluster:
        return Cluster.at(self.mq.namesrv_addr)

    def permissions(self) -> dict[str, int]:
        route = self.cluster.engine.run(self.cluster.name_servers.route(LEDGER))
        return {} if route is None else {data.broker_name: data.perm for data in route.queue_datas}

    def make(self, name: str, permission: int = PERM_READ_WRITE) -> None:
        self.cluster.engine.run(set_permission(self.cluster, self.address(name), LEDGER, permission))
        self.mq.wait_until(lambda: self.permissions().get(name) == permission)

    def store(self, name: str, *records: Decision | QuerySummary) -> None:
        with self.mq.producer() as producer:
            for record in records:
                producer.send(rmq.Message(LEDGER, record.encode()), queue=MessageQueue(LEDGER, name, 0))

    def decided(self) -> list[tuple[str, int]]:
        """Query and batch of each decision that the other broker holds."""
        found = [Decision.decode(message.body) for message in self.mq.messages(LEDGER)]
        return [(decision.query, decision.batch) for decision in found if decision is not None]


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Pair]:
    Task.begin(monkeypatch)
    with EmbeddedRocketMQ(clock="system", transactionTimeOut=600_000, flushDiskType="SYNC_FLUSH") as mq:
        mq.create_topic("flights", queues=2)
        brokers = Pair(mq, tmp_path / "home")
        mq.wait_until(
            lambda: len(brokers.cluster.run(brokers.cluster.name_servers.cluster_info).broker_addr_table) == 2
        )
        yield brokers
        leave_group()
        brokers.stop()


def writer(pair: Pair, **options: str) -> StreamWriter:
    return stream_writer(pair.mq, **{"retrytimeoutms": "300ms", "settletimeoutms": "1ms", **options})


def batch_writer(pair: Pair) -> BatchWriter:
    given = {"namesrvaddr": pair.mq.namesrv_addr, "topic": "flights", "group": "exact", "delivery": "transactional"}
    return RocketMQDataSource({**given, "retrytimeoutms": "300ms"}).writer(SCHEMA, overwrite=False)


def run(pair: Pair, *numbers: int) -> None:
    sink = writer(pair, retrytimeoutms="30s")
    sink.commit(write(sink, numbers), Task.batch)


@pytest.mark.parametrize("begin", ["batch 0", "a batch write"])
def test_no_second_ledger_is_made_while_the_broker_of_the_first_is_away(pair: Pair, begin: str) -> None:
    run(pair, 1)
    pair.stop()
    leave_group()  # who goes on without a restart learns of the broker's return with its routes, each 30 s
    Task.query = "q-2"
    with pytest.raises(
        NetworkError, match=r"lies on a broker that is not registered now, and only a placeholder is on broker-a"
    ):
        write(writer(pair) if begin == "batch 0" else batch_writer(pair), [2])
    pair.start()
    pair.mq.wait_until(lambda: pair.permissions() == {HOME: PERM_READ_WRITE, OTHER: PERM_NONE})
    run(pair, 2)
    Task.query = "q-1"
    run(pair, 1)  # decided, so nothing is sent
    assert appeared(pair.mq) == Counter([1, 2])


def test_a_task_waits_for_the_broker_of_the_ledger(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    run(pair, 1)
    pair.stop()
    leave_group()
    Task.batch = 1
    waited: list[float] = []
    retrying = Cluster.retrying

    async def comes_back(self: Cluster, ask: Callable[[], object], patience_ms: int | None = None) -> object:
        try:
            return await ask()  # type: ignore[misc]
        except NetworkError:
            waited.append(1)
            assert pair.home is None
            await __import__("asyncio").to_thread(pair.start)
        return await retrying(self, ask, patience_ms)  # type: ignore[arg-type]

    monkeypatch.setattr(Cluster, "retrying", comes_back)
    sink = writer(pair, retrytimeoutms="30s")
    sink.commit(write(sink, [2]), 1)
    assert waited
    assert appeared(pair.mq) == Counter([1, 2])


def test_of_two_ledgers_the_one_without_decisions_keeps_the_place(pair: Pair) -> None:
    """As an older version made it while the first one's broker was away."""
    pair.make(HOME)
    pair.make(OTHER)
    pair.store(OTHER, Decision("q-1", 0, frozenset({"gone"}), 0, frozenset(), 1))
    run(pair, 1)
    assert appeared(pair.mq) == Counter(), "it was decided at the other broker"
    pair.mq.wait_until(lambda: pair.permissions() == {HOME: PERM_NONE, OTHER: PERM_READ_WRITE})


def test_of_two_ledgers_with_decisions_none_is_forgotten(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    pair.make(HOME)
    pair.make(OTHER)
    old = [Decision("q-0", batch, frozenset({f"a{batch}"}), batch) for batch in range(3)]
    pair.store(HOME, *old)
    pair.store(OTHER, Decision("q-1", 0, frozenset({"b"}), 0, frozenset(), 1), QuerySummary(frozenset({"q-1"}), 1))
    with pytest.raises(ConfigurationError, match=f"run 'sprocketmq merge-ledger {LEDGER} --into a-home', which copies"):
        write(writer(pair), [1])
    assert merge_ledgers(LEDGER, OTHER, (), "exact", Target(pair.mq.namesrv_addr)) == 0
    assert "3 decisions of q-0 copied to broker-a; placeholder on: a-home" in capsys.readouterr().out
    pair.mq.wait_until(lambda: pair.permissions() == {HOME: PERM_NONE, OTHER: PERM_READ_WRITE})
    run(pair, 1)
    Task.query = "q-0"
    for Task.batch in range(3):
        (message,) = write(writer(pair), [7])
        assert message.skipped
    Task.batch = 3
    run(pair, 8)
    assert appeared(pair.mq) == Counter([8])


def test_a_home_whose_emptying_was_cut_off_can_still_be_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed before it looked: a decision that came in between is not behind a place holder."""
    pair.make(HOME)
    pair.make(OTHER)
    pair.store(OTHER, Decision("q-1", 0, frozenset({"gone"}), 0, frozenset(), 1))

    class Killed(Exception):
        pass

    async def killed(*_where: object, **_how: object) -> int:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Cluster, "ask_queue", killed)
        with pytest.raises(Killed):
            pair.cluster.engine.run(_make_placeholder(pair.cluster, LEDGER, HOME, pair.address(HOME)))
    pair.mq.wait_until(lambda: pair.permissions() == {HOME: PERM_READ, OTHER: PERM_READ_WRITE})
    run(pair, 1)
    assert appeared(pair.mq) == Counter(), "it was decided at the other broker"
    pair.mq.wait_until(lambda: pair.permissions() == {HOME: PERM_NONE, OTHER: PERM_READ_WRITE})


def test_of_two_empty_ledgers_the_one_that_can_be_written_is_kept(pair: Pair) -> None:
    pair.make(HOME, PERM_READ)
    pair.make(OTHER)
    run(pair, 1)
    assert appeared(pair.mq) == Counter([1])
    pair.mq.wait_until(lambda: pair.permissions() == {HOME: PERM_NONE, OTHER: PERM_READ_WRITE})


def of_one_query(query: str, *batches: tuple[int, str]) -> DecisionLedger:
    ledger = DecisionLedger(len(batches))
    records = [(at, Decision(query, batch, frozenset({task}), at)) for at, (batch, task) in enumerate(batches)]
    ledger.read_older(records, 0, 0)
    return ledger


def test_two_other_ledgers_that_decided_a_batch_differently_are_an_error() -> None:
    known = MergedDecisions(of_one_query("q-0", (0, "a")), "broker-a")
    assert len(known.add_missing(of_one_query("q-1", (0, "b"), (1, "b")), "broker-b", ())) == 2
    assert known.add_missing(of_one_query("q-1", (0, "b"), (1, "b")), "broker-c", ()) == []
    with pytest.raises(ConfigurationError, match="batch 1 of q-1 was decided at broker-d and otherwise at broker-b"):
        known.add_missing(of_one_query("q-1", (0, "b"), (1, "d")), "broker-d", ())
    assert known.add_missing(of_one_query("q-1", (0, "d")), "broker-d", ["q-1"]) == []


def test_a_batch_that_both_ledgers_decided_is_an_error(pair: Pair) -> None:
    pair.make(HOME)
    pair.make(OTHER)
    pair.store(HOME, Decision("q-1", 0, frozenset({"a"}), 0), Decision("q-2", 0, frozenset({"c"}), 0))
    pair.store(OTHER, Decision("q-1", 0, frozenset({"b"}), 0))
    with pytest.raises(ConfigurationError, match="batch 0 of q-1 was decided at a-home and otherwise at broker-a"):
        merge_ledgers(LEDGER, OTHER, (), "exact", Target(pair.mq.namesrv_addr))
    assert pair.permissions() == {HOME: PERM_READ_WRITE, OTHER: PERM_READ_WRITE}
    with pytest.raises(ConfigurationError, match="--into is 'nowhere', and the ledger .* is on a-home, broker-a"):
        merge_ledgers(LEDGER, "nowhere", (), "exact", Target(pair.mq.namesrv_addr))
    assert merge_ledgers(LEDGER, OTHER, ("q-1",), "exact", Target(pair.mq.namesrv_addr)) == 0
    assert pair.decided() == [("q-1", 0), ("q-2", 0)]


def test_a_merge_that_was_stopped_half_way_is_gone_on_with(pair: Pair) -> None:
    pair.make(HOME)
    pair.make(OTHER)
    first = Decision("q-0", 0, frozenset({"a0"}), 0)
    pair.store(HOME, first, Decision("q-0", 1, frozenset({"a1"}), 1))
    pair.store(OTHER, first)
    pair.make(HOME, PERM_READ)
    assert merge_ledgers(LEDGER, OTHER, (), "exact", Target(pair.mq.namesrv_addr)) == 0
    assert pair.decided() == [("q-0", 0), ("q-0", 1)]


def test_a_ledger_that_a_power_cut_can_shorten_is_reported(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "sprocketmq.spark"):
        run(pair, 1)
        assert "flushDiskType" not in caplog.text
        pair.stop()
        pair.start("ASYNC_FLUSH")
        leave_group()
        Task.batch = 1
        run(pair, 2)
    assert "a-home with flushDiskType=ASYNC_FLUSH: a power cut of its machine may take decisions" in caplog.text
