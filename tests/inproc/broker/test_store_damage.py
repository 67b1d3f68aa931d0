# SPDX-License-Identifier: Apache-2.0
"""Every file of a store directory x every damage x (cleanly stopped, killed): nothing is lost in silence, and there is no traceback.

The files are those that are there. ``docs/internals/robustness.md`` has the results; ``WRITE_DOCS=1`` writes them there (nightly form).
"""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from inproc.broker.store_damage import (
    DAMAGES,
    SIZES,
    DamageCases,
    exchanged,
    files_of,
    foreign,
    kind_of,
    make_store,
    outcome_of,
)
from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.store import StoredMessage

STOPS = ("stopped", "killed")


@pytest.fixture(scope="module")
def stores(engine, tmp_path_factory):
    root, other = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("other")
    sent = make_store(engine, root)
    make_store(engine, other, salt=1, count=95)
    return root, other, sent


def result_of(outcome, is_table):
    """A few words for the table; raises if something was lost in silence. ``is_table``: what is there is sound."""
    said = "\n".join([outcome.refusal, *outcome.said, *outcome.checked])
    if outcome.refusal:
        assert outcome.refusal.count("\n") == 0
        return "refused"
    lost, lost_tables = outcome.facts
    for topic, _ in lost:
        assert topic in said, f"{lost} lost in silence: {said}"
        assert outcome.checked, f"{lost} lost, and the check says that the store is sound"
    if lost_tables and is_table and not lost and "older than its spare copy" not in said:
        return "not noticed"
    if lost_tables:
        assert "spare copy" in said, f"{lost_tables} lost in silence: {said}"
    if lost:
        return "said"
    if lost_tables:
        return "older copy"
    return "rebuilt" if any("built anew" in line or "rebuilding" in line for line in outcome.said) else "nothing lost"


def test_what_is_whole_is_not_refused(engine, stores, tmp_path, lines):
    root, _, sent = stores
    for stop in STOPS:
        copy = tmp_path / stop
        shutil.copytree(root / stop, copy)
        for _ in range(3):
            outcome = outcome_of(engine, copy, sent, lines)
            assert outcome[:2] == ("", ({}, [])), stop


def test_progress_behind_a_loss_that_was_accepted_is_moved_back_and_what_comes_next_is_consumed(
    engine, stores, tmp_path, lines
):
    root, _, sent = stores
    store = tmp_path / "store"
    shutil.copytree(root / "stopped", store)
    folders = [store / "commitlog", *(store / f"consumequeue/{topic}/{queue_id}" for topic, queue_id in sent)]
    for folder in folders:  # with the queues, or fillers would keep the offsets
        max(folder.iterdir()).unlink()
    refused = outcome_of(engine, store, sent, lines)
    assert "acceptStoreLoss" in refused.refusal
    config = BrokerConfig(**SIZES, accept_store_loss=True)
    lines.clear()
    broker = Broker("", port=0, store_dir=str(store), clock=ManualClock(), config=config, engine=engine)
    broker.start()

    async def look() -> None:
        for (topic, queue_id), bodies in sent.items():
            end = broker.store.max_offset(topic, queue_id)
            assert end < len(bodies) - 1
            for group in ("g1", "g2"):
                assert broker.offsets.query(group, topic, queue_id) == end
                said = f"group {group} was at offset {len(bodies) - 1} of topic {topic}, queue {queue_id}, which now ends at {end}"
                assert any(line.startswith(said) for line in lines)
            assert broker.put(StoredMessage(topic, queue_id, b"next"), 0).queue_offset == end

    try:
        engine.run(look())
    finally:
        broker.stop()


def test_a_table_exchanged_with_its_spare_copy_is_said(engine, stores, tmp_path, lines):
    root, _, sent = stores
    store = tmp_path / "store"
    shutil.copytree(root / "stopped", store)
    for turn in range(2):  # so that there is a spare copy
        broker = Broker(
            "", port=0, store_dir=str(store), clock=ManualClock(), config=BrokerConfig(**SIZES), engine=engine
        )
        broker.start()
        engine.run(commit_more(broker, turn))
        broker.stop()
    table, spare = store / "config/consumerOffset.json", store / "config/consumerOffset.json.bak"
    texts = table.read_bytes(), spare.read_bytes()
    assert texts[0] != texts[1]
    assert not [line for line in outcome_of(engine, store, sent, lines).said if "older than its spare copy" in line]
    table.write_bytes(texts[1])
    spare.write_bytes(texts[0])
    said = [line for line in outcome_of(engine, store, sent, lines).said if "older than its spare copy" in line]
    assert len(said) == 1
    assert "consumerOffset.json" in said[0]


async def commit_more(broker: Broker, turn: int) -> None:
    broker.offsets.commit("g1", "orders", 0, turn)


def some_of(names):
    """All files but those of queues and index, of which only the ends of the first series are taken."""
    series = [name for name in names if name.startswith(("consumequeue", "index"))]
    ends = [[name for name in series if name.startswith(folder)] for folder in ("consumequeue/flights/0/", "index/")]
    return [name for name in names if name not in series or any(name in (files[0], files[-1]) for files in ends)]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)])])
def test_nothing_is_lost_in_silence(engine, stores, tmp_path, lines, monkeypatch, every):
    root, other, sent = stores
    cases = DamageCases(tmp_path, monkeypatch)
    for stop in STOPS:
        names = files_of(root / stop)
        for number, name in enumerate(names if every else some_of(names)):
            has_spare = (root / stop / f"{name}.bak").exists()
            for kind, (damage, spoil) in enumerate(DAMAGES.items()):
                if not every and stop != STOPS[(number + kind) % 2]:
                    continue  # each damage of a file once, in turns stopped and killed
                # A table of another store, and the spare copy in place of its table, are tables like any other.
                is_table = "config" in name and (spoil is foreign or (spoil is exchanged and has_spare))
                cases.run(
                    partial(shutil.copytree, root / stop), other / stop, name, damage, kind_of(name),
                    lambda copy, is_table=is_table: result_of(outcome_of(engine, copy, sent, lines), is_table),
                )  # fmt: skip
    cases.compare_with_page(may_write=every)
