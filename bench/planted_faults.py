# SPDX-License-Identifier: Apache-2.0
"""How long the simulator searches until it finds each known fault (tests/known_faults.py), planted in today's code.

    make planted-faults FAULT="zeros over records" MINUTES=60 JOBS=2

First seeds 1, 2, ... without a fault, for MINUTES of one core; build/plain-runs.json keeps how they ended and which of the changed places
they reached. Then the same seeds, each with all faults whose places it reaches (what it does not reach makes no difference). When such a
run fails, halves of the faults are tried, until one fault alone makes it fail. Users and weather are drawn by the seed. Seconds are those
of one core for all seeds without a fault until then. Results are kept in bench/planted_faults.json, and docs/internals/planted-faults.md
is written from them.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from known_faults import FAULTS, edits_of, with_faults, with_marks  # noqa: E402
from sprocketmq.testing.simulation.__main__ import RUN_LIMIT_S  # noqa: E402
from sprocketmq.testing.simulation.draws import Draws  # noqa: E402
from sprocketmq.testing.simulation.forked import NO_END, ForkedRun, Outcome, Run, ended_runs  # noqa: E402

RESULTS: Final = ROOT / "bench" / "planted_faults.json"
PAGE: Final = ROOT / "docs" / "internals" / "planted-faults.md"
PLAIN_RUNS: Final = ROOT / "build" / "plain-runs.json"
# Several faults together may keep a run busy for ever.
_LIMIT_S: Final = 10.0
_TIMES_AS_LONG: Final = 5.0
_SAID_EACH: Final = 20  # seeds
_OF_THIS_MACHINE: Final = re.compile("/[^ ]*sprocketmq-simulation-[^/]*")
_HEAD: Final = """# Planted faults

What the [simulator](../guides/simulation.md) finds is shown by planting faults in today's code
([`tests/known_faults.py`](../../tests/known_faults.py)), most of them faults of this project's past.
`make planted-faults` runs seeds from 1 on without a fault, then each with all faults whose changed places it reaches. When such a run
fails, halves of the faults are tried, until one fault alone makes a seed fail that passes without. Nothing is chosen by hand: pace, users
and weather are drawn by the seed.
Seconds are those of one core for all seeds without a fault until then. Each row is of the last search for its fault. This page is written
from `bench/planted_faults.json`.
"""


class PlainRuns:
    """Runs without a fault, by seed: ``{"error", "cpu_s", "virtual_s", "reached"}``. Runs of other sources are forgotten.

    Attributes:
        cpu_s: of all of them.
    """

    def __init__(self) -> None:
        sources = [*sorted((ROOT / "src" / "sprocketmq").rglob("*.py")), ROOT / "tests" / "known_faults.py"]
        version = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
        self.by_seed: dict[int, Any] = {}
        self.cpu_s = 0.0
        kept = PLAIN_RUNS.read_text().splitlines(keepends=True) if PLAIN_RUNS.exists() else []
        if kept and not kept[-1].endswith("\n"):  # a kill came in the middle of it
            kept.pop()
        if not kept or json.loads(kept[0]) != version:
            kept = [json.dumps(version) + "\n"]
        PLAIN_RUNS.parent.mkdir(exist_ok=True)
        PLAIN_RUNS.write_text("".join(kept))
        for line in kept[1:]:
            self._add(*json.loads(line))

    def _add(self, seed: int, row: dict[str, Any]) -> None:
        self.by_seed[seed] = row
        self.cpu_s += row["cpu_s"]

    def run(self, minutes: float, jobs: int) -> None:
        """Seeds from 1 on, for so long together."""
        for wanted, outcome in ended_runs(self._missing(minutes * 60), Wanted.begin, jobs):
            if outcome.error:
                print(f"seed {wanted.seed} fails without a fault: {outcome.error}", flush=True)
            row = {
                "error": outcome.error,
                "cpu_s": outcome.cpu_s,
                "virtual_s": outcome.virtual_s,
                "reached": outcome.made["reached"].parts if "reached" in outcome.made else [],
            }
            self._add(wanted.seed, row)
            with PLAIN_RUNS.open("a") as file:
                file.write(json.dumps([wanted.seed, row]) + "\n")
        hours = sum(row["virtual_s"] for row in self.by_seed.values()) / 3600
        failed = sum(bool(row["error"]) for row in self.by_seed.values())
        print(f"without a fault: {len(self.by_seed)} runs, {hours:.1f} virtual hours, {failed} failed", flush=True)

    def _missing(self, most_s: float) -> Iterator[Wanted]:
        run = with_marks()
        for seed in itertools.count(1):
            if self.cpu_s >= most_s:
                return
            if seed not in self.by_seed:
                yield Wanted(seed, run)


class Wanted(NamedTuple):
    """``names``: of the planted faults. ``limit_s``: of this machine's time."""

    seed: int
    run: Run
    names: tuple[str, ...] = ()
    limit_s: float = RUN_LIMIT_S

    def begin(self) -> ForkedRun:
        return ForkedRun(self.run, Draws(self.seed), self.limit_s)


class Search:
    """For all of ``names``, along the seeds that pass without a fault. An iterator of the runs that it wants next.

    Attributes:
        found: for each fault, the lowest seed that fails with it, and the error.
    """

    def __init__(self, names: list[str], plain: PlainRuns) -> None:
        self._names, self._plain = names, plain
        self.found: dict[str, tuple[int, str]] = {}
        self._seeds = iter([seed for seed, row in sorted(plain.by_seed.items()) if not row["error"]])
        self._pending: deque[Wanted] = deque()

    def __iter__(self) -> Search:
        return self

    def __next__(self) -> Wanted:
        while not self._pending:
            seed = next(self._seeds)
            if seed % _SAID_EACH == 0:
                print(f"  seed {seed}, {len(self._names) - len(self.found)} faults left", flush=True)
            left = [name for name in self._names if name not in self.found and self.reaches(seed, name)]
            self._pending += [self._wanted(seed, group) for group in _apart(left)]
        return self._pending.popleft()

    def reaches(self, seed: int, name: str) -> bool:
        return not edits_of(name).keys().isdisjoint(self._plain.by_seed[seed]["reached"])

    def ended(self, wanted: Wanted, outcome: Outcome) -> None:
        names = wanted.names
        if not outcome.error:
            return
        if len(names) > 1:
            halves = names[: len(names) // 2], names[len(names) // 2 :]
            self._pending.extendleft(self._wanted(wanted.seed, half) for half in halves)
        elif outcome.rule == NO_END and wanted.limit_s < RUN_LIMIT_S:
            self._pending.appendleft(wanted._replace(limit_s=RUN_LIMIT_S))
        elif outcome.rule != NO_END and wanted.seed <= self.found.get(names[0], (wanted.seed, ""))[0]:
            self.found[names[0]] = wanted.seed, _OF_THIS_MACHINE.sub("STORES", outcome.error)
            print(f"{names[0]}: seed {wanted.seed}, {outcome.error}", flush=True)

    def row(self, name: str) -> dict[str, Any]:
        seed, error = self.found.get(name, (max(self._plain.by_seed), ""))
        seeds = [each for each in self._plain.by_seed if each <= seed]
        spent_s = sum(self._plain.by_seed[each]["cpu_s"] for each in seeds)
        reached = sum(self.reaches(each, name) for each in seeds)
        found = {"seed": seed, "error": error} if error else None
        return {"found": found, "seconds": round(spent_s, 1), "runs": len(seeds), "reached": reached}

    def _wanted(self, seed: int, names: Iterable[str]) -> Wanted:
        names = tuple(names)
        limit_s = _LIMIT_S + _TIMES_AS_LONG * self._plain.by_seed[seed]["cpu_s"]
        return Wanted(seed, with_faults(FAULTS[name] for name in names), names, limit_s)


def _apart(names: Iterable[str]) -> list[list[str]]:
    """Groups in which no two faults change the same function."""
    groups: list[tuple[list[str], set[Any]]] = []
    for name in names:
        functions = {edit.function for edit in FAULTS[name].edits}
        group = next((group for group in groups if group[1].isdisjoint(functions)), None)
        if group is None:
            groups.append(group := ([], set()))
        group[0].append(name)
        group[1].update(functions)
    return [group for group, _ in groups]


def page(rows: dict[str, Any]) -> str:
    lines, found = [], 0
    for name, fault in FAULTS.items():
        origin = fault.origin or "made up"
        row, told = rows.get(name), "not searched yet | | "
        if row is not None and row["found"] is None:
            minutes, reached = row["seconds"] / 60, f"{row['reached']} of {row['runs']} runs reach the place"
            told = f"not found in {minutes:.0f} min | | {reached}"
        elif row is not None:
            found += 1
            error = row["found"]["error"].partition("(")[2].strip("()\"'").replace("|", "\\|")
            told = f"{row['seconds']:.0f} | {row['found']['seed']} | {error[:110]}"
        lines.append(f"| {fault.part} | {fault.what} | {origin} | {told} |")
    past = sum(bool(fault.origin) for fault in FAULTS.values())
    head = f"""{_HEAD}
{found} of {len(FAULTS)} are found. {past} of all are faults of the past, with the commit that mended each.

| part | fault | from | seconds | seed | how the run fails |
|---|---|---|---|---|---|
"""
    return head + "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", help="names; default: all")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="of one core, for the runs without a fault (default 60)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at a time (default 1)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of texts is a part of a run
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})

    rows: dict[str, Any] = json.loads(options.results.read_text()) if options.results.exists() else {}
    plain = PlainRuns()
    plain.run(options.minutes, options.jobs)
    names = options.faults or [*FAULTS]
    search = Search(names, plain)
    try:
        for wanted, outcome in ended_runs(search, Wanted.begin, options.jobs):
            search.ended(wanted, outcome)
        rows.update((name, search.row(name)) for name in names)
    finally:  # of a search that is stopped, what it has found
        rows.update((name, search.row(name)) for name in search.found)
        options.results.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{len(search.found)} found", flush=True)
    if options.results == RESULTS:
        PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
