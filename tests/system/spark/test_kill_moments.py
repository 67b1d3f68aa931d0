# SPDX-License-Identifier: Apache-2.0
"""Driver and workers killed at random moments: what is promised at least once comes, what is promised once comes once, rows are tried as
often as the dice say, and each row ends once. `make spark-kills` goes on for 200 kills, on a standalone cluster of two workers."""

from __future__ import annotations

import math
import os
import random
import time
from itertools import pairwise
from pathlib import Path

import pytest

from system.spark.kill_moments import BROKER_EACH, MOST_QUEUES, QUEUE_EACH, QUEUES, KillMoments

KILLS = int(os.environ.get("SPROCKETMQ_SPARK_KILLS", "4"))
SECONDS = float(os.environ.get("SPROCKETMQ_SPARK_KILL_SECONDS", "inf"))
SEED = os.environ.get("SPROCKETMQ_SPARK_KILL_SEED", "126" if KILLS <= 4 else str(random.randrange(1 << 32)))

# Executors in processes of their own want memory, and a new life of such a cluster takes its time.
CLUSTER = os.environ.get("SPROCKETMQ_SPARK_KILL_MASTER", "local" if KILLS <= 4 else "cluster") == "cluster"

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(1800 + 90 * KILLS)]


def test_three_streams_keep_their_promises_wherever_they_are_killed(tmp_path: Path) -> None:
    print(f"\nseed {SEED}, {tmp_path}")
    began_s = time.monotonic()
    with KillMoments(tmp_path, int(SEED), cluster=CLUSTER) as storm:
        for number in storm.run(KILLS, began_s + SECONDS):
            if number % 10 == 0:
                print(f"{number} kills, {time.monotonic() - began_s:.0f} s")
        verdict = storm.judged()
    print(verdict.counts, dict(sorted(storm.kills.items())), dict(storm.changes), sep="\n")
    cores = storm.cores()
    print(f"executors' cores in each life: {cores}", f"never reached: {dict(storm.missed)}", sep="\n")
    assert all(one != other for one, other in pairwise(cores)), cores
    if math.isinf(SECONDS):
        queues = min(KILLS // QUEUE_EACH, MOST_QUEUES - QUEUES)
        assert (storm.changes["broker restarted"], storm.changes["a queue more"]) == (KILLS // BROKER_EACH, queues)
        assert storm.kills.total() == KILLS
    assert not verdict.broken, "\n".join([f"seed {SEED}, {tmp_path}", *verdict.broken])
