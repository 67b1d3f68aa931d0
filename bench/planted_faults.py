# SPDX-License-Identifier: Apache-2.0
"""How long the simulator searches until it finds each known fault (tests/known_faults.py), planted in today's code.

    make planted-faults FAULT="zeros over records" MINUTES=60 SEEDS_FROM=1

For each fault seeds upwards from SEEDS_FROM, with users and weather as the seed draws them, each in a process of its own, until one fails
that passes without the fault. Results are kept in bench/planted_faults.json, and docs/internals/planted-faults.md is written from them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from known_faults import FAULTS, search  # noqa: E402

RESULTS: Final = ROOT / "bench" / "planted_faults.json"
PAGE: Final = ROOT / "docs" / "internals" / "planted-faults.md"
_HEAD: Final = """# Planted faults

What the [simulator](../guides/simulation.md) finds is shown by planting faults in today's code, one at a time
([`tests/known_faults.py`](../../tests/known_faults.py)), most of them faults of this project's past.
`make planted-faults` searches with seeds from 1 on, until a run fails that passes without the fault. Nothing is chosen by hand: pace,
users and weather are drawn by the seed.
Seconds are those of one core for all seeds until then. This page is written from `bench/planted_faults.json`.
"""


def page(rows: dict[str, Any]) -> str:
    lines, found = [], 0
    for name, fault in FAULTS.items():
        origin = fault.origin or "made up"
        row = rows.get(name)
        told = "not searched yet | | "
        if row is not None and row["found"] is None:
            told = f"not found in {row['minutes']:g} min | | "
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
    parser.add_argument("--seeds-from", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of texts is a part of a run
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})

    rows: dict[str, Any] = json.loads(options.results.read_text()) if options.results.exists() else {}
    for name in options.faults or [name for name in FAULTS if (rows.get(name) or {}).get("found") is None]:
        found = search(
            FAULTS[name],
            itertools.count(options.seeds_from),
            options.minutes * 60,
            lambda own: print(f"  seed {own.seed} fails without a fault: {own.error}", flush=True),
        )
        rows[name] = {"found": None if found is None else found._asdict(), "minutes": options.minutes}
        print(f"{name}: {found or 'not found'}", flush=True)
        options.results.write_text(json.dumps(rows, indent=1) + "\n")
    if options.results == RESULTS:
        PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
