# SPDX-License-Identifier: Apache-2.0
"""The life of a client: which call does what in which state (Java: ServiceState, and the ``switch`` at the top of each ``start``).

                start                     opened
        NEW -----------> STARTING -----------------> RUNNING
         ^ ^                |  |                        |
         | `----closed-------'  | shutdown, or           | shutdown, or
         |                     | the last starter left  | nobody holds it any more
         |       closed        v                        |
         `---(not shut down)- STOPPING <----------------'
                               |   ^
                       closed  |   | start (only what may be started again), once it is over
                               v   |
                              ENDED

    call        NEW     STARTING         RUNNING   STOPPING                           ENDED
    start       OPEN    JOIN             DONE      AFTER_CLOSING, or REFUSED          OPEN, or REFUSED
    shutdown    DONE    CANCEL_OPENING   CLOSE     JOIN                               DONE

Opening and closing take time. The driver runs each as a task, and callers wait for that task, so a caller may stop waiting (be cancelled)
at any moment. A start for which no caller waits any more is undone; a shutdown continues to its end.

Rules
    1. At most one opening or closing is under way.
    2. What was opened is closed once, and nothing is closed that was not opened.
    3. After ``shutdown`` nothing but a later ``start`` leads to RUNNING, whatever was under way when it was called.
    4. An opening for which no caller waits any more does not lead to RUNNING.
    5. A start that failed or was undone leaves the client as it was before: it may be started again.
"""

from __future__ import annotations

from enum import Enum


class LifeState(Enum):
    NEW = "not started"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "shut down"


class StartStep(Enum):
    """What a call of ``start`` has to do."""

    OPEN = "begin to open, and wait for it"
    JOIN = "wait for the opening that is under way"
    DONE = "nothing, it runs"
    AFTER_CLOSING = "wait until the closing is over, and ask again"
    REFUSED = "nothing, it was shut down for good"


class ShutdownStep(Enum):
    """What a call of ``shutdown`` has to do."""

    CLOSE = "begin to close, and wait for it"
    CANCEL_OPENING = "cancel the opening, and wait until it has undone itself"
    JOIN = "wait for what is under way"
    DONE = "nothing, nothing is open"


class Lifecycle:
    """Not thread-safe: one owner. ``restarts``: whether a client may be started again after a shutdown."""

    __slots__ = ("_restarts", "_starters", "_was_shut_down", "state")

    def __init__(self, *, restarts: bool) -> None:
        self._restarts = restarts
        self._starters = 0  # callers that wait for the current opening
        self._was_shut_down = False
        self.state = LifeState.NEW

    @property
    def is_stopped(self) -> bool:
        return self.state in (LifeState.NEW, LifeState.ENDED)

    # -- calls -----------------------------------------------------------------------------------------------------------------

    def start(self) -> StartStep:
        """A call of ``start``. After OPEN and JOIN call ``start_abandoned`` if the caller stops waiting."""
        if self.state is LifeState.RUNNING:
            return StartStep.DONE
        if self.state is LifeState.STARTING:
            self._starters += 1
            return StartStep.JOIN
        if self._was_shut_down and not self._restarts:
            return StartStep.REFUSED
        if self.state is LifeState.STOPPING:
            return StartStep.AFTER_CLOSING
        self.state, self._starters, self._was_shut_down = LifeState.STARTING, 1, False
        return StartStep.OPEN

    def start_abandoned(self) -> bool:
        """A caller of ``start`` stopped waiting. True: no caller is left, cancel the opening (rule 4)."""
        if self.state is not LifeState.STARTING:
            return False
        self._starters -= 1
        if self._starters:
            return False
        self.state = LifeState.STOPPING
        return True

    def shutdown(self) -> ShutdownStep:
        """A call of ``shutdown``, or the client was garbage-collected."""
        if self.state in (LifeState.NEW, LifeState.ENDED):
            return ShutdownStep.DONE
        before, self.state, self._was_shut_down = self.state, LifeState.STOPPING, True
        if before is LifeState.STOPPING:
            return ShutdownStep.JOIN
        return ShutdownStep.CANCEL_OPENING if before is LifeState.STARTING else ShutdownStep.CLOSE

    # # -- results of the work -----------------------------------------------------------------------------------------------

    def opened(self) -> bool:
        """The opening succeeded. False: close what it opened, then call ``closed`` (rules 3 and 4)."""
        if self.state is not LifeState.STARTING:
            return False
        self.state = LifeState.RUNNING
        return True

    def closed(self) -> None:
        """Nothing is open any more. Also called after an opening that failed or was cancelled (rule 5)."""
        self.state = LifeState.ENDED if self._was_shut_down else LifeState.NEW
