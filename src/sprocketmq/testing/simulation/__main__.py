# SPDX-License-Identifier: Apache-2.0
"""``python -m sprocketmq.testing.simulation``: random users in random weather, seed after seed, until one finds something."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from sprocketmq.testing.simulation.draws import DrawError, Draws
from sprocketmq.testing.simulation.forked import ForkedRun, Outcome, ended_runs
from sprocketmq.testing.simulation.shrink import smallest
from sprocketmq.testing.simulation.users import RandomUsers
from sprocketmq.testing.simulation.weather import Weather
from sprocketmq.testing.simulation.world import World, simulate

# How many times as long users wait and stay, and how many messages they send: timers have their faults in long runs.
PACES: Final = {"dense": (1, 400), "hours": (60, 150), "days": (600, 60)}
# A run of days takes four times as long as a dense one.
_DRAWN_PACES: Final = [*3 * ["dense"], *2 * ["hours"], "days"]
# The most that a trouble lasts: in some runs longer than a lock, and than a broker waits for a client.
LASTS_MS: Final = (45_000, 225_000)
RUN_LIMIT_S: Final = 600.0  # of this machine's time; most take a few seconds


def run(draws: Draws) -> World:
    """A run of which the seed decides everything that is not given."""
    pace, messages = PACES[draws.choice("pace", _DRAWN_PACES)]
    return simulate(
        RandomUsers(messages, pace=pace),
        seed=draws.seed,
        weather=Weather(every_ms=4_000 * pace, lasts_ms=draws.choice("lasts_ms", LASTS_MS)),
        brokers=None,
        draws=draws,
        # Without it a topic that was deleted stays away until its administrator makes it again.
        autoCreateTopicEnable=draws.choice("autoCreateTopicEnable", ["true", "false"]),
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
    seeds_of = "seeds that this text gives, so that the same sources have the same"
    parser.add_argument("--seeds-of", metavar="TEXT", help=seeds_of)
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at a time (default 1)")
    given_draws = "draws that are given, such as 'brokers=1; kinds=kills,walls; messages=50'"
    parser.add_argument("--set", default="", help=given_draws)
    shrink = "minutes that the search for a smaller run with the same error may take (default 2)"
    parser.add_argument("--shrink", type=float, default=2.0, help=shrink)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of texts is a part of a run
        again = [sys.executable, "-m", "sprocketmq.testing.simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    began_s = time.monotonic()
    speeds: defaultdict[str, list[Outcome]] = defaultdict(list)
    try:
        given = given_in(options.set)
        rng = random.Random(options.seeds_of)  # of None: each time others
        seeds = fresh_seeds(rng, options.minutes) if options.seed is None else iter([options.seed])

        def begin(seed: int) -> ForkedRun:
            return ForkedRun(run, Draws(seed, given), RUN_LIMIT_S)

        for _, outcome in ended_runs(seeds, begin, max(1, options.jobs)):
            if outcome.error:
                _report(outcome, given, options.shrink)
                sys.exit(1)
            speeds[outcome.drawn("pace")].append(outcome)
            print(  # noqa: T201
                f"seed {outcome.seed}: {outcome.drawn('pace')}, {outcome.virtual_s:.0f} s in {outcome.cpu_s:.1f} s, "
                f"{outcome.steps:,} steps, kinds {outcome.drawn('kinds')}; trace {outcome.digest}",
                flush=True,
            )
    except DrawError as error:
        parser.error(str(error))
    for pace, ended in sorted(speeds.items()):
        print(f"{pace}: {_speed(ended):.1f} virtual hours in each minute of a processor, {len(ended)} runs")  # noqa: T201
    everything = [outcome for ended in speeds.values() for outcome in ended]
    hours, minutes = sum(each.virtual_s for each in everything) / 3600, (time.monotonic() - began_s) / 60
    print(f"{len(everything)} runs, {hours:.1f} virtual hours in {minutes:.1f} minutes; nothing was found")  # noqa: T201


def _speed(ended: list[Outcome]) -> float:
    return sum(each.virtual_s for each in ended) / 60 / max(sum(each.cpu_s for each in ended), 1e-9)


def fresh_seeds(rng: random.Random, minutes: float) -> Iterator[int]:
    """At least one."""
    end_s = time.monotonic() + minutes * 60
    yield rng.randrange(1 << 32)
    while time.monotonic() < end_s:
        yield rng.randrange(1 << 32)


def _report(failed: Outcome, given: dict[str, str], minutes: float) -> None:
    print(f"seed {failed.seed} failed; again: {command(failed.seed, given)}", file=sys.stderr)  # noqa: T201
    print(failed.error, file=sys.stderr, flush=True)  # noqa: T201
    if minutes > 0:
        given, failed = smallest(run, given, failed, run_limit_s=RUN_LIMIT_S, limit_s=minutes * 60)
        print(f"the smallest with the same error: {command(failed.seed, given)}\n{failed.error}", file=sys.stderr)  # noqa: T201
    print(failed.story, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
