# SPDX-License-Identifier: Apache-2.0
"""Configuration files: a text is saved whole or not at all, the one before it is kept, and no crash brings an older one back."""

from __future__ import annotations

import contextlib
import errno
import os
import random
from pathlib import Path

import pytest

from sprocketmq.errors import StoreCorrupt, StoreNotWritable
from sprocketmq.store import config_files
from sprocketmq.store.config_files import ConfigFile, load_config, save_config
from sprocketmq.testing.simulation.power_disk import PowerDisk
from watched_disk import watched


def test_a_saved_text_comes_back_and_the_one_before_is_kept(tmp_path):
    path = tmp_path / "config/topics.json"
    assert load_config(path, bytes) is None
    save_config(path, b"one")
    save_config(path, b"two")
    assert (path.read_bytes(), (tmp_path / "config/topics.json.bak").read_bytes()) == (b"two", b"one")
    assert load_config(path, bytes) == b"two"
    assert sorted(file.name for file in path.parent.iterdir()) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("length", range(len("consumerOffset.json\n")))
def test_a_part_of_a_name_that_a_full_disk_left_is_no_table(tmp_path, length):
    (tmp_path / "tables").write_text("topics.json\n" + "consumerOffset.json\n"[:length])
    for name in ("topics.json", "consumerOffset.json", "delayOffset.json"):
        assert ConfigFile(tmp_path / "config" / name).save(b"{}")
    assert config_files.missing_tables(tmp_path) == {}
    for file in (tmp_path / "config").iterdir():
        file.unlink()
    assert [*config_files.missing_tables(tmp_path)] == ["consumerOffset.json", "delayOffset.json", "topics.json"]


@pytest.mark.parametrize("damage", ["missing", "empty", "unreadable"])
def test_the_spare_copy_serves_when_the_file_is_no_good(tmp_path, damage):
    path = tmp_path / "topics.json"
    save_config(path, b"1")
    save_config(path, b"2")
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "empty" else b"{broken")
    assert load_config(path, int) == 1


def test_two_unreadable_copies_stop_the_start(tmp_path):
    path = tmp_path / "topics.json"
    path.write_bytes(b"{")
    with pytest.raises(StoreCorrupt, match=r"neither .*topics.json nor its .bak"):
        load_config(path, int)


_STEPS = ("fsync", "unlink", "link", "replace")


def watch_steps(patch, look):
    """Call ``look`` before each step of a save, and after it."""

    def watched(step):
        def run(*arguments, **options):
            look()
            step(*arguments, **options)
            look()

        return run

    for name in _STEPS:
        patch.setattr(os, name, watched(getattr(os, name)))


def test_a_copy_made_file_by_file_during_a_save_holds_what_was_saved_before(tmp_path, monkeypatch):
    """The spare copy is read at one moment, the file at a later one: an older text would bring back what was deleted since."""
    path, moments = tmp_path / "topics.json", list[tuple[bytes | None, bytes | None]]()

    def look():
        moments.append((_text(path), _text(tmp_path / "topics.json.bak")))

    for number in (1, 2):
        save_config(path, b"%d" % number)
    watch_steps(monkeypatch, look)
    save_config(path, b"3")
    monkeypatch.undo()
    copy = tmp_path / "copy"
    copy.mkdir()
    for at, (_, spare) in enumerate(moments):
        for text, _ in moments[at:]:
            for name, content in (("topics.json", text), ("topics.json.bak", spare)):
                (copy / name).unlink(missing_ok=True)
                if content is not None:
                    (copy / name).write_bytes(content)
            assert load_config(copy / "topics.json", int) in (2, 3), f"{text!r} with {spare!r} beside it"


def test_a_power_cut_at_any_step_of_a_save_takes_nothing_back(tmp_path, monkeypatch):
    """No order of names is assumed: any of those that changed may be on the disk, and any may be not."""
    root, images = tmp_path / "config", list[Path]()
    root.mkdir()
    path = root / "topics.json"
    for number in (1, 2):
        save_config(path, b"%d" % number)
    disk = watched(PowerDisk(root), monkeypatch)

    def look():
        for _ in range(20):
            images.append(tmp_path / f"cut{len(images)}")
            disk.cut(images[-1], random.Random(len(images)))

    watch_steps(monkeypatch, look)
    save_config(path, b"3")
    disk.close()
    assert {load_config(image / "topics.json", int) for image in images} == {2, 3}


def _text(path):
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("unreadable", [False, True])
def test_a_save_that_is_killed_at_any_step_leaves_a_complete_text(tmp_path, unreadable, monkeypatch):
    """Also where the file had been damaged, and the spare copy had to serve. What the killed save left hinders no later one."""
    step = 0
    while True:
        path = tmp_path / str(step) / "topics.json"
        for number in (1, 2):
            save_config(path, b"%d" % number)
        if unreadable:
            path.write_bytes(b"{broken")
        left = step

        def die():
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1

        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            watch_steps(patch, die)
            save_config(path, b"3")
        assert load_config(path, int) in (1 if unreadable else 2, 3)
        for number in (4, 5):
            save_config(path, b"%d" % number)
        assert (path.read_bytes(), path.with_name("topics.json.bak").read_bytes()) == (b"5", b"4")
        if left:
            break
        step += 1
    assert step > 6


@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EMLINK, errno.EXDEV]
)
def test_where_files_have_one_name_only_the_file_is_replaced_and_the_spare_copy_stays(tmp_path, monkeypatch, number):
    """EINVAL is what Windows' "incorrect function" becomes, on exFAT and some network shares."""
    refused = OSError(number, os.strerror(number))

    def no_links(*_):
        raise refused

    path = tmp_path / "topics.json"
    for text in (b"1", b"2"):
        save_config(path, text)
    monkeypatch.setattr(os, "link", no_links)
    save_config(path, b"3")
    assert (load_config(path, int), path.with_name("topics.json.bak").read_bytes()) == (3, b"1")


def test_a_text_whose_successor_failed_on_the_way_is_written_again(tmp_path, monkeypatch):
    """The failed one may have got as far as the name: deleted, not acknowledged, made again, and gone after a restart."""
    file = ConfigFile(tmp_path / "x.json")
    file.save(b"1")

    def broken(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(config_files, "sync_directory", broken)
        with pytest.raises(StoreNotWritable):
            file.save(b"2")
    assert file.save(b"1")
    assert file.load(int) == 1


def test_an_unchanged_text_is_not_written_again(tmp_path):
    file = ConfigFile(tmp_path / "x.json")
    assert file.save(b"1")
    assert not file.save(b"1")
    assert file.save(b"2")
    assert file.load(int) == 2
    nowhere = ConfigFile(None)
    assert not nowhere.save(b"1")
    assert nowhere.load(int) is None
