# SPDX-License-Identifier: Apache-2.0
"""Listeners that answer nonsense, raise what nobody catches, touch what is not theirs, hang or leak: it costs their messages a retry."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recorder import Recorder, by_kind, committed, send_all

import sprocketmq as rmq
from sprocketmq.client.consume.send_back import SendBack

SUCCESS = rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS
Concurrent = rmq.ConsumeConcurrentlyContext
Orderly = rmq.ConsumeOrderlyContext


def _returns(value: Any) -> Callable[[Any], Any]:
    return lambda context: value


def _sets(name: str, value: Any, then: Any = SUCCESS) -> Callable[[Any], Any]:
    def answer(context: Any) -> Any:
        setattr(context, name, value)
        return then

    return answer


def test_an_invalid_answer_retries_its_message_and_each_kind_is_logged_once(rocketmq, producer, consumers, caplog):
    answers = [_sets("ack_index", "1"), _sets("ack_index", 2.5), _sets("delay_level_when_next_consume", "3", None),
               _returns(0), _returns(1), _returns("text"), _returns(n for n in range(3))]  # fmt: skip
    seen: list[tuple[int, int]] = []

    def listen(messages: list[rmq.MessageExt], context: Concurrent) -> Any:
        seen.append((int(messages[0].body), messages[0].reconsume_times))
        return SUCCESS if messages[0].reconsume_times else answers[int(messages[0].body)](context)

    consumer = consumers(listen, kind="concurrent", consume_thread_count=1)
    send_all(producer, list("0123456"))
    rocketmq.advance_until(lambda: len(seen) == 14)
    assert sorted(seen) == [(number, times) for number in range(7) for times in (0, 1)]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 7)
    said = [record.getMessage() for record in caplog.records if "(logged once)" in record.getMessage()]
    kinds = ("ack_index to", "delay_level_when_next_consume to", "returned 0", "returned 1", "'text'", "<generator")
    assert [sum(kind in line for line in said) for kind in kinds] == [1, 1, 1, 0, 1, 1]


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("how", ["plain", "async"])
def test_whatever_a_listener_raises_costs_its_message_a_retry_and_nothing_else(
    rocketmq, producer, consumers, how, error
):
    recorder = Recorder()

    def handle(message: rmq.MessageExt) -> None:
        recorder(message)
        if message.body == b"1" and message.reconsume_times == 0:
            raise error

    consumer = consumers(by_kind(how, handle), consume_thread_count=2)
    send_all(producer, ["0", "1", "2", "3"])
    rocketmq.advance_until(lambda: len(recorder) == 5)
    assert [message.reconsume_times for message in recorder.messages if message.body == b"1"] == [0, 1]
    send_all(producer, ["4"])
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 5)


@pytest.mark.parametrize("value", ["1s", None, 10.5], ids=str)
def test_an_orderly_pause_that_is_no_number_is_the_consumers_own(rocketmq, producer, consumers, value):
    seen: list[tuple[str, int]] = []

    def listen(messages: list[rmq.MessageExt], context: Orderly) -> Any:
        seen.append((messages[0].body.decode(), messages[0].reconsume_times))
        context.suspend_current_queue_time_ms = value
        done = messages[0].reconsume_times or messages[0].body != b"0"
        return rmq.ConsumeOrderlyStatus.SUCCESS if done else rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    send_all(producer, ["0", "1"])
    consumer = consumers(listen, kind="orderly")
    rocketmq.advance_until(lambda: len(seen) == 3)
    assert seen == [("0", 0), ("0", 1), ("1", 0)]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 2)


def test_blocking_listeners_never_run_on_the_engine_and_async_ones_only_there(rocketmq, producer, consumers):
    blocking: set[str] = set()
    on_loop: set[str] = set()

    async def handle(message: rmq.MessageExt) -> None:
        on_loop.add(threading.current_thread().name)

    recorder = Recorder(lambda message: blocking.add(threading.current_thread().name))
    consumers(recorder, group="one", consume_thread_count=3)
    consumer = consumers(handle, group="two")
    send_all(producer, [str(n) for n in range(30)])
    rocketmq.wait_until(lambda: len(recorder) == 30 and committed(rocketmq, consumer) == 30)
    assert blocking <= {"sprocketmq-one-1", "sprocketmq-one-2", "sprocketmq-one-3"}
    assert on_loop == {"sprocketmq-engine"}
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sprocketmq-two")]


def test_a_message_that_cannot_be_written_down_for_its_way_back_is_tried_again_here(
    rocketmq, producer, consumers, monkeypatch
):
    async def broken(self: SendBack, message: rmq.MessageExt, delay_level: int, reason: str) -> bool:
        raise TypeError("a listener put something odd into its message")

    monkeypatch.setattr(SendBack, "send", broken)
    recorder = Recorder(lambda message: None if message.reconsume_times else 1 / 0)
    consumer = consumers(recorder)
    send_all(producer, ["0", "1"])
    assert rocketmq.advance_until(lambda: len(recorder) == 4) >= 5_000
    assert sorted(recorder.bodies) == ["0", "0", "1", "1"]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 2)


class _AsyncObject:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    async def __call__(self, message: rmq.MessageExt) -> None:
        await asyncio.sleep(0)
        self.recorder(message)


async def _consume_async(recorder: Recorder, message: rmq.MessageExt) -> None:
    await asyncio.sleep(0)
    recorder(message)


@pytest.mark.parametrize(
    "form", ["an object with an async call", "a partial of an async function", "a lambda around one"]
)
def test_an_async_listener_in_any_form_runs_before_its_message_counts_as_done(rocketmq, producer, consumers, form):
    recorder = Recorder(lambda message: 1 / message.reconsume_times)
    listener = {
        "an object with an async call": _AsyncObject(recorder),
        "a partial of an async function": functools.partial(_consume_async, recorder),
        "a lambda around one": lambda message: _consume_async(recorder, message),
    }[form]
    consumer = consumers(listener)
    send_all(producer, ["0"])
    rocketmq.advance_until(lambda: len(recorder) == 2)
    assert recorder.times == [0, 1]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 1)


def test_a_generator_is_refused_as_a_listener(rocketmq):
    consumer = rocketmq.push_consumer("delays")

    def handle(message: rmq.MessageExt) -> Iterator[None]:
        yield

    async def handle_async(message: rmq.MessageExt) -> Any:
        yield

    for register in (consumer.on_message, consumer.concurrent_listener, consumer.orderly_listener):
        for listener in (handle, handle_async):
            with pytest.raises(rmq.ConfigurationError, match="contains yield"):
                register(listener)


@pytest.mark.parametrize(("kind", "success"), [("concurrent", SUCCESS), ("orderly", rmq.ConsumeOrderlyStatus.SUCCESS)])
def test_a_listener_that_takes_its_batch_apart_changes_nothing_of_ours(rocketmq, producer, consumers, kind, success):
    seen: list[str] = []

    def listen(messages: list[rmq.MessageExt], context: Any) -> Any:
        for message in messages:
            seen.append(bytes(message.body).decode())
            message.body = b"much longer than what came" * 100
            message.topic = "elsewhere"
        context.message_queue = None
        messages.clear()
        return success

    send_all(producer, ["0", "1", "2"])
    consumer = consumers(listen, kind=kind, batch_size=3, max_reconsume_times=0)
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 3)
    assert seen == ["0", "1", "2"]
    (process_queue,) = (queue for at, queue in consumer.process_queues.items() if at.topic == "flights")
    assert (process_queue.count, process_queue.size_bytes) == (0, 0)


def test_a_listener_that_leaves_tasks_behind_still_shuts_down(rocketmq, producer, consumers):
    left: list[asyncio.Task[Any]] = []

    async def handle(message: rmq.MessageExt) -> None:
        left.append(asyncio.ensure_future(asyncio.sleep(3600)))

    consumer = consumers(handle)
    send_all(producer, [str(n) for n in range(20)])
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 20)
    consumer.shutdown()
    assert len(left) == 20
    assert not any(task.done() for task in left)  # they are the user's: nobody here cancels them
    left[0].get_loop().call_soon_threadsafe(lambda: [task.cancel() for task in left])
    rocketmq.wait_until(lambda: all(task.done() for task in left))


@pytest.mark.parametrize("kind", ["message", "concurrent", "orderly"])
@pytest.mark.parametrize("how", ["plain", "async"])
def test_what_a_listener_raises_is_logged_with_its_traceback_and_what_people_search_by(
    rocketmq, producer, consumers, caplog, kind, how
):
    caplog.set_level(logging.DEBUG, "sprocketmq.client")
    recorder = Recorder(lambda message: message.reconsume_times < 2 and _look_up_the_flight())

    def several(messages: list[rmq.MessageExt], context: object) -> Any:
        recorder(messages[0])
        return rmq.ConsumeOrderlyStatus.SUCCESS if kind == "orderly" else SUCCESS

    consumers(by_kind(how, recorder if kind == "message" else several), kind=kind)
    sent = producer.send(rmq.Message("flights", b"0", keys=["N14228", "UA5"]))
    rocketmq.advance_until(lambda: len(recorder) == 3)
    said = [record for record in caplog.records if "the listener raised" in record.getMessage() and record.exc_info]
    of = "" if kind == "orderly" else " of 17"
    tried = [f"{sent.message_id} (keys N14228 UA5, try {number}{of})" for number in (1, 2)]
    assert [f"; {named} from " in record.getMessage() for record, named in zip(said, tried, strict=True)] == [True] * 2
    assert [record.levelname for record in said] == ["WARNING", "DEBUG"], "one line a minute for the same line of code"
    assert all("in _look_up_the_flight" in (record.exc_text or "") for record in said)
    assert all("LookupError: no such flight" in (record.exc_text or "") for record in said)
    package = str(Path(rmq.__file__).parent)
    assert not any(package in (record.exc_text or "") for record in said), "its own frames alone"


def _look_up_the_flight() -> None:
    raise LookupError("no such flight")


# -- what a listener returns instead of raising ------------------------------------------------------------------------------------


def _forms(answer: Callable[[rmq.MessageExt], Any]) -> dict[str, tuple[str, Callable[..., Any]]]:
    """One answer as each kind of listener gives it."""

    def of_several(messages: list[rmq.MessageExt], context: Any) -> Any:
        return answer(messages[0])

    return {
        "message": ("message", answer),
        "message, async": ("message", by_kind("async", answer)),
        "message, a coroutine of a lambda": ("message", lambda message: by_kind("async", answer)(message)),
        "concurrent": ("concurrent", of_several),
        "concurrent, async": ("concurrent", by_kind("async", of_several)),
        "orderly": ("orderly", of_several),
        "orderly, async": ("orderly", by_kind("async", of_several)),
    }


@pytest.mark.parametrize("returned", [rmq.RetryLater("later"), rmq.RetryLater, ValueError("no")], ids=repr)
@pytest.mark.parametrize("form", _forms(lambda message: None))
def test_an_exception_that_is_returned_counts_as_raised(rocketmq, producer, consumers, form, returned):
    seen: list[int] = []
    done = rmq.ConsumeOrderlyStatus.SUCCESS if form.startswith("orderly") else SUCCESS

    def answer(message: rmq.MessageExt) -> object:
        seen.append(message.reconsume_times)
        return done if message.reconsume_times else returned

    kind, listener = _forms(answer)[form]
    consumer = consumers(listener, kind=kind)
    send_all(producer, ["0"])
    rocketmq.advance_until(lambda: len(seen) == 2)
    assert seen == [0, 1]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 1)


@pytest.mark.parametrize("form", [form for form in _forms(lambda message: None) if form.startswith("message")])
def test_a_status_of_orderly_listeners_acknowledges_no_message_of_another(rocketmq, producer, consumers, form):
    seen: list[int] = []

    def answer(message: rmq.MessageExt) -> object:
        seen.append(message.reconsume_times)
        return None if message.reconsume_times else rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    kind, listener = _forms(answer)[form]
    consumers(listener, kind=kind)
    send_all(producer, ["0"])
    rocketmq.advance_until(lambda: len(seen) == 2)
    assert seen == [0, 1]


@pytest.mark.parametrize("form", _forms(lambda message: None))
def test_a_dead_letter_that_is_returned_is_one(rocketmq, producer, consumers, form):
    kind, listener = _forms(lambda message: rmq.DeadLetter("no such plane"))[form]
    consumers(listener, kind=kind)
    send_all(producer, ["0"])
    rocketmq.advance_until(lambda: rocketmq.messages("%DLQ%delays"))
    assert [letter.properties["RETRY_REASON"] for letter in rocketmq.messages("%DLQ%delays")] == ["no such plane"]


@pytest.mark.parametrize("returned", [False, 5, "done"], ids=repr)
@pytest.mark.parametrize("form", [form for form in _forms(lambda message: None) if form.startswith("message")])
def test_what_says_nothing_is_ignored_and_told_once(rocketmq, producer, consumers, caplog, form, returned):
    kind, listener = _forms(lambda message: returned)[form]
    consumer = consumers(listener, kind=kind)
    send_all(producer, ["0", "1", "2"])
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 3)
    said = [
        record.getMessage() for record in caplog.records if "is ignored: the message is done" in record.getMessage()
    ]
    assert len(said) == 1
    assert f"returned {returned!r}" in said[0]


@pytest.mark.parametrize("form", _forms(lambda message: None))
def test_the_log_says_which_try_was_the_last_and_what_became_a_dead_letter(rocketmq, producer, consumers, caplog, form):
    caplog.set_level(logging.DEBUG, "sprocketmq.client")
    kind, listener = _forms(lambda message: ValueError("no such plane"))[form]
    consumers(listener, kind=kind, max_reconsume_times=1)
    sent = producer.send(rmq.Message("flights", b"0", keys=["N14228"]))
    rocketmq.advance_until(lambda: "became" in caplog.text)
    lines = [record.getMessage() for record in caplog.records]
    said = [line for line in lines if sent.message_id in line and ("raised" in line or "became" in line)]
    assert ["becomes a dead letter" in line for line in said] == [False, True, False]
    assert [
        f"{sent.message_id} (keys N14228, try {which})" in line
        for which, line in zip(("1 of 2", "2 of 2", "2"), said, strict=True)
    ] == [True] * 3
    assert len(rocketmq.messages("%DLQ%delays")) == 1
