# SPDX-License-Identifier: Apache-2.0
"""docs/internals/spark-exactly-once.md: each assumption has a test that is there, or a sentence that is the code's own.

So are all sentences that docs/spark/exactly-once.md quotes. … stands for a value, or for words that are left out.
"""

from __future__ import annotations

import re
from pathlib import Path

from code_texts import OMITTED, not_in_the_code

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/internals/spark-exactly-once.md"
FOR_USERS = ROOT / "docs/spark/exactly-once.md"
_QUOTED = re.compile(r"`([^`]+)`")
_ITEM = re.compile(r"^\d+\. (.+?)(?=^\d+\. |^\S|\Z)", re.MULTILINE | re.DOTALL)
_COMMANDS = ("sprocketmq ", "mqadmin ")


def page(path: Path = PAGE) -> str:
    """Without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def assumptions() -> list[str]:
    """The text of each, list after list."""
    return _ITEM.findall(page().partition("## Assumptions\n")[2])


def named_tests(text: str) -> list[str]:
    return [quoted for quoted in _QUOTED.findall(text) if quoted.startswith("test_")]


def sentences(text: str) -> list[str]:
    """What is quoted of the program's own words."""
    found = (" ".join(quoted.split()) for quoted in _QUOTED.findall(text))
    return [quoted for quoted in found if OMITTED in quoted and " " in quoted and not quoted.startswith(_COMMANDS)]


def test_each_assumption_has_a_test_or_a_sentence() -> None:
    found = assumptions()
    assert len(found) > 10
    assert not [text for text in found if not named_tests(text) and not sentences(text)]


def test_each_test_that_is_named_is_there_once() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = re.findall(r"^(?:async )?def (test_\w+)\(", code, re.MULTILINE)
    assert [name for name in named_tests(page()) if defined.count(name) != 1] == [], (
        "docs/internals/spark-exactly-once.md names these tests"
    )


def test_each_sentence_is_the_codes_own() -> None:
    quoted = sentences(page()) + sentences(page(FOR_USERS))
    assert len(quoted) >= 20
    assert not_in_the_code(quoted) == [], (
        "no text of src says this any more: change docs/internals/spark-exactly-once.md or docs/spark/exactly-once.md"
    )
