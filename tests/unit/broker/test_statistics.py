# SPDX-License-Identifier: Apache-2.0
"""Windows over tallies: laws 1 to 3 of broker.statistics."""

from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.broker import Broker
from sprocketmq.broker.observe.counters import Counters
from sprocketmq.broker.observe.statistics import MINUTE_SAMPLE_MS, Statistics
from sprocketmq.net.process.clock import ManualClock

START_MS = 1_700_000_000_000


def made(now_ms: int = START_MS) -> tuple[Counters, Statistics]:
    broker = Broker(cluster_name="cluster", clock=ManualClock(now_ms))
    return broker.counters, broker.statistics


def minute(statistics: Statistics, name: str = "TOPIC_PUT_NUMS", key: str = "t") -> tuple[int, float, float]:
    shown = statistics.view(name, key).stats_minute
    return shown.sum, shown.tps, shown.avgpt


def test_a_name_that_was_never_counted_does_not_exist_and_a_counted_one_exists_at_once():
    counters, statistics = made()
    assert statistics.view("TOPIC_PUT_NUMS", "t") is None
    counters.stored("t", 1, 10)
    assert minute(statistics) == (0, 0.0, 0.0)
    assert statistics.view("TOPIC_PUT_NUMS", "other") is None


def test_the_minute_forgets_what_is_older_than_a_minute():
    counters, statistics = made()
    counters.stored("t", 5, 5)
    now_ms = START_MS
    for _ in range(7):
        now_ms += MINUTE_SAMPLE_MS
        statistics.sample(now_ms)
    assert minute(statistics)[0] == 0
    hour = statistics.view("TOPIC_PUT_NUMS", "t").stats_hour
    assert hour.sum == 0, "no sample of the hour was due yet"
    statistics.sample(START_MS + 600_000)
    assert statistics.view("TOPIC_PUT_NUMS", "t").stats_hour.sum == 5


def test_statistics_of_deleted_objects_are_removed():
    counters, statistics = made()
    counters.stored("t", 1, 1)
    counters.pulled_by("t", "g", 1, 1)
    counters.pulled_by("u", "g", 1, 1)
    statistics.sample(START_MS + MINUTE_SAMPLE_MS)
    counters.forget_topic("t")
    assert statistics.view("TOPIC_PUT_NUMS", "t") is None
    assert statistics.view("GROUP_GET_NUMS", "t@g") is None
    counters.forget_group("g")
    assert statistics.view("GROUP_GET_NUMS", "u@g") is None
    assert (counters.put, counters.pulled) == (1, 2)


def test_the_brokers_own_topics_do_not_count_as_messages_of_the_day():
    counters, statistics = made()
    counters.stored("t", 3, 1)
    counters.stored("rmq_sys_t", 4, 1)
    counters.pulled_by("rmq_sys_t", "g", 4, 1)
    assert statistics.totals() == (3, 0)
    assert statistics.view("BROKER_PUT_NUMS", "cluster") is not None
    assert statistics.view("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "cluster") is None


def test_at_midnight_today_becomes_yesterday():
    noon = int(datetime.datetime(2026, 3, 4, 12).astimezone().timestamp() * 1000)
    counters, statistics = made(noon)
    counters.stored("t", 3, 1)
    statistics.sample(noon)
    assert (statistics.yesterday_morning, statistics.today_morning) == ((0, 0), (0, 0))
    statistics.sample(noon + 24 * 3_600_000)
    counters.stored("t", 2, 1)
    statistics.sample(noon + 48 * 3_600_000)
    assert (statistics.yesterday_morning, statistics.today_morning) == ((3, 0), (5, 0))


@given(st.lists(st.integers(0, 50), max_size=40))
def test_the_minute_is_what_a_ring_of_all_samples_would_show(counts):
    counters, statistics = made()
    counters.stored("t", 0, 0)
    totals = [0]
    for number, count in enumerate(counts, 1):
        if count:
            counters.stored("t", count, 1)
        totals.append(totals[-1] + count)
        statistics.sample(START_MS + number * MINUTE_SAMPLE_MS)
    assert minute(statistics)[0] == totals[-1] - totals[max(0, len(totals) - 7)]
