# SPDX-License-Identifier: Apache-2.0
"""docs/internals/mechanisms.md: every mechanism of the five articles, one line each.

``make generate`` writes it, ``tests/test_mechanisms.py`` compares it with the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from mechanisms.mechanism import ARTICLES, Mechanism
from mechanisms.of_s01_to_s04 import S01_TO_S04
from mechanisms.of_s05_to_s08 import S05_TO_S08
from mechanisms.of_s09_to_s11 import S09_TO_S11

__all__ = ["MECHANISMS", "PAGE", "TITLES", "numbered", "page"]

PAGE = Path(__file__).parents[2] / "docs/internals/mechanisms.md"
MECHANISMS = [*S01_TO_S04, *S05_TO_S08, *S09_TO_S11]
TITLES = {
    "S1": "One client instance",
    "S2": "Start of a consumer",
    "S3": "Rebalance",
    "S4": "Pull",
    "S5": "Concurrent consumption",
    "S6": "Progress",
    "S7": "Stuck messages",
    "S8": "Retry and dead letter",
    "S9": "The broker's side of retry",
    "S10": "Orderly consumption",
    "S11": "Watching",
}
HEAD = """# Mechanisms

This project began with five articles about RocketMQ. This page lists each mechanism that they describe: what it does, which passage
describes it, which file implements it here, the test that fails when it is broken, and the test that shows it with Apache RocketMQ 4.9.7
and 5.4.0 (our client with their brokers, or their clients with ours). A dash means that no peer can see it. The column *broken* names the
command that breaks the mechanism on purpose. With `mutants`, a test of the line must notice the change (`make mutants`). With `mutation`,
a function of `core` decides the mechanism; `make mutation` changes each line of that function and runs the module's
unit tests. `make mechanisms` uses only the public API (clients, commands, embedded servers) and checks that it executes these functions
and the statements that the mutants break.

`make generate` writes this page; `tests/test_mechanisms.py` checks that every file and every test named here exists.

"""


def page(broken_on_purpose: Iterable[Mechanism]) -> str:
    """The page's text.

    Args:
        broken_on_purpose: mechanisms that a mutant breaks, and whose tests notice.
    """
    broken = set(broken_on_purpose)
    articles = "".join(f"- **{letter}** {title}\n" for letter, title in ARTICLES.items())
    return HEAD + articles + "".join(_section(row, lines, broken) for row, lines in _by_row())


def numbered(mechanisms: Iterable[Mechanism]) -> Iterator[tuple[str, Mechanism]]:
    """Each with its number on the page."""
    for row, lines in groupby(mechanisms, key=lambda mechanism: mechanism.row):
        for number, line in enumerate(lines, 1):
            yield f"{row}.{number}", line


def _by_row() -> Iterator[tuple[str, list[Mechanism]]]:
    for row, lines in groupby(MECHANISMS, key=lambda mechanism: mechanism.row):
        yield row, list(lines)


def _section(row: str, lines: list[Mechanism], broken: set[Mechanism]) -> str:
    table = [
        f"\n## {row} {TITLES[row]}\n",
        "| | mechanism | described in | file | test | broken | with Apache |",
        "|---|---|---|---|---|---|---|",
    ]
    for number, line in numbered(lines):
        table.append(
            f"| {number} | {line.what} | {line.passage} | `{line.file}` | {_tests(line.tests, 'tests/')} "
            f"| {_broken_by(line, broken)} | {_tests(line.apache, 'tests/interop/') or '-'} |"
        )
    return "\n".join(table) + "\n"


def _broken_by(line: Mechanism, broken: set[Mechanism]) -> str:
    if line in broken:
        return "mutants"
    return "mutation" if line.function else ""


def _tests(ids: str, folder: str) -> str:
    """Links to the files, named after their tests."""
    links = []
    for test in ids.split():
        path, _, name = test.partition("::")
        links.append(f"[{name.removeprefix('test_').replace('_', ' ')}](../../{folder}{path})")
    return "<br>".join(links)
