# SPDX-License-Identifier: Apache-2.0
"""A stream of all topics that match a pattern: new ones join from their first message, the broker's own are never meant."""

from __future__ import annotations

from typing import Any

import pytest

from inproc.spark.as_spark import Readers, ask, ask_until_news, first_batch, next_batch, read, send
from sprocketmq.errors import GroupNotExist, TopicNotExist
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ


def topics(offset: dict[str, Any]) -> list[str]:
    return list(offset["q"])


def test_a_pattern_means_whole_names(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    for name in ("flights-eu", "flights-us", "trains"):
        mq.create_topic(name, queues=1)
    send(mq, 0)
    send(mq, 1, topic="flights-eu")
    send(mq, 2, topic="flights-us")
    send(mq, 3, topic="trains")
    end, numbers = first_batch(readers(startingoffsets="earliest", topicspattern="flights"))
    assert (topics(end), numbers) == (["flights"], [0])
    end, numbers = first_batch(readers(startingoffsets="earliest", topicspattern="flights-(eu|us)"))
    assert (topics(end), numbers) == (["flights-eu", "flights-us"], [1, 2])


def test_a_pattern_for_everything_does_not_mean_the_brokers_own_topics(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    with mq.admin() as admin:
        assert len(admin.topics()) > 1
    mq.create_topic("%RETRY%delays", queues=1)
    mq.create_topic("%DLQ%delays", queues=1)
    send(mq, 0, 1)
    send(mq, 100, topic="%RETRY%delays")
    send(mq, 101, topic="%DLQ%delays")
    mq.create_topic("SPROCKETMQ_DECISIONS_writers", queues=1)
    send(mq, 102, topic="SPROCKETMQ_DECISIONS_writers")  # the ledger of a transactional write
    end, numbers = first_batch(readers(startingoffsets="earliest", topicspattern=".*"))
    assert (topics(end), numbers) == (["flights"], [0, 1])


def test_the_retry_topic_of_the_group_joins_a_pattern_when_asked_for(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    mq.create_topic("%RETRY%delays", queues=1)
    send(mq, 100, topic="%RETRY%delays")
    send(mq, 0)
    reader = readers(startingoffsets="earliest", topicspattern="fl.*", group="delays", includeretry="true")
    assert first_batch(reader)[1] == [0, 100]


def test_a_topic_that_comes_later_is_read_from_its_first_message(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0)
    options = {"startingoffsets": "latest", "topicspattern": "flights.*"}
    reader = readers(**options)
    end, numbers = first_batch(reader)
    assert numbers == []
    mq.create_topic("flights-eu", queues=1)
    send(mq, 1, 2, topic="flights-eu")
    after = ask_until_news(mq, reader, end)
    assert topics(after) == ["flights", "flights-eu"]
    again = readers(**options)  # a restart reads the same, from what was journaled alone
    assert read(again, end, after) == [1, 2]
    send(mq, 3, topic="flights-eu")
    send(mq, 4)
    assert read(again, after, wait_for_all(mq, again, after, 2)) == [3, 4]


def wait_for_all(mq: EmbeddedRocketMQ, reader: StreamReader, end: dict[str, Any], count: int) -> dict[str, Any]:
    found = end

    def complete() -> bool:
        nonlocal found
        found = ask(reader, end)
        return len(read(reader, end, found)) == count

    mq.wait_until(complete)
    return found


def test_a_pattern_that_matches_nothing_yet_waits(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    reader = readers(topicspattern="ferries.*")
    end, numbers = first_batch(reader)
    assert (topics(end), numbers) == ([], [])
    assert next_batch(reader, end) == (end, [])
    mq.create_topic("ferries-no", queues=1)
    send(mq, 1, topic="ferries-no")
    assert read(reader, end, ask_until_news(mq, reader, end)) == [1]


def test_a_bounded_run_ends_at_what_was_there_when_it_began(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1)
    reader = readers(startingoffsets="earliest", topicspattern="flights.*")
    reader.prepareForTriggerAvailableNow()
    mq.create_topic("flights-eu", queues=1)
    send(mq, 2, topic="flights-eu")
    send(mq, 3)
    end, numbers = first_batch(reader)
    assert numbers == [0, 1]
    assert next_batch(reader, end) == (end, [])


def test_several_topics_are_one_stream_and_a_missing_one_is_named(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    mq.create_topic("trains", queues=1)
    send(mq, 0)
    send(mq, 1, topic="trains")
    assert first_batch(readers(startingoffsets="earliest", topics="flights, trains"))[1] == [0, 1]
    with pytest.raises(TopicNotExist, match="topic 'boats' is unknown"):
        first_batch(readers(startingoffsets="earliest", topics="flights,boats"))


def test_dead_letters_of_a_group_that_no_broker_knows_are_an_error(mq: EmbeddedRocketMQ) -> None:
    def source(group: str) -> RocketMQDataSource:
        return RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "deadlettersof": group})

    misspelt, known = source("delayz"), source("delays")
    with mq.admin() as admin:
        admin.create_group("delays")
    with pytest.raises(GroupNotExist, match="'delayz'"):
        misspelt.reader(misspelt.schema()).partitions()
    with pytest.raises(GroupNotExist, match="'delayz'"):
        first_batch(misspelt.streamReader(misspelt.schema()))
    assert known.reader(known.schema()).partitions() == []
    assert first_batch(known.streamReader(known.schema()))[1] == []
