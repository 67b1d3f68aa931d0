# SPDX-License-Identifier: Apache-2.0
"""Known faults can be planted in today's code, and the simulator finds some within seconds. ``make planted-faults``: all."""

from __future__ import annotations

import itertools
import re

import pytest

from known_faults import FAULTS, Fault, planted, search

# Draws that make a run short, and how the rule complains.
QUICK = {
    "stored twice": ("kinds=none; features=concurrent", "was sent once and is stored"),
    "futures never end": ("kinds=kills,freezes; features=concurrent,futures,auto-batches", "a send of .* takes"),
    "other bytes come back": ("kinds=none; features=concurrent,requests", "got the reply"),
    "replies to a dead connection": ("kinds=forgotten; features=concurrent,requests", "cannot reply, and"),
    "progress lost at give-up": (
        "messages=300; kinds=none; features=orderly; stay_s=60.0",
        "again after .* without a cause",
    ),
    "a lock is given away under a listener": ("kinds=none; features=orderly; stay_s=30.0", "two listeners"),
    "two owners of a lock": ("kinds=walls; features=orderly", "two listeners at|both hold the lock"),
    "delivered again": ("kinds=none; features=concurrent", "without a cause"),
    "no pause": ("kinds=none; features=concurrent,pauses", "is paused since"),
    "progress of others": (
        "kinds=walls,freezes; features=orderly; lasts_ms=225000; calmness=1; kinds at once=1; members of group-0=3",
        "went back from",
    ),
    "a message is lost in a member": ("kinds=none; features=broadcasting", "group finishes every"),
    "a cancelled receive takes its messages": (
        "kinds=none; features=iterating,cancels",
        "is not finished|no other listener ran|group finishes",
    ),
    "one file too many expires": (
        "kinds=full; features=retention; mappedFileSizeCommitLog=8192",
        "the index of .* lacks|every record is in the index|No such file|is not of a record",
    ),
    "a seek goes too far": ("kinds=none; features=assigned,seeks", "has sought"),
    "a filter that has left": ("kinds=none; features=concurrent,guests", "is not finished"),
    "shutdown waits for itself": ("kinds=none; features=concurrent,callbacks", "and no other listener ran"),
    "one frozen broker silences heartbeats": (
        "pace=hours; kinds=freezes,power; features=concurrent; lasts_ms=225000",
        "has not heard of",
    ),
    "a storm of requests": ("messages=10; kinds=none; features=concurrent", "has written|steps a second"),
    "who has left is remembered": ("kinds=none; features=none", "brokers and processes forget"),
    "rolled back is visible": ("kinds=none; features=transactions", "rolled back or recalled"),
    "one message blocks its level": ("kinds=none; features=concurrent,delays,doomed topics", "doomed does not exist"),
    "too early": ("kinds=none; features=delays", "before its time"),
    "a recall does nothing": ("kinds=none; features=timers,recalls", "rolled back or recalled"),
    "a waiting pull sleeps on": ("pace=hours; kinds=none; features=concurrent", "had nothing to do"),
    "a refused filter lets all pass": ("kinds=none; features=concurrent,filters", "does not want"),
    "a short write is taken for whole": ("kinds=short,full; features=concurrent,big", "space is reserved"),
    "names are not synced": ("kinds=power; features=concurrent", ""),
    "a table's name is away": ("kinds=kills; features=concurrent; calmness=0.3", "a start has found it"),
    "risen from the dead": ("kinds=kills; features=concurrent,doomed topics", "was deleted with doomed"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_can_be_planted_in_todays_code(fault: Fault) -> None:
    before = [edit.function.__code__ for edit in fault.edits]
    with planted(fault):
        assert all(edit.function.__code__ is not code for edit, code in zip(fault.edits, before, strict=True))
    assert [edit.function.__code__ for edit in fault.edits] == before


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_found_by_its_rule(name: str) -> None:
    given, says = QUICK[name]
    pace = "" if "pace" in given else "pace=dense; "
    fault = FAULTS[name]._replace(given=f"messages=250; {pace}{given}")
    found = search(fault, itertools.count(1), 120)
    assert found is not None
    assert re.search(says, found.error)
