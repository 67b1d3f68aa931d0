# SPDX-License-Identifier: Apache-2.0
"""Numbers with their units, as people read them."""

from __future__ import annotations

import pytest

from sprocketmq.core.quantities import counted, duration


@pytest.mark.parametrize(
    ("count", "nouns", "text"),
    [
        (0, ("message",), "0 messages"),
        (1, ("message",), "1 message"),
        (12_000, ("message",), "12,000 messages"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_the_unit_is_singular_for_one(count, nouns, text):
    assert counted(count, *nouns) == text


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (12_500, "12.5 s"),
        (1_000, "1.0 s"),
        (119_999, "120.0 s"),
        (120_000, "2 min 0 s"),
        (7_199_999, "119 min 59 s"),
        (7_200_000, "2 h 0 min"),
        (172_799_999, "47 h 59 min"),
        (172_800_000, "2 d 0 h"),
    ],
)
def test_a_span_has_the_unit_that_shows_its_size(span_ms, text):
    assert duration(span_ms) == text
