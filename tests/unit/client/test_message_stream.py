# SPDX-License-Identifier: Apache-2.0
"""The stream between a consume service and the iterations: demand, cancellation, verdicts, and when its descriptor is readable."""

from __future__ import annotations

import asyncio
import copy
import pickle
import random
import select
import sys
import threading
from types import FrameType
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.client.listen.message_stream import DemandPool, HandedOut, MessageStream
from sprocketmq.net.process.clock import ManualClock


def message(number: int) -> rmq.MessageExt:
    return rmq.MessageExt("flights", b"%d" % number, queue_offset=number)


class Calls:
    """A pool whose calls the test begins, and what was asked of it."""

    def __init__(self, stream: MessageStream) -> None:
        self.stream = stream
        self.demands: list[int] = []
        self.demand = self.demands.append
        self.has_waiting, self.begun, self.is_closing = False, 0, False
        stream.attach(self, 20)

    def begin(self, number: int) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.stream(message(number)))


DROPPED = "its queue went to another member"


def new_pool(stream: MessageStream, workers: int = 20) -> DemandPool[rmq.MessageExt]:
    """As a consume service makes it: a message of a dropped queue is passed over."""

    async def run(item: rmq.MessageExt, origin: object) -> rmq.MessageExt:
        if origin != DROPPED:
            await stream(item)
        return item

    return DemandPool(stream, run, lambda *_: None, workers, "test", ManualClock())


async def is_readable(stream: MessageStream) -> bool:
    """What a loop in another thread sees after this one has done all it can."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert stream.descriptor is not None
    return bool(select.select([stream.descriptor.fileno()], [], [], 0)[0])


async def handed_out(stored: rmq.MessageExt) -> tuple[MessageStream, rmq.ReceivedMessage, asyncio.Future[None]]:
    """A stream, a message that it handed out, and the call that ends with the message's verdict."""
    stream = MessageStream()
    Calls(stream)
    take = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    call = asyncio.ensure_future(stream(stored))
    [got] = await take
    return stream, got, call


def bodies(messages: list[rmq.ReceivedMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def test_the_number_of_requested_calls_is_that_of_waiting_and_working_iterations():
    stream = MessageStream()
    calls = Calls(stream)
    takes = [asyncio.ensure_future(stream.receive()) for _ in range(2)]
    await asyncio.sleep(0)
    assert calls.demands[-1] == 2
    call = calls.begin(0)
    [got] = await takes[0]
    assert calls.demands[-1] == 2, "one works, one waits"
    got.ack()
    await call
    assert calls.demands[-1] == 1
    takes[1].cancel()
    await asyncio.gather(takes[1], return_exceptions=True)
    assert calls.demands[-1] == 0


async def test_a_message_that_was_put_back_goes_to_the_next_waiting_receive():
    stream, got, call = await handed_out(message(7))
    second = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    stream.put_back([got])
    [again] = await second
    assert again is got
    again.ack()
    await call


async def test_a_stop_ends_all_receives_and_a_late_verdict_is_an_error():
    stream, held, call = await handed_out(message(0))
    waiting = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    stream.stop()
    assert await waiting == []
    assert await stream.receive() == []
    assert stream.waits_for_verdicts
    stream.give_up()
    assert not stream.waits_for_verdicts
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    with pytest.raises(rmq.ClosedError, match="shut down before the nack of"):
        held.nack()
    assert not held.is_settled


async def test_a_copy_of_an_earlier_delivery_says_nothing_about_a_later_one():
    stream = MessageStream()
    Calls(stream)
    stored = message(7)
    copies = []
    for _ in range(2):
        take = asyncio.ensure_future(stream.receive())
        await asyncio.sleep(0)
        call = asyncio.ensure_future(stream(stored))
        [got] = await take
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


async def test_a_received_message_has_what_its_record_has():
    stored = rmq.MessageExt(
        "flights", b"x", tags="UA", keys=["a"], reconsume_times=3, born_timestamp_ms=5, properties={"p": "q"}
    )
    _, got, call = await handed_out(stored)
    for name in (*rmq.Message.__slots__, *rmq.MessageExt.__slots__):
        if hasattr(stored, name):
            assert getattr(got, name) == getattr(stored, name), name
    assert repr(got).startswith("ReceivedMessage(topic='flights', tags='UA'")
    got.ack()
    await call


async def test_closing_does_not_wait_for_a_message_whose_receive_was_cancelled():
    stream = MessageStream()
    calls = Calls(stream)
    take = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    call = calls.begin(0)
    await asyncio.sleep(0)
    stream.stop()
    take.cancel()
    await asyncio.gather(take, return_exceptions=True)
    assert not stream.waits_for_verdicts
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_copy_has_the_same_delivery_and_a_pickled_one_says_who_gives_the_verdict():
    stored = rmq.MessageExt("flights", b"[1]", tags="UA", properties={"p": "q"})
    stored._deserialize = lambda body: list(body)
    _, got, call = await handed_out(stored)
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


def test_a_message_made_by_hand_keeps_its_verdict_for_a_test_of_a_handler():
    made = rmq.ReceivedMessage("flights", b"x", tags="UA")
    assert not made.is_settled
    with made.process():
        pass
    made.ack()
    assert made.is_settled
    with pytest.raises(rmq.ConfigurationError, match="has its ack already and cannot have a nack"):
        made.nack()


@pytest.mark.parametrize("line", range(1, 10))
async def test_a_signal_handler_may_give_a_verdict_in_the_middle_of_another(line):
    _, got, call = await handed_out(message(0))
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
            if frame.f_code is HandedOut.settle.__code__ and event == "line":
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


async def test_a_receive_returns_what_is_there_up_to_its_number():
    stream = MessageStream()
    pool = new_pool(stream)
    assert await stream.receive(32, 0) == []
    pool.submit([message(number) for number in range(5)])
    assert bodies(await stream.receive(3, 0)) == [b"0", b"1", b"2"]
    assert bodies(await stream.receive(32, 0)) == [b"3", b"4"]
    waiting = asyncio.ensure_future(stream.receive(32))
    await asyncio.sleep(0)
    pool.submit([message(number) for number in range(5, 45)])
    assert len(await waiting) == 15, "all of one pull, up to the limit of unsettled messages"
    assert await stream.receive(32, 0) == []
    await pool.close(0)


async def test_a_receive_that_found_nothing_in_time_asks_for_nothing_any_more():
    stream = MessageStream()
    pool = new_pool(stream)
    assert await stream.receive(32, 0.001) == []
    pool.submit([message(0)])
    for _ in range(5):
        await asyncio.sleep(0)
    assert pool.running == []
    assert bodies(await stream.receive(32, 60)) == [b"0"]
    await pool.close(0)


@pytest.mark.parametrize("turns", range(6))
async def test_a_receive_that_is_cancelled_while_its_messages_begin_has_taken_none(turns):
    stream = MessageStream()
    pool = new_pool(stream)
    receive = asyncio.ensure_future(stream.receive(4, 60))
    await asyncio.sleep(0)
    pool.submit([message(number) for number in range(3)])
    for _ in range(turns):
        await asyncio.sleep(0)
    receive.cancel()
    [outcome] = await asyncio.gather(receive, return_exceptions=True)
    got = [] if isinstance(outcome, asyncio.CancelledError) else outcome
    while len(got) < 3:
        got += await stream.receive(4, 60)
    assert sorted(bodies(got)) == [b"0", b"1", b"2"]
    await pool.close(0)


async def test_two_receives_share_what_comes():
    stream = MessageStream()
    pool = new_pool(stream)
    both = [asyncio.ensure_future(stream.receive(2)) for _ in range(2)]
    await asyncio.sleep(0)
    pool.submit([message(number) for number in range(4)])
    assert [bodies(got) for got in await asyncio.gather(*both)] == [[b"0", b"1"], [b"2", b"3"]]
    await pool.close(0)


async def test_the_descriptor_is_readable_while_a_receive_would_return_at_once():
    stream = MessageStream()
    await stream.make_descriptor()
    assert not await is_readable(stream)
    pool = new_pool(stream, workers=3)
    assert not await is_readable(stream)
    pool.submit([message(number) for number in range(5)])
    assert await is_readable(stream)
    assert pool.running == [], "it asks for no message itself"
    held = await stream.receive(1, 0)
    assert await is_readable(stream)
    held += await stream.receive(9, 0)
    assert len(held) == 3
    assert not await is_readable(stream), "no more may be in hand"
    assert await stream.receive(9, 0) == []
    held[1].ack()
    assert await is_readable(stream)
    [fourth] = await stream.receive(9, 0)
    assert not await is_readable(stream)
    pool.resize(4)
    assert await is_readable(stream)
    await stream.receive(9, 0)
    fourth.nack()
    assert not await is_readable(stream), "there is none left"
    stream.stop()
    assert await is_readable(stream)
    assert await stream.receive() == []
    assert await is_readable(stream)
    stream.give_up()
    await pool.close(0)
    assert await is_readable(stream)


async def test_the_descriptor_of_messages_that_waited_before_it_was_made_is_readable():
    waiting, over = MessageStream(), MessageStream()
    pool = new_pool(waiting)
    pool.submit([message(0)])
    over.stop()
    for stream in (waiting, over):
        await stream.make_descriptor()
        assert await is_readable(stream)
    await pool.close(0)


async def test_the_descriptor_is_not_readable_for_messages_that_a_receive_takes():
    stream = MessageStream()
    await stream.make_descriptor()
    pool = new_pool(stream)
    receive = asyncio.ensure_future(stream.receive(9, 60))
    await asyncio.sleep(0)
    pool.submit([message(number) for number in range(3)])
    assert stream.descriptor is not None
    while not receive.done():
        assert not select.select([stream.descriptor.fileno()], [], [], 0)[0]
        await asyncio.sleep(0)
    assert len(await receive) == 3
    await pool.close(0)


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_happens_the_descriptor_keeps_up_and_each_message_is_received_once(seed):
    chance = random.Random(seed)

    stream = MessageStream()
    await stream.make_descriptor()
    pool = new_pool(stream, workers=4)
    waiting: list[asyncio.Task[list[rmq.ReceivedMessage]]] = []
    received: list[rmq.ReceivedMessage] = []
    sent = 0
    for _ in range(200):
        match chance.randrange(8):
            case 0 | 1:
                count = chance.randrange(1, 5)
                pool.submit([message(sent + number) for number in range(count)])
                sent += count
            case 2:
                pool.submit([message(-1)] * chance.choice([1, 40]), DROPPED)
            case 3:
                waiting.append(
                    asyncio.ensure_future(stream.receive(chance.randrange(1, 6), chance.choice([0, 60, None])))
                )
            case 4:
                for task in waiting:
                    if chance.random() < 0.5:
                        task.cancel()
            case 5:
                pool.resize(chance.randrange(1, 8))
            case _:
                for got in received:
                    if not got.is_settled and chance.random() < 0.5:
                        got.ack()
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        for task in [task for task in waiting if task.done()]:
            waiting.remove(task)
            received += [] if task.cancelled() else task.result()
        if chance.random() < 0.5:
            readable = await is_readable(stream)
            assert readable is stream._is_ready()
    for task in waiting:
        task.cancel()
    for got in await asyncio.gather(*waiting, return_exceptions=True):
        received += [] if isinstance(got, BaseException) else got
    while len(received) < sent:
        for got in received:
            got.ack()
        assert await is_readable(stream)
        received += await stream.receive(9, 0)
    assert sorted(bodies(received), key=int) == [b"%d" % number for number in range(sent)]
    await pool.close(0)
