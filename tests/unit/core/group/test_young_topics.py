# SPDX-License-Identifier: Apache-2.0
"""core.young_topics: when the routes of new topics are read again."""

from __future__ import annotations

from sprocketmq.core.group.young_topics import _AT_ONCE, YoungTopics


def _seconds_of(topics: YoungTopics, limit_s: int = 100) -> dict[int, list[str]]:
    asked = {second: topics.second_passed(lambda topic: 1) for second in range(1, limit_s)}
    return {second: names for second, names in asked.items() if names}


def test_a_new_topic_is_read_again_ever_more_rarely_until_all_topics_are():
    topics = YoungTopics(30)
    assert not topics
    topics.saw(["flights"])
    assert topics
    assert list(_seconds_of(topics)) == [1, 2, 4, 8, 16]
    assert not topics


def test_a_topic_is_new_once():
    topics = YoungTopics(30)
    topics.saw(["flights"])
    _seconds_of(topics)
    topics.saw(["flights", "trains"])
    assert set(map(tuple, _seconds_of(topics).values())) == {("trains",)}


def test_no_topic_is_new_when_all_are_read_each_second():
    topics = YoungTopics(1)
    topics.saw(["flights"])
    assert not topics


def test_of_many_new_topics_those_at_the_fewest_brokers_are_read():
    topics = YoungTopics(30)
    names = [f"topic-{number:04}" for number in range(2_000)]
    topics.saw(names)
    lone = set(names[1_500:1_510])
    asked = [topics.second_passed(lambda topic: 1 if topic in lone else 3) for _ in range(30)]
    assert max(map(len, asked)) == _AT_ONCE
    assert all(lone <= set(one) for one in asked if one)
    assert sum(map(len, asked)) == 5 * _AT_ONCE, "instead of 10,000"
