# SPDX-License-Identifier: Apache-2.0
"""Requests whose names are paths, at a broker process with a disk: everything on the disk is where it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import sprocketmq as rmq
from interop.apache_cluster import free_ports
from interop.child import poll_until
from interop.remoting import ask
from interop.sprocket_server import SprocketServer
from sprocketmq.store.tools.check import check_directory
from sprocketmq.wire.codes import RequestCode, ResponseCode

pytestmark = pytest.mark.timeout(120)


def listing(root: Path) -> dict[str, bytes]:
    """Every path below ``root``; what is in it too, where it is none of the broker's files. A table in the writing does not count."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            if name.endswith((".tmp", ".bak")):
                continue
            path = os.path.join(folder, name)
            is_ours = path.startswith(str(root / "place" / "store"))
            found[path] = b"" if is_ours or os.path.isdir(path) else Path(path).read_bytes()
    return found


def test_no_directory_is_deleted_by_the_name_of_a_topic(tmp_path: Path) -> None:
    (tmp_path / "victim" / "deep").mkdir(parents=True)
    (tmp_path / "victim" / "deep" / "precious").write_text("kept")
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "beside").write_text("kept")
    first = free_ports(1)
    server = SprocketServer(tmp_path / "place" / "store", ports=(first, first + 1), enableConsumeQueueExt="true")
    server.start(60)
    try:
        with rmq.Producer("senders", namesrv_addr=server.namesrv_addr) as producer:
            for number in range(20):
                producer.send(rmq.Message("kept", b"%d" % number))
        table = str(tmp_path / "place" / "store" / "config" / "topics.json")
        poll_until(lambda: table in listing(tmp_path), "the topics are written", 60)
        before = listing(tmp_path)
        victim = str(tmp_path / "victim")
        up = ("../../../victim", "../..", "../../", "..", ".", "./", "../commitlog", "kept/..", "a\\..\\..", "\x00")
        for topic in (victim, victim + "/", *up):
            answer = ask(server.broker_addr, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
            assert answer.code == ResponseCode.INVALID_PARAMETER, topic
        poll_until(lambda: listing(tmp_path) == before, "everything is where it was", 60)
        assert ask(server.broker_addr, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "kept"}).code == 0
        assert not (tmp_path / "place" / "store" / "consumequeue" / "kept").exists()
        assert server.stop_process() == 0
    finally:
        server.stop()
    assert [str(problem) for problem in check_directory(tmp_path / "place" / "store") if not problem.note] == []
