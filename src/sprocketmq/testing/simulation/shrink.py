# SPDX-License-Identifier: Apache-2.0
"""Of a run that fails, the smallest that fails with the same error: each draw is made simpler as long as it still does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sprocketmq.testing.simulation.draws import Draws

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.world import World

Run = Callable[[Draws], "World"]
_SAME_LETTERS = 30


def failure_of(run: Run, draws: Draws) -> Exception | None:
    try:
        run(draws)
    except Exception as error:  # noqa: BLE001 - whatever a run raises
        return error
    return None


def rule_of(error: BaseException) -> str:
    """What two failures have in common that are the same fault."""
    return f"{type(error).__name__}: {re.sub(r'[0-9]+', '#', str(error))[:_SAME_LETTERS]}"


def shrunk(run: Run, failed: Draws, error: Exception, limit_s: float) -> tuple[dict[str, str], Exception]:
    """Values to give so that ``run`` fails as ``failed`` did, and its error. Ends after ``limit_s`` with the smallest so far."""
    rule, end_s = rule_of(error), time.monotonic() + limit_s
    given = dict(failed.given)
    tried: set[frozenset[tuple[str, str]]] = set()
    draws, has_changed = failed, True
    while has_changed and time.monotonic() < end_s:
        has_changed = False
        # What makes the later runs quickest comes first.
        for name in sorted(draws.made, key=lambda name: (name not in ("messages", "kinds", "troubles"), name)):
            while (smaller := _simpler(run, draws, given, name, rule, tried, end_s)) is not None:
                draws, given, error = smaller
                has_changed = True
    return given, error


def _simpler(
    run: Run,
    draws: Draws,
    given: dict[str, str],
    name: str,
    rule: str,
    tried: set[frozenset[tuple[str, str]]],
    end_s: float,
) -> tuple[Draws, dict[str, str], Exception] | None:
    for text in draws.made[name].simpler() if name in draws.made else ():
        candidate = {**given, name: text}
        key = frozenset(candidate.items())
        if key in tried:
            continue
        if time.monotonic() > end_s:
            return None
        tried.add(key)
        smaller = Draws(draws.seed, candidate)
        error = failure_of(run, smaller)
        if error is not None and rule_of(error) == rule:
            return smaller, candidate, error
    return None
