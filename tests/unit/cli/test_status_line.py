# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sprocketmq.cli.serve.status_line import BrokerSnapshot, status_text

BEFORE = BrokerSnapshot(
    at_s=100.0, stored=1_000, delivered=500, waiting_pulls=0, connections=1, topics=2, log_bytes=1_000, in_memory=False
)


def test_rates_are_of_the_span_between_two_looks():
    now = BEFORE._replace(at_s=102.0, stored=25_000, delivered=501, waiting_pulls=8, log_bytes=1_234_567_890)
    assert status_text(BEFORE, now, started_s=0.0) == (
        "in 12,000/s   out 0/s   waiting pulls 8   connections 1   topics 2   log 1.2 GB   up 0:01:42"
    )


def test_the_first_look_at_a_new_broker_shows_zeros_and_not_a_division_by_zero():
    empty = BrokerSnapshot(0.0, 0, 0, 0, 0, 0, 0, in_memory=True)
    assert status_text(empty, empty, started_s=0.0).startswith("in 0/s   out 0/s")
    assert "log 0 B in memory   up" in status_text(empty, empty, started_s=0.0)
