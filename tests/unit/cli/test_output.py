# SPDX-License-Identifier: Apache-2.0
"""Tables, wide tables and JSON; what is asked before a change; messages as lines."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest

from sprocketmq.cli.frame.messages import as_dict, body_text, message_line, message_of
from sprocketmq.cli.frame.output import Column, Output, at, note, perm, span
from sprocketmq.cli.frame.verbs import Change
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.message import MessageExt

Said = Callable[[], tuple[str, str]]

COLUMNS = (
    Column("name"),
    Column("lag"),
    Column("rate", "per_second"),
    span("waits", "waits_ms", wide=True),
    perm(),
    at("last", "last_ms", none="none"),
)
ROWS = [
    {"name": "a", "lag": 1_234, "per_second": 0.5, "waits_ms": 1_500, "perm": 6, "last_ms": None},
    {"name": "longer", "lag": None, "per_second": None, "waits_ms": None, "perm": 4, "last_ms": None},
]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def read() -> tuple[str, str]:
        out, err = capsys.readouterr()
        return out, err

    return read


def test_a_table_says_unknown_and_puts_numbers_to_the_right(said):
    Output("table").rows(COLUMNS, ROWS)
    assert said()[0].splitlines() == [
        "name        lag     rate  perm  last",
        "a         1,234      0.5  rw    none",
        "longer  unknown  unknown  r     none",
    ]


def test_wide_has_more_columns_and_json_has_all_of_it(said):
    Output("wide").rows(COLUMNS, ROWS)
    assert "1.5 s" in said()[0]
    Output("json").rows(COLUMNS, ROWS)
    assert json.loads(said()[0]) == ROWS


def test_an_empty_list_is_an_empty_json_document_with_a_note_on_stderr(said):
    Output("json").rows(COLUMNS, [], empty="nothing there")
    assert said() == ("[]\n", "")
    Output("table").rows(COLUMNS, [], empty="nothing there")
    assert said() == ("", "nothing there\n")


def test_one_thing_with_its_tables(said):
    record = {"name": "a", "lag": None, "tags": [], "note": "", "rows": ROWS, "none": []}
    lines = (Column("name"), Column("lag"), Column("note"), Column("tags"))
    tables = (("all rows", COLUMNS[:2], "rows"), ("no rows", COLUMNS[:2], "none"))
    Output("table").record(lines, record, tables)
    text = said()[0]
    assert text.splitlines()[:3] == ["name  a", "lag   unknown", "tags"]
    assert "\nall rows\nname        lag\n" in text
    assert "no rows" not in text
    Output("json").record(lines, record, tables)
    assert json.loads(said()[0]) == record


def test_what_a_broker_says_stays_within_its_line(said):
    note("a\nb")
    assert said() == ("", "a\\nb\n")
    Output("table").rows(COLUMNS[:2], [{"name": "a\nlag of g: 0\x1b[2J\u202e", "lag": 7}, {"name": "b", "lag": 8}])
    lines = said()[0].splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


# -- changes -----------------------------------------------------------------------------------------------------------------------


def change(form: str = "table", **how: bool) -> Change:
    return Change(Output(form), **{"dry_run": False, "yes": False, "needs_yes": True, **how})


def test_a_dry_run_prints_what_would_be_done_and_does_nothing(said):
    assert not change(dry_run=True, yes=True).confirm("delete topic a", warning="it is read", topic="a")
    assert said() == ("would delete topic a\n", "sprocketmq: it is read\n")
    assert not change("json", dry_run=True).confirm("delete topic a", topic="a")
    assert json.loads(said()[0]) == {"dry_run": True, "topic": "a"}


def test_without_a_terminal_a_deletion_needs_yes(monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    with pytest.raises(click.UsageError, match="nothing was changed.* --yes .*would delete topic a"):
        change().confirm("delete topic a")
    assert change(yes=True).confirm("delete topic a")
    assert change(needs_yes=False).confirm("create topic a")


@pytest.mark.parametrize(("answer", "begins"), [(True, True), (False, False)])
def test_on_a_terminal_it_is_asked(answer, begins, monkeypatch, said):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda text, err: answer)
    if begins:
        assert change().confirm("delete topic a")
    else:
        with pytest.raises(SystemExit) as end:
            change().confirm("delete topic a")
        assert end.value.code == 1
        assert said() == ("", "sprocketmq: nothing was changed\n")


# -- messages ----------------------------------------------------------------------------------------------------------------------


def message(body: bytes, **more: Any) -> MessageExt:
    return MessageExt(
        "orders", body, **{"broker_name": "broker-a", "store_timestamp_ms": 1, "born_timestamp_ms": 1, **more}
    )


def test_a_line_is_read_back_as_the_message_that_it_was():
    """At random: bodies of text and of any bytes, tags, keys, properties. The seed is printed where it fails."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(200):
        body = (
            rng.randbytes(rng.randint(1, 40))
            if rng.random() < 0.5
            else rng.choice(["hällo", '{"a": 1}', "x\x1b[2J"]).encode()
        )
        tags = rng.choice([None, "A", "ä b"])
        keys = rng.choice([None, ["k"], ["k1", "k2"]])
        properties = rng.choice([None, {"a": "b", "ü": "\u202e"}])
        original = message(body, tags=tags, keys=keys, properties=properties)
        again, sharding_key = message_of("orders", json.loads(json.dumps(as_dict(original))))
        assert (again.body, again.tags, again.keys, sharding_key) == (body, tags, keys or [], None), seed
        assert {name: value for name, value in again.properties.items() if name in (properties or {})} == (
            properties or {}
        ), seed


def test_what_the_broker_wrote_is_not_sent_again():
    stored = message(b"x", properties={"own": "1"})
    stored.properties.update(
        {"UNIQ_KEY": "id", "__SHARDINGKEY": "s", "MSG_REGION": "r", "CLUSTER": "c", "RETRY_TOPIC": "t"}
    )
    row = as_dict(stored)
    assert row["properties"] == {"own": "1"}
    assert message_of("orders", row)[1] == "s"


@pytest.mark.parametrize(
    ("row", "body"),
    [
        ({"body": "text"}, b"text"),
        ({"body": {"a": "\u00fc"}}, '{"a": "ü"}'.encode()),
        ({"body": 1}, b"1"),
        ({"body_base64": "//4="}, b"\xff\xfe"),
    ],
)
def test_bodies_of_a_file(row, body):
    assert message_of("t", row)[0].body == body


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "has no body"),
        ({"body": "x", "tags": "A"}, "a message has no 'tags'"),
        ({"body_base64": "?"}, "no base64"),
        ({"body_base64": 1}, "no base64"),
    ],
)
def test_a_line_that_is_not_a_message_is_one_sentence(row, said):
    with pytest.raises(ConfigurationError, match=said):
        message_of("t", row)


def test_a_message_is_one_line_that_steers_no_terminal():
    for body in (b"a\nb\x1b[2J", b"\xff" * 300, b"x" * 5_000):
        line = message_line(message(body, tags="T", keys=["k1", "k2"]))
        assert line.isprintable()
        assert len(line) < 1_100
        assert "[T] k1 k2 " in line


def test_a_body_is_shown_as_text_as_json_or_in_hex():
    assert body_text(b'{"a":1}') == '{\n  "a": 1\n}'
    assert body_text(b'{"a":1}', "text") == '{"a":1}'
    assert body_text(b"12") == "12"
    assert body_text(b"a\x1b[2J\nb") == "a\\x1b[2J\nb"
    assert body_text(b"\xffab") == f"00000000  {'ff 61 62':<47}  .ab"
    assert body_text(b"\xffab", "text") == "\\xffab"
    assert body_text(b"\xff" * 3_000).endswith("1,000 bytes more")
    for form in ("auto", "text", "hex"):
        for body in (b"\xff\x1b[2J", "\x9b2J\u202e".encode(), b"[" * 200_000, json.dumps("\x1b\u202e").encode()):
            assert not set(body_text(body, form)) & set("\x1b\x9b\u202e")
    with pytest.raises(ConfigurationError):
        body_text(b"no", "json")
