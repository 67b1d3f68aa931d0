# SPDX-License-Identifier: Apache-2.0
"""Attributes of topics and the changes of them: laws 1 to 3 of core.topic_attributes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.topic_attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, alter, parse_changes
from sprocketmq.errors import ConfigurationError


def test_a_change_list_is_read_as_signed_names():
    assert parse_changes("+message.type=FIFO,-reserve.time") == {"+message.type": "FIFO", "-reserve.time": ""}
    assert parse_changes(None) == parse_changes("") == {}


@pytest.mark.parametrize(
    "text", ["message.type", "+message.type", "+message.type=", "-message.type=FIFO", "=", ",", "+a=1,+a=2", "-a,-a"]
)
def test_a_change_without_plus_or_minus_is_refused(text):
    with pytest.raises(ConfigurationError):
        parse_changes(text)


def test_a_new_topic_takes_what_is_set():
    assert alter(None, {"+message.type": "FIFO", "+queue.type": "BatchCQ"}, TOPIC_ATTRIBUTES) == {
        "message.type": "FIFO",
        "queue.type": "BatchCQ",
    }


def test_attributes_that_are_not_listed_are_kept():
    before = {"message.type": "FIFO", "cleanup.policy": "DELETE"}
    assert alter(before, {"+reserve.time": "5"}, TOPIC_ATTRIBUTES) == {**before, "reserve.time": "5"}
    assert alter(before, {"-message.type": ""}, TOPIC_ATTRIBUTES) == {"cleanup.policy": "DELETE"}
    assert before == {"message.type": "FIFO", "cleanup.policy": "DELETE"}


@pytest.mark.parametrize(
    ("current", "changes"),
    [
        (None, {"-message.type": ""}),
        ({}, {"-message.type": ""}),
        ({}, {"+colour": "red"}),
        ({}, {"+message.type": "BLUE"}),
        ({}, {"+reserve.time": "-2"}),
        ({}, {"+reserve.time": "soon"}),
        ({}, {"+queue.type": "SimpleCQ"}),
        ({"cleanup.policy": "DELETE"}, {"-cleanup.policy": ""}),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}),
        ({}, {"message.type": "FIFO"}),
        ({}, {"": "FIFO"}),
    ],
)
def test_a_change_that_is_not_allowed_refuses_the_whole_list(current, changes):
    with pytest.raises(ConfigurationError):
        alter(
            current,
            {"+message.type": "NORMAL"} | changes if "+message.type" not in changes else changes,
            TOPIC_ATTRIBUTES,
        )


def test_groups_have_no_attributes_to_set():
    assert alter({"old": "kept"}, {}, GROUP_ATTRIBUTES) == {"old": "kept"}
    with pytest.raises(ConfigurationError):
        alter({}, {"+old": "1"}, GROUP_ATTRIBUTES)


@given(st.text())
def test_any_text_is_read_or_refused_in_one_sentence(text):
    with contextlib.suppress(ConfigurationError):
        alter({"message.type": "FIFO"}, parse_changes(text), TOPIC_ATTRIBUTES)
