# SPDX-License-Identifier: Apache-2.0
"""docs/asked-for.md answers each of the forty-four points, and what it points at is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/asked-for.md"
_ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| \*\*(feature|page|reasoned no)\.\*\* ([^|]+) \|$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")


def rows() -> dict[int, tuple[str, str, str]]:
    """Number -> where it was asked, kind of answer, answer."""
    found = _ROW.findall(PAGE.read_text("utf-8"))
    return {int(number): (asked, kind, answer) for number, _, asked, kind, answer in found}


def test_each_of_the_44_points_has_one_row_with_its_issues_and_an_answer() -> None:
    numbers = [int(number) for number, *_ in _ROW.findall(PAGE.read_text("utf-8"))]
    assert numbers == list(range(1, 45))
    for number, (asked, _, answer) in rows().items():
        links = _LINK.findall(asked)
        assert links, f"point {number} does not say where it was asked"
        assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/issues/\d+", link) for link in links), links
        assert len(answer) > 40, f"point {number} has no answer"


def test_each_feature_and_page_points_at_a_file_that_is_there_and_each_anchor_at_a_heading() -> None:
    for number, (_, kind, answer) in rows().items():
        links = _LINK.findall(answer)
        assert links or kind == "reasoned no", f"point {number} names neither a guide nor a test"
        for link in links:
            file, _, anchor = link.partition("#")
            path = (PAGE.parent / file).resolve()
            assert path.is_file(), f"point {number}: {link} is not there"
            if anchor:
                headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
                assert anchor in slugs, f"point {number}: {path.name} has no heading {anchor}"
