# SPDX-License-Identifier: Apache-2.0
"""Constants of core, which mutmut does not change."""

from __future__ import annotations

from mutants.mutant import Mutant

__all__ = ["CORE_MUTANTS"]

CORE_MUTANTS = [
    Mutant(
        "S1",
        "brokers that no route names are kept",
        "src/sprocketmq/core/produce/route_table.py",
        "        self._brokers = brokers\n",
        "        self._brokers.update(brokers)\n",
        "tests/unit/core/produce/test_route_table.py::test_an_address_is_known_while_a_route_names_it",
    ),
    Mutant(
        "S1",
        "a change of a route's queues goes unnoticed",
        "src/sprocketmq/core/produce/route_table.py",
        "        or sorted(old.queue_datas, key=key) != sorted(new.queue_datas, key=key)\n",
        "",
        "tests/unit/core/produce/test_route_table.py::test_a_route_is_changed_by_content_and_not_by_order",
    ),
    Mutant(
        "S3",
        "a queue counts as read before its offset is known",
        "src/sprocketmq/core/group/rebalance.py",
        "    life: QueueLife = QueueLife.ADDING\n",
        "    life: QueueLife = QueueLife.ACTIVE\n",
        "tests/unit/core/group/test_rebalance.py::test_a_queue_is_active_only_after_its_start_offset_is_known",
    ),
    Mutant(
        "S4",
        "the broker's PULL_RETRY_IMMEDIATELY counts as: nothing new",
        "src/sprocketmq/core/consume/pull_cursor.py",
        "    NO_NEW_MSG = 19\n    NO_MATCHED_MSG = 20\n",
        "    NO_NEW_MSG = 20\n    NO_MATCHED_MSG = 19\n",
        "tests/unit/core/consume/test_pull_cursor.py::test_response_codes_are_statuses_or_errors",
    ),
    Mutant(
        "S8",
        "retry topics have a name of their own",
        "src/sprocketmq/core/retry/retry_schedule.py",
        'RETRY_PREFIX = "%RETRY%"\n',
        'RETRY_PREFIX = "%RETRIES%"\n',
        "tests/unit/core/retry/test_retry_schedule.py::test_names_lead_there_and_back",
    ),
    Mutant(
        "S8",
        "a level of the schedule is another one",
        "src/sprocketmq/core/retry/retry_schedule.py",
        '"1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"\nDEFAULT_MAX',
        '"1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h"\nDEFAULT_MAX',
        "tests/unit/core/retry/test_retry_schedule.py::test_the_default_levels_are_javas "
        "tests/unit/core/retry/test_retry_schedule.py::test_sixteen_retries_wait_almost_4_hours_and_46_minutes_in_sum",
    ),
    Mutant(
        "S10",
        "the broker's lock ends before the client stops trusting it",
        "src/sprocketmq/core/consume/queue_lock.py",
        "BROKER_LOCK_MAX_LIVE_MS = 60_000",
        "BROKER_LOCK_MAX_LIVE_MS = 20_000",
        "tests/unit/core/consume/test_queue_lock.py::test_one_renewal_may_fail_and_the_broker_keeps_longer_than_the_client_trusts",
    ),
]
