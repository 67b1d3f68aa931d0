# SPDX-License-Identifier: Apache-2.0
"""Folders that a broker may not use, that two brokers would use, and a process without descriptors: one sentence, and nothing half done."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.child import Child, poll_until
from interop.remoting import Answer, Asking, ask
from interop.sprocket_server import SprocketServer
from sprocketmq.store.tools.check import check_directory
from system.broker.floods import PULL, send_fields

resource = pytest.importorskip("resource")
SEND_MESSAGE, PULL_MESSAGE, GET_BROKER_CONFIG = 310, 11, 26
CONF = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 1_000, "maxIndexNum": 1_000, "timerWheelEnable": True}


def held_to_modes() -> list[str]:
    """What to put before a command so that the modes of folders count for it: root reads and writes everything else."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed, and for root modes do not count")
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"]


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "parent"
    path.mkdir()
    yield path
    for folder in [path, *(folder for folder in path.rglob("*") if folder.is_dir())]:
        folder.chmod(0o755)


def sending(topic: str, queue_id: int) -> tuple[int, dict[str, str], bytes]:
    return SEND_MESSAGE, send_fields(topic) | {"e": str(queue_id), "i": "UNIQ_KEY\x01k\x02"}, b"body"


def pulling(topic: str, queue_id: int) -> tuple[int, dict[str, str], bytes]:
    return PULL_MESSAGE, {**PULL, "topic": topic, "queueId": str(queue_id)}, b""


def send(server: SprocketServer, topic: str, queue_id: int = 0) -> Answer:
    return ask(server.broker_addr, *sending(topic, queue_id))


def pull(server: SprocketServer, topic: str, queue_id: int = 0) -> Answer:
    return ask(server.broker_addr, *pulling(topic, queue_id))


def last_words(server: SprocketServer) -> str:
    """What it says when it refuses to start: one sentence."""
    child: Child = server.spawn()
    assert child.wait() != 0
    child.kill()
    [sentence] = re.findall("^sprocketmq: (.*)$", server.log_text(), re.MULTILINE)
    assert "Traceback" not in server.log_text()
    return str(sentence)


@pytest.mark.parametrize("separate_log", [False, True])
def test_a_store_below_a_folder_that_may_not_be_listed_takes_messages(parent, separate_log):
    store = parent / "store"
    settings = {**CONF, "flushDiskType": "SYNC_FLUSH"}  # an answer comes after the folders were synced
    if separate_log:
        settings["storePathCommitLog"] = str(parent / "log")
    parent.chmod(0o311)
    with SprocketServer(store, prefix=held_to_modes(), **settings) as server:
        for queue_id in range(3):
            answer = send(server, "t", queue_id)
            assert answer.code == 0, answer.header
        assert pull(server, "t").code == 0
        assert server.stop_process() == 0


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("", 0o511),
        ("commitlog", 0o311),
        ("commitlog", 0o611),
        ("consumequeue", 0o511),
        ("index", 0o511),
        ("config", 0o511),
        ("timerlog", 0o511),
        ("consumequeue_ext", 0o511),
    ],
)
def test_a_folder_of_the_store_that_may_not_be_used_is_named_at_the_start(parent, name, mode):
    prefix, folder = held_to_modes(), parent / "store" / name
    folder.mkdir(parents=True)
    folder.chmod(mode)
    server = SprocketServer(parent / "store", prefix=prefix, **CONF)
    try:
        sentence = last_words(server)
    finally:
        server.stop()
    assert f"{folder}".rstrip("/") in sentence
    assert f"mode {mode:o}" in sentence
    assert "rwx" in sentence


def test_two_brokers_do_not_share_a_folder(tmp_path):
    log = tmp_path / "log"
    settings = {**CONF, "storePathCommitLog": str(log)}
    with SprocketServer(tmp_path / "a", **settings) as first:
        assert send(first, "t").code == 0
        for root, path in (("b", log), ("c", tmp_path / "a" / "consumequeue")):
            shared = SprocketServer(tmp_path / root, **{**CONF, "storePathCommitLog": str(path)})
            sentence = last_words(shared)
            shared.stop()
            assert f"{path} is in use by another broker" in sentence
        (tmp_path / "d").mkdir()
        (tmp_path / "d" / "consumequeue").symlink_to(tmp_path / "a" / "consumequeue")
        linked = SprocketServer(tmp_path / "d", **CONF)
        assert f"{tmp_path / 'd' / 'consumequeue'} is in use by another broker" in last_words(linked)
        linked.stop()
        assert send(first, "t").code == 0
        first.stop_process()
        again = SprocketServer(tmp_path / "a", **settings)
        with again:
            assert pull(again, "t").code == 0


def connected(server: SprocketServer) -> Asking:
    """A connection that the broker has taken: without descriptors it could not."""
    client = Asking(server.broker_addr)
    assert client.ask(GET_BROKER_CONFIG).code == 0
    return client


@contextlib.contextmanager
def without_descriptors(pid: int) -> Iterator[None]:
    """A process that can open no more files: those that it has stay open."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)

    def nothing_is_free() -> bool:
        """A file that was open for a moment leaves a free number below the limit: then the limit goes down to it."""
        used = set(os.listdir(f"/proc/{pid}/fd"))
        first_free = next(number for number in itertools.count() if str(number) not in used)
        limit, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(limit, first_free), hard))
        return bool(limit <= first_free)

    try:
        for _ in range(3):
            poll_until(nothing_is_free, "every descriptor below the limit is used")
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_a_broker_without_descriptors_answers_with_an_error_and_goes_on_when_it_has_some(tmp_path):
    with SprocketServer(tmp_path / "store", **CONF) as server:
        server.create_topic("t", 8)
        assert send(server, "t", 0).code == 0
        assert pull(server, "t", 0).code == 0
        pid, queues = server.broker_pid, range(1, 5)
        index = tmp_path / "store" / "index"  # its libraries are loaded with the first key
        poll_until(lambda: index.is_dir() and list(index.iterdir()), "the index has a file")
        with connected(server) as client, without_descriptors(pid):
            answers = [client.ask(*sending("t", queue_id)) for queue_id in (*queues, *queues)]
            refused = [answer for answer in answers if answer.code]
            assert refused
            assert {answer.code for answer in refused} == {14}
            assert "no more file descriptors" in refused[0].header["remark"]
            assert client.ask(*sending("unknown", 0)).code in (0, 14)
            assert client.ask(*sending("t", 0)).code == 0
            assert client.ask(*pulling("t", 0)).code == 0
        for queue_id in range(5):
            assert send(server, "t", queue_id).code == 0
        assert send(server, "unknown").code == 0
        assert "Traceback" not in server.log_text()
        assert server.stop_process() == 0, server.log_text()[-3000:]
        server.start()
        with connected(server) as client:
            with without_descriptors(server.broker_pid):  # this time no file of the store is mapped
                for queue_id in range(5):
                    unread = client.ask(*pulling("t", queue_id))
                    # A file that another thread closes just then leaves a descriptor for a moment.
                    assert unread.code in (0, 14), unread.header
                    assert unread.code == 0 or "no more file descriptors" in unread.header["remark"]
            for queue_id in range(5):
                assert client.ask(*pulling("t", queue_id)).code == 0
        assert "Traceback" not in server.log_text()
        assert server.stop_process() == 0
    found = [str(problem) for problem in check_directory(tmp_path / "store") if not problem.note]
    assert found == []
