# SPDX-License-Identifier: Apache-2.0
"""Files of stores that Apache's brokers have written (tests/golden/store) x every damage, as in ``test_store_damage``."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from inproc.broker.store_damage import DAMAGES, DamageCases, kind_of, messages_of, start_on
from sprocketmq.broker import Broker
from unit.store.test_apache_store import assemble

Facts = tuple[Counter[tuple[str, int, int, bytes]], set[str]]


async def _facts(broker: Broker) -> Facts:
    """All messages, and topics, groups and progress."""
    messages = Counter((*key, *found) for key in broker.store.queues() for found in messages_of(broker, *key))
    tables = {
        *(f"topic {topic}" for topic in broker.topics.table),
        *(f"group {group}" for group in broker.groups.table),
        *(f"progress {key} {offsets}" for key, offsets in broker.offsets.content(0).offset_table.items() if any(offsets.values())),
        *(f"delay level {level} {broker.schedule.progress(level)}" for level in range(1, 19)),
    }  # fmt: skip
    return messages, tables


def found_on(engine, store, lines):
    return start_on(engine, store, lines, lambda broker: engine.run(_facts(broker)), timer_wheel_enable=False)


def result_of(found, whole, name, *, is_other_table):
    """A few words for the table; raises if something was lost in silence."""
    text = "\n".join([*found.said, *found.checked])
    if found.refusal:
        assert found.refusal.count("\n") == 0
        return "refused"
    lost, missing = whole[0] - found.facts[0], whole[1] - found.facts[1]
    for topic, *_ in lost:
        assert topic in text, f"{[*lost][:5]} lost in silence: {text}"
        assert found.checked, f"{[*lost][:5]} lost, and the check says that the store is sound"
    if missing and not lost and is_other_table:
        return "not noticed"
    assert not missing or lost or Path(name).name in text, f"{sorted(missing)[:5]} lost in silence: {text}"
    return "said" if lost or missing else "nothing lost"


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)])])
def test_nothing_of_apaches_is_lost_in_silence(engine, tmp_path, lines, monkeypatch, every):
    cases = DamageCases(tmp_path, monkeypatch)

    def result(store, name, damage, whole):
        return result_of(found_on(engine, store, lines), whole, name, is_other_table=damage == "of another store")

    for version, other in [("5.4.0", "4.9.7"), ("4.9.7", "5.4.0")][: 2 if every else 1]:
        assemble(other, tmp_path / "other")
        refusal, whole, *_ = found_on(engine, assemble(version, tmp_path / "whole"), lines)
        assert not refusal
        files = sorted(
            str(path.relative_to(tmp_path / "other")) for path in (tmp_path / "other").rglob("*") if path.is_file()
        )
        names = [name for name in files if every or not name.startswith("consumequeue") or "/golden/" in name]
        for number, name in enumerate(names):
            for turn, damage in enumerate(DAMAGES):
                is_log = name.startswith("commitlog")
                if (not every and (number + turn) % 6) or (is_log and damage in ("exchanged", "of another store")):
                    continue  # a sparse file of 1 GiB
                cases.run(
                    partial(assemble, version), tmp_path / "other", name, damage, f"{kind_of(name)} of Apache's",
                    partial(result, name=name, damage=damage, whole=whole),
                )  # fmt: skip
        shutil.rmtree(tmp_path / "other")
        shutil.rmtree(tmp_path / "whole")
    cases.compare_with_page(may_write=every)
