# SPDX-License-Identifier: Apache-2.0
"""Power cuts under SYNC_FLUSH: whatever the disk was not told to keep may be gone or torn; what was acknowledged is there, in order, once.

``power_disk`` says what may be lost: each sector and each name that was not synced, each for itself, but for the order of files in one row.
The power goes between two calls of the store or in front of any sync, also in the middle of a start or of a clean stop. A killed process
loses nothing, but what it left is in the page cache only: a later cut takes it. The log that comes back must be a beginning of what was
appended, and no shorter than what was acknowledged; after a kill it must be all of it.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from sprocketmq.store import DiskMessageStore, FlushDiskType
from sprocketmq.store.files import mapped_file, mapped_progress
from sprocketmq.store.tools.check import check_directory
from sprocketmq.testing.simulation.power_disk import PowerDisk
from watched_disk import watched

from ..stores import NOW_MS, SMALL, batch_of, kill, message, problems, records

QUEUES = [("T", 0), ("T", 1), ("%RETRY%g", 0)]
NEVER_MS = 1 << 30  # the flush thread acts only when it is asked to
CONFIG = dataclasses.replace(
    SMALL,
    mapped_file_size_commit_log=8192,
    mapped_file_size_consume_queue=200,
    max_hash_slot_num=301,
    max_index_num=60,
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
    flush_interval_commit_log_ms=NEVER_MS,
    flush_interval_consume_queue_ms=NEVER_MS,
)


class PowerCuts(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="power-cut-")).resolve()
        self.patch = pytest.MonkeyPatch()
        self.appended: list[tuple[tuple[str, int], int, bytes]] = []
        self.acknowledged = self.number = self.turn = 0
        self.planned: tuple[int, int] | None = None  # cut in front of the sync with that number, with that seed
        self.image: tuple[Path, int] | None = None  # what that cut left, and how much had been acknowledged

    def teardown(self):
        self.store.close()
        self.disk.close()
        self.patch.undo()
        shutil.rmtree(self.root)

    @initialize()
    def begin(self):
        (self.root / "s000").mkdir()
        self.start(self.root / "s000")

    def start(self, path):
        """On a machine that was started anew: what is in ``path`` is on its disk."""
        if self.turn:
            self.disk.close()
        self.disk = watched(PowerDisk(path, rows_in_order=True), self.patch)
        self.disk.before_sync = self.cut_as_planned
        self.patch.setattr(mapped_progress, "boot_mark", lambda turn=self.turn: turn.to_bytes(16, "big"))
        self.open(path)

    def open(self, path):
        self.store = DiskMessageStore(path, CONFIG)
        self.store.load()

    def next_path(self):
        self.turn += 1
        return self.root / f"s{self.turn:03d}"

    def cut_as_planned(self, number):
        if self.planned is not None and number >= self.planned[0]:
            self.image = self.next_path(), self.acknowledged
            self.disk.cut(self.image[0], random.Random(self.planned[1]))
            self.planned = None

    def body(self, size):
        self.number += 1
        return (b"%d." % self.number * size)[:size]

    def keyed(self, key, size):
        made = message(*key, self.body(size), tag="AB"[self.number % 2])
        made.properties = b"KEYS\x01all k%d\x02" % self.number + made.properties
        return made

    @rule(key=st.sampled_from(QUEUES), sizes=st.lists(st.integers(1, 1_500), min_size=1, max_size=8))
    def append(self, key, sizes):
        for size in sizes:
            made = self.keyed(key, size)
            result = self.store.append(made, NOW_MS + self.number)
            self.note(key, result.queue_offset, made.body)

    @rule(key=st.sampled_from(QUEUES), sizes=st.lists(st.integers(1, 300), min_size=2, max_size=6))
    def append_batch(self, key, sizes):
        made = [self.keyed(key, size) for size in sizes]
        result = self.store.append_batch(batch_of(made), NOW_MS + self.number)
        for number, one in enumerate(made):
            self.note(key, result.queue_offset + number, one.body)

    def note(self, key, queue_offset, body):
        self.appended.append((key, queue_offset, body))

    @rule()
    def acknowledge(self):
        """What an answer under SYNC_FLUSH waits for."""
        self.store.when_durable(self.store.max_physical_offset).result(10)
        self.acknowledged = len(self.appended)

    @rule(records=st.integers(1, 20))
    def build_index(self, records):
        self.store.dispatch(records)

    @rule()
    def flush_all(self):
        self.store.flush()
        self.acknowledged = len(self.appended)

    @rule(seed=st.integers(0, 1 << 32))
    def cut(self, seed):
        path = self.next_path()
        self.disk.cut(path, random.Random(seed))
        self.restart(path)

    @rule(seed=st.integers(0, 1 << 32), syncs=st.integers(1, 12))
    def cut_in_front_of_a_sync(self, seed, syncs):
        self.planned = self.disk.syncs + syncs, seed

    @invariant()
    def restart_after_the_planned_cut(self):
        if self.image is not None:
            (path, self.acknowledged), self.image = self.image, None
            self.restart(path)

    def restart(self, path):
        self.planned = None
        self.disk.before_sync = lambda number: None
        self.store.close()
        self.start(path)
        self.check()

    @rule()
    def kill(self):
        kill(self.store)
        self.open(Path(self.store.path))
        count = len(self.appended)
        self.check()
        assert len(self.appended) == count

    @rule()
    def stop_cleanly(self):
        self.store.close()
        self.acknowledged = len(self.appended)
        assert [str(problem) for problem in check_directory(self.store.path) if not problem.note] == []
        self.open(Path(self.store.path))
        self.check()

    def check(self):
        assert problems(self.store) == []
        found = sorted(
            (record.physical_offset, (topic, queue_id), record.queue_offset, bytes(record.body))
            for topic, queue_id in self.store.queues()
            for record in records(self.store, topic, queue_id)
        )
        assert self.acknowledged <= len(found)
        assert [record[1:] for record in found] == self.appended[: len(found)]
        del self.appended[len(found) :]
        self.acknowledged = len(found)
        everywhere = {
            offset
            for topic in ("T", "%RETRY%g")
            for offset in self.store.find_by_key(topic, "all", 64, 0, 1 << 62).physical_offsets
        }
        assert {record[0] for record in found[-60:]} <= everywhere or len(found) > 60


PowerCuts.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
TestPowerCuts = PowerCuts.TestCase


def run(*steps):
    machine = PowerCuts()
    try:
        machine.begin()
        for step in steps:
            step(machine)
            machine.restart_after_the_planned_cut()
    finally:
        machine.teardown()


def append(count, queue_id=1):
    return lambda machine: machine.append(key=("T", queue_id), sizes=[1] * count)


@pytest.mark.parametrize("seed", range(12))
def test_index_entries_that_are_written_again_after_a_cut_survive_the_next_one(seed):
    """The sector with the header reached the disk, those with the entries did not: what is written again looks as what was read."""

    def cut(machine):
        machine.cut(seed=seed)

    build = partial(PowerCuts.build_index, records=1)
    run(append(2), PowerCuts.flush_all, append(1, 0), PowerCuts.acknowledge, build, cut, PowerCuts.flush_all, cut)


@pytest.mark.parametrize("seed", range(10))
def test_the_names_of_files_that_a_killed_process_made_are_synced_by_the_next(seed):
    run(append(1), PowerCuts.kill, partial(PowerCuts.cut, seed=seed))


@pytest.mark.parametrize("seed", range(8))
def test_queues_are_synced_by_a_clean_stop_without_a_message_since_the_start(seed):
    """The killed process did not, and the start after the stop takes everything for synced."""
    steps = [append(2), PowerCuts.kill, PowerCuts.stop_cleanly, append(2, 0), PowerCuts.flush_all, PowerCuts.kill]
    run(*steps, partial(PowerCuts.cut, seed=seed))


@pytest.mark.parametrize("syncs", range(1, 6))
def test_an_index_that_a_start_has_repaired_is_synced_by_a_clean_stop_without_a_message(syncs):
    """The cut comes while the store stops or starts again, which then takes the index for whole."""
    begin = [append(8), PowerCuts.flush_all, append(3, 0), partial(PowerCuts.build_index, records=20)]
    for seed in range(12):
        planned = partial(PowerCuts.cut_in_front_of_a_sync, seed=seed * 7, syncs=syncs)
        run(*begin, partial(PowerCuts.cut, seed=seed), planned, PowerCuts.stop_cleanly)


def test_all_queue_files_that_a_killed_process_wrote_are_synced_by_the_next(tmp_path, monkeypatch):
    """The checkpoint that this start writes counts them all."""
    store = DiskMessageStore(tmp_path / "s", CONFIG)
    store.load()
    for number in range(50):
        store.append(message(), NOW_MS + number)
        if number == 14:
            store.flush()
    kill(store)
    synced: list[str] = []
    monkeypatch.setattr(mapped_file, "sync_path", lambda path: synced.append(Path(path).name))
    store.load()
    monkeypatch.undo()
    assert {f"{start:020d}" for start in range(200, 1_000, 200)} <= {
        *synced
    }  # of ten entries; the first was flushed whole
    store.close()
