# SPDX-License-Identifier: Apache-2.0
"""When a timer message is due, and where it waits."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sprocketmq.core.timer_schedule import (
    TimerRules,
    asked_deliver_ms,
    flow_control_refuses,
    is_timer,
    java_long,
    without_timer,
)
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records import properties as props

NOW = 1_700_000_000_123
PRECISIONS = st.sampled_from([100, 200, 500, 1000])
TIMES = st.integers(0, 1 << 45)


@given(TIMES, PRECISIONS)
@example(5_000, 1000)
def test_the_slot_of_a_moment_ends_at_it_or_less_than_a_slot_after_it(deliver_ms, precision_ms):
    rules = TimerRules(precision_ms)
    slot_ms = rules.slot_of(deliver_ms)
    assert slot_ms % precision_ms == 0
    assert slot_ms < deliver_ms <= slot_ms + precision_ms
    assert 0 <= rules.readable_ms(slot_ms) - deliver_ms < precision_ms, "never early, and less than a slot late"


@given(st.integers(2, 700_000), st.integers(0, 1 << 36), TIMES.map(lambda ms: ms // 1000 * 1000))
def test_waiting_is_never_farther_than_the_window_and_ends_at_the_slot_asked_for(window, ahead_s, write_ms):
    rules = TimerRules(1000, window)
    out_ms, rounds = write_ms + ahead_s % 5_000_000 * 1000, 0
    while True:
        slot_ms, rolls = rules.place(out_ms, write_ms)
        assert slot_ms - write_ms <= rules.window_slots * 1000
        if not rolls:
            assert slot_ms == out_ms
            return
        assert write_ms < slot_ms <= out_ms
        assert slot_ms - write_ms >= rules.window_slots // 2 * 1000
        write_ms, rounds = slot_ms + 1000, rounds + 1
        if rounds > 20:  # small windows roll often; each roll gains at least half of one
            return


@pytest.mark.parametrize(
    ("given_slots", "effective"), [(1, 604_740), (2, 2), (172_800, 172_800), (604_740, 604_740), (604_741, 604_740)]
)
def test_a_timer_window_out_of_range_becomes_a_week_less_a_minute(given_slots, effective):
    assert TimerRules(1000, given_slots).window_slots == effective


def test_a_roll_leaves_the_last_wait_long_enough():
    rules = TimerRules(1000, 300)
    assert rules.place(299_000, 0) == (299_000, False)
    assert rules.place(300_000, 0) == (150_000, True)
    assert rules.place(399_000, 0) == (150_000, True)
    assert rules.place(400_000, 0) == (300_000, True)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("+5", 5), ("-5", -5), ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("", None), ("1_0", None),
     (" 5", None), ("5 ", None), ("0x5", None), ("1e3", None), ("--5", None), ("-9223372036854775808", -(2**63))],
)  # fmt: skip
def test_numbers_are_read_as_java_reads_a_long(text, value):
    assert java_long(text) == value


def raw(**properties: object) -> bytes:
    return props.encode_properties({name: str(value) for name, value in properties.items()})


def test_seconds_have_priority_over_milliseconds_and_both_over_a_delivery_time():
    everything = {"TIMER_DELAY_SEC": 2, "TIMER_DELAY_MS": 7, "TIMER_DELIVER_MS": 99}
    assert asked_deliver_ms(raw(**everything), NOW) == NOW + 2_000
    del everything["TIMER_DELAY_SEC"]
    assert asked_deliver_ms(raw(**everything), NOW) == NOW + 7
    del everything["TIMER_DELAY_MS"]
    assert asked_deliver_ms(raw(**everything), NOW) == 99


def test_a_property_that_counts_and_is_no_number_is_named():
    with pytest.raises(ConfigurationError):
        asked_deliver_ms(raw(TIMER_DELAY_SEC="x", TIMER_DELAY_MS=5), NOW)
    with pytest.raises(ConfigurationError):
        asked_deliver_ms(raw(own=1), NOW)


def test_what_waits_already_or_asks_for_nothing_is_no_timer_message():
    assert is_timer(raw(TIMER_DELAY_MS=5))
    assert not is_timer(raw(TIMER_DELAY_MS=5, TIMER_OUT_MS=7))
    assert not is_timer(raw(own="TIMER_DELAY_MS"))
    assert without_timer(raw(TIMER_DELAY_SEC=1, own=2, TIMER_DELAY_MS=3, TIMER_DELIVER_MS=4)) == raw(own=2)


def test_flow_control_never_refuses_up_to_the_limit_and_always_from_twice_of_it():
    for draw in (0, 999):
        assert not flow_control_refuses(10, 10, lambda _, draw=draw: draw)
        assert flow_control_refuses(20, 10, lambda _, draw=draw: draw)
    assert flow_control_refuses(11, 10, lambda _: 999)
    assert not flow_control_refuses(19, 10, lambda _: 0)
