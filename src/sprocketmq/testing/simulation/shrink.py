# SPDX-License-Identifier: Apache-2.0
"""Of a run that fails, the smallest that fails with the same error: each draw is made simpler as long as it still does."""

from __future__ import annotations

import time

from sprocketmq.testing.simulation.draws import DrawError, Draws
from sprocketmq.testing.simulation.forked import Outcome, Run, outcome_of


class Shrink:
    """``given``, ``outcome``: the values to give for the smallest run so far, and how it ends. ``run_limit_s``: of one run."""

    def __init__(self, run: Run, given: dict[str, str], failed: Outcome, run_limit_s: float) -> None:
        self._run, self.given, self.outcome, self._run_limit_s = run, dict(given), failed, run_limit_s
        self._tried: set[frozenset[tuple[str, str]]] = set()
        self._end_s = 0.0

    def search(self, limit_s: float) -> None:
        self._end_s = time.monotonic() + limit_s
        has_changed = True
        while has_changed and time.monotonic() < self._end_s:
            has_changed = False
            # What makes the later runs quickest comes first.
            for name in sorted(
                self.outcome.made, key=lambda name: (name not in ("messages", "kinds", "troubles"), name)
            ):
                while self._makes_simpler(name):
                    has_changed = True

    def _makes_simpler(self, name: str) -> bool:
        made = self.outcome.made
        for text in made[name].simpler() if name in made else ():
            candidate = {**self.given, name: text}
            key = frozenset(candidate.items())
            if key in self._tried:
                continue
            if time.monotonic() > self._end_s:
                return False
            self._tried.add(key)
            limit_s = min(self._run_limit_s, self._end_s - time.monotonic())
            try:
                outcome = outcome_of(self._run, Draws(self.outcome.seed, candidate), limit_s)
            except DrawError:
                continue
            if outcome.rule == self.outcome.rule:
                self.given, self.outcome = candidate, outcome
                return True
        return False
