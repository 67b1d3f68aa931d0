# SPDX-License-Identifier: Apache-2.0
"""How the routes of many topics are read: several at a time, and no longer than a name server answers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sprocketmq.client.remoting.outages import Outages
from sprocketmq.client.remoting.routes import Routes
from sprocketmq.errors import ConnectFailed, ProtocolError

TOPICS = [f"topic-{number}" for number in range(100)]


class Asked:
    """The requests of routes: answered when no other one is begun any more."""

    def __init__(self, failures: dict[str, Exception] | None = None) -> None:
        self.failures = failures or {}
        self.outages = Outages()
        self.topics: list[str] = []
        self.at_once = self.most_at_once = 0

    async def route(self, topic: str) -> None:
        self.topics.append(topic)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(5):
            await asyncio.sleep(0)
        self.at_once -= 1
        if topic in self.failures:
            raise self.failures[topic]


def routes(asked: Asked) -> Routes:
    return Routes(cast(Any, asked), asked.outages)


def test_many_routes_are_asked_for_several_at_a_time():
    for each in (True, False):
        asked = Asked()
        table = routes(asked)
        asyncio.run(table.refresh_each(TOPICS) if each else table.refresh_all(TOPICS))
        assert sorted(asked.topics) == sorted(TOPICS)
        assert asked.topics[0] == min(TOPICS)
        assert asked.most_at_once == 16


def test_when_no_name_server_answers_one_topic_is_enough():
    asked = Asked({topic: ConnectFailed("refused", "127.0.0.1:1") for topic in TOPICS})
    asyncio.run(routes(asked).refresh_all(TOPICS))
    assert len(asked.topics) == 1
    with pytest.raises(ConnectFailed):
        asyncio.run(routes(asked).refresh_each(TOPICS))
    assert len(asked.topics) == 2


def test_no_further_request_is_sent_to_a_name_server_that_stopped_answering():
    asked = Asked({topic: ConnectFailed("refused", "127.0.0.1:1") for topic in sorted(TOPICS)[40:]})
    asyncio.run(routes(asked).refresh_all(TOPICS))
    assert 40 < len(asked.topics) <= 40 + 16
    asked.topics.clear()
    with pytest.raises(ConnectFailed):
        asyncio.run(routes(asked).refresh_each(TOPICS))
    assert (40 < len(asked.topics) <= 40 + 16, asked.at_once) == (True, 0)


def test_a_route_that_cannot_be_used_is_that_topics_alone_in_a_refresh_and_ends_a_start():
    asked = Asked({"topic-7": ProtocolError("a route of no cluster")})
    asyncio.run(routes(asked).refresh_all(TOPICS))
    assert len(asked.topics) == len(TOPICS)
    with pytest.raises(ProtocolError):
        asyncio.run(routes(asked).refresh_each(TOPICS))
