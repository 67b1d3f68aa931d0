# SPDX-License-Identifier: Apache-2.0
"""Which messages travel together, in which order, and when."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples
from sprocketmq.core.produce.send_batches import Batch, SendBatches


class ListBatch(Batch):
    """A batch of anything."""

    def __init__(self, destination: Hashable, kind: Hashable, ordered: bool, due_ms: float) -> None:
        super().__init__(destination, kind, ordered, due_ms)
        self.items: list[Any] = []


class Table(SendBatches[ListBatch]):
    """Puts each message into the batch that it was counted in."""

    def put(
        self, destination: Hashable, kind: Hashable, item: object, size_bytes: int, now_ms: float, *, ordered: bool
    ) -> ListBatch:
        batch = self.add(destination, kind, size_bytes, now_ms, ordered=ordered)
        batch.items.append(item)
        return batch

    def put_into(self, batch: ListBatch, item: object, size_bytes: int) -> bool:
        if has_joined := self.join(batch, size_bytes):
            batch.items.append(item)
        return has_joined


def batches(max_bytes: int = 100, total: int = 10_000, limit: int = 200, messages: int = 1_000) -> Table:
    return Table(ListBatch, max_bytes, 10, total, limit, messages)


def taken(table: Table) -> list[ListBatch]:
    ready, table.ready = table.ready, []
    assert all(batch.count == len(batch.items) for batch in ready)
    return ready


def items(table: Table) -> list[list[str]]:
    return [batch.items for batch in taken(table)]


def test_a_batch_leaves_when_it_is_full_or_has_lingered_long_enough():
    table = batches()
    table.put("t", None, "a", 60, 0, ordered=False)
    assert (items(table), table.next_due_ms) == ([], 10)
    table.put("t", None, "b", 40, 5, ordered=False)
    assert (items(table), table.next_due_ms) == ([["a", "b"]], None)
    table.put("t", None, "c", 1, 6, ordered=False)
    table.tick(15)
    assert items(table) == []
    table.tick(16)
    assert items(table) == [["c"]]


def test_a_batch_holds_no_more_messages_than_a_broker_takes():
    table = batches(messages=3)
    for name in "abcdefg":
        table.put("t", None, name, 1, 0, ordered=False)
    assert items(table) == [["a", "b", "c"], ["d", "e", "f"]]


def test_a_batch_never_grows_beyond_what_a_broker_takes_and_never_mixes_kinds():
    table = batches(max_bytes=150)
    table.put("t", None, "a", 120, 0, ordered=False)
    table.put("t", None, "b", 90, 0, ordered=False)
    assert items(table) == [["a"]]
    table.put("t", "no wait", "c", 1, 0, ordered=False)
    assert items(table) == [["b"]]
    table.put("t", None, "huge", 500, 0, ordered=False)
    assert items(table) == [["c"], ["huge"]]


def test_nothing_is_added_to_a_closed_batch():
    table = batches()
    batch = table.put("t", None, "a", 50, 0, ordered=False)
    assert table.put_into(batch, "b", 49)
    assert table.put_into(batch, "c", 1)
    assert not table.put_into(batch, "d", 1), "it was full"
    assert items(table) == [["a", "b", "c"]]
    batch = table.put("t", None, "e", 90, 0, ordered=False)
    assert not table.put_into(batch, "f", 111), "it would be larger than a broker takes, so it leaves"
    assert items(table) == [["e"]]
    assert (table.held_bytes, table.is_empty) == (190, True)


def test_of_an_ordered_destination_one_batch_is_out_and_the_next_waits_behind_it():
    table = batches()
    for number in range(3):
        table.put("q", None, str(number), 100, 0, ordered=True)
    (first,) = taken(table)
    assert first.items == ["0"]
    table.answered(first)
    (second,) = taken(table)
    table.put("q", None, "3", 1, 0, ordered=True)
    table.answered(second)
    (third,) = taken(table)
    table.answered(third)
    assert (items(table), table.is_busy("q")) == ([], True), "the last one lingers for company"
    table.tick(10)
    (last,) = taken(table)
    table.answered(last)
    assert ([*second.items, *third.items, *last.items], table.is_empty, table.held_bytes) == (["1", "2", "3"], True, 0)


def test_when_too_much_is_held_nothing_lingers():
    table = batches(total=120)
    table.put("t", None, "a", 60, 0, ordered=False)
    table.put("u", None, "b", 59, 0, ordered=False)
    assert items(table) == []
    table.put("v", None, "c", 1, 0, ordered=False)
    assert items(table) == [["a"], ["b"], ["c"]]
    table.put("t", None, "d", 1, 0, ordered=False)
    assert items(table) == [["d"]], "none of them was answered yet"


class Sending(RuleBasedStateMachine):
    """Random sends to ordered and unordered destinations, answered in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Table = Table(ListBatch, 50, 10, 300, 80, 5)
        self.now_ms = 0
        self.serial = 0
        self.came: dict[Hashable, list[int]] = {}
        self.left: dict[Hashable, list[int]] = {}
        self.out: list[ListBatch] = []
        self.held = 0

    def drain(self) -> None:
        for batch in self.table.ready:
            assert len({destination for destination, _ in batch.items}) == 1
            assert not batch.ordered or all(other.destination != batch.destination for other in self.out)
            self.left.setdefault(batch.destination, []).extend(number for _, number in batch.items)
            self.out.append(batch)
        self.table.ready = []

    @rule(destination=st.sampled_from("abXY"), size=st.integers(1, 120), kind=st.booleans())
    def add(self, destination: str, size: int, kind: bool) -> None:
        self.serial += 1
        self.came.setdefault(destination, []).append(self.serial)
        self.held += size
        self.table.put(destination, kind, (destination, self.serial), size, self.now_ms, ordered=destination.isupper())
        self.drain()

    @rule(ms=st.integers(0, 12))
    def tick(self, ms: int) -> None:
        self.now_ms += ms
        self.table.tick(self.now_ms)
        self.drain()
        due_ms = self.table.next_due_ms
        assert due_ms is None or self.now_ms < due_ms <= self.now_ms + 10

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        batch = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        self.held -= batch.size_bytes
        self.table.answered(batch)
        self.drain()

    @invariant()
    def laws_hold(self) -> None:
        self.table.check_invariants()
        assert self.table.held_bytes == self.held
        for destination, numbers in self.left.items():
            assert numbers == self.came[destination][: len(numbers)]

    def teardown(self) -> None:
        self.table.flush()
        self.drain()
        while self.out:
            self.table.answered(self.out.pop(0))
            self.drain()
        assert self.left == self.came
        assert self.table.is_empty


TestSending = Sending.TestCase
TestSending.settings = settings(max_examples=examples(40), stateful_step_count=40)
