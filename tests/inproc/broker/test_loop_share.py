# SPDX-License-Identifier: Apache-2.0
"""Requests and tasks over large tables are done in steps; `make loop-share` measures all of them with tables five times as large."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest

from inproc.broker.conftest import Fields
from interop.large_tables import Sizes, fill
from sprocketmq.broker import chunked_work
from sprocketmq.broker.chunked_work import CHUNK_SIZE
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.wire.text import fastjson

SIZES = Sizes(topics=2_000, groups=2_000, offsets=16_000, members=20)
PROM = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("cluster", [PROM], indirect=True)]


class Turns:
    """How often a long work let others come in between."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    turns, sleep = Turns(), asyncio.sleep

    async def counted(delay: float, result: Any = None) -> Any:
        turns.count += 1
        return await sleep(delay, result)

    class Asyncio:
        sleep = staticmethod(counted)

    monkeypatch.setattr(chunked_work, "asyncio", Asyncio)
    return turns


@pytest.fixture
def large(cluster):
    cluster.on_loop(lambda: fill(cluster.broker, cluster.namesrv, SIZES))
    return cluster


@pytest.mark.parametrize(
    ("code", "fields", "least"),
    [
        (21, {}, SIZES.topics // CHUNK_SIZE),
        (201, {}, SIZES.groups // CHUNK_SIZE),
        (43, {}, SIZES.topics // CHUNK_SIZE),
        (208, {"consumerGroup": "group-000000"}, SIZES.offsets // 100),
        (317, {"isOrder": "false"}, SIZES.topics // 10),
    ],
)
def test_a_long_answer_is_made_in_steps(large, client, turns, code, fields, least):
    turns.count = 0
    answer = client.ask(code, Fields(fields))
    assert (answer.code, answer.remark) == (0, None)
    assert turns.count >= least - 1
    assert len(json.dumps(str(fastjson.loads(answer.body)))) > 50_000


@pytest.mark.parametrize("code", [202, 303])
def test_the_statistics_of_a_topic_with_many_queues_are_made_in_steps(large, client, turns, code):
    large.broker.topics.table["topic-000000"].write_queue_nums = 5_000
    turns.count = 0
    assert client.ask(code, Fields(topic="topic-000000", group="g")).code == 0
    assert turns.count >= 49


def test_metrics_are_looked_at_in_steps_while_tables_change(large, client, turns):
    turns.count = 0
    url = f"http://127.0.0.1:{large.broker.metrics.port}/metrics"
    with urllib.request.urlopen(url, timeout=60) as page:
        text = page.read().decode()
    assert text.count("rocketmq_consumer_lag_messages{") == SIZES.topics
    assert turns.count >= 5 * SIZES.topics // 200


def tasks(cluster) -> dict[str, Callable[[], object]]:
    broker = cluster.broker
    return {
        "offsets": lambda: asyncio.ensure_future(chunked_work.encode_in_chunks(broker.offsets.long_content(0))),
        "topics": lambda: asyncio.ensure_future(chunked_work.encode_in_chunks(broker.topics.long_content())),
        "statistics": lambda: asyncio.ensure_future(broker.housekeeping._sample(broker.clock.now_ms() + 3_600_000)),
    }


@pytest.mark.parametrize("name", ["offsets", "topics", "statistics"])
def test_what_the_clock_begins_is_done_in_steps(large, turns, name):
    turns.count = 0
    work = large.on_loop(tasks(large)[name])
    large.eventually(work.done)
    assert large.on_loop(work.exception) is None
    assert turns.count >= SIZES.topics // CHUNK_SIZE - 1


def test_a_peer_has_one_long_answer_in_work_and_all_peers_together_take_one_step_a_turn(large, turns):
    """Fifty tasks that each take a step in each turn of the loop would hold it fifty times as long."""
    clients = [large.client() for _ in range(5)]
    in_work: list[int] = []

    def look() -> None:
        in_work.append(len(large.broker._answers))
        if len(in_work) < 100_000 and not large.broker.ended.is_set():
            asyncio.get_running_loop().call_soon(look)

    large.on_loop(look)
    asked = [client.begin(21) for client in clients for _ in range(10)]
    answers = [future.result(60) for future in asked]
    in_work += [0] * 100_000
    assert [answer.code for answer in answers] == [0] * 50
    assert 1 <= max(in_work) <= len(clients)
    assert turns.count >= 50 * (SIZES.topics // CHUNK_SIZE)


def test_an_error_in_a_later_step_is_the_answer_and_the_peer_is_served_on(large, client):
    long = large.broker.offsets.long_snapshot

    def broken():
        made = long()
        real = made.body_of

        def body_of(rows):
            if rows and min(made.names) not in rows:
                raise ConfigurationError("the disk is purple")
            return real(rows)

        made.body_of = body_of
        return made

    large.broker.offsets.long_snapshot = broken
    answer = client.ask(43)
    assert (answer.code, answer.remark) == (1, "the disk is purple")
    large.broker.offsets.long_snapshot = long
    assert client.ask(43).code == 0


def test_no_further_step_is_made_for_a_peer_that_has_left(large, client):
    other = large.client()
    futures = [other.begin(317, Fields(isOrder="false")) for _ in range(5)]
    other.close()
    large.eventually(lambda: not large.broker._answers)
    for future in futures:
        with pytest.raises((RocketMQError, CancelledError)):
            future.result(30)
    assert client.ask(21).code == 0
