# SPDX-License-Identifier: Apache-2.0
"""docs/internals/glossary.md: each module that it names is there; each term has one line."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/internals/glossary.md"
ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \| ([^|]*?) ?\| ([^|]+?) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str, str]]:
    return [row for row in ROW.findall(PAGE.read_text("utf-8")) if row[0] not in ("term", "---")]


def test_each_term_has_one_line() -> None:
    terms = Counter(term for term, *_ in rows())
    assert len(terms) > 60
    assert [term for term, count in terms.items() if count > 1] == []


def test_each_module_is_there() -> None:
    for term, _, _, module in rows():
        name = re.fullmatch(r"`([a-z_0-9.]+)`", module)
        assert name is not None, term
        importlib.import_module(f"sprocketmq.{name[1]}")
