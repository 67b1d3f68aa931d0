# SPDX-License-Identifier: Apache-2.0
"""The judge of the long stream notices a row that is lost, doubled, tried too often, dead for a wrong reason; and memory that grows."""

from __future__ import annotations

import random

import pytest

from system.spark.soak_ledger import MAX_RECONSUME, SoakLedger, fate_of, verdict_of
from system.spark.soak_samples import Series

SEED = 3
ALL = range(2_000)


def told(*, but: int = -1) -> SoakLedger:
    """Every row at its end as its fate says, one left out."""
    ledger = SoakLedger(SEED, sent=len(ALL))
    for number in ALL:
        fate = fate_of(SEED, number)
        if number == but:
            continue
        if fate.dead:
            ledger.dead_letter(number, fate.tries + 1, fate.reason)
        else:
            ledger.at_sink(number, fate.tries)
    return ledger


def verdict(ledger: SoakLedger, retries: int | None = None) -> list[str]:
    retries = ledger.retries if retries is None else retries
    return ledger.verdict(retries, retries, ledger.dead)


def test_rows_that_came_to_their_ends_are_all_right() -> None:
    ledger = told()
    assert verdict(ledger) == []
    assert ledger.under_way == 0


def test_all_kinds_of_fates_occur() -> None:
    fates = [fate_of(SEED, number) for number in ALL]
    assert {fate.tries for fate in fates if fate.dead} == {fate.tries for fate in fates if not fate.dead}
    assert {fate.tries for fate in fates} == set(range(MAX_RECONSUME + 1))
    assert {bool(fate.reason) for fate in fates if fate.dead} == {True, False}
    levels = {verdict_of(SEED, number, 0).level for number in ALL if verdict_of(SEED, number, 0).action == "retry"}
    assert levels == {0, 1, 2, 3}


def test_a_row_that_is_lost_is_named() -> None:
    assert "1 of 2000 rows came to no end, the first are [7]" in verdict(told(but=7))


def test_a_row_that_comes_twice_is_named() -> None:
    ledger = told()
    ledger.at_sink(7, fate_of(SEED, 7).tries)
    assert any("7 comes to its end twice" in line for line in verdict(ledger))


def test_a_row_that_was_tried_once_too_often_is_named() -> None:
    ledger = told(but=7)
    ledger.at_sink(7, fate_of(SEED, 7).tries + 1)
    assert any("7 is in the sink after" in line for line in verdict(ledger))


@pytest.mark.parametrize(("times", "reason"), [(0, ""), (1, "no")])
def test_a_dead_letter_with_another_number_of_tries_or_another_reason_is_named(times: int, reason: str) -> None:
    number = next(number for number in ALL if fate_of(SEED, number).dead)
    fate = fate_of(SEED, number)
    ledger = told(but=number)
    ledger.dead_letter(number, fate.tries + times, reason or fate.reason)
    assert any(f"{number} is a dead letter with" in line for line in verdict(ledger))


def test_a_retry_too_many_is_counted() -> None:
    ledger = told()
    assert len(verdict(ledger, ledger.retries + 1)) == 2


MIB = 1 << 20


def series(per_hour: float, *, warm_up: float = 0.0, noise: float = 1.0) -> Series:
    """An hour of samples in MiB: a base of 60, a warm-up in the first ten minutes, a rise, and noise in which some samples are far out."""
    dice = random.Random(SEED)
    points = []
    for at_s in range(0, 3600, 10):
        value = 60 + warm_up * min(1.0, at_s / 600) + per_hour * at_s / 3600 + dice.uniform(-noise, noise)
        points.append((float(at_s), (value + (50 if dice.random() < 0.1 else 0)) * MIB))
    return Series(points)


def test_memory_that_is_taken_while_warming_up_and_swings_is_flat() -> None:
    assert series(0).is_flat()
    assert series(0, warm_up=300, noise=5).is_flat()


def test_memory_that_grows_by_a_tenth_in_an_hour_is_not_flat() -> None:
    assert not series(8).is_flat()
    assert not series(8, warm_up=30).is_flat()
