"""docs/mechanisms.md: every mechanism of the five articles, one line each.

``scripts/mechanisms`` writes it, ``tests/test_mechanisms.py`` holds it to the code.
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

PAGE = Path(__file__).parents[2] / "docs" / "mechanisms.md"
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

Each mechanism that the five articles describe, with which this project began: what it does, where it is told, where it is here, the test
that breaks when it is broken, and the test that shows it with Apache RocketMQ 4.9.7 and 5.4.0 (our client at their brokers, or their
clients at ours). A dash means that no peer can see it. The column *broken* names the command that breaks the mechanism on purpose: with
`mutants` a test of this line must notice (`make mutants`); with `mutation` the mechanism is decided by a function of `core`, and
`make mutation` changes each line of that function and runs the module's unit tests ([decision 32](decisions/0032-mutation-testing.md),
[decision 35](decisions/0035-a-short-list-of-mutants.md)). `make mechanisms` runs the public API alone, clients, commands and embedded
servers, and sees that it goes through the statements that the mutants break, and through these functions.

Written by `scripts/mechanisms`; `tests/test_mechanisms.py` checks that every file and every test named here exists.

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
        "| | mechanism | told in | here | test | broken | with Apache |",
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
        links.append(f"[{name.removeprefix('test_').replace('_', ' ')}](../{folder}{path})")
    return "<br>".join(links)
