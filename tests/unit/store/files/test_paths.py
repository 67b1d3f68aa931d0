# SPDX-License-Identifier: Apache-2.0
"""Paths made of names from elsewhere: one step down, or refused."""

from __future__ import annotations

import os

import pytest

from sprocketmq.client.consume.offset_store import LocalFileOffsetStore
from sprocketmq.errors import ConfigurationError
from sprocketmq.store import StoreConfig
from sprocketmq.store.files.paths import is_folder_name, path_below, remove_below
from sprocketmq.store.queue.consume_queue_ext import ConsumeQueueExtTable

from ..stores import open_disk

BAD = (
    "", ".", "..", "/", "/etc", "../x", "a/b", "a/", "a\\b", "..\\x", "C:\\x", "\x00", "a\x00", "a\nb", "\x7f", "\ud800",
    "n" * 256, "ä" * 128,
)  # fmt: skip
GOOD = ("t", "%RETRY%g", "%RETRY%g+t", "...", "..a", "a b", "ä", "n" * 255, "10.0.0.1@4711#99", "-")


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_no_single_step_down_is_refused(tmp_path, name):
    assert not is_folder_name(name)
    (tmp_path / "kept").write_text("")
    for names in ((name,), ("a", name), (name, "a")):
        with pytest.raises(ConfigurationError):
            path_below(tmp_path / "folder", *names)
    with pytest.raises(ConfigurationError):
        remove_below(tmp_path / "folder", name)
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize("name", GOOD)
def test_any_other_name_is_one_step_down(tmp_path, name):
    path = path_below(tmp_path, name)
    assert is_folder_name(name)
    assert os.path.dirname(os.path.abspath(path)) == str(tmp_path)
    os.makedirs(path_below(tmp_path, name, "0"))
    remove_below(tmp_path, name)
    assert os.listdir(tmp_path) == []


def test_a_link_is_removed_and_what_it_points_at_stays(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("")
    (tmp_path / "folder").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "folder" / "topic")
    remove_below(tmp_path / "folder", "topic")
    assert os.listdir(tmp_path / "folder") == []
    assert (tmp_path / "elsewhere" / "kept").exists()


def test_the_extension_and_the_queues_of_such_a_topic_are_refused(tmp_path):
    (tmp_path / "x").write_text("")
    extension = ConsumeQueueExtTable(str(tmp_path / "store" / "consumequeue_ext"), 1 << 16)
    for call in (
        extension.delete_topic,
        lambda topic: extension.exists(topic, 0),
        lambda topic: extension.put(topic, 0, 1, 1),
    ):
        with pytest.raises(ConfigurationError):
            call("../x")
    store = open_disk(tmp_path / "store")
    with pytest.raises(ConfigurationError):
        store.delete_topic("../x")
    with pytest.raises(ConfigurationError):
        store.consume_queues.open("../x", 0)
    assert (tmp_path / "x").exists()


@pytest.mark.parametrize(("client_id", "group"), [("../x", "group"), ("10.0.0.1@1", "../x")])
def test_a_clients_own_progress_is_kept_below_its_folder(tmp_path, client_id, group):
    with pytest.raises(ConfigurationError):
        LocalFileOffsetStore(tmp_path, client_id, group)


def test_a_folder_of_an_odd_name_among_the_queues_is_left_alone(tmp_path, caplog):
    odd = tmp_path / "consumequeue" / "a\nb" / "0"
    odd.mkdir(parents=True)
    (odd / ("0" * 20)).write_bytes(bytes(20_000))
    assert open_disk(tmp_path, StoreConfig(mapped_file_size_consume_queue=20_000)).queues() == []
    assert (odd / ("0" * 20)).exists()
    assert "is not a valid topic name" in caplog.text
