# SPDX-License-Identifier: Apache-2.0
"""The checker finds what is broken: one rule broken at a time, on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.files import lock_file
from sprocketmq.store.queue.unit import UNIT
from sprocketmq.store.tools.check import StoreSummary, check_directory

from ..stores import NOW_MS, SMALL, crash, crashed, message, open_disk, patch

LOG = Path("commitlog") / ("0" * 20)
QUEUE = Path("consumequeue/T/0") / ("0" * 20)


def filled(path):
    """Four messages, cleanly stopped; the size of each record."""
    store = open_disk(path)
    for _ in range(4):
        size = store.append(message(), NOW_MS).size
    store.close()
    return size


def found(path):
    return "\n".join(str(problem) for problem in check_directory(path) if not problem.note)


def test_a_sound_store_has_no_problems_and_is_counted(tmp_path):
    size = filled(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    summary = StoreSummary()
    assert list(check_directory(tmp_path, summary=summary)) == []
    assert (summary.record_count, summary.record_bytes, summary.queue_count, summary.entry_count) == (4, 4 * size, 1, 4)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path, size: patch(path / QUEUE, 20, UNIT.pack(5, size, 0)), "where no record begins"),
        (lambda path, size: patch(path / QUEUE, 20, UNIT.pack(size, size + 1, 0)), "its record has"),
        (lambda path, size: patch(path / QUEUE, 20, UNIT.pack(0, size, 0)), "belongs to"),
        (lambda path, size: patch(path / QUEUE, 20, UNIT.pack(0, size, 0)), "lies before"),
        (lambda path, size: patch(path / QUEUE, 60, bytes(20)), "has no queue entry"),
        (lambda path, size: patch(path / LOG, 2 * size + 88, b"J"), "wrong checksum"),
        (lambda path, size: patch(path / LOG, 4 * size, b"torn"), "bytes that are not zero follow"),
    ],
)
def test_each_broken_rule_is_named(tmp_path, damage, sentence):
    size = filled(tmp_path)
    damage(tmp_path, size)
    assert sentence in found(tmp_path)


def test_a_running_broker_is_told_from_one_that_was_killed(tmp_path):
    store = open_disk(tmp_path)
    store.append(message(), NOW_MS)
    assert "a broker is running" in note_of_another_process(tmp_path)
    assert "a broker is running" in note_of_another_process(tmp_path), "the first look took no lock"
    killed = tmp_path.with_name("killed")
    crash(store, killed)
    assert "was killed" in note_of_another_process(killed)


def test_a_broker_that_starts_while_the_lock_is_looked_at_is_not_refused(tmp_path, monkeypatch):
    open_disk(tmp_path).close()
    code = (
        "from sprocketmq.store.files.lock_file import _lock_first_byte; import sys; file = open(sys.argv[1]); "
        "_lock_first_byte(file.fileno(), shared=True); print('looks', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"looks\n"
        monkeypatch.setattr(lock_file, "time", SimpleNamespace(sleep=lambda seconds: other.communicate()))
        open_disk(tmp_path)


def note_of_another_process(path):
    code = f"from sprocketmq.store.tools.check import check_directory as check; print(next(p for p in check({str(path)!r}) if p.note))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_left_over_abort_file_and_lost_queues_are_noted(tmp_path):
    filled(tmp_path)
    (tmp_path / "abort").touch()
    (tmp_path / QUEUE).unlink()
    notes = [str(problem) for problem in check_directory(tmp_path) if problem.note]
    assert any("abort" in note for note in notes)
    assert any("4 records without a queue" in note for note in notes)


def test_a_topic_that_was_deleted_before_a_kill_is_no_problem(tmp_path):
    store = open_disk(tmp_path / "live")
    store.append(message("gone"), NOW_MS)
    store.append(message(), NOW_MS)
    store.flush()
    store.delete_topic("gone")
    killed = crashed(store)
    assert "the queues had 2 entries" in found(killed)
    (killed / "config").mkdir()
    (killed / "config/deletedTopics.json").write_text(f'{{"gone": {store.max_physical_offset}}}')
    assert found(killed) == ""


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(StoreCorrupt, match="not a store directory"):
        list(check_directory(tmp_path))


def test_a_short_last_file_reads_as_a_start_would_extend_it_and_stays_as_it_is(tmp_path):
    store = open_disk(tmp_path / "store")
    for number in range(5):
        store.append(message(body=b"%d" % number), NOW_MS + number)
    killed = crashed(store)
    queue = killed / "consumequeue/T/0" / f"{0:020d}"
    for path in (killed / "commitlog" / f"{0:020d}", queue):
        path.write_bytes(path.read_bytes()[:70])
    assert list(check_directory(killed, SMALL)) != []
    assert queue.stat().st_size == 70


def test_one_short_file_does_not_count_as_the_size_of_all(tmp_path):
    store = open_disk(tmp_path / "store")
    for number in range(30):
        store.append(message(body=b"%d" % number), NOW_MS + number)
    store.close()
    first = tmp_path / "store/consumequeue/T/0" / f"{0:020d}"
    first.write_bytes(first.read_bytes()[:-20])
    assert "80 bytes where 100 are expected" in found(tmp_path / "store")


def test_a_checkpoint_that_cannot_be_read_is_one_sentence(tmp_path):
    open_disk(tmp_path / "store").close()
    checkpoint = tmp_path / "store/checkpoint"
    checkpoint.unlink()
    checkpoint.mkdir()
    for look in (open_disk, lambda path: list(check_directory(path))):
        with pytest.raises(StoreCorrupt, match="cannot be read"):
            look(tmp_path / "store")
