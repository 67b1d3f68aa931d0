# SPDX-License-Identifier: Apache-2.0
"""The journaled offset: equal offsets are equal text, and the start of every queue in a batch is known from journaled text alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.offsets import QueueRange, StreamOffset, batch_ranges
from sprocketmq.wire.records.message import MessageQueue

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


@pytest.mark.parametrize(
    "document",
    [
        [1],
        "earliest",
        {"v": 1, "q": {"flights": 5}},
        {"v": 1, "q": {"flights": {"b": {"zero": 5}}}},
        {"v": 1, "q": {"flights": {"b": {"0": "5"}}}},
        {"v": 1, "q": {}, "origin": [3]},
        {"v": 1, "q": {}, "lost": {"flights": {"b": {"0": [["eaten", 1, 2]]}}}},
        {"v": 1, "q": {}, "lost": {"flights": {"b": {"0": [7]}}}},
    ],
)
def test_what_is_no_offset_of_ours_is_shown_and_refused(document: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"the checkpoint holds .*, which is not an offset of the rocketmq source"
    ) as error:
        StreamOffset.from_json(document)
    assert json.dumps(document) in str(error.value)
    with pytest.raises(ConfigurationError) as error:
        StreamOffset.from_json({"v": 1, "q": {"t" * 1000: 5}})
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "before", [{"q": {"flights": {"broker-a": {"0": 5}}}}, {"v": 0, "q": {}}, {"flights": {"0": 23}}]
)
def test_a_checkpoint_of_before_version_1_or_of_kafkas_source_is_refused_with_both_ways_out(
    before: dict[str, Any],
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"version (None|0), version 1 .* wrote it, or a new checkpoint location$"
    ):
        StreamOffset.from_json(before)


def test_a_queue_without_a_start_is_refused_not_guessed() -> None:
    with pytest.raises(ConfigurationError, match="names no start for a/x/0"):
        batch_ranges(StreamOffset({}), StreamOffset({A: 5}))


def test_a_batch_that_ends_where_it_starts_is_empty_whatever_its_origin_says() -> None:
    offset = StreamOffset({A: 10}, {A: 3})
    assert batch_ranges(offset, StreamOffset({A: 10}, {A: 3})) == []
