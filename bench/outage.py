"""Name servers and brokers in trouble by turns, beside clients that must keep their promises: `make outage`.

    python bench/outage.py [--minutes 20] [--seed N]

Exit code 1 with the broken laws (tests/interop/outage.py numbers them). The seed repeats the troubles, not the machine's timing.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from interop.child import unwind_on_sigterm  # noqa: E402
from interop.outage import Outage  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Freeze, kill and cut off servers under clients, and judge the clients."
    )
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    options = parser.parse_args()
    unwind_on_sigterm()
    logging.getLogger("sprocketmq").setLevel(logging.CRITICAL)  # what clients say in an outage is thousands of lines
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    ends_s = time.monotonic() + options.minutes * 60
    with Outage(seed) as outage:
        while time.monotonic() < ends_s:
            print(
                f"{max(0, ends_s - time.monotonic()):6.0f} s left, {len(outage.acked):,} sent; {outage.turn(8.0)}",
                flush=True,
            )
        outage.idle(min(30.0, options.minutes * 10))
        broken = outage.judge()
        for trouble, count in sorted(Counter(outage.turns).items()):
            print(f"{count:5} x {trouble}")
        print(
            f"{len(outage.acked):,} sends acknowledged, {outage.refused:,} refused, the longest took {outage.longest_send_s:.2f} s"
        )
        print(f"clients that only wait took {outage.idle_share:.2%} of a core in the outage")
    for law in broken:
        print(f"BROKEN: {law}")
    print("every promise was kept" if not broken else f"{len(broken)} laws are broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
