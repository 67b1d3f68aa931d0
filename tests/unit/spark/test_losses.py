# SPDX-License-Identifier: Apache-2.0
"""What losses say and count."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.spark.losses import Loss, losses_from_json, losses_to_json, lost_counts, merge_losses
from sprocketmq.wire.records.message import MessageQueue

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
REASONS = st.sampled_from(["deleted", "went back", "topic gone", "queue gone", "broker retired"])
LOSS_SETS = st.lists(
    st.builds(
        lambda queue, start, size, reason: Loss(queue, start, None if size is None else start + size, reason),
        st.sampled_from([A, B]),
        st.integers(0, 30),
        st.none() | st.integers(0, 12),
        REASONS,
    ),
    max_size=8,
)


def offsets(losses: list[Loss]) -> set[tuple[MessageQueue, str, int]]:
    """An open end is one far away."""
    return {
        (loss.queue, loss.reason, at)
        for loss in losses
        for at in range(loss.start, 99 if loss.end is None else loss.end)
    }


@settings(deadline=None)
@given(LOSS_SETS, st.randoms())
def test_merging_forgets_no_offset_and_holds_none_twice(losses: list[Loss], random: object) -> None:
    shuffled = losses + losses[:3]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    together = merge_losses(shuffled)
    assert together == merge_losses(losses)
    assert offsets(together) == offsets(losses)
    spans = sum(1 for loss in together for _ in range(loss.start, 99 if loss.end is None else loss.end))
    assert spans == len(offsets(together))


@settings(deadline=None)
@given(LOSS_SETS)
def test_losses_come_back_from_their_journal(losses: list[Loss]) -> None:
    text = json.dumps(losses_to_json(losses))
    assert sorted(losses_from_json(json.loads(text)), key=str) == sorted(losses, key=str)


def test_counts_are_per_queue_and_an_unknown_one_is_none_of_them() -> None:
    losses = [Loss(A, 0, 10, "deleted"), Loss(A, 5, 12, "deleted"), Loss(B, 20, None, "went back")]
    assert lost_counts(losses) == {A: 12, B: 0}


def test_a_reason_that_nobody_gave_is_refused() -> None:
    with pytest.raises(ValueError, match="'eaten' is not a reason"):
        losses_from_json({"t": {"b": {"0": [["eaten", 1, 2]]}}})
