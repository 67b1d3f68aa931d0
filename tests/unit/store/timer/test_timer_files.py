# SPDX-License-Identifier: Apache-2.0
"""Timer wheel, timer log and checkpoint: Apache's bytes, and what is left of them after a kill, a power cut or a careless rm."""

from __future__ import annotations

import os
import random
import shutil
import struct

import pytest

from sprocketmq.errors import StoreCorrupt, StoreNotWritable
from sprocketmq.store.files import mapped_progress
from sprocketmq.store.files.mapped_progress import MappedProgress
from sprocketmq.store.timer.timer_check import TimerCheck, load_timer_check, save_timer_check
from sprocketmq.store.timer.timer_files import TimerFiles
from sprocketmq.store.timer.timer_log import MAGIC_DELETE, UNIT_BYTES, TimerLog, TimerUnit
from sprocketmq.store.timer.timer_wheel import WHEEL_BYTES, WHEEL_SLOTS, Slot, TimerWheel
from sprocketmq.testing.simulation.power_disk import PowerDisk
from watched_disk import watched

NOW = 1_700_000_000_000
FILE_BYTES = 1024  # 19 units and a blank


def unit(physical=0, *, ahead_ms=5000, magic=1, write_ms=NOW):
    return TimerUnit(-1, magic, write_ms, ahead_ms, physical, 100, 7)


# -- the wheel -----------------------------------------------------------------------------------------------------------------


def test_a_slot_is_where_apache_looks_for_it(tmp_path):
    wheel = TimerWheel(str(tmp_path / "timerwheel"), 1000)
    wheel.put(Slot(NOW, 52, 104, 3, 9))
    wheel.close()
    raw = (tmp_path / "timerwheel").read_bytes()
    assert len(raw) == WHEEL_BYTES == 604_800 * 2 * 32
    at = NOW // 1000 % WHEEL_SLOTS * 32
    assert struct.unpack_from(">qqqii", raw, at) == (NOW // 1000, 52, 104, 3, 9)
    assert raw.count(0) >= WHEEL_BYTES - 32


def test_a_wheel_takes_no_more_of_the_disk_than_its_slots_in_use(tmp_path):
    wheel = TimerWheel(str(tmp_path / "timerwheel"), 1000)
    wheel.put(Slot(NOW, 0, 0, 1))
    assert os.stat(tmp_path / "timerwheel").st_blocks * 512 <= 64 * 1024


@pytest.mark.parametrize("precision_ms", [100, 1000])
def test_a_wheel_reads_back_the_slots_from_a_time_on_and_none_that_was_used_for_another_time(tmp_path, precision_ms):
    path = str(tmp_path / "timerwheel")
    round_ms = WHEEL_SLOTS * precision_ms
    now = NOW // precision_ms * precision_ms
    wheel = TimerWheel(path, precision_ms)
    for time_ms in (now - precision_ms, now, now + precision_ms * 70_000, now + precision_ms * 600_000):
        wheel.put(Slot(time_ms, 1, 2, 1))
    wheel.put(Slot(now - precision_ms + round_ms, 5, 6, 1))  # two weeks later, the same place
    wheel.close()
    again = TimerWheel(path, precision_ms)
    again.load(now)
    assert sorted(again.slots) == [
        now, now + precision_ms * 70_000, now + precision_ms * 600_000, now - precision_ms + round_ms,
    ]  # fmt: skip


def test_a_wheel_of_another_length_is_refused(tmp_path):
    (tmp_path / "timerwheel").write_bytes(b"x" * 100)
    with pytest.raises(StoreCorrupt, match="100 bytes"):
        TimerWheel(str(tmp_path / "timerwheel"), 1000).load(0)


# -- the log -------------------------------------------------------------------------------------------------------------------


def log_of(folder, count):
    log = TimerLog(str(folder), FILE_BYTES)
    for n in range(count):
        log.append(unit(n))
    return log


def reopened(folder, log_end=1 << 40):
    log = TimerLog(str(folder), FILE_BYTES)
    log.load()
    log.recover(0, log_end)
    return log


def test_a_unit_has_apaches_bytes(tmp_path):
    log = TimerLog(str(tmp_path), FILE_BYTES)
    assert log.append(TimerUnit(260, 3, NOW, -5, 1 << 40, 77, -1)) == 0
    raw = (tmp_path / f"{0:020d}").read_bytes()[:UNIT_BYTES]
    assert raw == struct.pack(">iqiqiqiiq", 52, 260, 3, NOW, -5, 1 << 40, 77, -1, 0)


def test_a_full_file_ends_with_a_blank_and_the_next_unit_begins_the_next_file(tmp_path):
    log = TimerLog(str(tmp_path), FILE_BYTES)
    positions = [log.append(unit(n)) for n in range(20)]
    assert positions[:19] == [n * 52 for n in range(19)]
    assert positions[19] == FILE_BYTES
    first = (tmp_path / f"{0:020d}").read_bytes()
    assert struct.unpack_from(">iqI", first, 19 * 52) == (FILE_BYTES - 19 * 52, 0, 0xBBCCDDEE ^ (1880681586 + 8))
    assert [log.read(position).physical_offset for position in positions] == list(range(20))


@pytest.mark.parametrize("count", [0, 1, 18, 19, 20, 37, 38, 39, 57])
def test_a_log_finds_its_end_again_and_goes_on_behind_it(tmp_path, count):
    log = log_of(tmp_path, count)
    end = log.end
    log.close()
    again = reopened(tmp_path)
    assert again.end == end
    last = again.last_unit()
    assert (last.physical_offset if last else None) == (count - 1 if count else None)
    again.append(unit(count))
    assert again.last_unit().physical_offset == count
    places = [int(place) for _, units in again.scan(0) for place in units["physical"]]
    assert places == list(range(count + 1))


def test_what_lies_behind_a_torn_unit_is_forgotten(tmp_path):
    log_of(tmp_path, 5).close()
    path = tmp_path / f"{0:020d}"
    raw = bytearray(path.read_bytes())
    raw[2 * 52 : 3 * 52] = bytes(52)
    path.write_bytes(raw)
    again = reopened(tmp_path)
    assert again.end == 2 * 52
    assert again.read(3 * 52) is None
    again.append(unit(9))
    assert path.read_bytes()[3 * 52 :].strip(b"\0") == b""


@pytest.mark.parametrize("kept_bytes", range(4, 40, 4))
@pytest.mark.parametrize("lost", ["tail", "head"])
def test_a_unit_on_two_pages_of_which_a_power_cut_took_one_is_forgotten(tmp_path, lost, kept_bytes):
    log_of(tmp_path, 5).close()
    path, begin = tmp_path / f"{0:020d}", 4 * 52
    raw = bytearray(path.read_bytes())
    gone = range(begin + kept_bytes, begin + 52) if lost == "tail" else range(begin, begin + kept_bytes)
    raw[gone.start : gone.stop] = bytes(len(gone))
    path.write_bytes(raw)
    again = reopened(tmp_path)
    assert again.last_unit().physical_offset == 3


def test_units_whose_records_a_power_cut_took_are_forgotten(tmp_path):
    log_of(tmp_path, 5).close()
    again = reopened(tmp_path, 3)  # as if the commit log ended there
    assert again.last_unit().physical_offset == 2


def test_files_whose_records_are_gone_are_deleted_but_never_the_last(tmp_path):
    log = TimerLog(str(tmp_path), FILE_BYTES)
    for n in range(50):
        log.append(unit(n * 1000))
    assert log.delete_before(18_000) == 0
    assert log.delete_before(18_001) == 1
    assert log.read(0) is None
    assert log.delete_before(1 << 40) == 1
    assert len(os.listdir(tmp_path)) == 1


def test_a_file_that_the_system_does_not_delete_is_a_trouble_of_the_store(tmp_path):
    """Who deletes it is a callback, in which nothing else may be raised."""
    log = TimerLog(str(tmp_path), FILE_BYTES)
    for n in range(50):
        log.append(unit(n * 1000))
    path = log.files.files[0].path
    os.rename(path, tmp_path / "away")
    os.mkdir(path)  # no file, whatever this user may do
    with pytest.raises(StoreNotWritable):
        log.delete_before(18_001)


# -- the checkpoint ------------------------------------------------------------------------------------------------------------


def test_the_checkpoint_has_apaches_bytes_and_keeps_what_lies_behind_them(tmp_path):
    path = str(tmp_path / "timercheck")
    live = MappedProgress(path, 2048)
    live.save((1, 2, 3))
    save_timer_check(path, TimerCheck(1, 2, 3, 4, 5, 6, 7))
    raw = (tmp_path / "timercheck").read_bytes()
    assert len(raw) == 4096
    assert struct.unpack_from(">7q", raw) == (1, 2, 3, 4, 5, 6, 7)
    assert load_timer_check(path) == TimerCheck(1, 2, 3, 4, 5, 6, 7)
    assert MappedProgress(path, 2048).load() == (1, 2, 3)


@pytest.mark.parametrize("copies_before", [None, 0, 1 << 40])
def test_a_flipped_bit_in_the_checkpoint_is_mended_and_what_java_writes_is_believed(tmp_path, caplog, copies_before):
    path = tmp_path / "timercheck"
    check = TimerCheck(NOW, 1_040, 20, 20, 0, NOW, 7, copies_before)
    save_timer_check(str(path), check)
    raw = path.read_bytes()
    for bit in range(0, 7 * 64, 3):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert load_timer_check(str(path)) == check
    assert "a bit has flipped" in caplog.text
    javas = TimerCheck(NOW + 1_000, 1_092, 21, 21, 0, NOW + 1_000, 8)
    path.write_bytes(javas.encode() + raw[56:])
    assert load_timer_check(str(path)) == javas
    path.write_bytes(raw[:80] + bytes([raw[80] ^ 1]) + raw[81:])  # of our part
    assert load_timer_check(str(path)) == TimerCheck(NOW, 1_040, 20, 20, 0, NOW, 7)


@pytest.mark.usefixtures("identities")
def test_a_copy_of_live_progress_does_not_count(tmp_path):
    """A snapshot of a running broker's disk has a file that is ahead of what else was on the disk."""
    live = MappedProgress(str(tmp_path / "live"))
    live.save((4, 5))
    live.close()
    shutil.copy(tmp_path / "live", tmp_path / "copy")
    assert MappedProgress(str(tmp_path / "copy")).load() is None
    os.rename(tmp_path / "live", tmp_path / "moved")
    assert MappedProgress(str(tmp_path / "moved")).load() == (4, 5)


def test_live_progress_counts_only_while_the_machine_that_wrote_it_runs(tmp_path, monkeypatch):
    path = str(tmp_path / "live")
    live = MappedProgress(path)
    live.save((4, 5))
    live.close()
    assert MappedProgress(path).load() == (4, 5)
    monkeypatch.setattr(mapped_progress, "boot_mark", lambda: b"another boot....")
    assert MappedProgress(path).load() is None
    monkeypatch.setattr(mapped_progress, "boot_mark", lambda: None)
    assert MappedProgress(path).load() is None
    MappedProgress(path).save((9,))  # nowhere to say whose it is: nothing is written


def test_one_number_of_live_progress_changes_alone_and_only_one_that_was_saved(tmp_path):
    path = str(tmp_path / "live")
    live = MappedProgress(path)
    live.change(0, 7)  # nothing was saved: no file is made
    assert not os.path.exists(path)
    live.save((1, 2, 3))
    live.change(1, 1 << 40)
    live.change(3, 9)
    assert MappedProgress(path).load() == (1, 1 << 40, 3)
    live.save((4, 5, 6, 7))
    assert MappedProgress(path).load() == (4, 5, 6, 7)
    live.close()
    live.change(0, 9)
    assert MappedProgress(path).load() == (4, 5, 6, 7)


class LookedAt(list):
    """Calls ``look`` right before each of its numbers is taken."""

    def __init__(self, numbers, look):
        super().__init__(numbers)
        self.look = look

    def __getitem__(self, index):
        self.look()
        return super().__getitem__(index)


class Watched(MappedProgress):
    """Remembers each state that a kill could find."""

    def __init__(self, *place):
        super().__init__(*place)
        self.found = []

    def look(self):
        self.found.append(self.load())

    def change(self, index, number):
        super().change(index, number)
        self.look()

    def save(self, numbers):
        super().save(LookedAt(numbers, self.look))
        self.look()


@pytest.mark.parametrize(
    "steps", [[(5, 0, 0), (5, 1_000, 1), (5, 1_000, 2), (6, 1_000, 3), (6, 3_000, 0), (6, 4_000, 1)]]
)
def test_what_was_done_of_one_slot_never_stands_beside_another(tmp_path, monkeypatch, steps):
    monkeypatch.setattr("sprocketmq.store.timer.timer_files.MappedProgress", Watched)
    before = TimerFiles(str(tmp_path), 1000, FILE_BYTES)
    before.load(lambda found: 0)
    before.record_progress(4, 500_000, 9)  # an earlier process, killed in the middle of a slot
    before.close()
    files = TimerFiles(str(tmp_path), 1000, FILE_BYTES)
    files.load(lambda found: 0)
    for step in steps:
        files.record_progress(*step)
    allowed = {(read_ms, done) for _, read_ms, done in steps} | {(500_000, 9)}
    for state in filter(None, files._progress.found):
        assert state[1:3] in allowed or state[2] == 0, f"{state} would skip what was not delivered"
    assert files._progress.load() == (*steps[-1], 0)


@pytest.mark.parametrize("raw", [b"", b"SPRKLIV2", b"x" * 100, b"SPRKLIV2" + bytes(16) + b"\xff" * 8])
def test_damaged_live_progress_is_ignored(tmp_path, raw):
    (tmp_path / "live").write_bytes(raw)
    assert MappedProgress(str(tmp_path / "live")).load() is None


# -- all together --------------------------------------------------------------------------------------------------------------


class Waiting:
    """Timer files over a pretended queue: entry n has its record at 100 * n."""

    def __init__(self, root):
        self.root = root
        self.files = TimerFiles(root, 1000, FILE_BYTES)
        self.files.load(lambda found: found.physical_offset // 100)
        self.next = self.files.queue_offset

    def add(self, ahead_ms, *, magic=1):
        entry = unit(self.next * 100, ahead_ms=ahead_ms, magic=magic)
        self.files.add(entry.slot_ms, entry)
        self.next += 1
        self.files.record_progress(self.next, self.files.read_ms, self.files.done)

    def lists(self):
        """Slot, as ms from NOW, -> the queue entries in its list, oldest first."""
        found = {}
        for time_ms, slot in self.files.wheel.slots.items():
            entries, position = [], slot.last
            while position >= 0:
                there = self.files.log.read(position)
                entries.append(there.physical_offset // 100)
                position = there.previous
            found[time_ms - NOW] = entries[::-1]
        return found

    def save(self):
        self.files.sync(0, self.files.snapshot(self.files.read_ms, NOW))

    def close(self):
        self.files.close()


def after_kill(waiting):
    waiting.close()
    return Waiting(waiting.root)


def power_cut(monkeypatch):
    monkeypatch.setattr(mapped_progress, "boot_mark", lambda: b"another boot....")


def after_power_cut(waiting, monkeypatch):
    power_cut(monkeypatch)
    return after_kill(waiting)


@pytest.fixture
def root(tmp_path):
    return str(tmp_path)


def fill(root, *, saved_after=30):
    waiting = Waiting(root)
    for n in range(45):
        waiting.add(5_000 + n % 3 * 1000)
        if n == saved_after:
            waiting.save()
    return waiting


def everything():
    return {5_000 + slot * 1000: [n for n in range(45) if n % 3 == slot] for slot in range(3)}


def test_a_recall_reduces_the_number_of_waiting_messages(root):
    waiting = Waiting(root)
    waiting.add(5_000)
    waiting.add(5_000, magic=1 | MAGIC_DELETE)
    assert waiting.files.wheel.total() == 0
    assert waiting.lists() == {5_000: [0, 1]}


def test_a_kill_loses_nothing_and_repeats_nothing(root):
    waiting = fill(root)
    waiting.files.record_progress(45, NOW + 5_000, 4)  # in the middle of delivering the first slot
    again = after_kill(waiting)
    assert again.lists() == everything()
    assert (again.files.queue_offset, again.files.read_ms, again.files.done) == (45, NOW + 5_000, 4)


def test_after_a_power_cut_the_checkpoint_counts_and_no_entry_is_linked_twice(root, monkeypatch):
    waiting = fill(root)
    waiting.files.record_progress(45, NOW + 6_000, 0)
    again = after_power_cut(waiting, monkeypatch)
    # Read from the checkpoint on; the log happens to hold what was read since, and that is known.
    assert (again.files.queue_offset, again.files.read_ms, again.files.done) == (31, 0, 0)
    assert again.lists() == everything()
    assert [n for n in range(31, 50) if again.files.is_known(n * 100)] == list(range(31, 45))
    again.files.caught_up()
    assert not again.files.is_known(3_100)


@pytest.mark.parametrize(("copies_before", "expected"), [(700, 4), (None, 3)])
def test_an_entry_that_was_delivered_when_it_was_read_is_not_read_again(root, monkeypatch, copies_before, expected):
    """It has no unit. Its copy lies before ``copies_before``, so nothing else would show that it was delivered. A checkpoint of Java, which
    has no such place, is read as Java does."""
    waiting = Waiting(root)
    for _ in range(3):
        waiting.add(5_000)
    waiting.files.record_progress(4, waiting.files.read_ms, 0)
    waiting.files.sync(0, waiting.files.snapshot(waiting.files.read_ms, NOW, copies_before))
    again = after_power_cut(waiting, monkeypatch)
    assert again.files.queue_offset == expected


def test_an_entry_that_was_linked_after_the_clock_went_back_waits_after_a_power_cut(root, monkeypatch):
    """Its slot is before the time of the checkpoint, up to which all is taken for delivered."""
    waiting = Waiting(root)
    waiting.add(60_000)
    waiting.files.sync(0, waiting.files.snapshot(NOW + 30_000, NOW, 700))
    waiting.add(5_000)
    again = after_power_cut(waiting, monkeypatch)
    assert again.next == 1
    if not again.files.is_known(100):
        again.add(5_000)
    assert again.lists() == {5_000: [1], 60_000: [0]}


@pytest.mark.parametrize("slots", [(5_000, 5_000), (5_000, 6_000), (6_000, 5_000)])
def test_a_kill_while_entries_are_linked_again_after_a_power_cut_loses_none(root, monkeypatch, slots):
    waiting = Waiting(root)
    waiting.add(60_000)
    waiting.files.sync(0, waiting.files.snapshot(NOW + 30_000, NOW, 700))
    for slot_ms in slots:  # the clock was set back
        waiting.add(slot_ms)
    power_cut(monkeypatch)
    for number, slot_ms in enumerate(slots, 1):  # a kill after each
        waiting = after_kill(waiting)
        assert waiting.next == number
        assert not waiting.files.is_known(100 * number)
        waiting.add(slot_ms)
    again = after_kill(waiting)
    expected = {slot_ms: [n for n, other in enumerate(slots, 1) if other == slot_ms] for slot_ms in slots}
    assert again.lists() == {60_000: [0], **expected}
    assert again.files.wheel.total() == 3


def test_what_was_delivered_of_a_slot_that_is_used_again_does_not_come_again_after_a_power_cut(root, monkeypatch):
    waiting = Waiting(root)
    waiting.add(5_000)
    waiting.add(60_000)
    waiting.files.record_progress(2, NOW + 10_000, 0)
    waiting.files.wheel.empty(NOW + 5_000, waiting.files.wheel.get(NOW + 5_000).last)
    waiting.files.sync(0, waiting.files.snapshot(NOW + 10_000, NOW, 700))
    waiting.add(3_000)  # the clock was set back
    waiting.files.sync(0, waiting.files.snapshot(NOW + 3_000, NOW, 700))
    waiting.add(5_000)
    again = after_power_cut(waiting, monkeypatch)
    assert again.lists() == {3_000: [2], 60_000: [1]}
    assert again.next == 3


def test_a_power_cut_that_leaves_no_unit_leaves_no_slot(root, monkeypatch):
    """A Java broker, too, would deliver by a slot what has its place in the log now."""
    waiting = Waiting(root)
    waiting.next = 1  # entry 0 was late, and has no unit
    waiting.files.record_progress(1, 0, 0)
    waiting.files.sync(0, waiting.files.snapshot(NOW, NOW, 700))
    waiting.add(5_000)
    again = after_power_cut(waiting, monkeypatch)
    again.add(60_000)
    assert after_kill(again).lists() == {60_000: [0]}


def test_a_slot_that_was_delivered_before_a_power_cut_does_not_come_again_when_the_clock_is_set_back(root, monkeypatch):
    waiting = Waiting(root)
    waiting.add(5_000)
    waiting.add(60_000)
    waiting.files.wheel.forget(NOW + 5_000)  # delivered, and not emptied yet
    waiting.files.sync(0, waiting.files.snapshot(NOW + 10_000, NOW, 700))
    waiting = after_power_cut(waiting, monkeypatch)
    waiting.add(2_000)
    assert after_kill(waiting).lists() == {2_000: [2], 60_000: [1]}


def test_after_a_power_cut_that_took_the_end_of_the_log_slots_that_point_there_are_linked_again(root, monkeypatch):
    waiting = fill(root, saved_after=30)
    waiting.close()
    power_cut(monkeypatch)
    path = os.path.join(root, "timerlog", f"{FILE_BYTES:020d}")
    with open(path, "r+b") as file:  # units 31.. lie at 12 * 52 and on in the second file
        file.seek(12 * 52)
        file.write(bytes(FILE_BYTES - 12 * 52))
    again = Waiting(root)
    assert again.files.queue_offset == 31
    assert again.lists() == {slot: [n for n in entries if n < 31] for slot, entries in everything().items()}


@pytest.mark.parametrize("seed", range(8))
def test_what_a_killed_process_wrote_is_on_the_disk_before_the_next_one_says_so(tmp_path, monkeypatch, seed):
    root, image = tmp_path / "store", tmp_path / "image"
    root.mkdir()
    disk = watched(PowerDisk(root, rows_in_order=True), monkeypatch)
    fill(str(root), saved_after=-1).close()
    again = Waiting(str(root))
    again.save()
    disk.cut(image, random.Random(seed))
    again.close()
    disk.close()
    power_cut(monkeypatch)
    after = Waiting(str(image))
    assert (after.files.queue_offset, after.lists()) == (45, everything())


@pytest.mark.parametrize("boot", ["the same", "another"])
def test_a_lost_wheel_is_made_again_from_the_log(root, monkeypatch, boot):
    waiting = fill(root)
    waiting.close()
    os.unlink(os.path.join(root, "timerwheel"))
    if boot == "another":
        power_cut(monkeypatch)
    again = Waiting(root)
    assert again.lists() == everything()


def test_a_lost_log_is_made_again_from_the_queue_but_what_was_delivered_stays_delivered(root):
    waiting = fill(root)
    waiting.files.record_progress(45, NOW + 6_000, 0)
    waiting.close()
    for name in os.listdir(os.path.join(root, "timerlog")):
        os.unlink(os.path.join(root, "timerlog", name))
    again = Waiting(root)
    assert again.files.queue_offset == 0
    assert again.files.skip_before == (45, NOW + 6_000)
    assert again.lists() == {}


@pytest.mark.parametrize("slots", [range(3), range(1), range(2, 3)])
def test_slots_that_the_wheel_lacks_are_linked_again_however_the_broker_ended(root, caplog, slots):
    waiting = fill(root)
    waiting.save()
    waiting.close()
    with open(os.path.join(root, "timerwheel"), "r+b") as file:
        for slot in slots:
            file.seek((NOW // 1000 + 5 + slot) % WHEEL_SLOTS * 32)
            file.write(bytes(32))
    again = Waiting(root)
    assert again.lists() == everything()
    assert again.files.wheel.total() == 45
    assert f"lacked {15 * len(slots)} waiting messages" in caplog.text


def test_a_wheel_that_is_behind_the_log_is_brought_up_to_date(root):
    """Apache keeps its wheel in memory between two flushes, so a killed Apache leaves an old wheel and a complete log."""
    waiting = fill(root, saved_after=30)
    old_wheel = dict(waiting.files.wheel.slots)
    waiting.close()
    wheel = TimerWheel(os.path.join(root, "timerwheel"), 1000)
    for time_ms, slot in old_wheel.items():
        last = max(n for n in everything()[time_ms - NOW] if n <= 30)
        wheel.put(Slot(time_ms, slot.first, last * 52 if last < 19 else FILE_BYTES + (last - 19) * 52, 1))
    wheel.close()
    again = Waiting(root)
    assert again.lists() == everything()


def test_a_snapshot_is_a_new_version_only_when_something_moved(root):
    waiting = fill(root)
    first = waiting.files.snapshot(NOW, NOW)
    assert waiting.files.snapshot(NOW, NOW + 5) is first
    assert waiting.files.snapshot(NOW + 1000, NOW + 5).counter == first.counter + 1
