# SPDX-License-Identifier: Apache-2.0
"""Runs in processes of their own: what they leave does not matter, and each ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from sprocketmq.testing.simulation import World, simulate
from sprocketmq.testing.simulation.draws import DrawError, Draws
from sprocketmq.testing.simulation.forked import ForkedRun, ended_runs, outcome_of
from sprocketmq.testing.simulation.world import stores_of


async def chats(world: World) -> None:
    await world.topic("orders", world.draws.number("queues", 1, 8))
    world.note(f"{world.rng.random()}")


def run(draws: Draws) -> World:
    return simulate(chats, seed=draws.seed, draws=draws)


def test_a_run_is_the_first_of_its_process_each_time() -> None:
    first, again, other = (outcome_of(run, Draws(seed), 60) for seed in (5, 5, 6))
    assert (first.digest, first.made, first.steps) == (again.digest, again.made, again.steps)
    assert first.digest != other.digest
    assert first.virtual_s > 0
    assert not first.error


def test_what_a_run_raises_comes_with_its_story_and_its_draws() -> None:
    async def fails(world: World) -> None:
        world.draws.number("cups", 3, 3)
        world.note("a cup falls")
        raise LookupError("cup 3")

    outcome = outcome_of(lambda draws: simulate(fails, seed=1, draws=draws), Draws(1), 60)
    assert outcome.error == repr(LookupError("cup 3"))
    assert outcome.rule == "LookupError: cup #"
    assert "a cup falls" in outcome.story
    assert outcome.drawn("cups") == "3"


def test_values_that_cannot_be_given_are_an_error_here() -> None:
    with pytest.raises(DrawError):
        outcome_of(run, Draws(1, {"saucers": "3"}), 60)


def test_a_run_without_end_is_killed_and_leaves_no_files() -> None:
    async def hangs(world: World) -> None:
        signal.pause()

    hanging = ForkedRun(lambda draws: simulate(hangs, seed=1, draws=draws), Draws(1), 2)
    process_id = hanging._child.pid
    assert process_id is not None
    while not stores_of(process_id):
        time.sleep(0.01)
    quick = ForkedRun(run, Draws(1), 60)
    runs = {"hanging": hanging, "quick": quick}
    (first, digests), (second, fails) = ended_runs(iter(runs), lambda name: runs[name], 2)
    assert (first, second) == ("quick", "hanging")
    assert digests.digest
    assert fails.rule == "no end"
    assert not stores_of(process_id)
    assert not Path(f"/proc/{process_id}").exists()


def test_a_run_whose_process_dies_is_a_failure() -> None:
    async def dies(world: World) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    outcome = outcome_of(lambda draws: simulate(dies, seed=1, draws=draws), Draws(1), 60)
    assert outcome.rule == "died"
    assert str(-signal.SIGKILL) in outcome.error
