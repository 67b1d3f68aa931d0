# SPDX-License-Identifier: Apache-2.0
"""The draws of a run by name: given ones leave the others as they were, and a failure is made small with them."""

from __future__ import annotations

import pytest

from sprocketmq.testing.simulation import Weather, World, __main__, simulate
from sprocketmq.testing.simulation.draws import DrawError, Draws
from sprocketmq.testing.simulation.forked import outcome_of
from sprocketmq.testing.simulation.shrink import smallest


async def breaks(world: World) -> None:
    """When at least three cups are there and a process is killed."""
    world.start("shop", lambda here: world.sleep(1_000_000))
    cups, _ = world.draws.number("cups", 1, 8), world.draws.number("plates", 1, 8)
    await world.sleep(20_000)
    kills = [name for name in world.draws.made["troubles"].parts if name.startswith("kills")]
    if cups >= 3 and kills:
        raise LookupError(f"{cups} cups fell")


def run(draws: Draws) -> World:
    weather = Weather(kinds=["kills", "resets", "spikes"], every_ms=1_000)
    return simulate(breaks, seed=draws.seed, weather=weather, brokers=None, draws=draws)


def test_a_failure_is_made_as_small_as_it_can_be() -> None:
    outcomes = (outcome_of(run, Draws(seed), 60) for seed in range(9))
    failed = next(outcome for outcome in outcomes if outcome.rule.startswith("LookupError"))
    given, outcome = smallest(run, {}, failed, run_limit_s=60, limit_s=600)
    assert outcome.error == repr(LookupError("3 cups fell"))
    assert (given["cups"], given["plates"], given["brokers"], given["kinds"]) == ("3", "1", "1", "kills")
    assert given["troubles"].startswith("kills-")
    assert "," not in given["troubles"]


def test_a_given_value_leaves_the_other_draws_as_they_were() -> None:
    draws, given = Draws(7), Draws(7, {"topics": "2"})
    for each in (draws, given):
        each.number("topics", 1, 3)
        each.choice("pace", ["dense", "days"])
        each.some("kinds", ["kills", "walls"], 0.5)
    assert given.made["topics"].text == "2"
    assert {**given.made, "topics": None} == {**draws.made, "topics": None}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("kinds=kill", "kinds has 'kill'.*did you mean 'kills'"),
        ("brokers=9", "brokers is '9', 1, 2, 3 are allowed"),
        ("broker=1", "no draw of this run is named 'broker'.*did you mean 'brokers'"),
        ("brokers", "NAME=VALUE is allowed"),
    ],
)
def test_what_cannot_be_given_is_said_in_a_sentence(given: str, said: str) -> None:
    with pytest.raises(DrawError, match=said):
        __main__.run(Draws(1, __main__.given_in(f"{given}; pace=dense; messages=1; features=none")))


def test_an_unknown_kind_of_weather_is_said_in_a_sentence() -> None:
    with pytest.raises(DrawError, match="did you mean 'walls'"):
        simulate(breaks, seed=1, weather=Weather(kinds=["wall"]))
