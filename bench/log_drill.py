# SPDX-License-Identifier: Apache-2.0
"""How many lines each process logs in ten minutes of trouble, and which: `.venv/bin/python bench/log_drill.py [--show] [TROUBLE ...]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from inproc.client.log_drill import TROUBLES, Drill, Size, expired_certificate  # noqa: E402

CERTIFICATE = "certificate expired"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("troubles", nargs="*", metavar="TROUBLE", help=", ".join((*TROUBLES, CERTIFICATE)))
    for name, default in vars(Size()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the first N lines of each process")
    given = parser.parse_args()
    size = Size(given.topics, given.queues, given.groups, given.minutes, given.brokers)
    for trouble in given.troubles or (*TROUBLES, CERTIFICATE):
        began_s = time.monotonic()
        found = expired_certificate(size) if trouble == CERTIFICATE else Drill(size, trouble).run().lines
        counts = ", ".join(f"{host or 'none'} {len(lines)}" for host, lines in sorted(found.items()))
        print(f"{trouble}: {counts or 'nothing'} ({time.monotonic() - began_s:.0f} s)", flush=True)
        for host, lines in sorted(found.items()) if given.show else ():
            print(f"  {host}", *lines[: given.show], sep="\n    ")


if __name__ == "__main__":
    main()
