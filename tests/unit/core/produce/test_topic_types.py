# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sprocketmq.core.produce.topic_types import type_refusal


def _refused(expected: str, actual: str) -> str | None:
    """As DefaultTopicMessageTypeValidator words it."""
    return type_refusal(
        f"TopicMessageType validate failed, the expected type is {expected}, but actual type is {actual}"
    )


@pytest.mark.parametrize(
    ("expected", "what_to_do"),
    [("FIFO", "with sharding_key"), ("DELAY", "delay_level"), ("TRANSACTION", "send_in_transaction"), ("NORMAL", "without")],
)  # fmt: skip
def test_it_says_what_the_topic_takes_and_what_to_do(expected, what_to_do):
    text = _refused(expected, "LITE")
    assert text is not None
    assert all(words in text for words in (expected, "LITE", what_to_do))


def test_types_of_newer_versions_are_told_as_well():
    assert "the topic takes PRIORITY messages" in (_refused("PRIORITY", "NORMAL") or "")


def test_a_topic_without_a_type_does_not_exist():
    assert "no such topic" in (_refused("UNSPECIFIED", "NORMAL") or "")


def test_other_refusals_stay_as_they_are():
    assert type_refusal("message body size over max value") is None
