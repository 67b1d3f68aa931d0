# SPDX-License-Identifier: Apache-2.0
"""Long polling: a pull that finds nothing is held until a matching message comes, or its time is over."""

from __future__ import annotations

import concurrent.futures

import msgspec
import pytest

from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.records.record import decode_records


def bodies(answer) -> list[bytes]:
    return [message.body for message in decode_records(answer.body)]


def parked(cluster, count: int) -> None:
    cluster.eventually(lambda: len(cluster.broker.parked) == count)


def still_waits(future: concurrent.futures.Future) -> bool:
    return not future.done()


def test_a_held_pull_is_woken_by_the_message_it_waits_for(cluster, client):
    client.send("flights", b"old")
    waiting = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000)
    parked(cluster, 1)
    cluster.client().send("flights", b"new")
    answer = waiting.result(10)
    assert (answer.code, bodies(answer)) == (0, [b"new"])
    parked(cluster, 0)


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_is_set_makes_no_pull_wait_longer_or_shorter(cluster, client, days):
    client.send("flights", b"old")
    waiting = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000)
    parked(cluster, 1)
    cluster.clock.jump(days * 86_400_000)
    second = cluster.client().begin_pull("g", "flights", 0, 1, suspend_ms=20_000)  # looks at the deadlines anew
    parked(cluster, 2)
    cluster.clock.advance(14_999)
    assert still_waits(waiting)
    cluster.clock.advance(1)
    assert waiting.result(10).code == ResponseCode.PULL_NOT_FOUND
    assert still_waits(second)
    cluster.clock.advance(5_000)
    assert second.result(10).code == ResponseCode.PULL_NOT_FOUND


def test_messages_of_other_queues_and_other_tags_wake_no_pull(cluster, client):
    client.send("flights", b"old")
    waiting = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000, expression="UA")
    parked(cluster, 1)
    other = cluster.client()
    other.send("flights", b"1", queue_id=1, tags="UA")
    other.send("flights", b"2", tags="AA")
    parked(cluster, 1)
    assert still_waits(waiting)
    other.send("flights", b"3", tags="UA")
    assert bodies(waiting.result(10)) == [b"3"]


def test_without_the_suspend_flag_the_answer_comes_at_once(cluster, client):
    client.send("flights", b"old")
    header = msgspec.structs.replace(client.pull_header("g", "flights", 0, 1), suspend_timeout_millis=15_000)
    assert client.ask(RequestCode.PULL_MESSAGE, header).code == ResponseCode.PULL_NOT_FOUND


def test_the_offset_is_committed_on_the_first_pass_only(cluster, client):
    client.send("flights", b"old")
    waiting = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000, commit_offset=1)
    parked(cluster, 1)
    assert cluster.broker.offsets.query("g", "flights", 0) == 1
    cluster.on_loop(lambda: cluster.broker.offsets.commit("g", "flights", 0, 7))
    cluster.clock.advance(15_000)
    waiting.result(10)
    assert cluster.broker.offsets.query("g", "flights", 0) == 7


def test_a_closed_connection_removes_its_held_pulls(cluster, client):
    client.send("flights", b"old")
    gone = cluster.client()
    gone.begin_pull("g", "flights", 0, 1, suspend_ms=15_000)
    kept = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000)
    parked(cluster, 2)
    gone.close()
    parked(cluster, 1)
    client.send("flights", b"new", queue_id=0)
    assert bodies(kept.result(10)) == [b"new"]


def test_a_delayed_delivery_wakes_like_a_send(cluster, client):
    client.send("flights", b"old")
    waiting = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000)
    parked(cluster, 1)
    cluster.client().send("flights", b"later", delay_level=1)
    assert still_waits(waiting)
    cluster.clock.advance(1_000)
    assert bodies(waiting.result(10)) == [b"later"]


@pytest.mark.parametrize("cluster", [{"long_polling_enable": False}], indirect=True)
def test_short_polling_holds_for_its_own_time(cluster, client):
    client.send("flights", b"old")
    waiting = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000)
    parked(cluster, 1)
    cluster.clock.advance(1_000)
    assert waiting.result(10).code == ResponseCode.PULL_NOT_FOUND


def test_a_stopping_broker_answers_held_pulls(cluster, client):
    client.send("flights", b"old")
    waiting = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000)
    parked(cluster, 1)
    cluster.broker.stop()
    assert waiting.result(10).code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize("cluster", [{"max_parked_pulls": 5, "max_parked_pulls_per_connection": 3}], indirect=True)
def test_no_more_pulls_wait_than_there_is_room_for(cluster):
    greedy, modest, late = cluster.client(), cluster.client(), cluster.client()
    modest.send("t", b"first")
    assert modest.pull("g", "t").code == 0
    waiting = [client.begin_pull("g", "t", 0, 1, suspend_ms=15_000) for client in (greedy,) * 3 + (modest,) * 2]
    cluster.eventually(lambda: len(cluster.broker.parked) == 5)
    for client in (greedy, late):  # one has its share, for the other there is no room at all
        full = client.pull("g", "t", 0, 1, suspend_ms=15_000)
        assert (full.code, "too many" in (full.remark or "")) == (ResponseCode.POLLING_FULL, True)
    modest.send("t", b"second")
    assert [future.result(10).code for future in waiting] == [0] * 5
    again = late.begin_pull("g", "t", 0, 2, suspend_ms=15_000)
    cluster.eventually(lambda: len(cluster.broker.parked) == 1)
    modest.send("t", b"third")
    assert again.result(10).code == 0
