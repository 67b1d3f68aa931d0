# SPDX-License-Identifier: Apache-2.0
"""``python -m sprocketmq.testing.simulation``: random users in random weather, seed after seed, until one finds something."""

from __future__ import annotations

import argparse
import logging
import os
import random
import secrets
import sys
import time

from sprocketmq.testing.simulation.users import RandomUsers
from sprocketmq.testing.simulation.weather import Weather
from sprocketmq.testing.simulation.world import World, simulate


def run(seed: int, messages: int) -> World:
    return simulate(
        RandomUsers(messages),
        seed=seed,
        weather=Weather(),
        brokers=random.Random(seed).randint(1, 3),
        **RandomUsers.CONFIG,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sprocketmq.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one run; the seed of a failure gives the same run again")
    parser.add_argument("--minutes", type=float, default=1.0, help="fresh seeds for so long (default 1)")
    parser.add_argument("--messages", type=int, default=400, help="sent in each run (default 400)")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of texts is a part of a run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "sprocketmq.testing.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    logging.disable(logging.CRITICAL)
    began_s, virtual_s, runs = time.monotonic(), 0.0, 0
    while not runs or (given.seed is None and time.monotonic() - began_s < given.minutes * 60):
        seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
        try:
            world = run(seed, given.messages)
        except BaseException:
            print(f"seed {seed} failed; again: make simulate SEED={seed} MESSAGES={given.messages}", file=sys.stderr)  # noqa: T201
            raise
        runs, virtual_s = runs + 1, virtual_s + world.loop.time()
        print(  # noqa: T201
            f"seed {seed}: {world.loop.time():.0f} s, {world.loop.steps:,} steps, {', '.join(world.sky.kinds) or 'calm'}; "
            f"trace {world.digest}"
        )
    real_s = time.monotonic() - began_s
    print(f"{runs} runs, {virtual_s / 3600:.1f} virtual hours in {real_s / 60:.1f} minutes; nothing was found")  # noqa: T201


if __name__ == "__main__":
    main()
