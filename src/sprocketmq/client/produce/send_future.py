# SPDX-License-Identifier: Apache-2.0
"""The future of ``Producer.send_async`` for a message that travels in a batch: a concurrent future without a lock of its own.

``concurrent.futures.Future`` makes a condition for each future, and takes it for each step; that costs more than the rest of such a send.
Most of these futures are finished before a caller waits for them, so the condition is made when it is first needed: by ``result`` before
the end, ``cancel``, ``add_done_callback``, ``concurrent.futures.wait`` and the like. From then on all is the base class's.

Rule: a future is finished without a condition, or with it. Which one is decided under one lock of the process, under which conditions are
made, too, so that no caller begins to wait for a future while it is being finished, and is never woken. The lock is taken once for many
futures, and no callback runs while it is held.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeVar

from sprocketmq.client.results import SendResult
from sprocketmq.net.process import fork

log = logging.getLogger("sprocketmq.client")

T = TypeVar("T")

_PENDING: Final = "PENDING"  # the states of concurrent.futures
_RUNNING: Final = "RUNNING"
_FINISHED: Final = "FINISHED"
_CANCELLED: Final = frozenset({"CANCELLED", "CANCELLED_AND_NOTIFIED"})


# The lock of the rule. Reentrant, because a signal handler or a finalizer that looks at a future may interrupt the thread that holds it.
_guard: Final = fork.LockAcrossForks(threading.RLock)


class ResultFuture(Protocol):
    """An asyncio or a concurrent future of a SendResult."""

    def done(self) -> bool: ...

    def set_result(self, result: SendResult, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class _Waiting(NamedTuple):
    """What ``concurrent.futures.Future`` makes for each future, and we for those that somebody waits for or watches."""

    condition: threading.Condition
    waiters: list[Any]
    done_callbacks: list[Callable[[Any], object]]


class _MadeLate:
    """An attribute of ``concurrent.futures.Future`` that is one of the fields of ``_Waiting``; the first read of one makes all of them.

    The base class only reads these attributes after its ``__init__``. With ``__getattr__`` instead, each read of any attribute would take
    longer.
    """

    def __init__(self, field: Callable[[_Waiting], Any]) -> None:
        self._field = field

    def __get__(self, future: SendFuture, owner: type | None = None) -> Any:
        if future._waiting is None:
            made = _Waiting(threading.Condition(), [], [])
            with _guard.lock:
                # Between this look and the assignment there is no call, so no signal handler of this thread, which holds the lock already.
                if future._waiting is None:
                    future._waiting = made
        return self._field(future._waiting)


class SendFuture(concurrent.futures.Future[SendResult]):
    """The future of one message's SendResult.

    What two threads may write is in slots. CPython 3.11 moves the attributes of an instance into its ``__dict__`` when that is read, and
    when its class has no room for another name. Moving allocates memory, so the garbage collector may run and let another thread come in
    between. If that one moves them, too, both dictionaries free the same values, and the process crashes.
    """

    __slots__ = ("_exception", "_result", "_state", "_waiting")

    _condition = _MadeLate(attrgetter("condition"))
    _waiters = _MadeLate(attrgetter("waiters"))
    _done_callbacks = _MadeLate(attrgetter("done_callbacks"))

    def __init__(self) -> None:
        # Not the base class's, which makes what _Waiting has.
        self._state: str = _PENDING
        self._result: SendResult | None = None
        self._exception: BaseException | None = None
        self._waiting: _Waiting | None = None

    def result(self, timeout: float | None = None) -> SendResult:
        """The SendResult, or what ``send`` raises. ``timeout``: seconds; default as long as it takes. Raises TimeoutError (it did
        not come in time), CancelledError (the future was cancelled before the message was taken into a batch)."""
        stored = self._result
        if stored is not None and self._exception is None:
            return stored
        try:
            return super().result(timeout)
        finally:
            del self  # it holds the error, whose traceback holds this frame

    def done(self) -> bool:
        """Whether it has ended or was cancelled."""
        state = self._state
        return state == _FINISHED or state in _CANCELLED

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied, as a future with a condition does: nothing would ever finish the copy."""
        raise TypeError("cannot pickle or copy a SendFuture; wait for its result, a SendResult, and hand on that")


def begin_all(futures: Iterable[SendFuture]) -> set[SendFuture]:
    """Take the messages of ``futures``: from here on these cannot be cancelled. Returns those that were cancelled before."""
    with _guard.lock:
        looked_at = []
        for future in futures:
            if future._waiting is not None:
                looked_at.append(future)
            else:  # so it was not cancelled either
                future._state = _RUNNING
    return {future for future in looked_at if not future.set_running_or_notify_cancel()}


def finish_all(futures: Sequence[ResultFuture], results: Iterable[SendResult]) -> None:
    """Give each future (of asyncio, or a SendFuture that has begun) its result; those that have ended meanwhile keep their
    outcome."""
    pairs: Iterable[tuple[ResultFuture, SendResult]] = zip(futures, results)  # noqa: B905 - as many as there are futures
    if SendFuture in set(map(type, futures)):
        looked_at: list[tuple[ResultFuture, SendResult]] = []
        with _guard.lock:
            for future, result in pairs:
                if not isinstance(future, SendFuture) or future._waiting is not None:
                    looked_at.append((future, result))
                elif future._state is _RUNNING:
                    future._result, future._state = result, _FINISHED
        pairs = looked_at
    for future, result in pairs:
        if not future.done():
            _end(future.set_result, result)


def fail_all(futures: Iterable[ResultFuture], error: BaseException) -> None:
    """Give each future the exception; those that have ended meanwhile keep their outcome."""
    for future in futures:
        if not future.done():
            _end(future.set_exception, error)


def _end(set_outcome: Callable[[T], None], outcome: T) -> None:
    """A concurrent future calls its callbacks at once, and logs what they raise, but not a CancelledError of asyncio or a SystemExit. These
    are not for the task that ends a batch: the futures behind this one would never end."""
    try:
        set_outcome(outcome)
    except BaseException:
        log.exception("a callback of a future of send_async failed")
