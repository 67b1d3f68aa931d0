# SPDX-License-Identifier: Apache-2.0
"""The files of messages that wait, of transactions, users and filters x every damage x (cleanly stopped, killed), as in
``test_store_damage``: nothing is lost in silence, and there is no traceback."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from inproc.broker.store_damage import DAMAGES, DamageCases, files_of, kind_of
from inproc.broker.waiting_damage import ROWS, TOPIC, make_waiting_store, waiting_on

# Where messages wait. The short form takes the first one.
WAITING = (
    "consumequeue/RMQ_SYS_TRANS_HALF_TOPIC",
    "consumequeue/RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "consumequeue/SCHEDULE_TOPIC_XXXX",
    "consumequeue/rmq_sys_wheel_timer",
    "config/consumerOffset.json",
)
Stores = tuple[Path, Path, set[str], Counter[bytes]]


@pytest.fixture(scope="module")
def stores(engine, tmp_path_factory):
    root, other = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("other")
    facts, bodies = make_waiting_store(engine, root)
    make_waiting_store(engine, other, salt=1)
    return root, other, facts, bodies


def result_of(found, facts, bodies, name, *, is_other_table):
    """A few words for the table; raises if something was lost in silence."""
    said = "\n".join([*found.said, *found.checked])
    if found.refusal:
        assert found.refusal.count("\n") == 0
        return "refused"
    facts_found, bodies_found = found.facts
    lost, missing = bodies - bodies_found, facts - facts_found
    if is_other_table and missing and not lost:
        return "not noticed"
    if lost:
        assert TOPIC in said or "timer" in said, f"{[*lost]} lost in silence: {said}"
        assert found.checked, f"{[*lost]} lost, and the check says that the store is sound"
    assert not missing or Path(name).name in said, f"{missing} lost in silence: {said}"
    if lost or missing:
        return "older copy" if missing and "spare copy" in said else "said"
    return "delivered again" if bodies_found - bodies else "nothing lost"


def test_what_is_whole_is_not_refused(engine, stores, tmp_path, lines):
    root, _, facts, bodies = stores
    for stop in ("stopped", "killed"):
        shutil.copytree(root / stop, tmp_path / stop)
        for _ in range(2):
            assert waiting_on(engine, tmp_path / stop, lines)[:2] == ("", (facts, bodies)), stop


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)])])
def test_nothing_is_lost_in_silence(engine, stores, tmp_path, lines, monkeypatch, every):
    root, other, facts, bodies = stores
    cases = DamageCases(tmp_path, monkeypatch)
    queues = WAITING if every else WAITING[:1]
    names = [
        name
        for name in files_of(root / "stopped")
        if Path(name).name.startswith(ROWS) or name.startswith(("timer", *queues))
    ]
    for number, name in enumerate(names):
        if name.endswith(".bak"):
            continue
        row = f"{kind_of(name)} of what waits" if name.startswith(WAITING) else kind_of(name)
        for turn, damage in enumerate(DAMAGES):
            is_other = damage in ("exchanged", "of another store")
            for stop in ("stopped", "killed"):
                if every or (2 * number + turn + (stop == "killed")) % 4 == 0:
                    cases.run(
                        partial(shutil.copytree, root / stop), other / stop, name, damage, row,
                        lambda copy, name=name, is_other=is_other: result_of(
                            waiting_on(engine, copy, lines), facts, bodies, name, is_other_table=is_other
                        ),
                    )  # fmt: skip
    cases.compare_with_page(may_write=every)
