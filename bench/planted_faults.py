# SPDX-License-Identifier: Apache-2.0
"""How long the simulator searches until it finds each known fault (tests/known_faults.py), planted in today's code.

    make planted-faults FAULT="zeros over records" MINUTES=60 JOBS=2

First seeds 1, 2, ... without a fault, for MINUTES of one core; build/plain-runs.json keeps how they ended and which of the changed places
they reached. Then for each fault the same seeds with it, users and weather as the seed draws them, until one fails that passes without. A
run that reaches none of its places is the same with the fault as without, so it is not repeated; its seconds count. Results are kept in
bench/planted_faults.json, and docs/internals/planted-faults.md is written from them.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from known_faults import FAULTS, edits_of, with_fault, with_marks  # noqa: E402
from sprocketmq.testing.simulation.__main__ import RUN_LIMIT_S  # noqa: E402
from sprocketmq.testing.simulation.draws import Draws  # noqa: E402
from sprocketmq.testing.simulation.forked import ForkedRun, Outcome, Run, first_ended  # noqa: E402

RESULTS: Final = ROOT / "bench" / "planted_faults.json"
PAGE: Final = ROOT / "docs" / "internals" / "planted-faults.md"
PLAIN_RUNS: Final = ROOT / "build" / "plain-runs.json"
_HEAD: Final = """# Planted faults

What the [simulator](../guides/simulation.md) finds is shown by planting faults in today's code, one at a time
([`tests/known_faults.py`](../../tests/known_faults.py)), most of them faults of this project's past.
`make planted-faults` searches with seeds from 1 on, until a run fails that passes without the fault. Nothing is chosen by hand: pace,
users and weather are drawn by the seed.
Seconds are those of one core for all seeds until then. This page is written from `bench/planted_faults.json`.
"""


class PlainRuns:
    """Runs without a fault, by seed: ``{"error", "cpu_s", "virtual_s", "digest", "reached"}``. Runs of other sources are forgotten."""

    def __init__(self) -> None:
        sources = [*sorted((ROOT / "src" / "sprocketmq").rglob("*.py")), ROOT / "tests" / "known_faults.py"]
        self._version = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
        kept = json.loads(PLAIN_RUNS.read_text()) if PLAIN_RUNS.exists() else {}
        self.by_seed: dict[int, Any] = {}
        if kept.get("version") == self._version:
            self.by_seed = {int(seed): row for seed, row in kept["runs"].items()}

    def run(self, minutes: float, jobs: int) -> None:
        """Seeds from 1 on, for so long together."""
        for seed, outcome in ended_runs(self._missing(minutes * 60), jobs):
            if outcome.error:
                print(f"seed {seed} fails without a fault: {outcome.error}", flush=True)
            self.by_seed[seed] = {
                "error": outcome.error,
                "cpu_s": outcome.cpu_s,
                "virtual_s": outcome.virtual_s,
                "digest": outcome.digest,
                "reached": outcome.made["reached"].parts if "reached" in outcome.made else [],
            }
            PLAIN_RUNS.parent.mkdir(exist_ok=True)
            PLAIN_RUNS.write_text(json.dumps({"version": self._version, "runs": self.by_seed}))
        hours = sum(row["virtual_s"] for row in self.by_seed.values()) / 3600
        failed = sum(bool(row["error"]) for row in self.by_seed.values())
        print(f"without a fault: {len(self.by_seed)} runs, {hours:.1f} virtual hours, {failed} failed", flush=True)

    def _missing(self, most_s: float) -> Iterator[tuple[int, Run]]:
        for seed in itertools.count(1):
            if seed in self.by_seed:
                continue
            if sum(row["cpu_s"] for row in self.by_seed.values()) >= most_s:
                return
            yield seed, with_marks


def ended_runs(wanted: Iterable[tuple[int, Run]], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """``jobs`` at a time, as they end. What was not asked for any more is killed."""
    wanted, running = iter(wanted), list[ForkedRun]()
    try:
        while True:
            while len(running) < jobs and (one := next(wanted, None)) is not None:
                running.append(ForkedRun(one[1], Draws(one[0]), RUN_LIMIT_S))
            if not running:
                return
            ended = first_ended(running)
            running.remove(ended)
            yield ended.draws.seed, ended.end()
    finally:
        for left in running:
            left.kill()


def search(name: str, plain: PlainRuns, minutes: float, jobs: int) -> dict[str, Any]:
    """The first seed that fails with the fault and passes without it, and the seconds until then."""
    edits = set(edits_of(name))
    passed = [seed for seed, row in sorted(plain.by_seed.items()) if not row["error"]]
    reached = [seed for seed in passed if edits & set(plain.by_seed[seed]["reached"])]
    ended: dict[int, Outcome] = {}
    failed = max(plain.by_seed) + 1
    # As they end, so that a seed may end before a lower one that fails, too.
    wanted = ((seed, with_fault(FAULTS[name])) for seed in reached if seed < failed)
    for seed, outcome in ended_runs(wanted, jobs):
        ended[seed] = outcome
        if outcome.error:
            failed = min(failed, seed)
    spent_s = sum(
        ended[seed].cpu_s if seed in ended else row["cpu_s"] for seed, row in plain.by_seed.items() if seed <= failed
    )
    changed = sum(outcome.digest != plain.by_seed[seed]["digest"] for seed, outcome in ended.items() if seed <= failed)
    row = {
        "minutes": minutes,
        "reached": sum(seed <= failed for seed in reached),
        "changed": changed,
        "runs": sum(seed <= failed for seed in passed),
    }
    found = {"seed": failed, "error": ended[failed].error, "seconds": round(spent_s, 1)} if failed in ended else None
    return {"found": found, **row}


def page(rows: dict[str, Any]) -> str:
    lines, found = [], 0
    for name, fault in FAULTS.items():
        origin = fault.origin or "made up"
        row = rows.get(name)
        told = "not searched yet | | "
        if row is not None and row["found"] is None:
            reached = f"of {row['runs']} runs {row['reached']} reach the place, {row['changed']} differ"
            told = f"not found in {row['minutes']:g} min | | {reached}"
        elif row is not None:
            found += 1
            error = row["found"]["error"].partition("(")[2].strip("()\"'").replace("|", "\\|")
            told = f"{row['found']['seconds']:g} | {row['found']['seed']} | {error[:110]}"
        lines.append(f"| {fault.part} | {fault.what} | {origin} | {told} |")
    past = sum(bool(fault.origin) for fault in FAULTS.values())
    return "\n".join(
        [
            _HEAD,
            f"{found} of {len(FAULTS)} are found. {past} of all are faults of the past, with the commit that mended each.",
            "",
            "| part | fault | from | seconds | seed | how the run fails |",
            "|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", help="names; default: all that have not been found yet")
    parser.add_argument("--minutes", type=float, default=60.0, help="of one core, for each fault (default 60)")
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at a time (default 1)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of texts is a part of a run
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})

    rows: dict[str, Any] = json.loads(options.results.read_text()) if options.results.exists() else {}
    plain = PlainRuns()
    plain.run(options.minutes, options.jobs)
    for name in options.faults or [name for name in FAULTS if (rows.get(name) or {}).get("found") is None]:
        rows[name] = search(name, plain, options.minutes, options.jobs)
        print(f"{name}: {rows[name]}", flush=True)
        options.results.write_text(json.dumps(rows, indent=1) + "\n")
    if options.results == RESULTS:
        PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
