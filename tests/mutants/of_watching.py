"""Watching: metrics."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["WATCHING_MUTANTS"]

METRICS = "src/sprocketmq/broker/metrics.py"
TESTS = "tests/inproc/broker/test_broker_metrics.py"

WATCHING_MUTANTS: list[Mutant] = [
    Mutant(
        "watching",
        "committed messages count as lag",
        METRICS,
        "lag += max(0, end - committed)",
        "lag += end",
        f"{TESTS}::test_lag_is_what_is_not_committed_and_its_age",
    ),
    Mutant(
        "watching",
        "pulled messages are never in flight",
        METRICS,
        "inflight += max(0, pulled - committed)",
        "inflight += 0",
        f"{TESTS}::test_pulled_messages_are_in_flight_until_they_are_committed",
    ),
]
