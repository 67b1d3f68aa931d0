# SPDX-License-Identifier: Apache-2.0
"""Every file of a store directory x every damage x (cleanly stopped, killed): nothing is lost in silence, and there is no traceback.

The files are those that are there. ``docs/robustness.md`` has the results; ``WRITE_DOCS=1`` writes them there (nightly form).
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_damage import (
    DAMAGES,
    Lines,
    Messages,
    Outcome,
    exchanged,
    files_of,
    foreign,
    kind_of,
    make_store,
    outcome_of,
    refusing,
    unreadable,
)

from sprocketmq.net.process.engine import Engine

STOPS = ("stopped", "killed")
PAGE = Path(__file__).parents[3] / "docs/robustness.md"
BEGIN, END = "<!-- the table of damaged files -->", "<!-- end of the table -->"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine("damage")
    yield made
    made.close()


@pytest.fixture(scope="module")
def stores(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Messages]:
    root, other = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("other")
    sent = make_store(engine, root)
    make_store(engine, other, salt=1, count=190)
    return root, other, sent


@pytest.fixture(autouse=True)
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine is stopped here, and a busy disk takes a hundred times as long as everything else."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda fd: None)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler = Lines()
    logger = logging.getLogger("sprocketmq")
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)


def judged(outcome: Outcome, is_table: bool) -> str:
    """A few words for the table; raises if something was lost in silence. ``is_table``: what is there is sound."""
    said = "\n".join([outcome.refusal, *outcome.said, *outcome.checked])
    if outcome.refusal:
        assert outcome.refusal.count("\n") == 0
        return "refused"
    for topic, _ in outcome.lost:
        assert topic in said, f"{outcome.lost} lost in silence: {said}"
        assert outcome.checked, f"{outcome.lost} lost, and the check says that the store is sound"
    if outcome.lost_tables and is_table and not outcome.lost:
        return "not noticed"
    if outcome.lost_tables:
        assert "spare copy" in said, f"{outcome.lost_tables} lost in silence: {said}"
    if outcome.lost:
        return "said"
    if outcome.lost_tables:
        return "older copy"
    return "rebuilt" if any("built anew" in line or "rebuilding" in line for line in outcome.said) else "nothing lost"


def test_what_is_whole_is_not_refused(
    engine: Engine, stores: tuple[Path, Path, Messages], tmp_path: Path, lines: list[str]
) -> None:
    root, _, sent = stores
    for stop in STOPS:
        copy = tmp_path / stop
        shutil.copytree(root / stop, copy)
        for _ in range(3):
            outcome = outcome_of(engine, copy, sent, lines)
            assert outcome[:3] == ("", {}, []), stop


def some_of(names: list[str]) -> list[str]:
    """All files but those of queues and index, of which only the ends of the first series are taken."""
    series = [name for name in names if name.startswith(("consumequeue", "index"))]
    ends = [[name for name in series if name.startswith(folder)] for folder in ("consumequeue/flights/0/", "index/")]
    return [name for name in names if name not in series or any(name in (files[0], files[-1]) for files in ends)]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)])])
def test_nothing_is_lost_in_silence(
    engine: Engine,
    stores: tuple[Path, Path, Messages],
    tmp_path: Path,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    every: bool,
) -> None:
    root, other, sent = stores
    table: dict[tuple[str, str], set[str]] = {}
    failures = []
    for stop in STOPS:
        names = files_of(root / stop)
        for name in names if every else some_of(names):
            for damage, spoil in DAMAGES.items():
                copy = tmp_path / "copy"
                shutil.copytree(root / stop, copy)
                spoil(copy / name, copy, other / stop)
                with monkeypatch.context() as patch:
                    if spoil is unreadable:
                        refusing(patch, copy / name)
                    try:
                        # A table of another store, and the spare copy in place of its table, are tables like any other.
                        has_spare = (root / stop / f"{name}.bak").exists()
                        is_table = "config" in name and (spoil is foreign or (spoil is exchanged and has_spare))
                        result = judged(outcome_of(engine, copy, sent, lines), is_table)
                        table.setdefault((kind_of(name), damage), set()).add(result)
                    except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure of this case
                        failures.append(f"{stop} {name} {damage}: {type(error).__name__} {error}"[:600])
                shutil.rmtree(copy)
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures)
    if every and os.environ.get("WRITE_DOCS"):
        write_page(table)
    for (kind, damage), results in table.items():
        assert results <= written_results(kind, damage), f"{PAGE.name}: {kind}, {damage}: {sorted(results)}"


def write_page(table: dict[tuple[str, str], set[str]]) -> None:
    """Replace the table of the page."""
    kinds = sorted({kind for kind, _ in table})
    rows = ["| file | " + " | ".join(DAMAGES) + " |", "|---|" + "---|" * len(DAMAGES)]
    for kind in kinds:
        cells = [", ".join(sorted(table.get((kind, damage), set()))) for damage in DAMAGES]
        rows.append(f"| {kind} | " + " | ".join(cells) + " |")
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(rows) + f"\n\n{END}{rest.partition(END)[2]}", "utf-8")


def written_results(kind: str, damage: str) -> set[str]:
    for line in PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == kind:
            return set(cells[1 + list(DAMAGES).index(damage)].split(", "))
    return set()
