# SPDX-License-Identifier: Apache-2.0
"""How old a half message may be to be decided: by numbers, and against the rounds of a broker."""

from __future__ import annotations

import random

import pytest

from sprocketmq.core.transactions.half_lifetime import HalfLifetime
from sprocketmq.core.transactions.transaction_check import CheckRules, Verdict, judge

_MS_OF_72_H = 72 * 3_600_000


@pytest.mark.parametrize(
    ("settings", "within_ms"),
    [
        ({}, 6_000 + 12 * 30_000 - 500),
        ({"transactionCheckInterval": "60000", "fileReservedTime": "72"}, 6_000 + 12 * 60_000 - 500),
        ({"transactionTimeOut": "600000", "transactionCheckMax": "1"}, 600_000 - 500),
        ({"transactionTimeOut": "300", "transactionCheckMax": "2", "transactionCheckInterval": "500"}, 0),
        ({"transactionTimeOut": "86400000", "fileReservedTime": "1"}, 3_600_000 - 90_000 - 500),
        ({"transactionCheckMax": "a lot"}, 6_000 + 12 * 30_000 - 500),
    ],
)
def test_the_limit_follows_the_settings_of_the_broker(settings, within_ms):
    assert HalfLifetime.of(settings).decide_within_ms == within_ms


def test_a_half_message_is_decided_only_if_a_check_back_is_left():
    """Whenever its broker's rounds come, and they come as often as they may."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        lifetime = HalfLifetime(chance.randrange(0, 20_000), chance.randrange(1, 20), chance.randrange(500, 60_000))
        rules = CheckRules(lifetime.timeout_ms, lifetime.check_max, lifetime.reserved_ms)
        asked, round_ms = 0, chance.randrange(1, lifetime.interval_ms + 1)
        while round_ms <= lifetime.decide_within_ms:
            verdict = verdict_of(rules, round_ms, asked)
            assert verdict is not Verdict.DISCARD
            asked += verdict is Verdict.CHECK
            round_ms += lifetime.interval_ms
        while (verdict := verdict_of(rules, round_ms, asked)) is Verdict.WAIT:
            round_ms += lifetime.interval_ms
        assert verdict is Verdict.CHECK, f"{lifetime}: {asked} questions were asked, and the next round gives it up"


def verdict_of(rules: CheckRules, round_ms: int, asked: int) -> Verdict:
    """Of a half that was sent at 0 and asked about ``asked`` times."""
    return judge(
        rules,
        now_ms=round_ms,
        believed_ms=round_ms,
        round_ms=round_ms,
        born_timestamp_ms=0,
        store_timestamp_ms=0,
        check_times=str(asked) if asked else None,
        immunity=None,
    )


def test_defaults_that_are_only_assumed_are_called_so():
    assert str(HalfLifetime.of({"transactionTimeOut": "7000"})) == (
        "transactionTimeOut=7000, transactionCheckMax=15, transactionCheckInterval=30000"
    )
    assert str(HalfLifetime.of({})).endswith(
        "transactionCheckInterval=30000, Apache's defaults: this account may not read the broker's settings; allow it GET_BROKER_CONFIG "
        "(Get on the cluster)"
    )
