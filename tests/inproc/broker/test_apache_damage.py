# SPDX-License-Identifier: Apache-2.0
"""Files of stores that Apache's brokers have written (tests/golden/store) x every damage, as in ``test_store_damage``."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from inproc.broker.store_damage import DAMAGES, compare_with_page, kind_of, refusing, unreadable
from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.errors import RocketMQError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.net.process.engine import Engine
from sprocketmq.store import StoreConfig
from sprocketmq.store.tools.check import check_directory
from sprocketmq.wire.records.record import decode_records
from unit.store.test_apache_store import assemble

Facts = tuple[Counter[tuple[str, int, int, bytes]], set[str]]


async def _facts(broker: Broker) -> Facts:
    """All messages, and topics, groups and progress."""
    store = broker.store
    messages: Counter[tuple[str, int, int, bytes]] = Counter()
    for topic, queue_id in store.queues():
        offset = store.min_offset(topic, queue_id)
        while offset < store.max_offset(topic, queue_id):
            result = store.read(topic, queue_id, offset)
            for chunk in result.chunks:
                for message in decode_records(bytes(chunk)):
                    messages[topic, queue_id, message.queue_offset, message.body] += 1
            offset = result.next_offset
    tables = {
        *(f"topic {topic}" for topic in broker.topics.table),
        *(f"group {group}" for group in broker.groups.table),
        *(f"progress {key} {offsets}" for key, offsets in broker.offsets.content(0).offset_table.items() if any(offsets.values())),
        *(f"delay level {level} {broker.schedule.progress(level)}" for level in range(1, 19)),
    }  # fmt: skip
    return messages, tables


def start_on(engine: Engine, store: Path) -> tuple[str, Facts]:
    config = BrokerConfig(timer_wheel_enable=False)
    broker = Broker("", port=0, store_dir=str(store), clock=ManualClock(), config=config, engine=engine)
    try:
        broker.start()
    except RocketMQError as error:
        return str(error), (Counter(), set())
    try:
        return "", engine.run(_facts(broker))
    finally:
        broker.stop()


def judged(
    refusal: str, found: Facts, whole: Facts, said: list[str], checked: list[str], name: str, *, is_other_table: bool
) -> str:
    """A few words for the table; raises if something was lost in silence."""
    text = "\n".join([*said, *checked])
    if refusal:
        assert refusal.count("\n") == 0
        return "refused"
    lost, missing = whole[0] - found[0], whole[1] - found[1]
    for topic, *_ in lost:
        assert topic in text, f"{[*lost][:5]} lost in silence: {text}"
        assert checked, f"{[*lost][:5]} lost, and the check says that the store is sound"
    if missing and not lost and is_other_table:
        return "not noticed"
    assert not missing or lost or Path(name).name in text, f"{sorted(missing)[:5]} lost in silence: {text}"
    return "said" if lost or missing else "nothing lost"


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)])])
def test_nothing_of_apaches_is_lost_in_silence(
    engine: Engine, tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    table: dict[tuple[str, str], set[str]] = {}
    failures = []
    for version, other in [("5.4.0", "4.9.7"), ("4.9.7", "5.4.0")][: 2 if every else 1]:
        assemble(other, tmp_path / "other")
        refusal, whole = start_on(engine, assemble(version, tmp_path / "whole"))
        assert not refusal
        lines.clear()
        store = tmp_path / "store"
        files = sorted(
            str(path.relative_to(tmp_path / "other")) for path in (tmp_path / "other").rglob("*") if path.is_file()
        )
        names = [name for name in files if every or not name.startswith("consumequeue") or "/golden/" in name]
        for number, name in enumerate(names):
            for turn, (damage, spoil) in enumerate(DAMAGES.items()):
                is_log = name.startswith("commitlog")
                if (not every and (number + turn) % 6) or (is_log and damage in ("exchanged", "of another store")):
                    continue  # a sparse file of 1 GiB
                assemble(version, store)
                if (store / name).exists():
                    spoil(store / name, store, tmp_path / "other")
                    with monkeypatch.context() as patch:
                        if spoil is unreadable:
                            refusing(patch, store / name)
                        try:
                            try:
                                checked = [
                                    str(problem)
                                    for problem in check_directory(store, StoreConfig())
                                    if not problem.note
                                ]
                            except RocketMQError as error:
                                checked = [str(error)]
                            lines.clear()
                            refusal, found = start_on(engine, store)
                            result = judged(
                                refusal, found, whole, lines, checked, name, is_other_table=damage == "of another store"
                            )
                            table.setdefault((f"{kind_of(name)} of Apache's", damage), set()).add(result)
                        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure of this case
                            failures.append(f"{version} {name} {damage}: {type(error).__name__} {error}"[:600])
                shutil.rmtree(store)
        shutil.rmtree(tmp_path / "other")
        shutil.rmtree(tmp_path / "whole")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures)
    compare_with_page(table, may_write=every)
