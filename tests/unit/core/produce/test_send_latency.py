# SPDX-License-Identifier: Apache-2.0
"""core.send_latency: fair turns, another broker on a retry, and slow brokers avoided but never refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.produce.send_latency import LatencyFaultTable, QueueRoundRobin, queue_of_sharding_key
from sprocketmq.wire.hashing import java_hash
from sprocketmq.wire.records.message import MessageQueue


def queues(*brokers: str, each: int = 2) -> list[MessageQueue]:
    return [MessageQueue("t", broker, number) for broker in brokers for number in range(each)]


@given(count=st.integers(1, 20), start=st.integers(0, 2**31))
def test_consecutive_choices_hit_every_queue_once(count, start):
    chooser, all_queues = QueueRoundRobin(start), queues("a", each=count)
    assert sorted(chooser.choose(all_queues) for _ in range(count)) == all_queues


@given(start=st.integers(0, 50))
def test_a_retry_goes_to_another_broker(start):
    assert QueueRoundRobin(start).choose(queues("a", "b"), last_broker="a").broker_name == "b"


def test_a_retry_with_one_broker_goes_there_again():
    assert QueueRoundRobin().choose(queues("a"), last_broker="a").broker_name == "a"


def test_a_slow_broker_is_avoided_while_others_are_available():
    faults, chooser = LatencyFaultTable(), QueueRoundRobin()
    faults.update("a", 600, now_ms=0)
    chosen = {
        chooser.choose(queues("a", "b"), None, lambda name: faults.is_available(name, 1_999)).broker_name
        for _ in range(8)
    }
    assert chosen == {"b"}
    chosen = {
        chooser.choose(queues("a", "b"), None, lambda name: faults.is_available(name, 2_000)).broker_name
        for _ in range(8)
    }
    assert chosen == {"a", "b"}


def test_when_all_are_avoided_a_queue_is_chosen_all_the_same():
    chooser = QueueRoundRobin()
    assert chooser.choose(queues("a", "b"), None, lambda name: False) in queues("a", "b")
    assert chooser.choose(queues("a", "b"), "a", lambda name: False).broker_name == "b"


@pytest.mark.parametrize(
    ("latency_ms", "penalty_ms"),
    [
        (0, 0),
        (549, 0),
        (550, 2_000),
        (1_800, 5_000),
        (3_000, 6_000),
        (5_000, 10_000),
        (14_999, 10_000),
        (15_000, 30_000),
    ],
)
def test_penalties_are_javas(latency_ms, penalty_ms):
    assert LatencyFaultTable.penalty_ms(latency_ms) == penalty_ms


def test_an_exception_isolates_for_10_s_and_a_fast_answer_does_not_shorten_it():
    faults = LatencyFaultTable()
    assert faults.is_available("a", 0)
    faults.update("a", 3, now_ms=0, isolated=True, reachable=False)
    assert not faults.is_reachable("a")
    faults.update("a", 3, now_ms=100)
    assert faults.is_reachable("a")
    assert not faults.is_available("a", 9_999)
    faults.update("a", 600, now_ms=100)
    assert not faults.is_available("a", 9_999)
    assert faults.is_available("a", 10_000)
    faults.update("a", 600, now_ms=9_500)
    assert not faults.is_available("a", 11_499)
    faults.remove("a")
    assert faults.is_available("a", 0)


@given(key=st.text(), count=st.integers(1, 40))
def test_a_sharding_key_finds_javas_queue(key, count):
    all_queues = queues("a", each=count)
    remainder = abs(java_hash(key)) % count  # |h % n| with Java's sign rule
    assert queue_of_sharding_key(key, all_queues) == all_queues[remainder]


def test_sharding_keys_known_from_java():
    # "TagA".hashCode() = 2598919 and "polygenelubricants".hashCode() = -2147483648 (checked with a JDK)
    assert queue_of_sharding_key("TagA", queues("a", each=8)).queue_id == 7
    assert queue_of_sharding_key("polygenelubricants", queues("a", each=7)).queue_id == 2


def test_of_brokers_that_are_all_avoided_one_that_answered_comes_first():
    queues = [MessageQueue("flights", name, 0) for name in ("a", "b", "c")]
    turn = QueueRoundRobin()
    chosen = [turn.choose(queues, None, lambda name: False, lambda name: name == "b").broker_name for _ in range(4)]
    assert chosen == ["b"] * 4
    chosen = [turn.choose(queues, "b", lambda name: False, lambda name: name == "b").broker_name for _ in range(4)]
    assert set(chosen) == {"a", "c"}


def test_the_detector_asks_each_broker_that_cannot_be_reached_once_in_its_interval():
    table = LatencyFaultTable()
    table.update("a", 10, 0, isolated=True, reachable=False)
    table.update("b", 10, 0, isolated=True)
    assert table.to_detect(0, 2_000) == ["a"]
    assert table.to_detect(1_999, 2_000) == []
    assert table.to_detect(2_000, 2_000) == ["a"]
    table.detected("a")
    table.detected("unknown")
    assert table.is_reachable("a")
    assert table.to_detect(9_000, 2_000) == []
    assert not table.is_available("a", 9_999), "an answer to the detector is no fast send"
