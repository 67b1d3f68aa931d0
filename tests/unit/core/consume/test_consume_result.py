# SPDX-License-Identifier: Apache-2.0
"""core.consume_result: which messages of a batch succeeded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.consume.consume_result import (
    ALL_ACKED,
    ConsumeConcurrentlyStatus,
    acked_count,
    read_answer,
)

SUCCESS, LATER = ConsumeConcurrentlyStatus.CONSUME_SUCCESS, ConsumeConcurrentlyStatus.RECONSUME_LATER


@pytest.mark.parametrize(
    ("status", "ack_index", "expected"),
    [
        (SUCCESS, ALL_ACKED, 3),
        (SUCCESS, 2, 3),
        (SUCCESS, 0, 1),
        (SUCCESS, -1, 0),
        (SUCCESS, -9, 0),
        (LATER, ALL_ACKED, 0),
        (LATER, 1, 0),
    ],
)
def test_ack_index_counts_only_with_success(status, ack_index, expected):
    assert acked_count(status, ack_index, 3) == expected


def _context(ack_index: Any = ALL_ACKED, level: Any = 0) -> SimpleNamespace:
    return SimpleNamespace(ack_index=ack_index, delay_level_when_next_consume=level)


@pytest.mark.parametrize(
    ("returned", "ack_index", "level", "status", "complaint"),
    [
        (SUCCESS, ALL_ACKED, 0, SUCCESS, None),
        (SUCCESS, 0, 3, SUCCESS, None),
        (SUCCESS, -1, 0, SUCCESS, None),
        (LATER, ALL_ACKED, -1, LATER, None),
        (None, ALL_ACKED, 0, LATER, "returned None"),
        (0, 1, 0, LATER, "returned 0"),
        (True, ALL_ACKED, 0, LATER, "returned True"),
        ("CONSUME_SUCCESS", ALL_ACKED, 0, LATER, "returned 'CONSUME_SUCCESS'"),
        (SUCCESS, "1", 0, LATER, "context.ack_index to '1'"),
        (SUCCESS, True, 0, LATER, "context.ack_index to True"),
        (SUCCESS, 1, "3", SUCCESS, "context.delay_level_when_next_consume to '3'"),
        (LATER, ALL_ACKED, None, LATER, "context.delay_level_when_next_consume to None"),
    ],
)
def test_what_is_no_number_in_a_context_is_replaced_and_told(returned, ack_index, level, status, complaint):
    context = _context(ack_index, level)
    got, said = read_answer(returned, context)
    assert got is status
    assert said is None if complaint is None else said is not None and complaint in said


@given(
    returned=st.sampled_from([SUCCESS, LATER, None, 1, "x"]),
    ack_index=st.none() | st.integers() | st.text() | st.floats() | st.booleans(),
    level=st.none() | st.integers() | st.text() | st.binary(),
)
def test_after_reading_any_answer_the_batch_can_be_settled(returned, ack_index, level):
    context = _context(ack_index, level)
    status, _ = read_answer(returned, context)
    assert 0 <= acked_count(status, context.ack_index, 5) <= 5
    assert status is SUCCESS or type(context.delay_level_when_next_consume) is int
