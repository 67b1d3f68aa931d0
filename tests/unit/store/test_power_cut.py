"""Power cuts under SYNC_FLUSH: whatever the disk was not told to keep may be gone or torn; what was acknowledged is there, in order, once.

The model of the disk: a sync of a file keeps its content, a sync of a folder keeps its names. At the cut each sector of 512 bytes that has
changed since is what it was or what it is, at random. Names that were never synced may be missing, the newest of a folder first, and the
newest file left may have no length yet: file systems with a journal keep that order. The log that comes back must be a beginning of what
was appended, and no shorter than what was acknowledged.
"""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sprocketmq.store import DiskMessageStore, FlushDiskType, live_progress
from sprocketmq.store.check import check_directory
from sprocketmq.store.flush import Flusher

from .stores import NOW_MS, SMALL, message, problems, records

SECTOR_BYTES = 512
QUEUES = [("T", 0), ("T", 1), ("%RETRY%g", 0)]
NEVER_MS = 1 << 30  # the flush thread acts only when it is asked to
CONFIG = dataclasses.replace(
    SMALL,
    mapped_file_size_commit_log=8192,
    mapped_file_size_consume_queue=1_000,
    max_hash_slot_num=301,
    max_index_num=60,
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
    flush_interval_commit_log_ms=NEVER_MS,
    flush_interval_consume_queue_ms=NEVER_MS,
)


class Disk:
    """What would be left of a folder: watches ``os.fsync`` and ``os.fdatasync``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.contents: dict[Path, bytes] = {}
        self.names: set[Path] = set()
        for path in [root, *root.rglob("*")]:  # what was found at the start is on the disk
            self.names.add(path)
            if path.is_file():
                self.contents[path] = path.read_bytes()

    def sync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.is_dir():
            self.names.update(path.iterdir())
        elif path.exists():
            self.contents[path] = path.read_bytes()

    def cut(self, to: Path, dice: random.Random) -> None:
        """The folder as the next start finds it."""
        to.mkdir()
        lost: set[Path] = set()  # folders whose further names are lost
        newest: dict[Path, Path] = {}
        for path in sorted(self.root.rglob("*")):
            target = to / path.relative_to(self.root)
            if not target.parent.exists():
                continue
            if path not in self.names and (path.parent in lost or dice.random() < 0.5):
                lost.add(path.parent)
            elif path.is_dir():
                target.mkdir()
            else:
                target.write_bytes(self._torn(path, dice))
                newest[path.parent] = path
        for path in newest.values():
            if path not in self.contents and dice.random() < 0.3:
                (to / path.relative_to(self.root)).write_bytes(b"")

    def _torn(self, path: Path, dice: random.Random) -> bytes:
        now, kept = path.read_bytes(), self.contents.get(path)
        kept = (kept or b"").ljust(len(now), b"\0")
        sectors = range(0, len(now), SECTOR_BYTES)
        survives = dice.choice([0.1, 0.5, 0.9])
        return b"".join((now if dice.random() < survives else kept)[at : at + SECTOR_BYTES] for at in sectors)


class PowerCuts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="power-cut-")).resolve()
        self.patch = pytest.MonkeyPatch()
        self.appended: list[tuple[tuple[str, int], int, bytes]] = []
        self.ends: list[int] = []  # of the records, in the log
        self.acknowledged = self.number = self.turn = 0

    def teardown(self) -> None:
        self.store.close()
        self.patch.undo()
        shutil.rmtree(self.root)

    @initialize()
    def begin(self) -> None:
        self.start(self.root / "s0")

    def start(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.disk = Disk(path)
        self.patch.setattr(os, "fsync", self.disk.sync)
        self.patch.setattr(os, "fdatasync", self.disk.sync)
        self.patch.setattr(live_progress, "boot_mark", lambda turn=self.turn: turn.to_bytes(16, "big"))
        self.store = DiskMessageStore(path, CONFIG)
        self.store.load()

    def body(self, size: int) -> bytes:
        self.number += 1
        return (b"%d." % self.number * size)[:size]

    def keyed(self, key: tuple[str, int], size: int) -> Any:
        made = message(*key, self.body(size), tag="AB"[self.number % 2])
        made.properties = b"KEYS\x01all k%d\x02" % self.number + made.properties
        return made

    @rule(key=st.sampled_from(QUEUES), sizes=st.lists(st.integers(1, 1_500), min_size=1, max_size=8))
    def append(self, key: tuple[str, int], sizes: list[int]) -> None:
        for size in sizes:
            made = self.keyed(key, size)
            result = self.store.append(made, NOW_MS + self.number)
            self.note(key, result, made.body)

    @rule(key=st.sampled_from(QUEUES), sizes=st.lists(st.integers(1, 300), min_size=2, max_size=6))
    def append_batch(self, key: tuple[str, int], sizes: list[int]) -> None:
        made = [self.keyed(key, size) for size in sizes]
        for one, result in zip(made, self.store.append_batch(made, NOW_MS + self.number), strict=True):
            self.note(key, result, one.body)

    def note(self, key: tuple[str, int], result: Any, body: bytes) -> None:
        self.appended.append((key, result.queue_offset, body))
        self.ends.append(result.physical_offset + result.size)

    @rule()
    def acknowledge(self) -> None:
        """What an answer under SYNC_FLUSH waits for."""
        self.store.when_durable(self.store.max_physical_offset).result(10)
        self.acknowledged = len(self.appended)

    @rule(records=st.integers(1, 20))
    def build_index(self, records: int) -> None:
        self.store.dispatch(records)

    @rule()
    def flush_all(self) -> None:
        self.store.flush()
        self.acknowledged = len(self.appended)

    @rule(seed=st.integers(0, 1 << 32))
    def cut(self, seed: int) -> None:
        self.turn += 1
        path = self.root / f"s{self.turn}"
        self.disk.cut(path, random.Random(seed))
        self.store.close()
        self.start(path)
        self.check()

    @rule()
    def stop_cleanly(self) -> None:
        self.store.close()
        self.acknowledged = len(self.appended)
        assert [str(problem) for problem in check_directory(self.store.path) if not problem.note] == []
        self.start(Path(self.store.path))
        self.check()

    def check(self) -> None:
        assert problems(self.store) == []
        found = sorted(
            (record.physical_offset, (topic, queue_id), record.queue_offset, bytes(record.body))
            for topic, queue_id in self.store.queues()
            for record in records(self.store, topic, queue_id)
        )
        assert self.acknowledged <= len(found)
        assert [record[1:] for record in found] == self.appended[: len(found)]
        del self.appended[len(found) :]
        del self.ends[len(found) :]
        self.acknowledged = len(found)
        everywhere = {
            offset
            for topic in ("T", "%RETRY%g")
            for offset in self.store.find_by_key(topic, "all", 64, 0, 1 << 62).physical_offsets
        }
        assert {record[0] for record in found[-60:]} <= everywhere or len(found) > 60


PowerCuts.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestPowerCuts = PowerCuts.TestCase


@pytest.mark.parametrize("seed", range(12))
def test_index_entries_that_are_written_again_after_a_cut_survive_the_next_one(seed: int) -> None:
    """The sector with the header reached the disk, those with the entries did not: what is written again looks as what was read."""
    machine = PowerCuts()
    try:
        machine.begin()
        machine.append(key=("T", 1), sizes=[1, 1])
        machine.flush_all()
        machine.append(key=("T", 0), sizes=[1])
        machine.acknowledge()
        machine.build_index(records=1)
        machine.cut(seed=seed)
        machine.flush_all()
        machine.cut(seed=seed)
    finally:
        machine.teardown()


def one_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Twelve acknowledged messages, a cut that keeps only what was synced; how many come back."""
    disk = Disk(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda fd: disk.sync(fd))
    monkeypatch.setattr(os, "fdatasync", lambda fd: disk.sync(fd))
    store = DiskMessageStore(tmp_path / "s", CONFIG)
    store.load()
    for number in range(12):
        store.append(message(body=b"%d" % number * 900), NOW_MS)
        store.when_durable(store.max_physical_offset).result(10)

    class Worst(random.Random):
        """Nothing survives that was not synced."""

        def random(self) -> float:
            return 0.99

    disk.root = tmp_path / "s"
    disk.cut(tmp_path / "cut", Worst())
    store.close()
    monkeypatch.setattr(live_progress, "boot_mark", lambda: b"another boot....")
    again = DiskMessageStore(tmp_path / "cut", CONFIG)
    again.load()
    count = len(records(again))
    again.close()
    return count


def test_what_was_acknowledged_survives_the_worst_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert one_cut(tmp_path, monkeypatch) == 12


def test_the_model_notices_an_acknowledgement_without_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(self: Flusher) -> None:
        self.flushed_offset = self._log.max_offset
        self._release_waiters()

    monkeypatch.setattr(Flusher, "_sync_log", pretend)
    assert one_cut(tmp_path, monkeypatch) < 12
