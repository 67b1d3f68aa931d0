# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pandas as pd
import pytest

from sprocketmq.cli.demo.flights import Flights
from sprocketmq.cli.demo.reconcile import Check, Reconciliation


@pytest.fixture
def findings() -> Reconciliation:
    table = pd.DataFrame(
        {
            "carrier": ["UA", "UA", "DL", "DL"],
            "hour": [5, 5, 6, 6],
            "dep_time": [517.0, 533.0, None, 600.0],
            "dep_delay": [2.0, 4.0, None, -1.0],
        }
    )
    return Reconciliation(Flights(table))


def test_equal_counts_of_different_rows_do_not_reconcile(findings):
    check = findings.rows("consumed", {0, 1, 2}, {0, 1, 3})
    assert (check.measured, check.expected, check.holds) == (3, 3, False)
    assert check.note == "1 rows missing, 1 rows that do not belong"


def test_one_wrong_number_fails_the_whole_run(findings):
    findings.add("publish", Check("messages", 4, 4), Check("throughput", "1 messages/s"))
    assert findings.holds
    findings.add("push", Check("lag", 1, 0))
    assert not findings.holds


def test_the_right_means_reconcile(findings):
    delays = pd.DataFrame({"carrier": ["DL", "UA"], "hour": [6, 5], "flights": [1, 2], "mean_dep_delay": [-1.0, 3.0]})
    assert all(check.holds for check in findings.means(delays))


@pytest.mark.parametrize(
    "delays",
    [
        {"carrier": ["DL", "UA"], "hour": [6, 5], "flights": [1, 2], "mean_dep_delay": [-1.0, 3.001]},
        {"carrier": ["DL", "UA"], "hour": [6, 5], "flights": [2, 1], "mean_dep_delay": [-1.0, 3.0]},
        {"carrier": ["UA"], "hour": [5], "flights": [2], "mean_dep_delay": [3.0]},
        {"carrier": ["DL", "UA", "WN"], "hour": [6, 5, 5], "flights": [1, 2, 1], "mean_dep_delay": [-1.0, 3.0, 0.0]},
    ],
    ids=["wrong mean", "wrong counts", "missing cell", "cell too many"],
)
def test_wrong_means_do_not_match(findings, delays):
    assert not all(check.holds for check in findings.means(pd.DataFrame(delays)))
