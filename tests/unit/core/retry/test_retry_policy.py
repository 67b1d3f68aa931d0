# SPDX-License-Identifier: Apache-2.0
"""core.retry_policy: the waits of Java's two policies, and what is no policy at all."""

from __future__ import annotations

import pytest

from sprocketmq.core.retry.retry_policy import CustomizedRetryPolicy, ExponentialRetryPolicy, read_retry_policy
from sprocketmq.core.retry.retry_schedule import DelayLevels, retry_level


def test_exponential_waits_grow_by_the_multiplier_up_to_the_longest():
    policy = read_retry_policy(
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1_000, "max": 50_000, "multiplier": 3}}
    )
    assert policy == ExponentialRetryPolicy(1_000, 50_000, 3)
    assert [policy.next_delay_ms(times) for times in (-1, 0, 1, 2, 3, 4, 1_000)] == [
        1_000, 1_000, 3_000, 9_000, 27_000, 50_000, 50_000,
    ]  # fmt: skip


def test_left_out_parts_of_an_exponential_policy_have_javas_defaults():
    policy = read_retry_policy({"type": "EXPONENTIAL", "exponentialRetryPolicy": {}})
    assert policy is not None
    assert [policy.next_delay_ms(times) for times in (0, 1, 40)] == [5_000, 10_000, 7_200_000]


def test_customized_waits_begin_at_the_third_and_end_with_the_last():
    policy = read_retry_policy({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3, 4]}})
    assert policy == CustomizedRetryPolicy((1, 2, 3, 4))
    assert [policy.next_delay_ms(times) for times in (-1, 0, 1, 2, 9)] == [3, 3, 4, 4, 4]
    short = CustomizedRetryPolicy((7,))
    assert short.next_delay_ms(0) == 7


def test_the_default_levels_as_a_policy_wait_as_the_schedule_does():
    levels = DelayLevels.parse()
    policy = CustomizedRetryPolicy(levels.delays_ms)
    for times in range(20):
        assert levels.level_for(policy.next_delay_ms(times)) == levels.clamp(retry_level(times))


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {},
        "EXPONENTIAL",
        {"type": "CUSTOMIZED"},
        {"type": "EXPONENTIAL"},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": "5s"}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"multiplier": 0}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": []}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1_000, -5]}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1.5]}},
        {"type": "FIBONACCI", "exponentialRetryPolicy": {"initial": 1}},
    ],
)
def test_an_invalid_policy_falls_back_to_the_schedule(stored):
    assert read_retry_policy(stored) is None
