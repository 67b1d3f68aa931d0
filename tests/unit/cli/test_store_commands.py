# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq store check`` and ``store inspect``: what they print, their exit codes, their one sentence for a user's mistake."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sprocketmq.cli import store_commands
from sprocketmq.cli.main import main
from sprocketmq.store import DiskMessageStore, StoreConfig, StoredMessage

NOW_MS = 1_700_000_000_000
SMALL = StoreConfig(
    mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=200, max_hash_slot_num=31, max_index_num=50
)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sprocketmq", "store", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return int(stopped.value.code or 0), out, err

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    store = DiskMessageStore(tmp_path / "s", SMALL)
    store.load()
    for number in range(40):
        properties = f"KEYS\x01order-{number % 4}\x02UNIQ_KEY\x01U{number}\x02TAGS\x01UA\x02".encode()
        store.append(StoredMessage("flights", number % 2, b"body %d\n" % number, properties), NOW_MS + number)
    store.close()
    return tmp_path / "s"


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_the_check_of_a_sound_store_prints_one_line_or_one_object(run, path):
    code, out, _ = run("check", path)
    assert code == 0
    assert out.startswith(f"{path}: sound; 40 records in ")
    assert "120 keys in 3 index files" in out
    assert out.count("\n") == 1
    code, out, _ = run("check", path, "--json")
    answer = json.loads(out)
    assert (code, answer["sound"], answer["problems"], answer["queue_count"]) == (0, True, [], 2)


def test_notes_are_not_violations(run, path):
    (path / "abort").touch()
    code, out, _ = run("check", path)
    assert code == 0
    assert out.startswith("note: ")
    assert ": sound; " in out


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda index: patch(index, 40 + 31 * 4 + 60 + 4, struct.pack(">q", 1)), "where no record has such a key"),
        (lambda index: patch(index, 40 + 31 * 4 + 20, struct.pack(">i", 5)), "where no record has such a key"),
        (lambda index: patch(index, 40 + 31 * 4 + 20 * 20 + 4, struct.pack(">q", 0)), "before the entry before it"),
        (lambda index: patch(index, 40 + 31 * 4 + 20 + 16, struct.pack(">i", 9)), "does not lead to older entries"),
        (lambda index: patch(index, 40, bytes(31 * 4)), "slots do not lead to their entries"),
    ],
)
def test_each_broken_law_of_the_index_is_named(run, path, damage, sentence):
    damage(sorted((path / "index").iterdir())[0])
    code, out, _ = run("check", path)
    assert code == 1
    assert sentence in out
    assert json.loads(run("check", path, "--json")[1])["sound"] is False


def test_offsets_beyond_their_queue_and_a_checkpoint_from_the_future_are_named(run, path):
    (path / "config").mkdir()
    (path / "config/consumerOffset.json").write_text('{"offsetTable":{"flights@billing":{0:20,1:21}}}')
    (path / "config/delayOffset.json").write_text('{"offsetTable":{3:1}}')
    patch(path / "checkpoint", 0, struct.pack(">q", NOW_MS + 1_000_000))
    code, out, _ = run("check", path)
    assert code == 1
    assert "group billing is at 21 of flights/1, which ends at 20" in out
    assert "flights/0" not in out
    assert "delay level 3 is at 1 of its queue, which ends at 0" in out
    assert "physic_msg_timestamp is" in out


def test_queues_entries_records_and_keys_are_shown(run, path):
    assert run("inspect", path)[:2] == (0, "flights/0  0..20\nflights/1  0..20\n")
    code, out, _ = run("inspect", path, "--topic", "flights", "--queue", "1", "--from", "3", "--count", "2")
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines()] == ["U7", "U9"]
    last = json.loads(run("inspect", path, "--topic", "flights", "--count", "1", "--json")[1])
    assert last[0]["queue_offset"] == 19
    assert last[0]["record"]["properties"]["UNIQ_KEY"] == "U38"
    (record,) = json.loads(run("inspect", path, "--offset", str(last[0]["physical_offset"]), "--json")[1])
    assert (record["body"], record["checksum"], record["queue_id"]) == ("body 38\\n", "good", 0)
    found = json.loads(run("inspect", path, "--topic", "flights", "--key", "order-3", "--count", "2", "--json")[1])
    assert [record["body"] for record in found] == ["body 35\\n", "body 39\\n"]
    assert "property TAGS" in run("inspect", path, "--topic", "flights", "--key", "U5")[1]
    assert run("inspect", path, "--topic", "flights", "--key", "none")[0] == 1


def test_a_live_store_is_shown_up_to_its_newest_message(run, path):
    store = DiskMessageStore(path, SMALL)
    store.load()
    store.append(StoredMessage("flights", 0, b"new", b"UNIQ_KEY\x01fresh\x02"), NOW_MS)
    found = json.loads(run("inspect", path, "--topic", "flights", "--key", "fresh", "--json")[1])
    assert [record["body"] for record in found] == ["new"]
    assert json.loads(run("inspect", path, "--topic", "flights", "--count", "1", "--json")[1])[0]["queue_offset"] == 20
    store.close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--offset", "7"], "no record begins at commit log offset 7"),
        (["--offset", "-1"], "no record begins at commit log offset -1"),
        (["--topic", "flights", "--queue", "9"], "its queues are 0, 1"),
        (["--topic", "nowhere"], "it has no queue of that topic"),
        (["--key", "k"], "--key needs --topic"),
        (["--queue", "1"], "need --topic"),
    ],
)
def test_a_question_without_an_answer_is_one_sentence(run, path, options, sentence):
    code, out, err = run("inspect", path, *options)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_record_has_one_printable_line_for_each_of_its_fields():
    bad = "a\nlag of g: 0\x1b[2J\u202e"
    lines = store_commands._block(
        {"store_timestamp_ms": 1, "topic": bad, "properties": {bad: bad, "TAGS": bad}}
    ).splitlines()
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)


def test_a_directory_that_is_no_store_is_one_sentence(run, tmp_path):
    for command in ("check", "inspect"):
        code, _, err = run(command, tmp_path)
        assert code == 2
        assert "is not a store directory" in err
