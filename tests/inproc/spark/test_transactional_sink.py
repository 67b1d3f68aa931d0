# SPDX-License-Identifier: Apache-2.0
"""The transactional sink, called as Spark calls it, with a real broker: what appears, and what each kind of death leaves behind."""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

import sprocketmq as rmq
from inproc.spark.transactional_sink import (
    ASKED_AT_ONCE,
    GROUP,
    LEDGER,
    NEVER_ASKED,
    SCHEMA,
    appeared,
    decisions,
    once,
    open_halves,
    rocketmq,
    rows,
    stream_writer,
    write,
)
from spark_task import Died, Task, dies, leave_group
from sprocketmq.cli.frame.target import Target
from sprocketmq.cli.settle import settle_half_messages
from sprocketmq.client.produce.async_transaction_producer import AsyncTransactionProducer
from sprocketmq.core.resource_names import HALF_TOPIC
from sprocketmq.core.transactions.decision_ledger import Decision
from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.net.connection import Connection
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions import transactional_write
from sprocketmq.spark.transactions.decision_topic import DecisionTopic
from sprocketmq.spark.transactions.half_messages import HalfMessage, HalfPositions
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.wire.codes import RequestCode


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    Task.begin(monkeypatch)


def test_rows_appear_with_the_commit_and_not_before() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        sent = write(stream_writer(mq), range(50), range(50, 60), range(0))
        assert appeared(mq) == once()
        stream_writer(mq).commit(sent, 0)
        assert appeared(mq) == once(*range(60))
        assert len(decisions(mq)) == 1


def test_a_batch_that_is_decided_is_not_sent_again() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        stream_writer(mq).commit(write(stream_writer(mq), range(10)), 0)
        again = write(stream_writer(mq, settletimeoutms="1ms"), range(10))
        assert [message.skipped for message in again] == [True]
        stream_writer(mq, settletimeoutms="1ms").commit(again, 0)
        assert appeared(mq) == once(*range(10))
        assert len(decisions(mq)) == 1
        Task.batch = 1
        stream_writer(mq).commit(write(stream_writer(mq), range(10, 20)), 1)
        assert appeared(mq) == once(*range(20))


def test_of_two_drivers_that_write_one_batch_the_first_decision_counts() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        one, other = write(stream_writer(mq), range(10)), write(stream_writer(mq), range(10))
        stream_writer(mq).commit(other, 0)
        stream_writer(mq).commit(one, 0)  # hung, and comes back: its halves are rolled back
        assert appeared(mq) == once(*range(10))
        assert len(decisions(mq)) == 1


def test_a_try_of_a_task_that_was_lost_is_rolled_back_by_the_check(caplog: pytest.LogCaptureFixture) -> None:
    with rocketmq(**ASKED_AT_ONCE) as mq:
        write(stream_writer(mq), range(5))  # its message never arrives
        sent = write(stream_writer(mq), range(5))
        stream_writer(mq).commit(sent, 0)
        mq.wait_until(lambda: len(appeared(mq)) == 5 and open_halves(mq) == 0)
        assert appeared(mq) == once(*range(5))


def test_a_driver_killed_after_its_decision_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with rocketmq(**ASKED_AT_ONCE) as mq:
        sent = write(stream_writer(mq), range(20))
        with monkeypatch.context() as patched:
            patched.setattr(transactional_write.TransactionalWrite, "_end", dies)
            with pytest.raises(Died):
                stream_writer(mq).commit(sent, 0)
        again = write(stream_writer(mq), range(20))
        stream_writer(mq).commit(again, 0)
        mq.wait_until(lambda: open_halves(mq) == 0)
        assert appeared(mq) == once(*range(20))


def test_what_a_killed_job_decided_is_settled_by_the_tool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with rocketmq(**ASKED_AT_ONCE) as mq:
        sent = write(stream_writer(mq), range(20))
        monkeypatch.setattr(transactional_write.TransactionalWrite, "_end", dies)
        leave_group()  # nobody of the group is left but who decides and dies
        with pytest.raises(Died):
            stream_writer(mq).commit(sent, 0)
        leave_group()
        code = settle_half_messages(GROUP, ("flights",), Target(mq.namesrv_addr), 60)
        assert code == 0
        assert "COMMIT_MESSAGE" in capsys.readouterr().out
        mq.wait_until(lambda: open_halves(mq) == 0)
        assert appeared(mq) == once(*range(20))


@pytest.mark.parametrize("is_visible", [True, False])
def test_a_half_is_committed_when_asked_about_unless_its_row_is_shown(
    is_visible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        sent = write(stream_writer(mq), range(3))
        with monkeypatch.context() as patched:
            if not is_visible:
                patched.setattr(transactional_write.TransactionalWrite, "_end", dies)
            with nullcontext() if is_visible else pytest.raises(Died):
                stream_writer(mq).commit(sent, 0)
        (responder,) = Responder.shared.values()
        answers = []
        for half in mq.messages(HALF_TOPIC):
            half.topic = half.properties["REAL_TOPIC"]  # as a broker asks
            answers.append(responder.engine.run(responder._check(half)).value)
        assert answers == ["ROLLBACK_MESSAGE" if is_visible else "COMMIT_MESSAGE"] * 3
        assert responder.engine.run(responder.direct_end_window_ms(half.store_host, "flights")) == 600_000


def test_a_broker_that_was_told_to_ask_earlier_is_left_to_ask_from_the_next_batch_on() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        stream_writer(mq).commit(write(stream_writer(mq), range(5)), 0)
        with mq.admin() as admin:
            admin.update_broker_config({"transactionTimeOut": 1}, cluster="DefaultCluster")
        Task.batch = 1
        stream_writer(mq, settletimeoutms="1ms").commit(write(stream_writer(mq), range(5, 9)), 1)
        assert appeared(mq) == once(*range(5)), "ended although the broker may be asking"
        assert open_halves(mq) == 4


def test_an_abort_takes_back_what_was_sent_unless_a_commit_may_have_been_tried() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        sent = write(stream_writer(mq), range(5))
        stream_writer(mq).abort([*sent, None], 0)
        assert open_halves(mq) == 0
        sent = write(stream_writer(mq), range(5))
        stream_writer(mq).abort(sent, 0)
        assert open_halves(mq) == 5
        stream_writer(mq).commit(sent, 0)
        assert appeared(mq) == once(*range(5))


@pytest.mark.parametrize("is_begun", [True, False], ids=["many at once", "one by one"])
def test_a_row_whose_answer_was_lost_appears_once(is_begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored all the same, and sent again under another name."""
    with rocketmq(**ASKED_AT_ONCE) as mq:
        producer = AsyncTransactionProducer
        begin, send = producer.begin_prepared, producer.send_prepared
        unlucky = {3, 7}
        keys: set[str] = set()

        def begins(self: Any, message: Any, **how: Any) -> Any:
            begun = begin(self, message, **how) if is_begun else None
            if begun is not None and int(message.body) in unlucky:
                real, begun.trying.answer = begun.answer, begun.answer.get_loop().create_future()
                lost = NetworkError("the answer was lost")
                real.add_done_callback(lambda _: begun.trying.answer.set_exception(lost))
            return begun

        async def loses_answers(self: Any, message: Any, **how: Any) -> Any:
            answer = await send(self, message, **how)
            keys.add(answer[0].message_id)
            if int(message.body) in unlucky:
                unlucky.discard(int(message.body))
                if not is_begun:
                    raise NetworkError("the answer was lost")
            return answer

        monkeypatch.setattr(producer, "begin_prepared", begins)
        monkeypatch.setattr(producer, "send_prepared", loses_answers)
        stream_writer(mq).commit(write(stream_writer(mq), range(20, 21)), 0)  # from now on the route is known
        Task.batch = 1
        sent = write(stream_writer(mq), range(10))
        assert len(sent[0].lost) == 2
        halves = [half for half in mq.messages(HALF_TOPIC) if half.properties["SPARK_BATCH_ID"] == "1"]
        first_tries = {half.message_id for half in halves if "TRANSACTION_CHECK_TIMES" not in half.properties}
        assert len(first_tries) == 12, "an answer for one half would end another"
        stream_writer(mq).commit(sent, 1)
        mq.wait_until(lambda: open_halves(mq) == 0)
        assert appeared(mq) == once(20, *range(10))


def test_a_commit_waits_for_halves_whose_ends_were_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker never heard of them, and asks."""
    with rocketmq(transactionTimeOut=2_000, transactionCheckInterval=200) as mq:
        sent = write(stream_writer(mq), range(6))
        monkeypatch.setattr(Connection, "start_send", lost_ends(Connection.start_send))
        stream_writer(mq).commit(sent, 0)
        assert appeared(mq) == once(*range(6))


def lost_ends(start_send: Any) -> Any:
    """A connection that loses every second END on its way."""
    count = itertools.count()

    def loses(self: Any, opaque: int, frame: bytes, code: int, timeout_ms: int) -> Any:
        if code == RequestCode.END_TRANSACTION and next(count) % 2:
            lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            lost.set_exception(NetworkError("the connection broke"))
            return lost
        return start_send(self, opaque, frame, code, timeout_ms)

    return loses


def test_rows_of_one_key_keep_their_order() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        sent = write(stream_writer(mq), range(200), key="N14228")
        assert [positions.in_order for positions in sent[0].half_positions] == [True]
        stream_writer(mq).commit(sent, 0)
        stored = mq.messages("flights")
        assert len({message.queue_id for message in stored}) == 1
        assert [int(message.body) for message in sorted(stored, key=lambda message: message.queue_offset)] == list(
            range(200)
        )


def test_a_write_with_a_version_is_made_once_and_one_without_each_time() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        given = {"namesrvaddr": mq.namesrv_addr, "topic": "flights", "group": GROUP, "delivery": "transactional"}
        for version in ("0", "0", "1", None, None):
            named = {} if version is None else {"txnappid": "loads", "txnversion": version, "settletimeoutms": "1ms"}
            writer = pickle.loads(pickle.dumps(RocketMQDataSource({**given, **named}).writer(SCHEMA, overwrite=False)))
            writer.commit([writer.write(rows(0)), writer.write(rows(1))])
        assert appeared(mq) == Counter({0: 4, 1: 4})
        old = RocketMQDataSource({**given, "txnappid": "loads", "txnversion": "5"}).writer(SCHEMA, overwrite=False)
        old.commit([old.write(rows(2))])
        passed = RocketMQDataSource({**given, "txnappid": "loads", "txnversion": "3"}).writer(SCHEMA, overwrite=False)
        with pytest.raises(ConfigurationError, match="batch 3 of loads was never decided"):
            passed.write(rows(2))


def test_a_named_batch_to_several_topics_that_comes_again_with_other_rows_can_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rows expired, or a table that it is joined with was changed: it is the same write, though not to the same topics."""
    columns = StructType([*SCHEMA.fields, StructField("topic", StringType())])

    def named(*topics: str, passes: bool = False) -> None:
        options = {
            "namesrvaddr": mq.namesrv_addr,
            "group": GROUP,
            "delivery": "transactional",
            "settletimeoutms": "1ms",
        }
        decided = {"ondecidedbatch": "pass"} if passes else {}
        source = RocketMQDataSource({**options, **decided, "txnappid": "loads", "txnversion": "0"})
        writer = source.writer(columns, overwrite=False)
        (batch,) = rows(*range(len(topics)))
        writer.commit([writer.write(iter([batch.append_column("topic", pa.array(topics, pa.string()))]))])

    with rocketmq(**NEVER_ASKED) as mq:
        mq.create_topic("delays", queues=1)
        named("flights", "flights", "delays")
        for topics in (("flights",), (), ("flights", "delays", "trains", "trains")):
            with pytest.raises(ConfigurationError, match=f"decided with 3 rows, and now it has {len(topics)};"):
                named(*topics)
            named(*topics, passes=True)
            assert f"now it has {len(topics)}: onDecidedBatch=pass" in caplog.text
        for topics in (("flights",) * 3, ("trains",)):  # other writes
            with pytest.raises(ConfigurationError, match="give each write of a batch a txnAppId of its own"):
                named(*topics, passes=True)
        assert (appeared(mq), len(mq.messages("delays"))) == (once(0, 1), 1)


def test_a_ledger_that_is_missing_is_not_made_anew_under_a_running_query() -> None:
    with rocketmq(**NEVER_ASKED) as mq:
        Task.batch = 7
        with pytest.raises(NetworkError, match="the ledger topic 'SPROCKETMQ_DECISIONS_exact' has no route"):
            stream_writer(mq, retrytimeoutms="200ms").write(rows(1))


def test_a_new_query_reads_the_ledger_back_to_the_last_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_write, "_SUMMARY_EVERY_RECORDS", 100)
    read: list[int] = []
    part = DecisionTopic._part

    async def counted(self: DecisionTopic, queue: Any, start: int, end: int) -> Any:
        read.append(end - start)
        return await part(self, queue, start, end)

    monkeypatch.setattr(DecisionTopic, "_part", counted)
    with rocketmq(**NEVER_ASKED) as mq:
        mq.create_topic(LEDGER, queues=1)
        with mq.producer() as producer:
            old = [Decision("q-0", batch, frozenset({f"a{batch}"}), batch) for batch in range(800)]
            producer.send_batch([rmq.Message(LEDGER, decision.encode()) for decision in old])
        counts = []
        for number, query in enumerate(("new-1", "new-2")):
            Task.query = query
            stream_writer(mq).commit(write(stream_writer(mq), range(number, number + 1)), 0)
            counts.append(sum(read))
            read.clear()
            leave_group()  # the next one reads for itself
        assert counts[0] > 800
        assert counts[1] < 50
        assert appeared(mq) == once(0, 1)
        Task.query, Task.batch = "q-0", 799
        assert [message.skipped for message in write(stream_writer(mq), range(3))] == [True]


def test_a_delayed_row_is_refused_and_what_was_sent_is_taken_back() -> None:
    schema = pa.schema([("body", pa.binary()), ("delayLevel", pa.int32())])
    with rocketmq(**NEVER_ASKED) as mq:
        batches = [pa.record_batch([[b"1"], [None]], schema=schema), pa.record_batch([[b"2"], [3]], schema=schema)]
        with pytest.raises(ConfigurationError, match="has a delay, which delivery=transactional cannot keep"):
            stream_writer(mq).write(iter(batches))
        assert open_halves(mq) == 0


def test_positions_are_small_and_come_back_as_they_were() -> None:
    halves = [HalfMessage(1000 + at, 5_000_000 + 300 * at, 1_700_000_000_000 + at // 7) for at in range(10_000)]
    positions = HalfPositions.of("flights", "broker-a", False, halves)
    assert list(positions) == halves
    assert len(positions.packed) < 20_000
