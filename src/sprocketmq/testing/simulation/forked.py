# SPDX-License-Identifier: Apache-2.0
"""Runs in children of this process. Clients and servers count what they make, in the process: a second run in one process is another run
than the first, and the seed of a failure would not give it again."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Final, TypeVar

from sprocketmq.testing.simulation.draws import Draw, DrawError, Draws
from sprocketmq.testing.simulation.world import World, load_all, stores_of

Run = Callable[[Draws], World]
W = TypeVar("W")
_FORK: Final = multiprocessing.get_context("fork")
_SAME_LETTERS: Final = 30
NO_END: Final = "no end"  # the rule of a run that was killed at its limit


@dataclass
class Outcome:
    """How a run has ended.

    Attributes:
        made: its draws, by name.
        error: what it raised; empty: it found nothing.
        story: the notes of the error, with the last events.
        rule: what two failures have in common that are the same fault.
        cpu_s: how long it took one processor.
    """

    seed: int
    made: dict[str, Draw] = field(default_factory=dict)
    digest: str = ""
    virtual_s: float = 0.0
    steps: int = 0
    cpu_s: float = 0.0
    error: str = ""
    story: str = ""
    rule: str = ""

    def drawn(self, name: str) -> str:
        return self.made[name].text if name in self.made else ""


class ForkedRun:
    """``run(draws)`` in a child that is forked now. Does not return after ``limit_s``: it is killed, and that is its failure."""

    def __init__(self, run: Run, draws: Draws, limit_s: float) -> None:
        load_all()
        self.draws, self._limit_s = draws, limit_s
        self._began_s = time.monotonic()
        self.result, result = _FORK.Pipe(duplex=False)  # ready when the run has ended
        self._child = _FORK.Process(target=_run, args=(run, draws, result))
        with warnings.catch_warnings():
            # Other threads of this process (of a test runner) hold no lock that a run takes.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._child.start()
        result.close()

    @property
    def left_s(self) -> float:
        return max(0.0, self._began_s + self._limit_s - time.monotonic())

    def end(self) -> Outcome:
        """Wait for its end. Raises DrawError as the run did."""
        try:
            outcome: Outcome | DrawError = self._received()
        finally:
            self.kill()
        if isinstance(outcome, DrawError):
            raise outcome
        return outcome

    def _received(self) -> Outcome | DrawError:
        if not self.result.poll(self.left_s):
            return self._failed(NO_END, f"it does not end within {self._limit_s:.0f} s of this machine")
        try:
            received: Outcome | DrawError = self.result.recv()
        except EOFError:
            self._child.join()
            return self._failed("died", f"its process has died, exit code {self._child.exitcode}")
        return received

    def _failed(self, rule: str, error: str) -> Outcome:
        return Outcome(self.draws.seed, error=error, rule=rule, cpu_s=time.monotonic() - self._began_s)  # about

    def kill(self) -> None:
        """End the child, and delete what it leaves."""
        self._child.kill()
        self._child.join()
        self.result.close()
        for path in stores_of(self._child.pid or 0):
            shutil.rmtree(path, ignore_errors=True)


def ended_runs(wanted: Iterator[W], begin: Callable[[W], ForkedRun], jobs: int) -> Iterator[tuple[W, Outcome]]:
    """``jobs`` at a time, as they end. ``wanted`` may have more when one has ended."""
    running: dict[ForkedRun, W] = {}
    try:
        while True:
            while len(running) < jobs and (one := next(wanted, None)) is not None:
                running[begin(one)] = one
            if not running:
                return
            ready = wait([run.result for run in running], min(run.left_s for run in running))
            ended = next((run for run in running if run.result in ready), min(running, key=lambda run: run.left_s))
            yield running.pop(ended), ended.end()
    finally:
        for left in running:
            left.kill()


def outcome_of(run: Run, draws: Draws, limit_s: float) -> Outcome:
    """Of ``run(draws)`` in a child, which is killed after ``limit_s``. Raises DrawError as the run does."""
    return ForkedRun(run, draws, limit_s).end()


def _run(run: Run, draws: Draws, result: Connection) -> None:
    """In the child."""
    logging.disable(logging.CRITICAL)
    outcome: Outcome | DrawError
    try:
        world = run(draws)
        outcome = Outcome(draws.seed, draws.made, world.digest, world.loop.time(), world.loop.steps)
    except DrawError as error:
        outcome = error
    except BaseException as error:  # noqa: BLE001 - whatever a run raises
        story = "\n".join(getattr(error, "__notes__", ()))
        outcome = Outcome(draws.seed, draws.made, error=repr(error), story=story, rule=rule_of(error))
    if isinstance(outcome, Outcome):
        outcome.cpu_s = time.process_time()  # a child begins at 0
    result.send(outcome)
    os._exit(0)  # what is left of the run, or was registered before the fork, has nothing more to do


def rule_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {re.sub(r'[0-9]+', '#', str(error))[:_SAME_LETTERS]}"
