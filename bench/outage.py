# SPDX-License-Identifier: Apache-2.0
"""Outages of name servers and brokers in turns, while clients must keep their laws: `make outage`.

    python bench/outage.py [--minutes 20] [--seed N] [--servers ours]

Servers: ours, Apache's 5.4.0, or (default) both at the same time, each with clients in a separate process. Exit code 1 with the broken laws
(numbered in tests/interop/outage.py). The seed repeats the outages, not the machine's timing.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from interop.child import unwind_on_sigterm  # noqa: E402
from interop.java_peers import JavaPeers  # noqa: E402
from interop.outage import Outage  # noqa: E402
from interop.outage_servers import OURS, SERVERS  # noqa: E402


def drill(servers: str, minutes: float, seed: int) -> int:
    with Outage(seed, servers) as outage:
        ends_s = time.monotonic() + minutes * 60
        while time.monotonic() < ends_s:
            said = outage.turn(8.0)
            print(
                f"{max(0, ends_s - time.monotonic()):6.0f} s left, {len(outage.ledger.acked):,} sent; {said}",
                flush=True,
            )
        outage.all_away(min(30.0, minutes * 10))
        broken = outage.judge()
        for line in outage.report():
            print(line)
    for law in broken[:20]:
        print(f"BROKEN: {law}")
    print("every promise was kept" if not broken else f"{len(broken)} laws are broken")
    return 1 if broken else 0


def side_by_side(servers: list[str], minutes: float, seed: int) -> int:
    with contextlib.ExitStack() as running:
        drills = []
        for one in servers:
            command = [sys.executable, __file__, "--servers", one, "--minutes", str(minutes), "--seed", str(seed)]
            child = running.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            running.callback(child.terminate)
            teller = threading.Thread(target=_tell, args=(one, child))
            teller.start()
            drills.append((child, teller))
        for _, teller in drills:
            teller.join()
        return max(child.wait() for child, _ in drills)


def _tell(name: str, child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        print(f"{name:>6} | {line}", end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Freeze, kill and cut off servers under clients, and judge the clients."
    )
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    parser.add_argument("--servers", default=",".join(SERVERS), help="with commas between; default: all of them")
    options = parser.parse_args()
    servers = options.servers.split(",")
    if unknown := [one for one in servers if one not in SERVERS]:
        parser.error(f"--servers names {unknown[0]!r}, {' and '.join(SERVERS)} are allowed")
    if servers != [OURS] and (reason := JavaPeers.available()):
        parser.error(f"{reason}; --servers {OURS} needs none of it")
    unwind_on_sigterm()
    logging.getLogger("sprocketmq").setLevel(logging.CRITICAL)  # clients log thousands of lines in an outage
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    if len(servers) > 1:
        return side_by_side(servers, options.minutes, seed)
    print(f"seed {seed}", flush=True)
    return drill(servers[0], options.minutes, seed)


if __name__ == "__main__":
    sys.exit(main())
