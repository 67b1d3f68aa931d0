"""Mutants of what keeps wishes from becoming storms, and outages from spreading."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["STORM_MUTANTS"]

CORE, CLIENT, NET = "src/sprocketmq/core", "src/sprocketmq/client", "src/sprocketmq/net"
PACE = "tests/unit/core/test_pace.py"
STORMS = "tests/system/client/test_storms.py"

STORM_MUTANTS = [
    Mutant(
        "S3",
        "nothing lies between two rounds",
        f"{CORE}/pace.py",
        "max(self._wanted_ms, self._free_ms)",
        "self._wanted_ms",
        f"{PACE}::test_the_first_run_is_due_at_once_and_the_next_an_interval_after_its_end",
    ),
    Mutant(
        "S3",
        "a wish takes the place of one that is due earlier",
        f"{CORE}/pace.py",
        "min(at_ms, self._wanted_ms)",
        "at_ms",
        f"{PACE}::test_a_wish_with_a_delay_is_fulfilled_by_an_earlier_one",
    ),
    Mutant(
        "S3",
        "rebalances have no minimum interval",
        f"{CLIENT}/instance.py",
        "PacedWork(self.clock, REBALANCE_MIN_INTERVAL_MS, ",
        "PacedWork(self.clock, 0, ",
        f"{STORMS}::test_a_broker_that_says_a_thousand_times_that_the_group_changed_is_one_wish",
    ),
    Mutant(
        "S1",
        "each queue that a broker has forgotten makes a heartbeat",
        f"{CLIENT}/heartbeats.py",
        "        self._soon.soon()\n",
        "        self._spawn(self.to_all())\n        self._lanes.clear()\n",
        f"{STORMS}::test_256_queues_of_a_broker_that_forgot_us_make_few_heartbeats",
    ),
]
