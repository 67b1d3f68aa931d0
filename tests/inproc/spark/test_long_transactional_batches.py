# SPDX-License-Identifier: Apache-2.0
"""The transactional sink when a batch takes long, or its brokers are away: what is decided appears, what cannot appear is not decided."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import sprocketmq as rmq
from inproc.spark.transactional_sink import (
    ASKED_AT_ONCE,
    GROUP,
    NEVER_ASKED,
    SCHEMA,
    appeared,
    decisions,
    once,
    rocketmq,
    rows,
    stream_writer,
    write,
)
from spark_task import Died, Task, dies, leave_group
from sprocketmq.cli.frame.target import Target
from sprocketmq.cli.settle import settle_half_messages
from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions import responder as responder_module
from sprocketmq.spark.transactions import settling, transactional_write
from sprocketmq.spark.transactions.decision_topic import DecisionTopic
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.spark.transactions.visible_rows import VisibleRows
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import MessageQueue

pytestmark = pytest.mark.slow

GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
# A half is given up some two seconds after it was sent.
ASKED_TWICE = {"transactionTimeOut": 300, "transactionCheckInterval": 500, "transactionCheckMax": 2}


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    Task.begin(monkeypatch)


def given_up(mq: EmbeddedRocketMQ) -> int:
    return len(mq.messages(GIVEN_UP)) if mq._on_loop(lambda: mq.broker.topics.get(GIVEN_UP)) else 0


def decided_and_dead(mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch, *parts: range) -> None:
    """A batch whose processes die between its decision and its ends."""
    sent = write(stream_writer(mq), *parts)
    with monkeypatch.context() as patched:
        patched.setattr(transactional_write.TransactionalWrite, "_end", dies)
        with pytest.raises(Died):
            stream_writer(mq).commit(sent, 0)
    leave_group()


def test_a_batch_whose_halves_are_given_up_is_not_decided() -> None:
    with rocketmq(**ASKED_TWICE) as mq:
        sent = write(stream_writer(mq), range(10))
        mq.wait_until(lambda: given_up(mq) == 10)
        with pytest.raises(
            ConfigurationError,
            match=r"batch 0 is not decided: its oldest row was sent \d+ ms ago, and broker-a .* set transactionTimeOut above",
        ):
            stream_writer(mq).commit(sent, 0)
        assert decisions(mq) == []
        assert appeared(mq) == once()


def test_a_broker_that_stops_after_the_decision_fails_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark would run it again, and a batch write without a name would be written twice."""
    with rocketmq(tmp_path, transactionTimeOut=3_000, transactionCheckInterval=300, transactionCheckMax=1_000) as mq:
        sent = write(stream_writer(mq), range(10))
        decide = transactional_write.TransactionalWrite._decide

        async def decides_and_stops(*given: Any) -> Any:
            settled = await decide(*given)
            await asyncio.to_thread(mq.broker.stop)
            return settled

        settings = SinkOptions.producer_settings
        # With a heartbeat the producer connects again.
        monkeypatch.setattr(
            SinkOptions, "producer_settings", lambda self: {**settings(self), "heartbeat_broker_interval_ms": 200}
        )
        monkeypatch.setattr(transactional_write.TransactionalWrite, "_decide", decides_and_stops)
        with caplog.at_level(logging.WARNING, "sprocketmq.spark"):
            stream_writer(mq, settletimeoutms="1s", retrytimeoutms="1s").commit(sent, 0)
        assert re.search(r"batch 0: decided, but broker-a .* rows appear when it does", caplog.text)
        mq.restart_broker()
        mq.wait_until(lambda: appeared(mq) == once(*range(10)), 90_000)


def test_a_commit_waits_while_the_answer_to_a_question_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round is over, and nothing is settled: a process that ended now would leave decided rows behind."""
    with rocketmq(**ASKED_AT_ONCE) as mq:
        has, failing = VisibleRows.has, Counter({"times": 200})  # ten rounds

        async def fails_at_first(self: VisibleRows, half: Any) -> Any:
            failing["times"] -= 1
            if failing["times"] >= 0:
                raise NetworkError("the index is away")
            return await has(self, half)

        monkeypatch.setattr(VisibleRows, "has", fails_at_first)
        monkeypatch.setattr(responder_module, "_CHECK_PATIENCE_MS", 1)
        stream_writer(mq).commit(write(stream_writer(mq), range(20)), 0)
        leave_group()
        assert failing["times"] < 0
        assert appeared(mq) == once(*range(20))


@pytest.mark.parametrize("by_tool", [True, False], ids=["settle", "restart"])
def test_decided_rows_that_a_broker_gave_up_appear(
    by_tool: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with rocketmq(**{**ASKED_TWICE, "transactionTimeOut": 3_000}) as mq:
        decided_and_dead(mq, monkeypatch, range(10), range(10, 15))
        mq.wait_until(lambda: given_up(mq) == 15, 60_000)
        assert appeared(mq) == once()
        if by_tool:
            assert settle_half_messages(GROUP, ("flights",), Target(mq.namesrv_addr), 60) == 0
            assert "resumed 15 half messages that brokers had given up" in capsys.readouterr().out
        else:
            again = write(stream_writer(mq), range(10), range(10, 15))
            assert [message.skipped for message in again] == [True, True]
            stream_writer(mq).commit(again, 0)
        assert appeared(mq) == once(*range(15))
        assert settle_half_messages(GROUP, ("flights",), Target(mq.namesrv_addr), 60) == 0
        assert "resumed" not in capsys.readouterr().out
        assert appeared(mq) == once(*range(15))


def configure(mq: EmbeddedRocketMQ, **settings: int) -> None:
    with rmq.Admin(namesrv_addr=mq.namesrv_addr) as admin:
        admin.update_broker_config(dict(settings), cluster="DefaultCluster")


@contextmanager
def looks_at_given_up() -> Iterator[list[int]]:
    """The offsets at which the halves are read that brokers gave up."""
    offsets: list[int] = []
    read_queue = settling.read_queue

    async def noted(cluster: Any, address: str, group: str, queue: MessageQueue, offset: int, *rest: Any) -> Any:
        if queue.topic == GIVEN_UP:
            offsets.append(offset)
        return await read_queue(cluster, address, group, queue, offset, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(settling, "read_queue", noted)
        yield offsets


@pytest.mark.parametrize("waits", [True, False], ids=["settled", "settled by the next batch"])
def test_of_what_brokers_gave_up_only_what_came_since_the_oldest_half_is_looked_at(
    waits: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic holds what every group left behind for days, and each batch whose halves are too old for an END looks at it."""
    monkeypatch.setattr(settling, "_EARLIER_MS", 0)  # one clock
    monkeypatch.setattr(responder_module, "_CHECK_PATIENCE_MS", 1)
    has, is_away = VisibleRows.has, Event()

    async def fails_while_away(self: VisibleRows, half: Any) -> Any:
        if is_away.is_set():
            raise NetworkError("the index is away")
        return await has(self, half)

    async def none(*_: object) -> int:
        return 0  # no half is young enough to be ended directly

    monkeypatch.setattr(VisibleRows, "has", fails_while_away)
    monkeypatch.setattr(Responder, "direct_end_window_ms", none)
    with rocketmq(**ASKED_TWICE) as mq, looks_at_given_up() as offsets:
        stream_writer(mq).write(iter(rows(*range(1_000, 1_300))))  # nobody decides them
        mq.wait_until(lambda: given_up(mq) == 300, 60_000)
        configure(mq, transactionTimeOut=3_000)
        is_away.set()
        sent = write(stream_writer(mq), range(10))
        given = {} if waits else {"settletimeoutms": "1ms"}

        def comes_back() -> None:
            mq.wait_until(lambda: given_up(mq) >= 310, 60_000)
            is_away.clear()

        back = Thread(target=comes_back)
        back.start()
        stream_writer(mq, **given).commit(sent, 0)
        back.join()
        if not waits:
            assert "batch 0: decided, but broker-a did not ask about all halves" in caplog.text
            Task.batch = 1
            stream_writer(mq).commit(write(stream_writer(mq), range(10, 12)), 1)
        assert appeared(mq) == once(*range(10 if waits else 12))
        assert offsets
        assert min(offsets) == 300


def test_rows_that_were_given_up_undecided_stay_where_they_are() -> None:
    with rocketmq(**ASKED_TWICE) as mq:
        stream_writer(mq).write(iter(rows(*range(5))))
        mq.wait_until(lambda: given_up(mq) == 5, 60_000)
        assert settle_half_messages(GROUP, ("flights",), Target(mq.namesrv_addr), 60) == 0
        assert appeared(mq) == once()
        assert given_up(mq) == 5


def test_a_decision_that_fits_in_no_message_is_refused() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        sent = write(stream_writer(mq), range(3))
        sent[0].lost = [f"{sent[0].attempt}/{row}/0" for row in range(100_000)]
        with pytest.raises(
            ConfigurationError,
            match=r"batch 0 of q-1 is not decided: its decision is \d+ bytes, of 1 tasks and 100000 sends without",
        ):
            stream_writer(mq).commit(sent, 0)
        assert appeared(mq) == once()


def test_a_write_without_a_name_whose_decision_is_stored_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes it again writes every row twice."""
    with rocketmq(**NEVER_ASKED) as mq:
        given = {"namesrvaddr": mq.namesrv_addr, "topic": "flights", "group": GROUP, "delivery": "transactional"}
        writer = RocketMQDataSource({**given, "retrytimeoutms": "1s"}).writer(SCHEMA, overwrite=False)
        sent = [writer.write(rows(*range(5)))]
        read_newer = DecisionTopic._read_newer

        async def fails_after_the_decision(self: DecisionTopic, upto: int = 0) -> Any:
            if upto:
                raise NetworkError("the ledger is away")
            return await read_newer(self, upto)

        monkeypatch.setattr(DecisionTopic, "_read_newer", fails_after_the_decision)
        writer.commit(sent)
        assert appeared(mq) == once(*range(5))
