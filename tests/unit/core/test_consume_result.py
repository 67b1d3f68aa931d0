"""core.consume_result: which messages of a batch succeeded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.consume_result import ALL_ACKED, ConsumeConcurrentlyStatus, acked_count, read_status

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
def test_ack_index_counts_only_with_success(status: ConsumeConcurrentlyStatus, ack_index: int, expected: int) -> None:
    assert acked_count(status, ack_index, 3) == expected


@given(ack_index=st.integers(-5, 20), size=st.integers(0, 12))
def test_the_parts_cover_the_batch(ack_index: int, size: int) -> None:
    acked = acked_count(SUCCESS, ack_index, size)
    assert 0 <= acked <= size
    assert acked == sum(1 for index in range(size) if index <= ack_index)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (SUCCESS, (SUCCESS, True)),
        (LATER, (LATER, True)),
        (None, (LATER, True)),
        (True, (LATER, False)),
        ("CONSUME_SUCCESS", (LATER, False)),
    ],
)
def test_only_a_status_is_a_success(returned: object, expected: tuple[ConsumeConcurrentlyStatus, bool]) -> None:
    assert read_status(returned) == expected
