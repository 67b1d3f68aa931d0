# SPDX-License-Identifier: Apache-2.0
"""Twenty kills under a mixed load; `make crash` makes five hundred of them."""

from __future__ import annotations

import random

import pytest

from interop.apache_cluster import free_ports
from interop.kill_storm import KillStorm
from interop.storm_tables import StormTables

pytestmark = pytest.mark.timeout(600)

KINDS = {"send", "send v1", "batch", "delayed", "half", "end", "commit", "send back", "topic created", "topic deleted"}


def test_twenty_kills_under_sends_transactions_delays_retries_and_commits_break_no_promise(tmp_path):
    seed = random.randrange(1 << 32)
    settings = {"flushDiskType": ("ASYNC_FLUSH", "SYNC_FLUSH")[seed % 2]}
    print(f"seed {seed}, {settings}")
    with KillStorm(tmp_path, free_ports(1), seed, check_every=10, settings=settings) as storm:
        for _ in storm.run(20):
            pass
        storm.settle()
        assert set(storm.ledger.done) >= KINDS, "all kinds of work were acknowledged"
        for what in ("made or changed", "deleted"):
            assert sum(storm.ledger.done[f"{kind} {what}"] for kind in StormTables.KINDS), what
        assert storm.kills["under load"], "kills hit the work"
        assert storm.ledger.cut_off, "kills hit the work"
        assert storm.checks >= 3, "the store was checked in between and at the end"
