# SPDX-License-Identifier: Apache-2.0
"""The future of ``Producer.send_async`` for a message that travels in a batch: a concurrent future without a lock of its own.

``concurrent.futures.Future`` makes a condition for each future, and takes it for each step; that costs more than the rest of such a send.
Most of these futures are finished before a caller waits for them, so the condition is made when it is first needed: by ``result`` before
the end, ``cancel``, ``add_done_callback``, ``concurrent.futures.wait`` and the like. From then on all is the base class's.

Law: a future is finished without a condition, or with it. Which one is decided under one lock of the process, under which conditions are
made, too, so that no caller begins to wait for a future while it is being finished, and is never woken. The lock is taken once for many
futures, and no callback runs while it is held.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn, Protocol, TypeVar

from sprocketmq.client.results import SendResult
from sprocketmq.net.process import fork

__all__ = ["ResultFuture", "SendFuture", "begin_all", "fail_all", "finish_all"]

log = logging.getLogger("sprocketmq.client")

T = TypeVar("T")

_PENDING: Final = "PENDING"  # the states of concurrent.futures
_RUNNING: Final = "RUNNING"
_FINISHED: Final = "FINISHED"
_CANCELLED: Final = frozenset({"CANCELLED", "CANCELLED_AND_NOTIFIED"})


class _Guard:
    """The lock of the law. A forked child gets a new one, because another thread of the parent may have held it.

    Reentrant, because a signal handler or a finalizer that looks at a future may interrupt the thread that holds it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        fork.register(self)

    def after_fork_in_child(self) -> None:
        self.lock = threading.RLock()


_guard: Final = _Guard()


class ResultFuture(Protocol):
    """An asyncio or a concurrent future of a SendResult."""

    def done(self) -> bool: ...

    def set_result(self, result: SendResult, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class _MadeLate:
    """An attribute that a future gets, together with the others of its kind, when one of them is first read. With
    ``__getattr__`` instead, each read of any attribute would take longer."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, future: SendFuture, owner: type | None = None) -> Any:
        own = future.__dict__
        with _guard.lock:  # each is set once, also by a signal handler that comes between them
            own.setdefault("_waiters", [])
            own.setdefault("_done_callbacks", [])
            own.setdefault("_condition", threading.Condition())
            own["_has_condition"] = True
        return own[self._name]


class SendFuture(concurrent.futures.Future[SendResult]):
    """The future of one message's SendResult."""

    _state: str = _PENDING
    _result: SendResult | None = None
    _exception: BaseException | None = None
    _has_condition = False

    __init__ = object.__init__  # it makes nothing of what the base class makes, and costs no call of a function

    # What the base class makes at once.
    _condition = _MadeLate()
    _waiters = _MadeLate()
    _done_callbacks = _MadeLate()

    def result(self, timeout: float | None = None) -> SendResult:
        """The SendResult, or what ``send`` raises.

        Args:
            timeout: how long to wait for it, seconds; default as long as it takes.

        Raises:
            TimeoutError: it did not come in time.
            CancelledError: the future was cancelled before the message was taken into a batch.
        """
        stored = self._result
        return super().result(timeout) if stored is None or self._exception is not None else stored

    def done(self) -> bool:
        """Whether it has ended or was cancelled."""
        state = self._state
        return state == _FINISHED or state in _CANCELLED

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied, as a future with a condition does: nothing would ever finish the copy."""
        raise TypeError("cannot pickle or copy a SendFuture; wait for its result, a SendResult, and hand on that")


def begin_all(futures: Iterable[SendFuture]) -> set[SendFuture]:
    """Take the messages of ``futures``: from here on these cannot be cancelled.

    Returns:
        Those that were cancelled before.
    """
    with _guard.lock:
        looked_at = []
        for future in futures:
            if future._has_condition:
                looked_at.append(future)
            else:  # so it was not cancelled either
                future._state = _RUNNING
    return {future for future in looked_at if not future.set_running_or_notify_cancel()}


def finish_all(futures: Sequence[ResultFuture], results: Iterable[SendResult]) -> None:
    """Give each future its result; those that have ended meanwhile keep their outcome.

    Args:
        futures: those of asyncio and SendFutures that have begun.
        results: one for each of them.
    """
    pairs: Iterable[tuple[ResultFuture, SendResult]] = zip(futures, results)  # noqa: B905 - as many as there are futures
    if SendFuture in set(map(type, futures)):
        looked_at: list[tuple[ResultFuture, SendResult]] = []
        with _guard.lock:
            for future, result in pairs:
                if not isinstance(future, SendFuture) or future._has_condition:
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
