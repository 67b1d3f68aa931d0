"""The journaled offset: equal offsets are equal text, and the start of every queue in a batch is known from journaled text alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.offsets import QueueRange, StreamOffset, batch_ranges
from sprocketmq.wire.message import MessageQueue

QUEUES = st.builds(MessageQueue, st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.integers(0, 3))
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 1 << 62))
A = MessageQueue("a", "x", 0)
B = MessageQueue("a", "x", 1)


@settings(deadline=None)
@given(OFFSETS, OFFSETS)
def test_an_offset_comes_back_from_its_journal(
    queues: dict[MessageQueue, int], origin: dict[MessageQueue, int]
) -> None:
    offset = StreamOffset(queues, origin)
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@settings(deadline=None)
@given(OFFSETS, st.randoms())
def test_equal_offsets_are_equal_text_in_whatever_order_they_were_made(
    queues: dict[MessageQueue, int], random: object
) -> None:
    shuffled = list(queues.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert json.dumps(StreamOffset(queues).to_json()) == json.dumps(StreamOffset(dict(shuffled)).to_json())


def test_a_symbolic_start_stays_a_symbol() -> None:
    assert StreamOffset(initial="latest").to_json() == {"v": 1, "init": "latest"}
    assert StreamOffset.from_json({"v": 1, "init": "latest"}).initial == "latest"


def test_the_first_batch_starts_at_its_own_origin() -> None:
    ranges = batch_ranges(StreamOffset(initial="latest"), StreamOffset({A: 155, B: 7}, {A: 100, B: 7}))
    assert ranges == [QueueRange(A, 100, 155)]


def test_a_new_queue_starts_at_its_origin_and_an_old_one_where_the_last_batch_ended() -> None:
    ranges = batch_ranges(StreamOffset({A: 10}, {A: 3}), StreamOffset({A: 12, B: 5}, {B: 2}))
    assert ranges == [QueueRange(A, 10, 12), QueueRange(B, 2, 5)]


@pytest.mark.parametrize("document", [{}, {"v": 2, "q": {}}, {"v": 1}, {"q": {}}])
def test_an_unknown_version_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="use the SprocketMQ version that wrote it"):
        StreamOffset.from_json(document)


def test_a_queue_without_a_start_is_refused_not_guessed() -> None:
    with pytest.raises(ConfigurationError, match="names no start for a/x/0"):
        batch_ranges(StreamOffset({}), StreamOffset({A: 5}))


def test_a_batch_that_ends_where_it_starts_is_empty_whatever_its_origin_says() -> None:
    offset = StreamOffset({A: 10}, {A: 3})
    assert batch_ranges(offset, StreamOffset({A: 10}, {A: 3})) == []
