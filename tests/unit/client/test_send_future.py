# SPDX-License-Identifier: Apache-2.0
"""The future of a message in a batch behaves as a concurrent future, whenever somebody looks at it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import gc
import pickle
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sprocketmq import MessageQueue, SendResult, SendStatus
from sprocketmq.client.produce import send_future
from sprocketmq.client.produce.send_future import SendFuture, begin_all, fail_all, finish_all

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


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Threads take turns every microsecond instead of every 5 ms."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.parametrize("before", range(len(_LOOKS)))
@pytest.mark.parametrize("between", range(len(_LOOKS)))
@pytest.mark.parametrize("outcome", [_STORED, ValueError("no")])
def test_it_has_the_states_of_a_concurrent_future(before, between, outcome):
    ours, theirs = SendFuture(), concurrent.futures.Future[SendResult]()
    called: list[object] = []
    for future in (ours, theirs):
        _LOOKS[before](future)
        begins = not begin_all([future]) if isinstance(future, SendFuture) else future.set_running_or_notify_cancel()
        if begins:
            _LOOKS[between](future)
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            elif isinstance(future, SendFuture):
                finish_all([future], [outcome])
            else:
                future.set_result(outcome)
        future.add_done_callback(lambda done: called.append(type(done)))
    assert _state(ours) == _state(theirs)
    assert called == [SendFuture, concurrent.futures.Future]


def test_waiters_for_one_and_for_many_are_woken():
    futures = [SendFuture() for _ in range(20)]
    waiting = threading.Event()

    def results() -> list[SendResult]:
        waiting.set()
        return [future.result(20) for future in futures]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        gets, waits = pool.submit(results), pool.submit(concurrent.futures.wait, futures, 20)
        completed = pool.submit(lambda: len(list(concurrent.futures.as_completed(futures, 20))))
        assert waiting.wait(20)
        assert begin_all(futures) == set()
        assert not any(future.cancel() for future in futures)
        finish_all(futures, [_STORED] * 20)
        assert gets.result(20) == [_STORED] * 20
        assert len(waits.result(20).done) == 20
        assert completed.result(20) == 20


@pytest.mark.usefixtures("frequent_switches")
def test_every_look_from_other_threads_sees_the_one_outcome_while_many_are_finished_at_once():
    """Threads wait, add callbacks and cancel, while another one begins and finishes groups of futures."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    futures = [SendFuture() for _ in range(4_000)]
    called: list[SendFuture] = []
    given: list[int] = []

    def look(number: int, order: list[int]) -> None:
        drawn = random.Random(number ^ seed)
        for index in order:
            future = futures[index]
            match drawn.randrange(4):
                case 0:
                    future.add_done_callback(called.append)
                    given.append(index)
                case 1:
                    future.cancel()
                case 2:
                    waited_for = [future, futures[drawn.randrange(len(futures))]]
                    assert not concurrent.futures.wait(waited_for, 30).not_done
                    assert all(one.done() for one in waited_for)
                case _:
                    with contextlib.suppress(concurrent.futures.CancelledError):
                        assert future.result(30) is _STORED

    def finish() -> None:
        begun = finished = 0
        while finished < len(futures):
            until = min(len(futures), begun + draw.randrange(1, 200))
            group = futures[begun:until]
            cancelled = begin_all(group)
            kept = [future for future in group if future not in cancelled]
            if kept:
                finish_all(kept, [_STORED] * len(kept))
            begun = finished = until

    orders = [draw.sample(range(len(futures)), len(futures) // 4) for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(look, number, sorted(order)) for number, order in enumerate(orders)]
        pool.submit(finish).result(60)
        for one in looks:
            one.result(60)
    assert all(future.done() for future in futures)
    assert all(future.cancelled() or future.result() is _STORED for future in futures)
    assert sorted(map(id, called)) == sorted(id(futures[index]) for index in given), "each callback runs once"


class _AskedLock:
    """A lock that tells when a thread asks for it."""

    def __init__(self) -> None:
        self._lock, self.is_asked_for = threading.RLock(), threading.Event()

    def __enter__(self) -> None:
        self.is_asked_for.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("is_begun", [False, True])
def test_who_begins_to_wait_under_the_lock_is_seen_by_who_asks_for_it_next(is_begun, monkeypatch):
    """One future is cancelled while another thread is about to begin it; one gets a callback while it is about to be finished."""
    lock = _AskedLock()
    monkeypatch.setattr(send_future._guard, "lock", lock)
    future, called = SendFuture(), []
    if is_begun:
        begin_all([future])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with lock:
            lock.is_asked_for.clear()
            other = pool.submit(finish_all, [future], [_STORED]) if is_begun else pool.submit(begin_all, [future])
            assert lock.is_asked_for.wait(20)
            if is_begun:
                future.add_done_callback(called.append)
            else:
                assert future.cancel()
            assert not called
        assert other.result(20) == (None if is_begun else {future})
    assert called == ([future] if is_begun else [])


def test_futures_of_both_kinds_are_finished_together_and_ended_ones_keep_their_outcome():
    loop = asyncio.new_event_loop()
    plain, ours, awaited, failed, cancelled = (
        loop.create_future(),
        SendFuture(),
        SendFuture(),
        SendFuture(),
        loop.create_future(),
    )
    called: list[SendFuture] = []
    awaited.add_done_callback(called.append)
    assert begin_all([ours, awaited, failed]) == set()
    failed.set_exception(ValueError("late"))
    cancelled.cancel()
    finish_all([plain, ours, awaited, failed, cancelled], [_STORED] * 5)
    assert [plain.result(), ours.result(), awaited.result()] == [_STORED] * 3
    assert (called, cancelled.cancelled()) == ([awaited], True)
    with pytest.raises(ValueError, match="late"):
        failed.result(0)
    loop.close()


def test_nothing_is_made_for_a_future_that_nobody_waits_for():
    future = SendFuture()
    assert begin_all([future]) == set()
    finish_all([future], [_STORED])
    assert (future.done(), future.result()) == (True, _STORED)
    assert future._waiting is None


@pytest.mark.parametrize("look", range(len(_LOOKS)))
@pytest.mark.parametrize("is_stored", [True, False])
def test_nothing_that_two_threads_write_is_in_a_dictionary(look, is_stored):
    future = SendFuture()
    for _ in range(2):
        _LOOKS[look](future)
        begin_all([future] if not future._waiting else [])
    if is_stored:
        finish_all([future], [_STORED])
    else:
        fail_all([future], ValueError("refused"))
    assert vars(future) == {}


class _Cycle:
    """Garbage for the collector, which lets another thread run when it is found."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def frequent_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(20, 5, 5)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("frequent_collections")
def test_the_garbage_collector_lets_another_thread_look_while_many_are_finished():
    """CPython 3.11 collects wherever memory is allocated. A future with a dictionary of attributes crashed the process here."""
    results = [SendResult(SendStatus.SEND_OK, f"{number}", _STORED.message_queue, number) for number in range(2_000)]

    def finish(futures: list[SendFuture]) -> None:
        for at in range(0, len(futures), 50):
            begin_all(futures[at : at + 50])
            for _ in range(5):
                _Cycle()
            finish_all(futures[at : at + 50], results[at : at + 50])

    for _ in range(20):
        futures = [SendFuture() for _ in results]
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(finish, futures)
            assert [future.result(20) for future in futures] == results


def test_a_forked_child_has_a_lock_of_its_own():
    guard = send_future.fork.LockAcrossForks(threading.RLock)
    with guard.lock:
        inherited = guard.lock
        guard.after_fork_in_child()
        assert guard.lock is not inherited


def test_a_signal_handler_may_look_at_a_future_while_its_thread_makes_another_wait():
    future, handled = SendFuture(), threading.Event()

    def interrupted() -> None:
        with send_future._guard.lock:
            if future.cancel() and begin_all([future, SendFuture()]) == {future}:
                handled.set()

    threading.Thread(target=interrupted, daemon=True).start()
    assert handled.wait(20)
    assert future.cancelled()


@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit, ValueError])
@pytest.mark.parametrize("is_stored", [True, False])
def test_a_callback_that_raises_leaves_no_other_future_without_its_outcome(raised, is_stored, caplog):
    futures, called = [SendFuture() for _ in range(3)], []

    def fails(_: object) -> None:
        raise raised("no")

    futures[0].add_done_callback(fails)
    futures[2].add_done_callback(called.append)
    begin_all(futures)
    if is_stored:
        finish_all(futures, [_STORED] * 3)
    else:
        fail_all(futures, ValueError("refused"))
    assert [future.done() for future in futures] == [True] * 3
    assert called == [futures[2]]
    assert raised.__name__ in caplog.text


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_is_not_copied_because_nothing_would_finish_the_copy(duplicate, is_stored):
    future = SendFuture()
    begin_all([future])
    if is_stored:
        finish_all([future], [_STORED])
    with pytest.raises(TypeError, match="cannot pickle or copy"):
        duplicate(future)
