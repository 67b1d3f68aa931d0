# SPDX-License-Identifier: Apache-2.0
"""Pulls that are woken by the thousand, and filters that cost much: the loop is shared, nobody is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from sprocketmq.broker.delivery import filters, parked
from sprocketmq.broker.delivery.parked import ParkedPulls
from sprocketmq.core.group.subscription import SQL92
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import request
from sprocketmq.wire.headers import PullMessageResponseHeader, SendMessageRequestHeaderV2

WAITING = 40
pytestmark = pytest.mark.parametrize("cluster", [{"enable_property_filter": True}], indirect=True)


class Shares:
    def __init__(self) -> None:
        self.count = self.unasked = 0


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> Shares:
    """How often waiting pulls had a share of the loop; each is long enough for one waiter."""
    shares, go_on = Shares(), ParkedPulls._wake_waiters

    def counted(self: ParkedPulls) -> None:
        shares.count += 1
        shares.unasked += not self._is_scheduled
        ends = iter((0.0, 0.0))
        monkeypatch.setattr(parked, "perf_counter", lambda: next(ends, 1.0))
        go_on(self)

    monkeypatch.setattr(ParkedPulls, "_wake_waiters", counted)
    return shares


def pulls(client, cluster, count=WAITING, group="g", **options):
    begun = [client.begin_pull(group, "flights", 0, 1, **{"suspend_ms": 15_000, **options}) for _ in range(count)]
    cluster.eventually(lambda: len(cluster.broker.parked) == count)
    return begun


def test_many_pulls_are_woken_by_one_message_in_shares_of_the_loop(cluster, client, shares):
    client.send("flights", b"first")
    begun = pulls(client, cluster)
    shares.count = 0
    assert client.send("flights", b"second").code == 0
    assert {pull.result(10).code for pull in begun} == {0}
    assert WAITING <= shares.count <= 2 * WAITING + 2


def test_many_pulls_whose_time_is_over_are_answered_in_shares_of_the_loop(cluster, client, shares):
    client.send("flights", b"first")
    begun = pulls(client, cluster)
    late = [client.begin_pull("g", "flights", 0, 1, suspend_ms=20_000) for _ in range(3)]
    cluster.eventually(lambda: len(cluster.broker.parked) == WAITING + 3)
    shares.count = 0
    cluster.clock.advance(15_000)
    assert {pull.result(10).code for pull in begun} == {ResponseCode.PULL_NOT_FOUND}
    assert WAITING <= shares.count <= 2 * WAITING + 2
    cluster.clock.advance(5_000)
    assert {pull.result(10).code for pull in late} == {ResponseCode.PULL_NOT_FOUND}


def test_pulls_that_expire_during_a_long_pass_take_no_share_beside_its_own(cluster, client, shares):
    """A share that nobody asked for asks for the next one, and so does the pass: more shares in each turn from then on."""
    client.send("flights", b"first")
    begun = pulls(client, cluster, suspend_ms=20_000)
    short = [client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000) for _ in range(3)]
    cluster.eventually(lambda: len(cluster.broker.parked) == WAITING + 3)
    cluster.clock.advance(15_000)
    assert {pull.result(10).code for pull in short} == {ResponseCode.PULL_NOT_FOUND}
    assert client.send("flights", b"second").code == 0
    assert {pull.result(10).code for pull in begun} == {0}
    assert shares.count
    assert not shares.unasked


def test_a_message_that_arrives_while_waiters_are_looked_at_is_looked_at_by_all_of_them(cluster, client, shares):
    client.send("flights", b"first")
    begun = pulls(client, cluster, expression="a")
    for tags in ("b", "c", "a"):
        client.send("flights", b"more", tags=tags)
    assert {pull.result(10).code for pull in begun} == {0}


def test_a_queue_with_few_waiting_pulls_does_not_wait_for_one_with_many(cluster, client, shares, monkeypatch):
    for queue_id in (0, 1):
        client.send("flights", b"first", queue_id=queue_id)
    begun = pulls(client, cluster)
    begun.append(client.begin_pull("g", "flights", 1, 1, suspend_ms=15_000))
    cluster.eventually(lambda: len(cluster.broker.parked) == WAITING + 1)
    order: list[int] = []
    answer_again = cluster.broker.answer_pull_again
    monkeypatch.setattr(
        cluster.broker, "answer_pull_again", lambda pull: order.append(pull.header.queue_id) or answer_again(pull)
    )

    def send(queue_id):
        header = SendMessageRequestHeaderV2("p", "flights", "TBW102", 4, queue_id, 0, 1, 0, properties="")
        return asyncio.ensure_future(client.pool.invoke(client.address, request(310, header, b"second"), 60_000))

    sends = cluster.on_loop(lambda: [send(0), send(1)])  # in one write, so that both arrive in one turn
    assert {pull.result(10).code for pull in begun} == {0}
    assert all(send.done() for send in sends)
    assert order.index(1) <= 2


def filtered(client, offset):
    header = client.pull_header("g", "flights", 0, offset, expression="a = 'x'")
    header.expression_type = SQL92
    answer = client.ask(RequestCode.PULL_MESSAGE, header)
    return answer.code, answer.header(PullMessageResponseHeader).next_begin_offset


def test_a_filtered_pull_ends_with_its_share_and_the_next_one_goes_on(cluster, client, monkeypatch):
    for number in range(6):
        client.send("flights", b"%d" % number, properties={"a": "x" if number == 4 else "y"})
    ticks = iter(range(1_000))
    monkeypatch.setattr(filters, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(filters, "_TIME_SLICE_S", 2.5)  # three records
    assert filtered(client, 0) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 3)
    assert filtered(client, 3) == (0, 6)
    monkeypatch.setattr(filters, "_TIME_SLICE_S", 0.5)
    assert [filtered(client, offset) for offset in (3, 4)] == [(ResponseCode.PULL_RETRY_IMMEDIATELY, 4), (0, 5)]
