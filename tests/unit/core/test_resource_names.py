# SPDX-License-Identifier: Apache-2.0
"""Names of topics and groups: Apache's characters and lengths, and what no request may use as a name."""

from __future__ import annotations

import pytest

from sprocketmq.core.resource_names import (
    MAX_NAME_LENGTH,
    MAX_QUEUES,
    MAX_TEXT_LENGTH,
    control_character_problem,
    dlq_topic,
    group_name_problem,
    group_of_retry_topic,
    harmful_name_problem,
    is_retry_topic,
    name_problem,
    queue_number_problem,
    retry_topic,
    text_problem,
    topic_name_problem,
)


@pytest.mark.parametrize(
    ("problem", "allowed", "refused"),
    [
        (
            topic_name_problem,
            ["a", "%RETRY%g", "a-b_c|d", "t" * 127, "%DLQ%" + "g" * 250],
            ["", "a b", "a@b", "ä", "t" * 128, "%RETRY%" + "g" * 255, "a\n"],
        ),
        (group_name_problem, ["a", "%RETRY%g", "g" * 248], ["", "a b", "g" * 249]),
    ],
    ids=["topics", "groups"],
)
def test_a_new_name_has_apaches_characters_and_length(problem, allowed, refused):
    assert [name for name in allowed if problem(name)] == []
    assert [name for name in refused if not problem(name)] == []


@pytest.mark.parametrize("name", ["", "...", "a.b", "a b", "ä", "%RETRY%g+t", "x" * 10_000])
def test_a_name_that_is_only_looked_up_may_hold_what_no_new_one_may(name):
    assert harmful_name_problem("topic", name) is None


@pytest.mark.parametrize("name", [".", "..", "a/b", "a\\b", "a\x00", "a\n", "\x7f", "\ud800"])
def test_a_harmful_name_is_refused_by_every_question(name):
    for problem in (harmful_name_problem("topic", name), name_problem("topic", name)):
        assert problem is not None
        assert problem.startswith("topic is ")


def test_a_long_harmful_name_is_not_repeated_whole():
    assert len(harmful_name_problem("topic", "/" * 100_000) or "") < 400


def test_a_text_may_be_a_path_and_holds_no_control_character():
    assert control_character_problem("address", "/a\\b..") is None
    assert control_character_problem("address", "a\nb") is not None
    assert text_problem("address", "a\x1fb") is not None


def test_lengths_end_at_the_limit():
    assert name_problem("topic", "t" * MAX_NAME_LENGTH) is None
    assert name_problem("topic", "t" * (MAX_NAME_LENGTH + 1)) is not None
    assert text_problem("client id", "c" * MAX_TEXT_LENGTH) is None
    assert text_problem("client id", "c" * (MAX_TEXT_LENGTH + 1)) is not None


@pytest.mark.parametrize(("number", "allowed"), [(-1, False), (0, True), (MAX_QUEUES, True), (MAX_QUEUES + 1, False)])
def test_a_topic_has_a_bounded_number_of_queues(number, allowed):
    assert (queue_number_problem("readQueueNums", number) is None) is allowed


def test_names_lead_there_and_back():
    assert (retry_topic("g"), dlq_topic("g")) == ("%RETRY%g", "%DLQ%g")
    assert is_retry_topic("%RETRY%g")
    assert not is_retry_topic("%DLQ%g")
    assert group_of_retry_topic("%RETRY%g") == group_of_retry_topic("%DLQ%g") == "g"
    with pytest.raises(ValueError, match="neither"):
        group_of_retry_topic("g")
