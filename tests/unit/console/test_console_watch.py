# SPDX-License-Identifier: Apache-2.0
"""Lag over time in bounded memory, and how urgent a verdict is."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.console.cluster import Cluster
from sprocketmq.console.safety.mask import Mask
from sprocketmq.console.watch.group_state import GroupState, Level, QueueLag, Verdict, level_of, urgency_of
from sprocketmq.console.watch.lag_history import LagHistory
from sprocketmq.console.watch.watcher import ClusterView, Watcher
from sprocketmq.core.doctor.group_doctor import GroupDiagnosis, GroupVerdict
from sprocketmq.wire.records.message import MessageQueue


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**9)), max_size=30), st.integers(1, 8))
def test_a_history_is_the_last_moments_and_unknown_is_none(looks, moments):
    history: LagHistory[str] = LagHistory(moments, 10)
    for number, look in enumerate(looks):
        history.add(number * 1_000, look)
    kept = list(enumerate(looks))[-moments:]
    assert history.times() == [number * 1_000 for number, _ in kept]
    for key in "abc":
        known = [look.get(key) for _, look in kept]
        assert history.of(key) == (known if any(value is not None for value in known) else None)


def test_a_history_is_bounded_and_says_when_it_is_full():
    history: LagHistory[int] = LagHistory(3, 2)
    history.add(0, {1: 1, 2: 2, 3: 3})
    assert history.is_full
    assert history.of(3) is None
    for moment in range(1, 4):
        history.add(moment, {2: 5})
    assert history.of(1) is None, "nothing of it is known any more, so it is forgotten"
    assert not history.is_full
    history.add(5, {3: 7})
    assert history.of(3) == [None, None, 7]


def of(verdict: GroupVerdict, advice: str = "") -> Verdict:
    return Verdict(0, GroupDiagnosis(verdict, "a sentence", advice=advice))


@pytest.mark.parametrize(
    ("verdict", "lag", "level"),
    [
        (None, 5, Level.UNKNOWN),
        (Verdict(0, None, "no answer"), 5, Level.UNKNOWN),
        (of(GroupVerdict.UNKNOWN), 5, Level.UNKNOWN),
        (of(GroupVerdict.OFFLINE), 5, Level.BAD),
        (of(GroupVerdict.OFFLINE), 0, Level.IDLE),
        (of(GroupVerdict.LISTENER_STUCK), 0, Level.BAD),
        (of(GroupVerdict.LISTENER_FAILS), 0, Level.BAD),
        (of(GroupVerdict.FLOW_CONTROL), 9, Level.WARN),
        (of(GroupVerdict.MOVING, "add members"), 9, Level.WARN),
        (of(GroupVerdict.MOVING), 9, Level.WELL),
        (of(GroupVerdict.NOTHING_WAITS), 0, Level.WELL),
    ],
)
def test_the_level_of_a_verdict_and_a_lag(verdict, lag, level):
    assert level_of(verdict, lag) is level


def test_every_verdict_has_a_level_and_every_level_a_text():
    assert {level_of(of(one), 1) for one in GroupVerdict} == {Level.BAD, Level.UNKNOWN, Level.WARN, Level.WELL}
    assert all(level.text for level in Level)


class Clock:
    now_ms = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def watcher_of(clock: Clock) -> Watcher:
    """One whose name server nobody is at."""
    return Watcher(Cluster({"namesrv_addr": "127.0.0.1:1"}, 200), clock, 500, Mask())


def test_the_doctor_starts_and_stops_as_before_after_the_clock_was_set_back():
    clock = Clock()
    watcher = watcher_of(clock)
    watcher.view = ClusterView(clock(), groups={"g": GroupState("g")})
    assert watcher._next_group() is None, "nobody looks"
    watcher.page_loaded()
    watcher._verdicts["g"] = Verdict(clock(), GroupDiagnosis(GroupVerdict.MOVING, "it moves"))
    assert watcher._next_group() is None, "it was looked at just now"
    clock.now_ms -= 3_600_000
    assert watcher._next_group() is None, "when somebody looked is not known any more"
    watcher.page_loaded()
    assert watcher._next_group() == "g"


def test_nothing_is_requested_while_nobody_looks():
    async def run() -> None:
        clock, updated = Clock(), asyncio.Event()
        watcher = watcher_of(clock)

        async def update() -> None:
            updates.append(clock())
            updated.set()

        updates: list[int] = []
        watcher.update = update  # type: ignore[method-assign]
        watcher._interval_s = 0
        watcher.start()
        for _ in range(10):
            await asyncio.sleep(0)
        assert updates == []
        watcher.page_loaded()
        await updated.wait()
        clock.now_ms += 120_000
        await asyncio.sleep(0)
        before = len(updates)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(updates) <= before + 1  # one was about to begin
        updated.clear()
        watcher.page_loaded()
        await updated.wait()
        await watcher.close()
        await watcher._cluster.shutdown()

    asyncio.run(run())


def test_a_request_for_an_unknown_group_stores_nothing():
    """Any name may be in an address."""

    async def run() -> None:
        watcher = watcher_of(Clock())
        watcher.view = ClusterView(1, groups={"known": GroupState("known")})
        for name in ("no-such-group", "known"):
            assert (await watcher.diagnose(name)).missing
        assert watcher._verdicts.keys() == {"known"}
        await watcher._cluster.shutdown()

    asyncio.run(run())


def test_lag_is_unknown_where_no_progress_was_committed():
    assert GroupState("g").lag is None
    queue = MessageQueue("t", "b", 0)
    assert GroupState("g", {queue: QueueLag(10, None)}, retry_lag=2).lag == 12


def test_groups_that_wait_or_retry_are_diagnosed_before_idle_ones():
    async def order() -> list[str | None]:
        watcher = Watcher(Cluster({"namesrv_addr": "127.0.0.1:1"}, 1_000), lambda: 1_000_000, 5_000, Mask(()))
        queue = MessageQueue("flights", "broker-a", 0)
        done = {queue: QueueLag(5, 5)}
        watcher.view = ClusterView(
            1_000_000,
            groups={
                "a-idle": GroupState("a-idle", done),
                "b-retries": GroupState("b-retries", done, retried=1),
                "c-waits": GroupState("c-waits", {queue: QueueLag(5, 4)}),
            },
        )
        watcher.page_loaded()
        found = []
        for _ in watcher.view.groups:
            found.append(watcher._next_group())
            watcher._verdicts[found[-1] or ""] = Verdict(1_000_000, None, "judged")
        return found

    assert asyncio.run(order()) == ["c-waits", "b-retries", "a-idle"]


def test_groups_with_members_come_first_then_the_most_urgent():
    def state(name: str, verdict: GroupVerdict, lag: int) -> GroupState:
        return GroupState(name, {MessageQueue("flights", "broker-a", 0): QueueLag(lag, 0)}, verdict=of(verdict))

    groups = [
        state("gone", GroupVerdict.OFFLINE, 9_000),
        state("well", GroupVerdict.MOVING, 800),
        state("fails", GroupVerdict.LISTENER_FAILS, 0),
    ]
    assert [one.group for one in sorted(groups, key=urgency_of)] == ["fails", "well", "gone"]
