# SPDX-License-Identifier: Apache-2.0
"""What a broker or a message says is printed within its line, and steers no terminal."""

from __future__ import annotations

import pytest

from sprocketmq.cli import main, store_inspect
from sprocketmq.cli.frame.output import Column, Output
from sprocketmq.errors import ConfigurationError

BAD = "a\nlag of g: 0\x1b[2J\u202e"


def test_a_table_has_one_line_for_each_row(capsys):
    Output("table").rows([Column("topic"), Column("lag")], [{"topic": BAD, "lag": 7}, {"topic": "b", "lag": 8}])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_a_record_of_the_store_has_one_line_for_each_of_its_fields():
    record = {"store_timestamp_ms": 1, "topic": BAD, "properties": {BAD: BAD, "TAGS": BAD}}
    lines = store_inspect._block(record).splitlines()
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)


def test_a_refusal_is_one_line(monkeypatch, capsys):
    def refused(**options: object) -> None:
        raise ConfigurationError(BAD)

    monkeypatch.setattr(main, "app", refused)
    with pytest.raises(SystemExit):
        main.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
