# SPDX-License-Identifier: Apache-2.0
"""Work for a thread of an executor that perhaps cannot be started: memory or a limit of threads is used up, or the interpreter ends.
``ThreadPoolExecutor.submit`` queues the work before it starts the thread. If that fails, ``submit`` raises, but the work stays queued: a
later thread runs it, after newer work that its caller has done another way meanwhile, and files would have their old content again. So
work runs once at most, and never on another thread after the caller has claimed it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class ClaimedWork(Generic[T]):
    """Work for whoever claims it first: a thread that calls it, or the caller that could not start the thread. ``outcome``: what
    the work returned or raised."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._claim: Final = threading.Lock()
        self.outcome: Final[Future[T]] = Future()

    def claim(self) -> Callable[[], T] | None:
        """Take the work from all others; None: another has it. What stays in an executor's queue keeps nothing of it."""
        if not self._claim.acquire(blocking=False):
            return None
        work, self._work = self._work, None
        return work

    def begin(self, submit: Callable[[ClaimedWork[T]], object]) -> ClaimedWork[T]:
        """Give the work to ``submit``. If no thread can be started, it runs here, before this returns."""
        try:
            submit(self)
        except RuntimeError:
            self()
        return self

    def __call__(self) -> None:
        """Run the work, unless another has claimed it."""
        work = self.claim()
        if work is None or not self.outcome.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - as an executor does
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(result)


def submit(executor: Executor, work: Callable[[], T]) -> Future[T]:
    """Like ``executor.submit(work)``. If no thread can be started, ``work`` runs here, before this returns."""
    return ClaimedWork(work).begin(executor.submit).outcome
