# SPDX-License-Identifier: Apache-2.0
"""The future of ``Producer.send_async`` for a message that travels in a batch: a concurrent future without a lock of its own.

``concurrent.futures.Future`` makes a condition for each future, and takes it for each step; that costs more than the rest of such a send.
Most of these futures are finished before a caller waits for them, so the condition is made when it is first needed: by ``result`` before
the end, ``cancel``, ``add_done_callback``, ``concurrent.futures.wait`` and the like. From then on all is the base class's.

Law: a future is finished without a condition, or with it. Both happen under one lock of the process, which is held for a moment and while
nothing else is called, so that no caller begins to wait for a future while it is being finished, and is never woken.
"""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any, Final

from sprocketmq.client.results import SendResult
from sprocketmq.net.process import fork

__all__ = ["SendFuture"]

_PENDING: Final = "PENDING"  # the states of concurrent.futures
_RUNNING: Final = "RUNNING"
_FINISHED: Final = "FINISHED"
_CANCELLED: Final = frozenset({"CANCELLED", "CANCELLED_AND_NOTIFIED"})
_MADE_LATE: Final = frozenset({"_condition", "_waiters", "_done_callbacks"})


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


class SendFuture(concurrent.futures.Future[SendResult]):
    """The future of one message's SendResult."""

    _state: str = _PENDING
    _result: SendResult | None = None
    _exception: BaseException | None = None

    def __init__(self) -> None:
        """Make none of what the base class makes."""

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE_LATE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        own = self.__dict__
        with _guard.lock:  # each is set once, also by a signal handler that comes between them
            own.setdefault("_waiters", [])
            own.setdefault("_done_callbacks", [])
            own.setdefault("_condition", threading.Condition())
        return own[name]

    def set_running_or_notify_cancel(self) -> bool:
        """See the base class. Called by the engine."""
        with _guard.lock:
            if "_condition" not in self.__dict__:  # so it was not cancelled either
                self._state = _RUNNING
                return True
        return super().set_running_or_notify_cancel()

    def set_result(self, result: SendResult) -> None:
        """See the base class. Called by the engine."""
        with _guard.lock:
            if "_condition" not in self.__dict__:
                self._result, self._state = result, _FINISHED
                return
        super().set_result(result)

    def result(self, timeout: float | None = None) -> SendResult:
        """The SendResult, or what ``send`` raises.

        Args:
            timeout: how long to wait for it, seconds; default as long as it takes.

        Raises:
            TimeoutError: it did not come in time.
            CancelledError: the future was cancelled before the message was taken into a batch.
        """
        stored = self._result
        if stored is not None and self._state is _FINISHED and self._exception is None:
            return stored
        return super().result(timeout)

    def done(self) -> bool:
        """Whether it has ended or was cancelled."""
        state = self._state
        return state == _FINISHED or state in _CANCELLED
