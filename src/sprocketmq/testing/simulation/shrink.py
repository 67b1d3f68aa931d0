# SPDX-License-Identifier: Apache-2.0
"""Of a run that fails, the smallest that fails with the same error: each draw is made simpler as long as it still does."""

from __future__ import annotations

import time

from sprocketmq.testing.simulation.draws import DrawError, Draws
from sprocketmq.testing.simulation.forked import Outcome, Run, outcome_of


def smallest(
    run: Run, given: dict[str, str], failed: Outcome, *, run_limit_s: float, limit_s: float
) -> tuple[dict[str, str], Outcome]:
    """The values to give for the smallest run that is found within ``limit_s``, and how it ends. ``run_limit_s``: of one run."""
    end_s, tried = time.monotonic() + limit_s, set[frozenset[tuple[str, str]]]()

    def simpler(name: str) -> bool:
        nonlocal given, failed
        for text in failed.made[name].simpler() if name in failed.made else ():
            candidate = {**given, name: text}
            key, left_s = frozenset(candidate.items()), end_s - time.monotonic()
            if key in tried or left_s < 0:
                continue
            tried.add(key)
            try:
                outcome = outcome_of(run, Draws(failed.seed, candidate), min(run_limit_s, left_s))
            except DrawError:
                continue
            if outcome.rule == failed.rule:
                given, failed = candidate, outcome
                return True
        return False

    has_changed = True
    while has_changed:
        has_changed = False
        # What makes the later runs quickest comes first.
        for name in sorted(failed.made, key=lambda name: (name not in ("messages", "kinds", "troubles"), name)):
            while simpler(name):
                has_changed = True
    return given, failed
