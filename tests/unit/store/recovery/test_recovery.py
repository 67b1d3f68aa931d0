# SPDX-License-Identifier: Apache-2.0
"""What a crash leaves, and what the next start makes of it: nothing acknowledged is lost, nothing else is shown."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import struct
import threading
from pathlib import Path

import pytest

from sprocketmq.errors import StoreCorrupt, StoreNotWritable
from sprocketmq.store import DiskMessageStore, StoredMessage
from sprocketmq.store.files.checkpoint import Checkpoint
from sprocketmq.store.files.lock_file import LockFile
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.log import log_walk
from sprocketmq.store.log.commit_log import CommitLog
from sprocketmq.store.queue.unit import UNIT
from sprocketmq.store.recovery.losses import Stop, stop_of
from sprocketmq.store.recovery.recovery import Recovery
from sprocketmq.store.services.flush import Flusher
from sprocketmq.store.tools.check import check_directory
from sprocketmq.wire.hashing import tags_code

from ..stores import NOW_MS, SMALL, batch_of, bodies, crash, crashed, kill, message, open_disk, patch, problems

ONE_FILE = dataclasses.replace(SMALL, mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=400)


@pytest.fixture(autouse=True, params=["one by one", "many at once"])
def way(request, monkeypatch):
    """Recovery takes the first records one by one and the rest in batches: each test with either alone."""
    if request.param == "many at once":
        monkeypatch.setattr(log_walk, "_FEW_RECORDS", 1)
        monkeypatch.setattr(log_walk, "_RECORDS_AT_ONCE", 7)


def log_file(path, start=0):
    return path / "commitlog" / f"{start:020d}"


def queue_file(path, topic="T", queue_id=0, start=0):
    return path / "consumequeue" / topic / str(queue_id) / f"{start:020d}"


def reopened(path, config=SMALL):
    store = open_disk(path, config)
    assert problems(store) == []
    return store


def power_cut(store):
    """As ``crashed``, but the machine was started anew: writes may be torn."""
    path = crashed(store)
    (path / "abort").write_text("1\nanother start of the machine")
    return path


def stopped(store):
    store.close()
    return Path(store.path)


STOPS = {"clean": stopped, "killed": crashed, "power": power_cut}


def fill(store, count, topic="T", queue_count=3):
    """``count`` messages; message i goes to queue i % queue_count."""
    sent = [b"body %04d" % index * (1 + index % 5) for index in range(count)]
    for index, body in enumerate(sent):
        store.append(message(topic, index % queue_count, body, tag="AB"[index % 2]), NOW_MS + index)
    return sent


def expect(store, sent, topic="T", queue_count=3):
    for queue_id in range(queue_count):
        assert bodies(store, topic, queue_id) == sent[queue_id::queue_count]


@pytest.fixture
def store(tmp_path):
    return open_disk(tmp_path / "s", ONE_FILE)


def test_a_clean_stop_and_start_scan_nothing_and_keep_everything(tmp_path):
    store = open_disk(tmp_path / "s")
    sent = fill(store, 100)
    end = store.max_physical_offset
    store.close()
    assert not (tmp_path / "s/abort").exists()
    again = reopened(tmp_path / "s")
    assert (tmp_path / "s/abort").read_text().startswith(f"{os.getpid()}\n")
    assert again.recovery.record_count == 0
    assert (again.max_physical_offset, again.flushed_offset) == (end, end)
    expect(again, sent)
    assert again.append(message("T", 0), NOW_MS).queue_offset == 34


def test_a_crash_after_a_flush_rescans_only_what_came_later(store, tmp_path):
    sent = fill(store, 200)
    store.flush()
    sent += [b"late"]
    store.append(message("T", 200 % 3, b"late"), NOW_MS)
    again = reopened(crash(store, tmp_path / "c"), ONE_FILE)
    assert again.recovery.record_count <= 2
    expect(again, sent)


@pytest.fixture(scope="module")
def three_messages(tmp_path_factory):
    """A store after a power cut with three messages in one queue: (directory, where the last record begins, where it ends)."""
    root = tmp_path_factory.mktemp("three")
    store = open_disk(root / "s", ONE_FILE)
    for index in range(3):
        result = store.append(message("Topic", 0, b"number %d" % index, tag="A"), NOW_MS)
    return power_cut(store), result.physical_offset, result.physical_offset + result.size


def test_a_last_record_cut_at_any_byte_is_dropped_and_its_entry_with_it(three_messages, tmp_path):
    source, begin, end = three_messages
    whole = log_file(source).read_bytes()[begin:end]
    for cut in range(len(whole)):
        path = shutil.copytree(source, tmp_path / f"cut-{cut}")
        patch(log_file(path), begin + cut, bytes(len(whole) - cut))
        store = reopened(path, ONE_FILE)
        assert bodies(store, "Topic") == [b"number 0", b"number 1"], f"cut at byte {cut}"
        assert store.max_physical_offset == begin
        assert store.append(message("Topic", 0, b"again"), NOW_MS).queue_offset == 2
        assert bodies(store, "Topic")[2:] == [b"again"]
        store.close()
        shutil.rmtree(path)


def test_a_last_record_damaged_at_any_byte_never_takes_its_neighbours_down(three_messages, tmp_path):
    source, begin, end = three_messages
    whole = log_file(source).read_bytes()[begin:end]
    body_at = whole.index(b"number 2")
    for at in range(len(whole)):
        path = shutil.copytree(source, tmp_path / f"flip-{at}")
        patch(log_file(path), begin + at, bytes([whole[at] ^ 0x55]))
        store = open_disk(path, ONE_FILE)
        broken = problems(store)
        if 20 <= at < 28:  # the queue offset, which no checksum covers
            assert all("Topic/0/2" in problem or f"at {begin}" in problem for problem in broken), (
                f"damaged at byte {at}"
            )
        else:
            assert broken == [], f"damaged at byte {at}"
        found = bodies(store, "Topic")
        assert found[:2] == [b"number 0", b"number 1"], f"damaged at byte {at}"
        if at < 12 or 28 <= at < 36 or body_at - 4 <= at < body_at + 8:  # size, magic, checksum, place, body
            assert len(found) == 2, f"damaged at byte {at}"
        store.close()
        shutil.rmtree(path)


def test_a_last_entry_torn_at_any_byte_is_written_anew(three_messages, tmp_path):
    source, _, _ = three_messages
    unit = queue_file(source, "Topic").read_bytes()[40:60]
    for cut in range(20):
        path = shutil.copytree(source, tmp_path / f"unit-{cut}")
        patch(queue_file(path, "Topic"), 40 + cut, bytes(20 - cut))
        store = reopened(path, ONE_FILE)
        assert queue_file(path, "Topic").read_bytes()[40:60] == unit, f"cut at byte {cut}"
        assert bodies(store, "Topic")[2] == b"number 2"
        store.close()
        shutil.rmtree(path)


def test_records_that_never_got_their_entries_are_indexed(store):
    sent = fill(store, 90)
    path = crashed(store)
    for queue_id in range(3):
        patch(queue_file(path, "T", queue_id, 400), 5 * 20, bytes(400 - 5 * 20))  # units 25.. of each queue
    again = reopened(path, ONE_FILE)
    expect(again, sent)
    assert {unit.tags_code for unit in again.units("T", 0, 26, 2)} == {tags_code("A"), tags_code("B")}


@pytest.mark.usefixtures("identities")
def test_a_copy_of_a_killed_store_may_lack_what_was_not_synced(tmp_path):
    """A snapshot of the disk of a running broker is such a copy, also on the machine that made it."""
    store = open_disk(tmp_path / "s")
    fill(store, 3)
    copied = crash(store, tmp_path / "c")
    kill(store)
    assert [stop_of(str(path), Checkpoint(None)) for path in (tmp_path / "s", copied)] == [Stop.KILLED, Stop.CRASHED]
    for path in (tmp_path / "s", copied):
        again = reopened(path)
        assert len(bodies(again, "T", 0)) == 1
        again.close()


def test_one_lost_queue_is_rebuilt_when_a_later_record_shows_the_hole(store):
    sent = fill(store, 30)
    store.flush()
    store.append(message("T", 0, b"after the flush"), NOW_MS)
    path = crashed(store)
    shutil.rmtree(path / "consumequeue/T/0")
    again = reopened(path, ONE_FILE)
    assert bodies(again, "T", 0) == [*sent[0::3], b"after the flush"]


def delete_queue(path):
    shutil.rmtree(path / "consumequeue/T/0")


def delete_topic(path):
    shutil.rmtree(path / "consumequeue/T")


def zero_queue(path):
    patch(queue_file(path), 0, bytes(queue_file(path).stat().st_size))


def zero_last_entry(path):
    patch(queue_file(path), 20 * 9, bytes(20))


@pytest.mark.parametrize("damage", [delete_queue, delete_topic, zero_queue, zero_last_entry])
@pytest.mark.parametrize(("stop", "later"), [("clean", 0), ("killed", 0), ("power", 40)])
def test_queues_that_are_lost_are_rebuilt_without_a_later_record(store, damage, stop, later):
    """Nothing in the log behind the checkpoint shows the hole, and what other queues got since does not hide it."""
    store.append(message("U", 9, b"another queue"), NOW_MS)
    sent = fill(store, 30)
    store.flush()
    for number in range(later):
        store.append(message("U", 9, b"%d" % number), NOW_MS)
    path = STOPS[stop](store)
    assert not [problem for problem in check_directory(path) if not problem.note]
    damage(path)
    assert [problem for problem in check_directory(path) if not problem.note]
    again = reopened(path, ONE_FILE)
    assert bodies(again, "T", 0) == sent[0::3]
    assert again.append(message("T", 0, b"next"), NOW_MS).queue_offset == 10


def test_a_topic_that_was_deleted_after_the_checkpoint_is_no_lost_queue(store, tmp_path, caplog):
    fill(store, 30)
    store.flush()
    store.append(message("U", 9, b"so that the deletion has a place of its own"), NOW_MS)
    deleted = {"T": store.max_physical_offset}
    store.delete_topic("T")
    path = crash(store, tmp_path / "c")
    store.flush()  # its checkpoint counts without them
    flushed = crashed(store)
    for directory in (path, flushed):
        again = DiskMessageStore(directory, ONE_FILE)
        again.load(deleted)
        assert again.recovery.begin > 0
        again.close()
    assert "the queues had" not in caplog.text


@pytest.mark.parametrize("lost", [500, 1_500])
def test_a_queue_that_lost_many_entries_is_made_whole_from_an_earlier_begin(tmp_path, lost):
    """Its later records show it, however far they are behind its end: none of them is taken for damaged."""
    sizes = dataclasses.replace(
        ONE_FILE, mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20 * 5_000
    )
    store = open_disk(tmp_path / "s", sizes)
    sent = [b"%d" % number for number in range(2_000)]
    for body in sent:
        store.append(message("T", 0, body), NOW_MS)
    store.append(message("U", 0, b"the flush begins the next scan behind all of T"), NOW_MS + 1)
    store.flush()
    store.append(message("T", 0, b"late"), NOW_MS + 2)
    path = crashed(store)
    with (path / "consumequeue/T/0" / f"{0:020d}").open("r+b") as file:
        file.seek(20 * (len(sent) - lost))
        file.write(bytes(20 * (lost + 1)))
    again = reopened(path, sizes)
    assert bodies(again, "T", 0) == [*sent, b"late"]
    assert again.append(message("T", 0, b"next"), NOW_MS + 3).queue_offset == len(sent) + 1


def test_delayed_messages_get_their_delivery_time_back(store):
    delayed = StoredMessage(
        "SCHEDULE_TOPIC_XXXX", 2, b"later", b"DELAY\x013\x02REAL_TOPIC\x01T\x02", tags_code=NOW_MS + 10_000
    )
    store.append(delayed, NOW_MS)
    path = crashed(store)
    shutil.rmtree(path / "consumequeue")
    again = reopened(path, ONE_FILE)
    assert [unit.tags_code for unit in again.units("SCHEDULE_TOPIC_XXXX", 2, 0)] == [NOW_MS + 10_000]


def test_a_crash_between_the_filler_and_the_next_record_keeps_the_next_file(tmp_path):
    store = open_disk(tmp_path / "s")
    store.append(message(body=b"x" * 1500), NOW_MS)
    store.append(message(body=b"y" * 1500), NOW_MS)
    path = crashed(store)
    log_file(path, 2048).write_bytes(bytes(2048))
    again = reopened(path)
    assert again.max_physical_offset == 2048
    assert bodies(again) == [b"x" * 1500]
    assert again.append(message(body=b"z" * 1500), NOW_MS).physical_offset == 2048


def test_a_file_that_a_crash_left_short_is_extended(tmp_path):
    store = open_disk(tmp_path / "s")
    store.append(message(), NOW_MS)
    path = crashed(store)
    log_file(path, 2048).write_bytes(b"")
    queue_file(path, start=100).write_bytes(b"")
    again = reopened(path)
    assert bodies(again) == [b"hello"]
    assert {file.stat().st_size for file in (path / "commitlog").iterdir()} == {2048}


def test_a_log_that_is_gone_is_refused_and_its_offsets_are_not_used_again(tmp_path):
    store = open_disk(tmp_path / "s")
    fill(store, 10)
    store.close()
    shutil.rmtree(tmp_path / "s/commitlog")
    with pytest.raises(StoreCorrupt, match=r"commitlog is empty.*10 messages: 10 of topic T .*acceptStoreLoss"):
        open_disk(tmp_path / "s")
    again = reopened(tmp_path / "s", dataclasses.replace(SMALL, accept_store_loss=True))
    assert again.has_lost_messages
    assert [bodies(again, "T", queue_id) for queue_id in range(3)] == [[], [], []]
    assert again.append(message(), NOW_MS).queue_offset == 4
    again.close()
    store = reopened(tmp_path / "s")
    assert bodies(store) == [b"hello"]


@pytest.mark.parametrize("left_bytes", [0, 30, None])
def test_an_accepted_loss_of_the_log_with_a_damaged_queue_leaves_what_the_log_has(tmp_path, left_bytes):
    store = open_disk(tmp_path / "s")
    sent = fill(store, 60)
    store.close()
    max((tmp_path / "s/commitlog").iterdir()).unlink()
    damaged = max(file for file in (tmp_path / "s/consumequeue/T/0").iterdir() if any(file.read_bytes()))
    damaged.unlink() if left_bytes is None else os.truncate(damaged, left_bytes)
    with pytest.raises(StoreCorrupt):
        open_disk(tmp_path / "s")
    again = reopened(tmp_path / "s", dataclasses.replace(SMALL, accept_store_loss=True))
    for queue_id in range(3):
        found = bodies(again, "T", queue_id)
        assert found == sent[queue_id::3][: len(found)]
        assert 10 < len(found) < 20
        next_offset = again.append(message("T", queue_id), NOW_MS).queue_offset
        assert next_offset == (20 if queue_id else len(found))


def test_stale_entries_behind_the_end_of_a_queue_are_ignored(store, tmp_path):
    """Apache moves its write position back without clearing what lies behind."""
    sent = fill(store, 9)
    store.close()
    stale = UNIT.pack(0, 117, 0) + UNIT.pack(100_000, 117, 0)
    patch(queue_file(tmp_path / "s"), 3 * 20, stale)
    again = reopened(tmp_path / "s", ONE_FILE)
    expect(again, sent)


def test_what_lies_behind_the_end_is_zeroed_so_that_it_cannot_come_back(store):
    for index in range(5):
        result = store.append(message(body=b"same size %d" % index), NOW_MS)
    path = power_cut(store)
    patch(
        log_file(path), 2 * result.size + 90, b"torn"
    )  # the third record; the fourth and fifth are sound, but unreachable
    again = reopened(path, ONE_FILE)
    assert bodies(again) == [b"same size 0", b"same size 1"]
    again.append(message(body=b"same size X"), NOW_MS)
    last = reopened(crashed(again), ONE_FILE)
    assert bodies(last) == [b"same size 0", b"same size 1", b"same size X"]


def test_zeros_in_the_middle_of_the_log_cost_only_their_records(store, tmp_path):
    """The checkpoint of a killed broker knows that the log goes on, when a lost queue is built anew from it."""
    sent = fill(store, 30)
    begin, end = (store.units("T", 0, offset, 1)[0].physical_offset for offset in (4, 5))
    store.flush()
    kill(store)
    patch(log_file(tmp_path / "s"), begin, bytes(end - begin))
    delete_queue(tmp_path / "s")
    again = open_disk(tmp_path / "s", ONE_FILE)
    for queue_id in range(3):
        assert bodies(again, "T", queue_id) == sent[:12][queue_id::3] + sent[15:][queue_id::3]
        assert again.append(message("T", queue_id), NOW_MS).queue_offset == 10


@pytest.mark.parametrize("looked_first", [False, True])
def test_zeros_in_the_middle_of_a_store_that_was_never_flushed_are_said(store, tmp_path, caplog, looked_first):
    sent = fill(store, 30)
    begin, end = (store.units("T", queue_id, 4, 1)[0].physical_offset for queue_id in (0, 2))
    kill(store)
    patch(log_file(tmp_path / "s"), begin, bytes(end - begin))
    lost = "2 messages: 2 of topic T (queue 0 offsets 4 to 4, queue 1 offsets 4 to 4)"
    if looked_first:
        assert any(lost in str(problem) for problem in check_directory(tmp_path / "s", ONE_FILE))
    again = open_disk(tmp_path / "s", ONE_FILE)
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said.startswith(f"the commit log is damaged from physical offset {begin} to {end}: ")
    assert said.endswith(lost)
    assert bodies(again, "T", 0) == sent[0:12:3] + sent[15::3]
    assert bodies(again, "T", 1) == sent[1:12:3] + sent[16::3]
    assert bodies(again, "T", 2) == sent[2::3]


def test_what_a_power_cut_kept_from_the_disk_is_said(store, caplog):
    sent = fill(store, 30)
    end = store.units("T", 2, 7, 1)[0].physical_offset
    path = power_cut(store)
    os.truncate(log_file(path), end)
    os.truncate(log_file(path), ONE_FILE.mapped_file_size_commit_log)
    again = reopened(path, ONE_FILE)
    expect(again, sent[:23])
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"it ends at physical offset {end}, " in said
    queues = "queue 0 offsets 8 to 9, queue 1 offsets 8 to 9, queue 2 offsets 7 to 9"
    assert said.endswith(f"of 7 messages: 7 of topic T ({queues})")


def test_a_log_of_which_a_power_cut_kept_no_file_is_said(store, caplog):
    fill(store, 3)
    path = power_cut(store)
    log_file(path).unlink()
    again = reopened(path, ONE_FILE)
    expect(again, [])
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.endswith("queue 0 offsets 0 to 0, queue 1 offsets 0 to 0, queue 2 offsets 0 to 0)")


def test_a_recreated_topic_keeps_its_messages_through_a_rebuild(store):
    for index in range(6):
        store.append(message(body=b"first %d" % index), NOW_MS)
    store.delete_topic("T")
    for index in range(2):
        store.append(message(body=b"second %d" % index), NOW_MS)
    path = crashed(store)
    shutil.rmtree(path / "consumequeue")
    again = reopened(path, ONE_FILE)
    assert bodies(again) == [b"second 0", b"second 1"]


def _fail(part: Recovery | LockFile) -> bool:
    raise StoreNotWritable("the disk fails")


def _javas(tmp_path, *, stop="clean", lost=()) -> tuple[Path, list[bytes]]:
    """A store of topics T and U, of which a Java broker has deleted U: it notes no deletion. ``lost``: queues of T that are missing."""
    store = open_disk(tmp_path / "s", ONE_FILE)
    sent = fill(store, 30)
    fill(store, 30, "U")
    store.flush()
    path = STOPS[stop](store)
    for name in ("U", *lost):
        shutil.rmtree(path / "consumequeue" / name)
    (path / "lock").write_bytes(b"lock")  # what a Java broker leaves there
    return path, sent


def _loaded(path, known, deleted=None, config=ONE_FILE) -> DiskMessageStore:
    store = DiskMessageStore(path, config)
    store.load(deleted or {}, known)
    return store


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("then", ["ours goes on", "a start fails", "ours is killed", "ours is killed twice"])
def test_a_topic_that_a_java_broker_has_deleted_is_told_from_a_lost_queue(tmp_path, monkeypatch, stop, then):
    path, sent = _javas(tmp_path, stop=stop, lost=["T/0"])
    if then == "a start fails":
        with monkeypatch.context() as broken:
            broken.setattr(Recovery, "_scan", _fail)
            with pytest.raises(StoreNotWritable):
                _loaded(path, {"T"})
    again = _loaded(path, {"T"})
    for _ in range({"ours is killed": 1, "ours is killed twice": 2}.get(then, 0)):
        path = crashed(again)
        assert not [problem for problem in check_directory(path, ONE_FILE) if not problem.note]
        again = _loaded(path, {"T"})
        assert again.recovery.record_count <= 1, "the whole log was read again"
    assert {topic for topic, _ in again.queues()} == {"T"}
    expect(again, sent)


@pytest.mark.parametrize("sent", [[], [b"new"]])
def test_a_topic_that_a_java_broker_has_deleted_and_ours_has_created_again_is_new(tmp_path, sent):
    path, _ = _javas(tmp_path)
    store = _loaded(path, {"T"})
    end = store.checkpoint.javas_end  # the broker notes it as the topic's deletion
    for body in sent:
        store.append(message("U", body=body), NOW_MS)
    path = crashed(store)
    assert bodies(_loaded(path, {"T", "U"}, {"U": end}), "U") == sent


def test_a_full_scan_adds_no_old_message_to_a_topic_that_was_created_again_and_is_in_no_table_yet(tmp_path):
    path, _ = _javas(tmp_path)
    store = _loaded(path, {"T"})
    store.append(message("U", body=b"new"), NOW_MS)
    path = crashed(store)
    os.truncate(queue_file(path, queue_id=0), 40)
    assert bodies(_loaded(path, {"T"}), "U") == [b"new"]


def test_a_topic_that_java_deleted_after_ours_had_run_in_between_stays_deleted(tmp_path):
    path, sent = _javas(tmp_path)
    checkpoint = (path / "checkpoint").read_bytes()
    store = _loaded(path, {"T"})
    store.append(message("V", body=b"written by Java"), NOW_MS)
    store.close()
    (path / "checkpoint").write_bytes(checkpoint)
    (path / "lock").write_bytes(b"lock")
    store = _loaded(path, {"T", "V"})
    path = crashed(store)
    shutil.rmtree(path / "consumequeue/V")
    (path / "lock").write_bytes(b"lock")
    store = _loaded(path, {"T"})
    assert {topic for topic, _ in store.queues()} == {"T"}
    expect(store, sent)


def test_a_queue_that_a_power_cut_took_before_its_first_sync_is_no_deletion_of_javas(tmp_path, monkeypatch):
    path, sent = _javas(tmp_path, lost=["T/0"])
    (path / "checkpoint").write_bytes(struct.pack(">qqqqq", NOW_MS, NOW_MS, 0, 0, 0).ljust(4096, b"\0"))
    (path / "abort").write_text("")
    cut = []

    def cut_before_the_sync(flusher):
        cut.append(crash(store, tmp_path / "cut"))
        flush(flusher)

    store, flush = DiskMessageStore(path, ONE_FILE), Flusher.flush
    with monkeypatch.context() as patched:
        patched.setattr(Flusher, "flush", cut_before_the_sync)
        store.load(known_topics=set())
    store.close()
    shutil.rmtree(cut[0] / "consumequeue")
    expect(_loaded(cut[0], set()), sent)


def test_what_is_sent_after_a_loss_was_accepted_is_no_deletion_of_javas(tmp_path):
    path, _ = _javas(tmp_path)
    _loaded(path, {"T"}).close()
    for file in (path / "commitlog").iterdir():
        file.unlink()
    store = _loaded(path, {"T"}, config=dataclasses.replace(ONE_FILE, accept_store_loss=True))
    store.append(message("X", body=b"new"), NOW_MS)
    store.flush()
    path = power_cut(store)
    shutil.rmtree(path / "consumequeue/X")
    assert bodies(_loaded(path, {"T"}), "X") == [b"new"]


def test_a_damaged_queue_is_no_deletion_of_javas(tmp_path):
    """Although its topic is not in topics.json, as in a spare copy of it."""
    path, sent = _javas(tmp_path)
    os.truncate(queue_file(path, queue_id=0), 40)
    expect(_loaded(path, set()), sent)


def test_a_start_that_cannot_say_whose_the_store_is_leaves_no_thread(tmp_path, monkeypatch):
    path, _ = _javas(tmp_path)
    before = threading.active_count()
    with monkeypatch.context() as broken:
        broken.setattr(LockFile, "mark_as_ours", _fail)
        with pytest.raises(StoreNotWritable):
            _loaded(path, {"T"})
    assert threading.active_count() == before


def test_a_batch_that_is_being_written_is_no_loss(tmp_path, monkeypatch, caplog):
    """The flush thread may save the checkpoint between its queue entries and its records."""
    store = open_disk(tmp_path / "s")
    sent = fill(store, 20)
    write = CommitLog.write

    def flush_and_write(log, record):
        store.flush()
        write(log, record)

    monkeypatch.setattr(CommitLog, "write", flush_and_write)
    store.append_batch(batch_of([message(body=b"%d" % number) for number in range(3)]), NOW_MS)
    path = crashed(store)
    again = reopened(path)
    assert len(bodies(again)) == len(sent[0::3]) + 3
    assert "whole log" not in caplog.text


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_damaged_entries_at_the_end_of_a_recreated_topic_are_rebuilt(tmp_path, damaged):
    """They are durable, so the scan begins behind them: only that they are there tells that it has to begin earlier."""
    store = open_disk(tmp_path / "s")
    for index in range(5):
        store.append(message(body=b"first %d" % index), NOW_MS)
    deleted_at = store.max_physical_offset
    store.delete_topic("T")
    second = [b"second %d" % index for index in range(3)]
    for body in second:
        store.append(message(body=body), NOW_MS)
    fill(store, 20, "U")
    store.flush()
    path = crashed(store)
    for number in range(3 - damaged, 3):
        raw = queue_file(path).read_bytes()[number * UNIT.size + 5]
        patch(queue_file(path), number * UNIT.size + 5, bytes([raw ^ 0x21]))  # two bits of the position: beyond mending
    again = DiskMessageStore(path, SMALL)
    again.load({"T": deleted_at})
    assert problems(again) == []
    assert bodies(again) == second


@pytest.mark.parametrize("crash_at", range(1, 12))
def test_a_recovery_that_is_killed_begins_anew(tmp_path, crash_at, monkeypatch):
    store = open_disk(tmp_path / "s")
    sent = fill(store, 60)
    path = power_cut(store)
    with log_file(path, 2048).open("r+b") as file:
        file.seek(1000)
        file.write(bytes(128))
    shutil.rmtree(path / "consumequeue/T/1")
    steps = 0

    class Killed(BaseException):
        pass

    def step_or_die(real):
        def call(*arguments):
            nonlocal steps
            steps += 1
            if steps == crash_at:
                raise Killed
            return real(*arguments)

        return call

    for name in ("create", "zero_from", "delete"):
        monkeypatch.setattr(MappedFile, name, step_or_die(getattr(MappedFile, name)))
    for _ in range(20):  # later starts find less to do, and must come to the same
        (path / "abort").touch()
        with contextlib.suppress(Killed):
            open_disk(path).close()
    assert steps > crash_at
    monkeypatch.undo()
    again = reopened(path)
    total = sum(again.max_offset("T", queue_id) for queue_id in range(3))
    assert 0 < total < 60
    expect(again, sent[:total])
    again.close()
    assert [str(problem) for problem in check_directory(path)] == []


def test_apaches_checkpoint_lets_recovery_begin_inside_a_file(store, tmp_path):
    sent = [b"%d" % number for number in range(300)]
    for number, body in enumerate(sent):
        store.append(message("T", number % 3, body), NOW_MS + number * 1_000)
    store.close()
    (tmp_path / "s/abort").touch()
    now = NOW_MS + 299_000
    (tmp_path / "s/checkpoint").write_bytes(struct.pack(">qqqqq", now, now, 0, 0, 0).ljust(4096, b"\0"))
    patch(queue_file(tmp_path / "s", start=1600), 100, UNIT.pack(0, 0, 0) * 15)  # entries lost not long ago
    store = reopened(tmp_path / "s", ONE_FILE)
    expect(store, sent)
    assert 60 <= store.recovery.record_count <= 70, "a minute and three seconds, not the whole file"


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("start", [0, 100, 300])
@pytest.mark.parametrize("damage", ["missing", "short", "empty"])
def test_a_queue_that_misses_a_file_is_built_anew_from_the_log(tmp_path, stop, damage, start):
    """Java goes on behind the hole, and no consumer sees the messages whose entries are gone."""
    store = open_disk(tmp_path / "s")
    for number in range(20):
        store.append(message(body=b"%d" % number), NOW_MS)
    path = STOPS[stop](store)
    if damage == "missing":
        queue_file(path, start=start).unlink()
    else:
        os.truncate(queue_file(path, start=start), 40 if damage == "short" else 0)
    again = reopened(path)
    assert bodies(again) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("checkpoint", ["ours", "without totals", "Java's"])
def test_a_start_that_fails_after_it_deleted_queues_leaves_them_to_the_next_one(store, monkeypatch, checkpoint, stop):
    sent = [b"%d" % number for number in range(60)]
    for number, body in enumerate(sent):
        store.append(message("T", int(number >= 30), body), NOW_MS + number * 60_000)  # no later record shows a hole
        if number == 50:
            store.flush()
    path = STOPS[stop](store)
    found = Checkpoint(str(path / "checkpoint"))
    found.load()
    if checkpoint != "ours":
        found.queue_totals = None
        found.save()
    if checkpoint == "Java's":
        now = NOW_MS + 59 * 60_000
        (path / "checkpoint").write_bytes(struct.pack(">qqqqq", now, now, 0, 0, 0).ljust(4096, b"\0"))
    os.truncate(queue_file(path, queue_id=0), 40)

    with monkeypatch.context() as broken:
        broken.setattr(Recovery, "_scan", _fail)
        with pytest.raises(StoreNotWritable):
            open_disk(path, ONE_FILE)
    assert not queue_file(path, queue_id=0).exists()
    store = reopened(path, ONE_FILE)
    assert bodies(store, queue_id=0) == sent[:30]
    assert bodies(store, queue_id=1) == sent[30:]


def test_after_a_start_that_built_queues_anew_and_failed_wrong_entries_do_not_make_the_log_another_stores(tmp_path):
    """A power cut may bring the deleted queue files back, with the entries for which they were deleted."""
    for name, size in (("before", 40), ("now", 70)):
        store = open_disk(tmp_path / name)
        for number in range(5):
            store.append(message(body=b"%d" % number * size), NOW_MS)
        store.flush()
        path = power_cut(store)
    shutil.copy(queue_file(tmp_path / "before-crashed"), queue_file(path))
    checkpoint = Checkpoint(str(path / "checkpoint"))
    checkpoint.load()
    checkpoint.durable_offset = 0
    checkpoint.save()
    store = reopened(path)
    assert bodies(store) == [b"%d" % number * 70 for number in range(5)]
