# SPDX-License-Identifier: Apache-2.0
"""client.recorder: a bounded file that is readable at any moment, and never in the consumer's way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sprocketmq.client.observe.recorder import Recorder, record_lines
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.replay.decision_replay import Replay
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.wire.records.message import MessageExt, MessageQueue

QUEUE = MessageQueue("flights", "broker-a", 0)
KIB = 1024


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


@pytest.fixture
def recorder(file: Path) -> Iterator[Recorder]:
    made = _recorder(file)
    yield made
    made.close()


def _recorder(file: Path, max_bytes: int = 64 * KIB) -> Recorder:
    settings = PushSettings(group="delays", record=file, record_max_bytes=max_bytes)
    return Recorder.of(settings, ManualClock(1_000), "me", False, {})


def _consume(queue: ProcessQueue, begin: int, count: int) -> None:
    """Messages begin.. come and are done, all but the very first."""
    for offset in range(begin, begin + count):
        queue.put([MessageExt("flights", b"x", queue_offset=offset)])
        taken = queue.take(1, 1_000)
        if offset:
            queue.done(taken)


def _replayed(file: Path) -> Replay:
    replay = Replay()
    for _ in replay.run(record_lines(file)):
        pass
    return replay


def test_the_header_names_the_consumer_and_its_settings(recorder, file):
    header = next(record_lines(file))
    assert (header["record"], header["group"], header["client_id"], header["part"]) == (1, "delays", "me", 0)
    assert header["settings"]["consume_timeout_ms"] == 900_000
    assert header["settings"]["allocate_strategy"] == "AVG"
    assert os.stat(file).st_mode & 0o077 == 0


def test_any_prefix_of_the_file_is_readable_and_replays(recorder, file):
    _consume(recorder.tape.recorded(ProcessQueue)(QUEUE, 0), 0, 3)
    data = file.read_bytes()
    header = data.index(b"\n") + 1
    for length in range(header, len(data), 7):
        file.write_bytes(data[:length])
        assert _replayed(file).differences == []


def test_the_file_is_bounded_and_its_rest_replays(file):
    recorder = _recorder(file)
    queue = recorder.tape.recorded(ProcessQueue)(QUEUE, 0)
    older = file.with_name("record.jsonl.1")
    for begin in range(0, 2_000, 100):
        _consume(queue, begin, 100)
        assert file.stat().st_size + (older.stat().st_size if older.exists() else 0) < 80 * KIB
    recorder.close()
    both = _replayed(file)
    assert both.differences == []
    assert both.header["part"] > 1
    older.unlink()
    newest = _replayed(file)
    assert newest.differences == []
    assert newest.calls < both.calls
    # The first message is unfinished since long before this part began, and its state knows it.
    assert newest.machines["flights/broker-a/0#1"].commit_offset == 0


def test_a_record_that_is_there_is_kept_beside_the_new_one(file):
    file.write_text("of the run before\n")
    recorder = _recorder(file)
    recorder.close()
    assert file.with_name("record.jsonl.1").read_text() == "of the run before\n"
    assert len(list(record_lines(file))) == 2


def test_a_part_of_another_run_is_not_read_along(file):
    for _ in range(2):
        _recorder(file).close()
    assert [line.get("note") for line in record_lines(file)] == [None, "record_ended"]


def test_a_file_that_cannot_be_made_is_the_callers_mistake(tmp_path):
    with pytest.raises(ConfigurationError):
        _recorder(tmp_path / "missing" / "record.jsonl")


def test_two_consumers_of_a_process_do_not_write_one_file(recorder, file):
    with pytest.raises(ConfigurationError):
        _recorder(file)


def test_a_full_disk_ends_the_record_and_not_the_consumer(recorder, file, monkeypatch, caplog):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    queue = recorder.tape.recorded(ProcessQueue)(QUEUE, 0)
    monkeypatch.setattr("sprocketmq.client.observe.recorder.os.write", full)
    _consume(queue, 0, 3)
    assert queue.commit_offset == 0
    assert [record.getMessage().count("ends here") for record in caplog.records] == [1]
    monkeypatch.undo()
    assert _replayed(file).differences == []


def test_a_missing_record_is_one_sentence(tmp_path):
    with pytest.raises(ConfigurationError):
        list(record_lines(tmp_path / "missing"))
