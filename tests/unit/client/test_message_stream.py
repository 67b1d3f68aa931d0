# SPDX-License-Identifier: Apache-2.0
"""The stream between a consume service and the iterations: demand, cancellation, verdicts."""

from __future__ import annotations

import asyncio
import copy
import pickle
import sys
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.client.listen.message_stream import Delivery, MessageStream


def message(number: int) -> rmq.MessageExt:
    return rmq.MessageExt("flights", b"%d" % number, queue_offset=number)


class Calls:
    """The calls of a pool, and what was asked of it."""

    def __init__(self, stream: MessageStream) -> None:
        self.stream = stream
        self.demands: list[int] = []
        stream.attach(self, self.demands.append, 20)

    def begin(self, number: int) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.stream(message(number)))


def on_a_loop(work: Coroutine[Any, Any, None]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(run())


def test_the_number_of_requested_calls_is_that_of_waiting_and_working_iterations() -> None:
    async def work() -> None:
        stream = MessageStream()
        calls = Calls(stream)
        takes = [asyncio.ensure_future(stream.take()) for _ in range(2)]
        await asyncio.sleep(0)
        assert calls.demands[-1] == 2
        call = calls.begin(0)
        got = await takes[0]
        assert got is not None
        assert calls.demands[-1] == 2, "one works, one waits"
        got.ack()
        await call
        assert calls.demands[-1] == 1
        takes[1].cancel()
        await asyncio.gather(takes[1], return_exceptions=True)
        assert calls.demands[-1] == 0

    on_a_loop(work())


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_take_that_is_cancelled_at_the_moment_of_its_message_has_not_taken_it(turns: int) -> None:
    async def work() -> None:
        stream = MessageStream()
        calls = Calls(stream)
        take = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        call = calls.begin(7)
        for _ in range(turns):
            await asyncio.sleep(0)
        take.cancel()
        [outcome] = await asyncio.gather(take, return_exceptions=True)
        if isinstance(outcome, asyncio.CancelledError):
            outcome = await stream.take()
        assert isinstance(outcome, rmq.ReceivedMessage)
        assert outcome.body == b"7"
        outcome.ack()
        await call

    on_a_loop(work())


def test_a_message_that_was_put_back_goes_to_the_next_waiting_take() -> None:
    async def work() -> None:
        stream = MessageStream()
        calls = Calls(stream)
        first = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        call = calls.begin(7)
        got = await first
        second = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        stream.put_back(got)
        again = await second
        assert again is got
        assert again is not None
        again.ack()
        await call

    on_a_loop(work())


def test_a_stop_ends_all_takes_and_a_late_verdict_is_an_error() -> None:
    async def work() -> None:
        stream = MessageStream()
        calls = Calls(stream)
        take = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        call = calls.begin(0)
        held = await take
        assert held is not None
        waiting = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        stream.stop()
        assert await waiting is None
        assert await stream.take() is None
        assert stream.waits_for_verdicts
        stream.give_up()
        assert not stream.waits_for_verdicts
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        with pytest.raises(rmq.ClosedError, match="shut down before the nack of"):
            held.nack()
        assert not held.is_settled

    on_a_loop(work())


def test_a_copy_of_an_earlier_delivery_says_nothing_about_a_later_one() -> None:
    async def work() -> None:
        stream = MessageStream()
        Calls(stream)
        stored = message(7)
        copies = []
        for _ in range(2):
            take = asyncio.ensure_future(stream.take())
            await asyncio.sleep(0)
            call = asyncio.ensure_future(stream(stored))
            got = await take
            assert got is not None
            copies.append((got, call))
        old, old_call = copies[0]
        new, new_call = copies[1]
        old.nack()
        with pytest.raises(rmq.RetryLater):
            await old_call
        assert not new.is_settled
        assert not new_call.done()
        new.ack()
        await new_call

    on_a_loop(work())


def test_a_received_message_has_what_its_record_has() -> None:
    async def work() -> None:
        stream = MessageStream()
        Calls(stream)
        take = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        stored = rmq.MessageExt(
            "flights", b"x", tags="UA", keys=["a"], reconsume_times=3, born_timestamp_ms=5, properties={"p": "q"}
        )
        call = asyncio.ensure_future(stream(stored))
        got = await take
        assert got is not None
        for name in (*rmq.Message.__slots__, *rmq.MessageExt.__slots__):
            if hasattr(stored, name):
                assert getattr(got, name) == getattr(stored, name), name
        assert repr(got).startswith("ReceivedMessage(topic='flights', tags='UA'")
        got.ack()
        await call

    on_a_loop(work())


def test_closing_does_not_wait_for_a_message_whose_take_was_cancelled() -> None:
    async def work() -> None:
        stream = MessageStream()
        calls = Calls(stream)
        take = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        call = calls.begin(0)
        await asyncio.sleep(0)
        stream.stop()
        take.cancel()
        await asyncio.gather(take, return_exceptions=True)
        assert not stream.waits_for_verdicts
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    on_a_loop(work())


def test_a_copy_has_the_same_delivery_and_a_pickled_one_says_who_gives_the_verdict() -> None:
    async def work() -> None:
        stream = MessageStream()
        Calls(stream)
        take = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        stored = rmq.MessageExt("flights", b"[1]", tags="UA", properties={"p": "q"})
        stored._deserialize = lambda body: list(body)
        call = asyncio.ensure_future(stream(stored))
        got = await take
        assert got is not None
        unread = pickle.loads(pickle.dumps(got))
        with pytest.raises(rmq.ConfigurationError, match="pickled has its value only if it was read before"):
            _ = unread.value
        assert got.value == [91, 49, 93]
        deep, shallow, elsewhere = copy.deepcopy(got), copy.copy(got), pickle.loads(pickle.dumps(got))
        for twin in (deep, shallow, elsewhere):
            assert type(twin) is rmq.ReceivedMessage
            assert (twin.body, twin.tags, twin.value) == (b"[1]", "UA", [91, 49, 93])
        deep.properties["p"] = "other"
        deep.value.append(0)
        assert (got.properties["p"], got.value) == ("q", [91, 49, 93])
        with pytest.raises(rmq.ConfigurationError, match=r"pickled copy of a message.*call ack\(\) of the message"):
            elsewhere.ack()
        deep.ack()
        assert got.is_settled
        assert shallow.is_settled
        await call

    on_a_loop(work())


def test_a_message_made_by_hand_keeps_its_verdict_for_a_test_of_a_handler() -> None:
    made = rmq.ReceivedMessage("flights", b"x", tags="UA")
    assert not made.is_settled
    with made.process():
        pass
    made.ack()
    assert made.is_settled
    with pytest.raises(rmq.ConfigurationError, match="has its ack already and cannot have a nack"):
        made.nack()


@pytest.mark.parametrize("line", range(1, 10))
def test_a_signal_handler_may_give_a_verdict_in_the_middle_of_another(line: int) -> None:
    async def work() -> None:
        stream = MessageStream()
        calls = Calls(stream)
        take = asyncio.ensure_future(stream.take())
        await asyncio.sleep(0)
        call = calls.begin(0)
        got = await take
        assert got is not None
        given: list[str] = []

        def give(name: str) -> None:
            try:
                getattr(got, name)()
            except rmq.ConfigurationError:
                return
            given.append(name)

        def ack_interrupted() -> None:
            seen = 0

            def look(frame: FrameType, event: str, _: object) -> Any:
                nonlocal seen
                if frame.f_code is Delivery.settle.__code__ and event == "line":
                    seen += 1
                    if seen == line:
                        sys.settrace(None)
                        give("nack")
                return look

            sys.settrace(look)
            give("ack")
            sys.settrace(None)

        interrupted = threading.Thread(target=ack_interrupted, daemon=True)
        interrupted.start()
        await asyncio.to_thread(interrupted.join, 10)
        assert not interrupted.is_alive()
        [outcome] = await asyncio.gather(call, return_exceptions=True)
        assert given == (["ack"] if outcome is None else ["nack"])

    on_a_loop(work())
