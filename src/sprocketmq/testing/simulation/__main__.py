# SPDX-License-Identifier: Apache-2.0
"""``python -m sprocketmq.testing.simulation``: random users in random weather, seed after seed, until one finds something."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import secrets
import sys
import time
from typing import Final

from sprocketmq.testing.simulation.draws import DrawError, Draws
from sprocketmq.testing.simulation.shrink import shrunk
from sprocketmq.testing.simulation.users import RandomUsers
from sprocketmq.testing.simulation.weather import Weather
from sprocketmq.testing.simulation.world import World, simulate

# How many times as long users wait and stay, and how many messages they send: timers have their faults in long runs.
PACES: Final = {"dense": (1, 400), "hours": (60, 150), "days": (600, 60)}


def run(draws: Draws) -> World:
    """A run of which the seed decides everything that is not given."""
    pace, messages = PACES[draws.choice("pace", list(PACES))]
    return simulate(
        RandomUsers(messages, pace=pace),
        seed=draws.seed,
        weather=Weather(every_ms=4_000 * pace),
        brokers=None,
        draws=draws,
        **RandomUsers.CONFIG,
    )


def given_in(texts: str) -> dict[str, str]:
    given = {}
    for part in filter(None, (part.strip() for part in texts.split(";"))):
        name, equals, text = part.partition("=")
        if not equals:
            raise DrawError(f"--set has {part!r}, NAME=VALUE is allowed, several with ';' between them")
        given[name.strip()] = text.strip()
    return given


def command(seed: int, given: dict[str, str]) -> str:
    texts = "; ".join(f"{name}={text}" for name, text in given.items())
    return f"make simulate SEED={seed}" + (f' SET="{texts}"' if texts else "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sprocketmq.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one run; the seed of a failure gives the same run again")
    parser.add_argument("--minutes", type=float, default=1.0, help="fresh seeds for so long (default 1)")
    parser.add_argument(
        "--set", default="", help="draws that are given, such as 'brokers=1; kinds=kills,walls; messages=50'"
    )
    parser.add_argument(
        "--shrink",
        type=float,
        default=2.0,
        help="minutes that the search for a smaller run with the same error may take (default 2)",
    )
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of texts is a part of a run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "sprocketmq.testing.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    try:
        given = given_in(options.set)
    except DrawError as error:
        parser.error(str(error))
    logging.disable(logging.CRITICAL)
    began_s, virtual_s, runs = time.monotonic(), 0.0, 0
    while not runs or (options.seed is None and time.monotonic() - began_s < options.minutes * 60):
        draws = Draws(secrets.randbelow(1 << 32) if options.seed is None else options.seed, given)
        try:
            world = run(draws)
        except DrawError as error:
            parser.error(str(error))
        except BaseException as error:
            _report(draws, given, error, options.shrink)
            raise
        if not runs:
            gc.collect()
            gc.freeze()  # so that the collections of later runs do not go through all modules
        runs, virtual_s = runs + 1, virtual_s + world.loop.time()
        print(  # noqa: T201
            f"seed {draws.seed}: {draws.made['pace'].text}, {world.loop.time():.0f} s, {world.loop.steps:,} steps, "
            f"{', '.join(world.sky.kinds) or 'calm'}; trace {world.digest}",
            flush=True,
        )
    real_s = time.monotonic() - began_s
    print(f"{runs} runs, {virtual_s / 3600:.1f} virtual hours in {real_s / 60:.1f} minutes; nothing was found")  # noqa: T201


def _report(draws: Draws, given: dict[str, str], error: BaseException, minutes: float) -> None:
    print(f"seed {draws.seed} failed; again: {command(draws.seed, given)}\n{error!r}", file=sys.stderr, flush=True)  # noqa: T201
    if not isinstance(error, Exception) or minutes <= 0:
        return

    given, error = shrunk(run, draws, error, minutes * 60)
    print(f"the smallest with the same error: {command(draws.seed, given)}", file=sys.stderr)  # noqa: T201
    print(f"{error!r}\n" + "\n".join(getattr(error, "__notes__", ())), file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
