# SPDX-License-Identifier: Apache-2.0
"""The future of a message in a batch behaves as a concurrent future, whenever somebody looks at it."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sprocketmq import MessageQueue, SendResult, SendStatus
from sprocketmq.client.produce import send_future
from sprocketmq.client.produce.send_future import SendFuture

_STORED = SendResult(SendStatus.SEND_OK, "id", MessageQueue("flights", "broker-a", 0), 7)
_LOOKS: list[Callable[[Any], object]] = [
    lambda future: None,
    lambda future: future.done(),
    lambda future: (future.running(), future.cancelled()),
    lambda future: future.cancel(),
    lambda future: future.add_done_callback(lambda done: None),
    lambda future: concurrent.futures.wait([future], timeout=0),
    repr,
]


def _state(future: concurrent.futures.Future[SendResult]) -> tuple[object, ...]:
    ended = None
    if future.done():
        try:
            ended = (future.result(0), future.exception(0))
        except BaseException as error:  # noqa: BLE001 - it is what is compared
            ended = type(error)
    return future.done(), future.running(), future.cancelled(), ended


@pytest.mark.parametrize("before", range(len(_LOOKS)))
@pytest.mark.parametrize("between", range(len(_LOOKS)))
@pytest.mark.parametrize("outcome", [_STORED, ValueError("no")])
def test_it_has_the_states_of_a_concurrent_future(before: int, between: int, outcome: Any) -> None:
    ours, theirs = SendFuture(), concurrent.futures.Future[SendResult]()
    called: list[object] = []
    for future in (ours, theirs):
        _LOOKS[before](future)
        if future.set_running_or_notify_cancel():
            _LOOKS[between](future)
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        future.add_done_callback(lambda done: called.append(type(done)))
    assert _state(ours) == _state(theirs)
    assert called == [SendFuture, concurrent.futures.Future]


def test_waiters_for_one_and_for_many_are_woken() -> None:
    futures = [SendFuture() for _ in range(20)]
    waiting = threading.Event()

    def results() -> list[SendResult]:
        waiting.set()
        return [future.result(20) for future in futures]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        gets, waits = pool.submit(results), pool.submit(concurrent.futures.wait, futures, 20)
        completed = pool.submit(lambda: len(list(concurrent.futures.as_completed(futures, 20))))
        assert waiting.wait(20)
        for future in futures:
            assert future.set_running_or_notify_cancel()
            assert not future.cancel()
            future.set_result(_STORED)
        assert gets.result(20) == [_STORED] * 20
        assert len(waits.result(20).done) == 20
        assert completed.result(20) == 20


def test_no_wakening_is_lost_when_somebody_begins_to_wait_at_the_same_time() -> None:
    """One thread finishes each future while the other begins to wait for it."""
    futures = [SendFuture() for _ in range(3_000)]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        results = pool.submit(lambda: sum(future.result(20).queue_offset for future in futures))
        for future in futures:
            assert future.set_running_or_notify_cancel()
            future.set_result(_STORED)
        assert results.result(30) == 7 * len(futures)


def test_nothing_is_made_for_a_future_that_nobody_waits_for() -> None:
    future = SendFuture()
    assert future.set_running_or_notify_cancel()
    future.set_result(_STORED)
    assert (future.done(), future.result()) == (True, _STORED)
    assert "_condition" not in vars(future)


def test_a_forked_child_has_a_lock_of_its_own() -> None:
    guard = send_future._Guard()
    with guard.lock:
        inherited = guard.lock
        guard.after_fork_in_child()
        assert guard.lock is not inherited


def test_a_signal_handler_may_look_at_a_future_while_its_thread_makes_another_wait() -> None:
    future, handled = SendFuture(), threading.Event()

    def interrupted() -> None:
        with send_future._guard.lock:
            if future.cancel() and SendFuture().set_running_or_notify_cancel():
                handled.set()

    threading.Thread(target=interrupted, daemon=True).start()
    assert handled.wait(20)
    assert future.cancelled()


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = SendFuture().colour  # type: ignore[attr-defined]
