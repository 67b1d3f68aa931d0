# SPDX-License-Identifier: Apache-2.0
"""Stores that Apache RocketMQ 4.9.7 and 5.4.0 have written (tests/golden/store): read as they are, rebuilt byte for byte, written on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sprocketmq.store import DiskMessageStore, StoreConfig
from sprocketmq.store.files.checkpoint import Checkpoint
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT
from sprocketmq.store.tools.check import StoreSummary, check_directory

from .stores import NOW_MS, bodies, message, problems

GOLDEN = Path(__file__).parents[2] / "golden" / "store"
CONFIG = StoreConfig()


def assemble(version, target):
    """The heads put back into files of Apache's full lengths (sparse)."""
    heads = GOLDEN / version
    size = CONFIG.mapped_file_size_commit_log
    _sparse(target / "commitlog" / ("0" * 20), (heads / "commitlog-head.bin").read_bytes(), size)
    for head in heads.glob("consumequeue-*-head.bin"):
        topic, _, queue_id = head.name.removeprefix("consumequeue-").removesuffix("-head.bin").rpartition("-")
        path = target / "consumequeue" / topic / queue_id / ("0" * 20)
        _sparse(path, head.read_bytes(), CONFIG.mapped_file_size_consume_queue)
    (target / "checkpoint").write_bytes((heads / "checkpoint.bin").read_bytes().ljust(4096, b"\0"))
    shutil.copytree(heads / "config", target / "config")
    return target


def _sparse(path, head, size):
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


@pytest.fixture(params=sorted(path.name for path in GOLDEN.iterdir() if path.is_dir()) if GOLDEN.is_dir() else [])
def apache(request, tmp_path):
    path = assemble(request.param, tmp_path / "store")
    yield path
    shutil.rmtree(path)


def queue_heads(path):
    heads = {}
    for file in sorted(path.glob("consumequeue/*/*/*")):
        with file.open("rb") as opened:
            raw = opened.read(64 * 1024)
        heads[str(file.relative_to(path))] = raw.rstrip(b"\0")
    return heads


def test_its_laws_hold_in_a_store_that_apache_has_written(apache):
    summary = StoreSummary()
    assert [str(problem) for problem in check_directory(apache, summary=summary) if not problem.note] == []
    assert summary.record_count > 20
    assert summary.entry_count > 10


def test_a_clean_apache_store_opens_without_a_change(apache):
    before = queue_heads(apache)
    with (apache / "commitlog" / ("0" * 20)).open("rb") as log:
        end = len(log.read(1 << 16).rstrip(b"\0"))
    checkpoint = (apache / "checkpoint").read_bytes()
    store = DiskMessageStore(apache)
    store.load()
    assert end <= store.max_physical_offset <= end + 2
    assert problems(store) == []
    store.close()
    assert queue_heads(apache) == before
    assert (apache / "checkpoint").read_bytes()[24:2048] == checkpoint[24:2048]


def test_queues_rebuilt_from_apaches_log_equal_apaches_queues(apache):
    before = queue_heads(apache)
    shutil.rmtree(apache / "consumequeue")
    store = DiskMessageStore(apache)
    store.load()
    assert problems(store) == []
    store.close()
    after = queue_heads(apache)
    for name, head in before.items():
        units, rebuilt = list(UNIT.iter_unpack(_whole(head))), list(UNIT.iter_unpack(_whole(after[name])))
        assert rebuilt == [unit for unit in units if unit[1] != FILLER_SIZE], name


def _whole(head):
    return head + bytes(-len(head) % UNIT.size)


def test_a_killed_apache_store_is_recovered(apache):
    (apache / "abort").write_text("1")
    before = queue_heads(apache)
    store = DiskMessageStore(apache)
    store.load()
    assert problems(store) == []
    after = {name: head for name, head in queue_heads(apache).items() if name in before}
    assert after == before
    store.close()


def test_messages_are_appended_behind_apaches(apache):
    store = DiskMessageStore(apache)
    store.load()
    first = store.max_offset("golden", 0)
    end = store.max_physical_offset
    result = store.append(message("golden", 0, b"ours"), NOW_MS)
    assert (result.queue_offset, result.physical_offset) == (first, end)
    assert bodies(store, "golden", 0)[-1] == b"ours"
    assert problems(store) == []
    store.close()
    assert (apache / "commitlog" / ("0" * 20)).stat().st_size == 1 << 30
    checkpoint = Checkpoint(str(apache / "checkpoint"))
    checkpoint.load()
    assert checkpoint.durable_offset == end
