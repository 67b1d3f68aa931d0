# SPDX-License-Identifier: Apache-2.0
"""core.queue_lock: the broker's table against a model, and the pair of clocks."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from sprocketmq.core.consume.queue_lock import (
    BROKER_LOCK_MAX_LIVE_MS,
    LOCAL_LOCK_MAX_LIVE_MS,
    LOCK_RENEW_INTERVAL_MS,
    LocalQueueLock,
    QueueLockTable,
)
from sprocketmq.wire.records.message import MessageQueue

QUEUES = [MessageQueue("flights", "broker-a", number) for number in range(3)]


@pytest.fixture
def table() -> QueueLockTable:
    return QueueLockTable()


def test_a_lock_belongs_to_one_client_until_it_expires(table):
    assert table.try_lock_batch("delays", QUEUES, "one", 0) == QUEUES
    assert table.try_lock_batch("delays", QUEUES, "two", 60_000) == []
    assert table.try_lock_batch("delays", QUEUES[:1], "two", 60_001) == QUEUES[:1]
    assert table.owner("delays", QUEUES[0], 60_001) == "two"


def test_sweep_forgets_expired_locks(table):
    table.try_lock("delays", QUEUES[0], "one", 0)
    table.try_lock("delays", QUEUES[1], "one", 10)
    assert table.sweep(60_005) == 1
    assert table.sweep(60_011) == 1
    assert not table.unlock("delays", QUEUES[0], "one")
    table.try_lock_batch("delays", QUEUES, "one", 0)
    assert (table.sweep(60_001), len(table)) == (3, 0)


def test_a_table_that_is_full_refuses_new_locks_only():
    table = QueueLockTable(max_locks=2)
    assert table.try_lock_batch("delays", QUEUES, "one", 0) == QUEUES[:2]
    assert len(table) == 2
    assert table.try_lock("delays", QUEUES[0], "one", 1)  # renewed
    assert table.unlock("delays", QUEUES[0], "one")
    assert table.try_lock("delays", QUEUES[2], "one", 1)


def test_the_local_lock_is_trusted_for_30_s_from_the_request():
    lock = LocalQueueLock()
    assert not lock.is_valid(0)
    lock.granted(asked_ms=1_000)
    assert lock.is_valid(31_000)
    assert not lock.is_valid(31_001)
    lock.granted(asked_ms=40_000)
    assert lock.is_valid(40_001)
    lock.lost()
    assert not lock.is_valid(40_002)


def test_one_renewal_may_fail_and_the_broker_keeps_longer_than_the_client_trusts():
    assert LOCK_RENEW_INTERVAL_MS < LOCAL_LOCK_MAX_LIVE_MS < BROKER_LOCK_MAX_LIVE_MS


def test_a_tenure_lasts_as_long_as_nobody_else_can_have_had_the_lock():
    lock = LocalQueueLock()
    assert (lock.tenure, lock.is_ours(0)) == (0, False)
    lock.granted(1_000)
    lock.granted(21_000)
    assert lock.tenure == 1
    assert lock.is_ours(81_000)
    assert not lock.is_valid(81_000)
    lock.granted(81_000)  # late, but the broker kept it for 60 s
    assert lock.tenure == 1
    assert not lock.is_ours(141_001)
    lock.granted(141_001)
    assert lock.tenure == 2
    lock.lost()
    assert not lock.is_ours(141_002)
    lock.granted(141_003)
    assert lock.tenure == 3


class LockTableModel(RuleBasedStateMachine):
    """The table next to a flat dict of (group, queue) -> (client, time)."""

    groups = st.sampled_from(["delays", "audit"])
    clients = st.sampled_from(["one", "two", "three"])
    queues = st.lists(st.sampled_from(QUEUES), unique=True, max_size=3)

    @initialize()
    def begin(self) -> None:
        self.table = QueueLockTable()
        self.now_ms = 0
        self.model: dict[tuple[str, MessageQueue], tuple[str, int]] = {}

    def owner(self, group: str, queue: MessageQueue) -> str | None:
        client, at_ms = self.model.get((group, queue), (None, 0))
        return client if self.now_ms - at_ms <= 60_000 else None

    @rule(ms=st.sampled_from([1, 19_999, 20_000, 40_001, 60_000, 60_001]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule(group=groups, client=clients, queues=queues)
    def lock(self, group: str, client: str, queues: list[MessageQueue]) -> None:
        expected = [queue for queue in queues if self.owner(group, queue) in (None, client)]
        assert self.table.try_lock_batch(group, queues, client, self.now_ms) == expected
        for queue in expected:
            self.model[group, queue] = (client, self.now_ms)

    @rule(group=groups, client=clients, queues=queues)
    def unlock(self, group: str, client: str, queues: list[MessageQueue]) -> None:
        expected = [queue for queue in queues if self.model.get((group, queue), ("", 0))[0] == client]
        assert self.table.unlock_batch(group, queues, client) == expected
        for queue in expected:
            del self.model[group, queue]

    @rule()
    def sweep(self) -> None:
        self.table.sweep(self.now_ms)
        self.model = {key: lock for key, lock in self.model.items() if self.now_ms - lock[1] <= 60_000}

    @invariant()
    def laws_hold(self) -> None:
        self.table.check_invariants()
        for group in ("delays", "audit"):
            for queue in QUEUES:
                assert self.table.owner(group, queue, self.now_ms) == self.owner(group, queue)
            held = any(self.owner(group, queue) is not None for queue in QUEUES)
            assert self.table.holds_any(group, self.now_ms) == held


TestLockTableModel = LockTableModel.TestCase
TestLockTableModel.settings = settings(max_examples=examples(80), stateful_step_count=30, deadline=None)
