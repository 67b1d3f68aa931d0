# SPDX-License-Identifier: Apache-2.0
"""Answers that wait for a flush: when they are written, and what a failed flush makes of them."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from inproc.broker.written_to import WrittenTo
from sprocketmq.broker import Broker
from sprocketmq.broker.replication import durability
from sprocketmq.broker.replication.durability import DurableAnswers
from sprocketmq.errors import StoreNotWritable
from sprocketmq.net.connection import Connection
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import FLAG_RESPONSE, Command

Flush = concurrent.futures.Future[None]


class Store:
    """As much of a store as the answers need: ``flushes`` has the future of each flush that was requested, and its end."""

    def __init__(self, flush: Callable[[], Flush]) -> None:
        self.flush_of, self.flushes = flush, list[tuple[int, Flush]]()

    def when_durable(self, physical_offset: int) -> Flush:
        self.flushes.append((physical_offset, self.flush_of()))
        return self.flushes[-1][1]


def done() -> Flush:
    future = Flush()
    future.set_result(None)
    return future


def failed() -> Flush:
    future = Flush()
    future.set_exception(StoreNotWritable("the disk is full"))
    return future


def run(
    flush: Callable[[], Flush], scenario: Callable[[Store, DurableAnswers, WrittenTo], Coroutine[Any, Any, None]]
) -> None:
    async def with_three() -> None:
        peer, connection, store = WrittenTo(), Connection(is_served=True), Store(flush)
        connection.connection_made(peer)  # type: ignore[arg-type]
        broker = Broker()
        broker.store = store  # type: ignore[assignment]
        waiting = DurableAnswers(broker)
        for number in range(3):
            waiting.wait(connection, Command(0, number, FLAG_RESPONSE), (number + 1) * 100)
        assert not peer.written
        await scenario(store, waiting, peer)
        assert connection._held_bytes == len(waiting) == 0
        waiting._timer.cancel()  # type: ignore[union-attr]

    asyncio.run(with_three())


def test_what_is_durable_already_is_answered_in_the_next_turn_and_the_loop_is_not_woken(monkeypatch):
    async def scenario(store: Store, waiting: DurableAnswers, peer: WrittenTo) -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: pytest.fail("it was woken"))
        await asyncio.sleep(0)
        assert [answer.opaque for answer in peer.answers()] == [0, 1, 2]
        assert [end for end, _ in store.flushes] == [300]  # all three by one flush
        monkeypatch.undo()

    run(done, scenario)


def test_a_flush_that_has_failed_already_refuses_what_waits():
    async def scenario(store: Store, waiting: DurableAnswers, peer: WrittenTo) -> None:
        await asyncio.sleep(0)
        assert [answer.code for answer in peer.answers()] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 3
        assert "the disk is full" in (peer.answers()[0].remark or "")

    run(failed, scenario)


def test_what_comes_during_a_flush_waits_for_the_next_one():
    async def scenario(store: Store, waiting: DurableAnswers, peer: WrittenTo) -> None:
        await asyncio.sleep(0)
        other = Connection(is_served=True)
        other.connection_made(WrittenTo())  # type: ignore[arg-type]
        waiting.wait(other, Command(0, 3, FLAG_RESPONSE), 400)
        await asyncio.sleep(0)
        assert [end for end, _ in store.flushes] == [300]
        assert not peer.written
        await asyncio.to_thread(store.flushes[0][1].set_result, None)
        await asyncio.sleep(0)
        assert [answer.opaque for answer in peer.answers()] == [0, 1, 2]
        assert [end for end, _ in store.flushes] == [300, 400]
        store.flushes[1][1].set_result(None)
        await asyncio.sleep(0)

    run(Flush, scenario)


def test_an_answer_to_an_earlier_record_is_sent_with_the_later_one_that_it_follows():
    """In whatever order callers give the ends, a flush covers all that wait; else the same flush would be requested again and again."""

    async def scenario(store: Store, waiting: DurableAnswers, peer: WrittenTo) -> None:
        connection = Connection(is_served=True)
        connection.connection_made(peer)  # type: ignore[arg-type]
        waiting.wait(connection, Command(0, 3, FLAG_RESPONSE), 100)
        await asyncio.sleep(0)
        assert [answer.opaque for answer in peer.answers()] == [0, 1, 2, 3]
        assert [end for end, _ in store.flushes] == [300]

    run(done, scenario)


def test_a_message_that_was_sent_back_is_answered_with_success_by_a_slow_disk_and_sooner_than_a_send(monkeypatch):
    """Its consumer would store a copy of its own for another code, or after 5 s."""
    monkeypatch.setattr(durability, "_SENT_BACK_S", 0.01)

    async def wait_for_both() -> None:
        peer, connection, broker, store = WrittenTo(), Connection(is_served=True), Broker(), Store(Flush)
        connection.connection_made(peer)  # type: ignore[arg-type]
        broker.store = store  # type: ignore[assignment]
        waiting = DurableAnswers(broker)
        waiting.wait(connection, Command(0, 0, FLAG_RESPONSE), 100, sent_back=True)
        waiting.wait(connection, Command(0, 1, FLAG_RESPONSE), 200)
        while not peer.written:
            await asyncio.sleep(0)
        assert [(answer.opaque, answer.code) for answer in peer.answers()] == [(0, ResponseCode.SUCCESS)]
        store.flushes[0][1].set_result(None)
        while len(peer.answers()) < 2:
            await asyncio.sleep(0)
        waiting._timer.cancel()  # type: ignore[union-attr]

    asyncio.run(asyncio.wait_for(wait_for_both(), 30))
