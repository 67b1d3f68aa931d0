# SPDX-License-Identifier: Apache-2.0
"""A disk that runs full: sends are refused with Apache's code, reads go on, and all is well again when there is room."""

from __future__ import annotations

import errno
import os

import pytest

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.files import disk_space
from sprocketmq.store.files.mapped_progress import MappedProgress
from sprocketmq.store.services.retention import Retention
from sprocketmq.wire.codes import ResponseCode

ROUND_MS = 10_000
SHORT = {"UNIQ_KEY": "u"}  # the default holds the body


def test_a_nearly_full_disk_refuses_sends_and_serves_pulls_until_there_is_room(disk_cluster, monkeypatch):
    client = disk_cluster.client()
    assert client.send("flights", b"before").code == 0
    monkeypatch.setattr(Retention, "disk_used_percent", lambda self: 93.0)
    disk_cluster.clock.advance(ROUND_MS)
    refused = client.send("flights", b"refused")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "93% full" in refused.remark
    assert "diskSpaceWarningLevelRatio" in refused.remark
    assert client.bodies() == [b"before"]
    monkeypatch.setattr(Retention, "disk_used_percent", lambda self: 50.0)
    disk_cluster.clock.advance(ROUND_MS)
    assert client.send("flights", b"after").code == 0
    assert client.bodies() == [b"before", b"after"]


@pytest.mark.parametrize("left_bytes", [0, 5_000, 70_000])
def test_a_disk_without_a_byte_left_refuses_sends_changes_nothing_and_recovers_at_once(
    disk_cluster, monkeypatch, left_bytes
):
    client = disk_cluster.client()
    sent = [b"%d" % number * 1_000 for number in range(10)]
    for body in sent:
        assert client.send("flights", body, properties=SHORT).code == 0

    class FullDisk:
        """``os`` as ``disk_space`` sees it on a disk with room for a part of the next step, and for nothing after it."""

        left = left_bytes

        def __getattr__(self, name):
            return getattr(os, name)

        def write(self, fd, data):
            if not self.left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            taken = os.write(fd, memoryview(data)[: self.left])
            self.left -= taken
            return taken

    with monkeypatch.context() as patch:
        patch.setattr(disk_space, "os", FullDisk())
        while (
            answer := client.send("flights", b"x" * 50_000, properties=SHORT)
        ).code == 0:  # until the reserved space is used up
            sent.append(b"x" * 50_000)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "the disk is full" in answer.remark
        assert client.bodies() == sent
    assert client.send("flights", b"after").code == 0
    assert client.bodies() == [*sent, b"after"]


@pytest.mark.parametrize("disk_cluster", [{"clean_file_forcibly_enable": False}], indirect=True)
def test_unexpired_files_stay_when_forced_cleaning_is_off(disk_cluster, monkeypatch):
    client = disk_cluster.client()
    for _ in range(30):
        client.send("flights", b"x" * 100_000, properties=SHORT)
    files = len(disk_cluster.broker.store.commit_log.files.files)
    assert files > 2
    monkeypatch.setattr(Retention, "disk_used_percent", lambda self: 89.0)
    disk_cluster.clock.advance(ROUND_MS)
    assert disk_cluster.on_loop(lambda: len(disk_cluster.broker.store.commit_log.files.files)) == files


def test_timer_messages_wait_until_their_progress_can_be_recorded(disk_cluster, monkeypatch):
    """A disk that has space for the copies, but none for the first page of the progress: each retry would deliver again."""
    client = disk_cluster.client()

    def full(self, path):
        raise StoreNotWritable(f"the store cannot write {path}: the disk is full; free some space")

    with monkeypatch.context() as patch:
        patch.setattr(MappedProgress, "_open", full)
        client.send("flights", b"timed", properties={"TIMER_DELAY_SEC": "1", "UNIQ_KEY": "t"})
        for _ in range(5):
            disk_cluster.clock.advance(1_000)
        assert client.messages("flights") == []
        assert disk_cluster.on_loop(lambda: disk_cluster.broker.timers.waiting) == 0, "not in the wheel either"
    for _ in range(5):
        disk_cluster.clock.advance(1_000)
    assert sorted(message.body for message in client.messages("flights")) == [b"timed"]
