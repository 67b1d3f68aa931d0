# SPDX-License-Identifier: Apache-2.0
"""Hundreds of kills at random moments under a mixed load, each followed by an audit: `make crash`.

    python bench/kill_storm.py [--kills 500] [--seconds 1800] [--seed N] [--sync-flush]

Exit code 1 with the broken laws (numbered in tests/interop/storm_ledger.py) if an acknowledged message is lost, doubled or out of order, or
another law is broken; then the store is kept. The seed repeats load and times of kills, not the machine's timing.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from interop.apache_cluster import free_ports  # noqa: E402
from interop.child import unwind_on_sigterm  # noqa: E402
from interop.kill_storm import KillStorm  # noqa: E402
from report import figures_table, new_console  # noqa: E402


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kill a broker under load, and audit what it kept.")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1800, help="stop killing after so long; default 1800")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    parser.add_argument("--check-every", type=int, default=50, help="kills between two runs of the store check")
    parser.add_argument("--sync-flush", action="store_true", help="answers wait for the disk")
    return parser.parse_args()


def report(storm: KillStorm, seconds: float, console: Console) -> None:
    ledger = storm.ledger
    title = f"{storm.kills.total()} kills in {seconds:.0f} s, {seconds / max(1, storm.kills.total()):.2f} s each"
    table = figures_table(title, ("what",), "number")
    for moment, number in sorted(storm.kills.items()):
        table.add_row(f"killed {moment}", f"{number:,}")
    table.add_row("stopped before the kill came (not counted)", f"{storm.too_late:,}")
    for kind, number in sorted(ledger.done.items()):
        table.add_row(f"acknowledged: {kind}", f"{number:,}")
    table.add_row("requests cut off by kills", f"{ledger.cut_off:,}")
    table.add_row("runs of the store check", f"{storm.checks:,}")
    table.add_row("deliveries made again (allowed)", f"{ledger.delivered_again():,}")
    table.add_row("acknowledged and lost, doubled, or out of order", "0")
    console.print(table)
    console.print(
        "After every kill: nothing acknowledged was lost, doubled or out of order; each law of storm_ledger.py held."
    )


def main() -> None:
    options = parsed_options()
    unwind_on_sigterm()
    console = new_console(120)
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="kill-storm-"))
    console.print(f"seed {seed}, store {folder}")
    began_s = time.monotonic()
    settings = {"flushDiskType": "SYNC_FLUSH"} if options.sync_flush else {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with (
            KillStorm(folder, free_ports(1), seed, check_every=options.check_every, settings=settings) as storm,
            Progress(*columns, console=console, transient=True) as progress,
        ):
            task = progress.add_task("kills", total=options.kills)
            for kills in storm.run(options.kills, began_s + options.seconds):
                progress.update(task, completed=kills, description=f"{storm.ledger.acknowledged:,} acknowledged")
                if not console.is_terminal and kills % 50 == 0:
                    console.print(
                        f"{kills} kills, {storm.ledger.acknowledged:,} acknowledged, {time.monotonic() - began_s:.0f} s"
                    )
            killing_s = time.monotonic() - began_s
            progress.update(task, description="settling")
            storm.settle()
    except (AssertionError, TimeoutError, RuntimeError) as error:
        raise SystemExit(f"a promise is broken (seed {seed}, store kept in {folder}):\n{error}") from error
    report(storm, killing_s, console)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
