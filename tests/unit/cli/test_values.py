# SPDX-License-Identifier: Apache-2.0
"""Values of options, and how the same are printed."""

from __future__ import annotations

import click
import pytest

from sprocketmq.cli.frame import values


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (values.DURATION, "500ms", 500),
        (values.DURATION, "10s", 10_000),
        (values.DURATION, "1h30m", 5_400_000),
        (values.DURATION, "1.5s", 1_500),
        (values.DURATION, "2d", 172_800_000),
        (values.MOMENT, "1700000000000", 1_700_000_000_000),
        (values.MOMENT, "2023-11-14T22:13:20+00:00", 1_700_000_000_000),
        (values.MOMENT, "5m", 1_000_000 - 300_000),
        (values.MOMENT_AHEAD, "+5m", 1_000_000 + 300_000),
        (values.QUEUE, "broker-a/3", ("broker-a", 3)),
        (values.QUEUE, "orders/broker-a/3", ("broker-a", 3)),
        (values.PERMISSION, "rw", 6),
        (values.PERMISSION, "R", 4),
        (values.PERMISSION, "none", 0),
        (values.PAIR, "a=b=c", ("a", "b=c")),
        (values.PAIR, "a=", ("a", "")),
        (values.LIMIT, "1000", ("messages", 1_000)),
        (values.LIMIT, "5m", ("ms", 300_000)),
    ],
)
def test_a_value_is_converted_and_converting_again_keeps_it(kind, text, value, monkeypatch):
    monkeypatch.setattr(values, "now_ms", lambda: 1_000_000)
    assert kind.convert(text, None, None) == value
    assert kind.convert(value, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (values.DURATION, "10", "10s or 1h30m"),
        (values.DURATION, "10 s", "the duration is '10 s'"),
        (values.DURATION, "-5s", "the duration is"),
        (values.MOMENT, "yesterday", "5m for 5 minutes ago"),
        (values.MOMENT_AHEAD, "soon", "5m for 5 minutes from now"),
        (values.MOMENT, "9999999-01-01", "the time is"),
        (values.QUEUE, "3", "BROKER/NUMBER"),
        (values.QUEUE, "broker-a/x", "BROKER/NUMBER"),
        (values.PERMISSION, "x", "rw, r, w or none"),
        (values.PAIR, "ab", "NAME=VALUE"),
        (values.PAIR, "=b", "NAME=VALUE"),
        (values.LIMIT, "many", "a number of messages or a duration"),
    ],
)
def test_an_invalid_value_is_refused_with_the_allowed_ones(kind, text, said):
    with pytest.raises(click.BadParameter, match=said.replace("/", "/")):
        kind.convert(text, None, None)


def test_a_permission_is_printed_as_it_is_given():
    for text in ("rw", "r", "w", "none"):
        assert values.permission_text(values.PERMISSION.convert(text, None, None)) == text
    assert values.permission_text(7) == "rw"
    assert values.permission_text(99) == "99"


def test_a_time_is_read_as_it_is_printed():
    assert values.MOMENT.convert(values.time_text(1_700_000_000_000), None, None) == 1_700_000_000_000
