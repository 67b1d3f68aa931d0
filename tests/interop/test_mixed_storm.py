# SPDX-License-Identifier: Apache-2.0
"""Mixed groups through a storm of joins, leaves and kills, judged by a history of all that was sent and consumed.

A few steps by default; SPROCKETMQ_STORM_STEPS=200 (`make mixed-groups`) is the full size, with kills in orderly groups, too, whose queues
stay locked for up to a minute then. SPROCKETMQ_STORM_SEED picks another course of events.
"""

from __future__ import annotations

import os
import time

import pytest

from interop.group_storm import GroupStorm
from interop.peers import VERSIONS

pytestmark = pytest.mark.nightly

STEPS = int(os.environ.get("SPROCKETMQ_STORM_STEPS", "6"))
SEED = int(os.environ.get("SPROCKETMQ_STORM_SEED", "20"))
QUEUES = 8
IS_FULL = STEPS > 20


# On the function: the folder's own limit is nearer than a module's. A minute and more for a step is a very slow machine.
@pytest.mark.timeout(900 + 75 * STEPS)
@pytest.mark.parametrize("kind", ["concurrent", "orderly"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_mixed_group_keeps_its_promises_through_joins_leaves_and_kills(servers, version, kind):
    cluster = servers.apache(version)
    topic = f"storm-{kind}-{os.getpid()}-{time.time_ns()}"
    cluster.create_topic(topic, QUEUES)
    with GroupStorm(
        cluster.namesrv_addr,
        topic,
        f"of-{topic}",
        queues=QUEUES,
        orderly=kind == "orderly",
        java_version=version,
        seed=SEED,
        kills=kind == "concurrent" or IS_FULL,
    ) as storm:
        for number in range(STEPS):
            storm.step()
            if number % 20 == 19:
                print(f"{kind} {version}: step {number + 1}, {dict(storm.happened)}", flush=True)
        storm.settle()
        history, happened = storm.history, storm.happened
        problems = history.problems()
        print(
            f"{kind} {version}: {STEPS} steps, {dict(happened)}; {len(history.sent)} messages acknowledged, {storm.refused_sends} refused, "
            f"{len(history.doubtful)} without an answer; {len(history.calls)} deliveries, {history.again} of them again; "
            f"{sum('hands' in problem or 'twice' in problem for problem in problems)} double owners, {len(problems)} problems",
            flush=True,
        )
        assert problems == [], f"seed {SEED}, {dict(happened)}"
    assert happened["join"]
    assert happened["leave"] + happened["kill"]
