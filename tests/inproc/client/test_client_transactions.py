# SPDX-License-Identifier: Apache-2.0
"""Transactions from the producer's side: halves, local work, check-backs, and what a broker hears of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from recorder import noted

import sprocketmq as rmq
from sprocketmq.net.connection import Connection, RequestHandler
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records import properties as props

COMMIT, ROLLBACK, UNKNOWN = rmq.LocalTransactionState
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


class Asked:
    """A check callback that remembers who was asked about, in which thread, and answers as it is told."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.messages: list[rmq.MessageExt] = []
        self.threads: list[str] = []

    def __call__(self, message: rmq.MessageExt) -> rmq.LocalTransactionState:
        self.messages.append(message)
        self.threads.append(threading.current_thread().name)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]


def producer(rocketmq: EmbeddedRocketMQ, check: Callable[..., object], **options: Any) -> rmq.TransactionProducer:
    return rmq.TransactionProducer(
        "ops",
        check=check,  # type: ignore[arg-type]
        namesrv_addr=rocketmq.namesrv_addr,
        clock=rocketmq.clock,
        **options,
    )


def ends(rocketmq: EmbeddedRocketMQ) -> list[Command]:
    """Every END_TRANSACTION from now on; none is touched."""
    return noted(rocketmq, RequestCode.END_TRANSACTION)


def bodies(rocketmq: EmbeddedRocketMQ) -> list[bytes]:
    return [message.body for message in rocketmq.messages("flights")]


def message(body: bytes = b"x") -> rmq.Message:
    return rmq.Message("flights", body, tags="UA")


def test_a_commit_shows_the_message_and_a_rollback_never_does(rocketmq):
    rocketmq.create_topic("flights", queues=2)
    here = threading.current_thread()
    seen: list[tuple[rmq.Message, bool, list[bytes]]] = []

    def execute(sent: rmq.Message) -> rmq.LocalTransactionState:
        seen.append((sent, threading.current_thread() is here, bodies(rocketmq)))
        return COMMIT if sent.body == b"yes" else ROLLBACK

    with producer(rocketmq, Asked(UNKNOWN)) as ops:
        yes = ops.send_in_transaction(message(b"yes"), execute=execute)
        no = ops.send_in_transaction(message(b"no"), execute=execute)
        rocketmq.wait_until(lambda: bodies(rocketmq) == [b"yes"])
    assert (yes.status, yes.local_transaction_state, yes.local_failure) == (rmq.SendStatus.SEND_OK, COMMIT, None)
    assert no.local_transaction_state is ROLLBACK
    (stored,) = rocketmq.messages("flights")
    assert stored.message_id == yes.message_id
    assert [(sent.transaction_id, same_thread) for sent, same_thread, _ in seen] == [
        (yes.message_id, True),
        (no.message_id, True),
    ], "a plain execute runs in the sender's thread, after the half has its id"
    assert seen[0][2] == [], "nobody sees the message while the local transaction runs"


def test_a_transaction_that_nobody_ended_is_asked_for_in_a_thread_of_the_producer(rocketmq):
    asked = Asked(UNKNOWN, OSError("no database"), "COMMIT_MESSAGE", COMMIT)
    with producer(rocketmq, asked) as ops:
        result = ops.send_in_transaction(message(), execute=lambda sent: UNKNOWN)
        rocketmq.advance_until(lambda: bodies(rocketmq) == [b"x"], step_ms=10_000, patience_ms=100)
    assert result.local_transaction_state is UNKNOWN
    assert len(asked.messages) == 4, "it did not know, it failed, it said nonsense, it knew"
    first = asked.messages[0]
    assert (first.topic, first.body, first.tags, first.transaction_id) == ("flights", b"x", "UA", result.message_id)
    assert first.properties[props.TRANSACTION_CHECK_TIMES] == "1"
    assert all(name.startswith("sprocketmq-check-ops") for name in asked.threads)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ValueError("out of money"), "ValueError: out of money"),
        (Unspeakable(), "Unspeakable: its text cannot be had (RuntimeError)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_execute_raises_is_in_the_result_and_the_broker_asks(rocketmq, failure, text):
    told = ends(rocketmq)

    def execute(sent: rmq.Message) -> rmq.LocalTransactionState:
        raise failure

    with producer(rocketmq, Asked(ROLLBACK)) as ops:
        result = ops.send_in_transaction(message(), execute=execute)
        rocketmq.wait_until(lambda: len(told) == 1)
        assert told[0].remark == f"execute raised {text}"
        rocketmq.advance_until(lambda: len(told) == 2, step_ms=10_000, patience_ms=100)
    assert result.local_transaction_state is UNKNOWN
    assert result.local_failure is failure
    assert [command.ext_fields["commitOrRollback"] for command in told] == ["0", "12"]
    assert bodies(rocketmq) == []


def test_what_check_and_execute_raise_is_logged_with_the_traceback_and_the_keys(rocketmq, caplog):
    caplog.set_level(logging.DEBUG, "sprocketmq.client")

    def execute(sent: rmq.Message) -> rmq.LocalTransactionState:
        raise ValueError("out of money")

    def look(half: rmq.MessageExt) -> rmq.LocalTransactionState:
        asked.append(half)
        if len(asked) < 3:
            raise OSError("no database")
        return ROLLBACK

    asked: list[rmq.MessageExt] = []
    with producer(rocketmq, look) as ops:
        half = ops.send_in_transaction(rmq.Message("flights", b"x", keys="o-1"), execute=execute)
        rocketmq.advance_until(lambda: len(asked) == 3, step_ms=10_000, patience_ms=100)
    said = [record for record in caplog.records if " raised " in record.getMessage() and record.exc_info]
    ends_with = [f"{half.message_id} (keys o-1{more})" for more in ("", ", check 1", ", check 2")]
    assert [record.getMessage().endswith(named) for record, named in zip(said, ends_with, strict=True)] == [True] * 3
    assert ["in execute" in (record.exc_text or "") for record in said] == [True, False, False]
    assert ["in look" in (record.exc_text or "") for record in said] == [False, True, True]


def test_an_interrupt_in_execute_goes_on_and_leaves_the_transaction_to_the_check(rocketmq):

    def execute(sent: rmq.Message) -> rmq.LocalTransactionState:
        raise KeyboardInterrupt

    with producer(rocketmq, Asked(COMMIT)) as ops:
        with pytest.raises(KeyboardInterrupt):
            ops.send_in_transaction(message(), execute=execute)
        rocketmq.advance_until(lambda: bodies(rocketmq) == [b"x"], step_ms=10_000, patience_ms=100)
        assert len(ops._transactional._open) == 0


def test_a_lost_end_is_made_good_by_the_check(rocketmq):
    fault = rocketmq.faults.drop(RequestCode.END_TRANSACTION, times=1)
    asked = Asked(COMMIT)
    with producer(rocketmq, asked) as ops:
        assert ops.send_in_transaction(message(), execute=lambda sent: COMMIT).local_transaction_state is COMMIT
        rocketmq.wait_until(lambda: fault.hits == 1)
        rocketmq.advance_until(lambda: bodies(rocketmq) == [b"x"], step_ms=10_000, patience_ms=100)
    assert len(asked.messages) == 1


def test_another_member_answers_for_one_that_died_before_it_sends_anything(rocketmq):
    with producer(rocketmq, Asked(UNKNOWN)) as ops:
        ops.send_in_transaction(message(), execute=lambda sent: UNKNOWN)
    asked = Asked(COMMIT)
    with producer(rocketmq, asked, topics=["flights"]):
        rocketmq.advance_until(lambda: bodies(rocketmq) == [b"x"], step_ms=10_000, patience_ms=100)
    assert len(asked.messages) == 1


def test_while_execute_runs_a_check_cannot_roll_back_and_the_end_names_the_newest_copy(rocketmq):
    told = ends(rocketmq)
    release = threading.Event()
    asked = Asked(ROLLBACK)
    with producer(rocketmq, asked) as ops:

        def execute(sent: rmq.Message) -> rmq.LocalTransactionState:
            rocketmq.advance_until(lambda: len(told) == 1, step_ms=10_000, patience_ms=100)
            release.set()
            return COMMIT

        ops.send_in_transaction(message(), execute=execute)
        assert release.is_set()
        rocketmq.wait_until(lambda: bodies(rocketmq) == [b"x"])
        rocketmq.advance(120_000)
    half, copy = rocketmq.messages(HALF)[:2]
    assert [command.ext_fields["commitOrRollback"] for command in told] == ["0", "8"]
    assert told[1].ext_fields["commitLogOffset"] == str(copy.commit_log_offset) != str(half.commit_log_offset)
    assert bodies(rocketmq) == [b"x"], "delivered once"


def test_a_half_that_was_not_stored_safely_is_rolled_back_without_local_work(rocketmq):
    ran: list[rmq.Message] = []

    def execute(sent: rmq.Message) -> rmq.LocalTransactionState:
        ran.append(sent)
        return COMMIT

    told = ends(rocketmq)

    def stored_unsafely(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        answer = handler(connection, command)
        assert answer is not None
        answer.code = ResponseCode.FLUSH_DISK_TIMEOUT
        return answer

    rocketmq.faults._add("store unsafely", SENDS, stored_unsafely, 1, None)
    with producer(rocketmq, Asked(UNKNOWN)) as ops:
        result = ops.send_in_transaction(message(), execute=execute)
        rocketmq.wait_until(lambda: len(told) == 1)
    assert (result.status, result.local_transaction_state) == (rmq.SendStatus.FLUSH_DISK_TIMEOUT, ROLLBACK)
    assert told[0].ext_fields["commitOrRollback"] == "12"
    assert ran == []


def test_a_half_that_is_refused_raises_before_any_local_work(rocketmq):
    rocketmq.faults.fail(SENDS, ResponseCode.MESSAGE_ILLEGAL, "no", times=3)
    with producer(rocketmq, Asked(UNKNOWN), execute=lambda sent: pytest.fail("must not run")) as ops:
        with pytest.raises(rmq.RemoteError, match="code 13"):
            ops.send_in_transaction(message())
        delayed = rmq.Message("flights", b"x", delay_level=3)
        with pytest.raises(rmq.ConfigurationError):
            ops.send_in_transaction(delayed)


def test_callbacks_that_cannot_be_called_are_refused_in_one_sentence(rocketmq):
    with pytest.raises(rmq.ConfigurationError):
        producer(rocketmq, "yes")  # type: ignore[arg-type]
    with producer(rocketmq, Asked(UNKNOWN)) as ops, pytest.raises(rmq.ConfigurationError):
        ops.send_in_transaction(message())


def test_only_what_is_sent_in_a_transaction_has_a_transaction_id(rocketmq):
    """Brokers repeat the id of every message as transactionId."""
    with producer(rocketmq, Asked(UNKNOWN), auto_batch=True) as ops:
        half = ops.send_in_transaction(message(), execute=lambda sent: COMMIT)
        plain = [
            ops.send(message(), delay_level=1),
            ops.send_batch([message(), message()]),
        ]
        batched = [ops.send_async(message()) for _ in range(3)]
        ops.flush()
        plain += [future.result(20) for future in batched]
    with rocketmq.producer("plain") as one:
        plain += [one.send(message()), one.send_async(message()).result(20)]
    assert half.transaction_id == half.message_id
    assert [result.transaction_id for result in plain] == [None] * len(plain)


def test_messages_of_one_key_in_transactions_stay_in_one_queue(rocketmq):
    rocketmq.create_topic("flights", queues=4)
    with producer(rocketmq, Asked(UNKNOWN)) as ops:
        for number in range(5):
            ops.send_in_transaction(message(b"%d" % number), execute=lambda sent: COMMIT, sharding_key="N1")
        rocketmq.wait_until(lambda: len(bodies(rocketmq)) == 5)
    assert bodies(rocketmq) == [b"0", b"1", b"2", b"3", b"4"]
    assert len({stored.queue_id for stored in rocketmq.messages("flights")}) == 1


def test_the_async_face_awaits_execute_and_check_on_its_own_loop(rocketmq):
    checked = threading.Event()
    loops: list[bool] = []

    async def check(asked: rmq.MessageExt) -> rmq.LocalTransactionState:
        checked.set()
        return COMMIT

    async def execute(sent: rmq.Message) -> rmq.LocalTransactionState:
        loops.append(True)
        return UNKNOWN

    def in_a_thread(sent: rmq.Message) -> rmq.LocalTransactionState:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return COMMIT

    async def run() -> None:
        options: dict[str, Any] = {"namesrv_addr": rocketmq.namesrv_addr, "clock": rocketmq.clock}
        async with rmq.AsyncTransactionProducer("ops", check=check, **options) as ops:
            first = await ops.send_in_transaction(message(b"1"), execute=execute)
            second = await ops.send_in_transaction(message(b"2"), execute=in_a_thread)
            assert (first.local_transaction_state, second.local_transaction_state) == (UNKNOWN, COMMIT)
            done = asyncio.to_thread(
                rocketmq.advance_until, lambda: len(bodies(rocketmq)) == 2, step_ms=10_000, patience_ms=100
            )
            await done

    asyncio.run(run())
    assert loops == [True]
    assert checked.is_set()
    assert sorted(bodies(rocketmq)) == [b"1", b"2"]
