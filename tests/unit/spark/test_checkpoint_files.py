# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Spark as files: what is edited, what stays, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sprocketmq.cli.checkpoint import drop, finish, move, show
from sprocketmq.cli.frame.target import Target
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.checkpoint_files import StreamCheckpoint
from sprocketmq.wire.records.message import MessageQueue

OTHERS = '{"flights-kafka":{"0":7}}'
OURS = {"v": 1, "q": {"flights": {"a": {"0": 5, "1": 6}}}, "origin": {"flights": {"a": {"1": 2}}}, "tasks": 3}
TARGET = Target("127.0.0.1:9876")  # asked for the group's members only, and none is named
BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "metadata").write_text('{"id":"q-1"}')
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
    for number in range(2):
        write(tmp_path, number, OTHERS, "-", json.dumps(OURS))
        (tmp_path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return tmp_path


def write(checkpoint: Path, number: int, *sources: str, version: str = "v1") -> None:
    (checkpoint / "offsets" / str(number)).write_text("\n".join([version, BATCH, *sources]))
    (checkpoint / "offsets" / f".{number}.crc").write_bytes(b"crc")


def lines(checkpoint: Path, number: int = 1) -> list[str]:
    return (checkpoint / "offsets" / str(number)).read_text().split("\n")


def test_only_what_is_asked_for_changes_and_the_file_as_it_was_is_kept(checkpoint: Path) -> None:
    before = lines(checkpoint)
    move(str(checkpoint), "flights/a/0", "3", forward=False, target=TARGET)
    after = lines(checkpoint)
    assert after[:4] == before[:4]
    assert json.loads(after[4]) == {**OURS, "q": {"flights": {"a": {"0": 3, "1": 6}}}}
    assert not (checkpoint / "offsets" / ".1.crc").exists(), "it would not fit"
    assert (checkpoint / "sprocketmq-before" / "offsets" / "1.0").read_text().split("\n") == before
    move(f"file:{checkpoint}", "flights/a/0", "9", forward=True, target=TARGET)
    assert (checkpoint / "sprocketmq-before" / "offsets" / "1.1").read_text().split("\n") == after


def test_a_dropped_queue_leaves_nothing_behind(checkpoint: Path) -> None:
    drop(str(checkpoint), ["flights/a/1"], target=TARGET)
    assert json.loads(lines(checkpoint)[4]) == {"v": 1, "q": {"flights": {"a": {"0": 5}}}, "origin": {}, "tasks": 3}


def test_the_tool_shows_what_the_last_batch_left(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(str(checkpoint), as_json=False)
    assert capsys.readouterr().out.split("\n")[:3] == [
        "query q-1: batch 1 is planned, batch 1 is done", "source 2", "  flights/a/0  5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("queue", "to", "forward", "says"),
    [
        (
            "flights/a/0",
            "6",
            False,
            "flights/a/0 is at 5, so it cannot rewind to 6; give another offset, or use skip",
        ),
        ("flights/a/0", "5", True, "flights/a/0 is at 5, so it cannot skip to 5; give another offset, or use rewind"),
        ("flights/a/7", "1", False, "flights/a/7 is not in the checkpoint; it holds flights/a/0, flights/a/1"),
        ("flights", "1", False, "the queue is 'flights', topic/broker/number is allowed"),
        ("flights/a/0", "-1", False, "the offset is '-1', a whole number, earliest or latest is allowed"),
    ],
)
def test_a_move_that_cannot_be_meant_is_refused(
    checkpoint: Path, queue: str, to: str, forward: bool, says: str
) -> None:
    before = lines(checkpoint)
    with pytest.raises(ConfigurationError, match=says):
        move(str(checkpoint), queue, to, forward=forward, target=TARGET)
    assert lines(checkpoint) == before


def test_an_unfinished_batch_is_not_edited_away(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(checkpoint, 2, OTHERS, "-", json.dumps(OURS))
    with pytest.raises(ConfigurationError, match="batch 2 of .* is planned and not done"):
        drop(str(checkpoint), ["flights/a/1"], target=TARGET)
    finish(str(checkpoint), "done", target=TARGET)
    assert StreamCheckpoint(str(checkpoint)).done == 2
    finish(str(checkpoint), "done", target=TARGET)
    assert "nothing is unfinished" in capsys.readouterr().out
    write(checkpoint, 3, OTHERS, "-", json.dumps(OURS))
    (checkpoint / "state").mkdir()
    with pytest.raises(ConfigurationError, match="cannot count as done: the query keeps state"):
        finish(str(checkpoint), "done", target=TARGET)
    with pytest.raises(ConfigurationError, match="cannot be planned anew: the query keeps state"):
        finish(str(checkpoint), "plan-anew", target=TARGET)
    assert StreamCheckpoint(str(checkpoint)).done == 2


def test_a_batch_that_is_planned_anew_keeps_its_number_for_no_rows(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sink that knows the number may have its rows, and would pass over others with it."""
    planned = {**OURS, "q": {"flights": {"a": {"0": 9, "1": 9}}}}
    write(checkpoint, 2, OTHERS, "-", json.dumps(planned))
    before = lines(checkpoint, 2)
    finish(str(checkpoint), "plan-anew", target=TARGET)
    assert "batch 2 has no rows now; batch 3 will be planned when the query starts" in capsys.readouterr().out
    assert lines(checkpoint, 2) == lines(checkpoint, 1)
    found = StreamCheckpoint(str(checkpoint))
    assert (found.planned, found.done, (checkpoint / "offsets" / ".2.crc").exists()) == (2, 2, False)
    assert (checkpoint / "commits" / "2").read_text() == (checkpoint / "commits" / "1").read_text()
    assert (checkpoint / "sprocketmq-before" / "offsets" / "2.0").read_text().split("\n") == before


def test_the_first_batch_is_not_planned_anew(checkpoint: Path) -> None:
    for path in [checkpoint / "offsets" / "1", *(checkpoint / "commits").iterdir()]:
        path.unlink()
    with pytest.raises(ConfigurationError, match="batch 0 of .* is the first"):
        finish(str(checkpoint), "plan-anew", target=TARGET)
    (checkpoint / "offsets" / "0").unlink()
    with pytest.raises(ConfigurationError, match="holds no batch yet"):
        show(str(checkpoint), as_json=False)


def test_a_file_that_changed_since_it_was_read_is_not_replaced(checkpoint: Path) -> None:
    found = StreamCheckpoint(str(checkpoint))

    def meanwhile(offsets: dict[MessageQueue, int]) -> dict[MessageQueue, int]:
        write(checkpoint, 2, OTHERS, "-", json.dumps(OURS))
        return offsets

    with pytest.raises(ConfigurationError, match="changed just now: a query runs; stop it first"):
        found.edit(found.source(None), meanwhile)


def test_what_is_no_checkpoint_of_a_known_form_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    for location, says in (
        ("hdfs://h/c", "a local directory is allowed"),
        (str(tmp_path / "x"), "has no folder offsets"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            show(location, as_json=False)
    write(checkpoint, 1, json.dumps(OURS), json.dumps(OURS))
    with pytest.raises(ConfigurationError, match="--source is not given, and the rocketmq sources of .* are 0, 1"):
        drop(str(checkpoint), ["flights/a/1"], target=TARGET)
    drop(str(checkpoint), ["flights/a/1"], source="1", target=TARGET)
    assert json.loads(lines(checkpoint)[2]) == OURS
    write(checkpoint, 1, json.dumps({"v": 1, "init": "latest"}))
    with pytest.raises(ConfigurationError, match="has not begun to read"):
        StreamCheckpoint(str(checkpoint)).edit(StreamCheckpoint(str(checkpoint)).source(None), dict)
    with pytest.raises(ConfigurationError, match="no queue of the checkpoint is named"):
        drop(str(checkpoint), [], broker="b", target=TARGET)
    write(checkpoint, 1, json.dumps(OURS), version="v3")
    with pytest.raises(ConfigurationError, match="begins with 'v3', v1 or v2 is allowed"):
        show(str(checkpoint), as_json=False)


def test_sources_with_names_are_edited_by_name(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, named = json.dumps(OURS), [f"kafka:{OTHERS}", "quiet:-", f"flights:{json.dumps(OURS)}"]
    write(checkpoint, 1, *named, version="v2")
    show(str(checkpoint), as_json=False)
    assert "source flights" in capsys.readouterr().out
    move(str(checkpoint), "flights/a/0", "3", forward=False, target=TARGET)
    assert lines(checkpoint)[:4] == ["v2", BATCH, *named[:2]]
    assert lines(checkpoint)[4].startswith("flights:")
    assert StreamCheckpoint(str(checkpoint)).source("flights").offset.queues[MessageQueue("flights", "a", 0)] == 3
    write(checkpoint, 1, f"one:{ours}", f"two:{ours}", version="v2")
    with pytest.raises(
        ConfigurationError, match="--source is 0, and the rocketmq sources of .* are one, two; name one"
    ):
        drop(str(checkpoint), ["flights/a/1"], source="0", target=TARGET)
    drop(str(checkpoint), ["flights/a/1"], source="two", target=TARGET)
    assert lines(checkpoint)[2] == f"one:{ours}"
    assert '"1"' not in lines(checkpoint)[3]
