# SPDX-License-Identifier: Apache-2.0
"""What the pages name is there: linked files and headings, tests, files of the sources, commands of the Makefile."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    page for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]
    if "_build" not in page.parts
)  # fmt: skip
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
# A file by its path from the project's root, or a module by its path in the package.
FILE = re.compile(r"`((?:bench|docs|examples|scripts|src|tests)/[\w./-]+)`")
ROOMS = "broker|cli|client|console|core|net|spark|store|testing|wire"
MODULE = re.compile(rf"`((?:{ROOMS})/[\w/]+\.py)`")
# Files of programs that a page makes.
MADE_BY_READERS = {ROOT / "docs/spark/deploy.md", ROOT / "docs/guides/recipes.md"}


@cache
def text(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def headings(page: Path) -> frozenset[str]:
    """The anchors of a page, as GitHub and MyST make them."""
    found = re.findall(r"^#+ (.+)$", CODE.sub("", text(page)), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in found)
    return frozenset(re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in plain)


def missing(page: Path) -> list[str]:
    """What the page names and is not there."""
    found = []
    prose = CODE.sub("", text(page))
    for named, link in LINK.findall(prose):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        test = re.fullmatch(r"`(test_\w+)`", named)
        if re.match(r"\w+:", link):
            continue
        if not target.exists():
            found.append(f"the file of ({link})")
        elif anchor and target.suffix == ".md" and anchor not in headings(target):
            found.append(f"the heading of ({link})")
        elif test and not re.search(rf"^\s*(async )?def {test[1]}\(", text(target), re.MULTILINE):
            found.append(f"{test[1]} in {file}")
    found += [f"the file {name}" for name in FILE.findall(prose) if not (ROOT / name).exists()]
    found += [
        f"make {name}" for name in re.findall(r"`make ([a-z-]+)", prose) if f"\n{name}:" not in text(ROOT / "Makefile")
    ]
    if page not in MADE_BY_READERS:
        found += [
            f"the module {name}" for name in MODULE.findall(prose) if not (ROOT / "src/sprocketmq" / name).exists()
        ]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    if gone := missing(page):
        pytest.fail(f"{page.relative_to(ROOT)} names what is not there: {'; '.join(gone)}", pytrace=False)


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n[a](#one) [b](#two) [c](none.md) [`test_it`](page.md)\n"
        "`tests/none.py`, `core/none.py`, `make nothing`, `make lint`\n```\n[d](none.md)\n```\n"
    )
    assert missing(page) == [
        "the heading of (#two)",
        "the file of (none.md)",
        "test_it in page.md",
        "the file tests/none.py",
        "make nothing",
        "the module core/none.py",
    ]
