# SPDX-License-Identifier: Apache-2.0
"""Looks at the cluster again and again: brokers, lag of all groups, and the doctor's verdict of each while somebody watches.

    each interval   brokers, and of each master that answers one request for the progress of all its groups
    each minute     the names of its groups, for those that have no progress yet
    while a page was asked for in the last two minutes: the doctor, a few groups at once, each group that is well once a minute, others
                    each 15 s

The doctor asks members for the stacks of their threads; that is why it does not run when nobody looks.

Laws
    1. A broker that is slow or dead costs the others nothing: each is asked beside the others, with a limit.
    2. What a broker did not tell this time is missing, and not what it told the time before.
    3. The view is replaced as a whole; who holds one holds what was true at ``at_ms``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sprocketmq.client.admin import BrokerStatus
from sprocketmq.console.cluster.cluster import Cluster
from sprocketmq.console.safety.mask import Mask
from sprocketmq.console.watch.group_state import GroupState, QueueLag, Verdict
from sprocketmq.console.watch.lag_history import LagHistory
from sprocketmq.core.doctor.group_doctor import GroupDiagnosis
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["ClusterView", "Watcher"]

log = logging.getLogger("sprocketmq.console")

_MOMENTS: Final = 720  # an hour of looks each 5 s
_SERIES: Final = 4_096  # with 720 numbers of 8 bytes each: 24 MB
_MASTER: Final = 0
_RETRY: Final = "%RETRY%"
_NAMES_EACH_MS: Final = 60_000
_VERDICT_EACH_MS: Final = 60_000
_BAD_VERDICT_EACH_MS: Final = 15_000
_WATCHED_FOR_MS: Final = 120_000
_DOCTORS: Final = 4
_MOST_OFFSET: Final = (1 << 63) - 1

_Progress = dict[str, dict[MessageQueue, QueueLag]]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What was seen at one time.

    Attributes:
        at_ms: when; None before the first look.
        brokers: all that are registered.
        groups: by name.
        missing: what could not be learned, a sentence each.
    """

    at_ms: int | None = None
    brokers: tuple[BrokerStatus, ...] = ()
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def masters_up(self) -> list[str]:
        """Names of the masters that answered."""
        return [one.broker_name for one in self.brokers if one.broker_id == _MASTER and one.is_up]

    @property
    def masters_silent(self) -> list[str]:
        """Names of the masters that did not answer, and are not worth the wait."""
        return [one.broker_name for one in self.brokers if one.broker_id == _MASTER and not one.is_up]


class Watcher:
    """Args: ``now_ms`` is the time of day; ``interval_ms`` lies between two looks; ``mask`` is for what the doctor quotes of members."""

    def __init__(self, cluster: Cluster, now_ms: Callable[[], int], interval_ms: int, mask: Mask) -> None:
        self._cluster, self._now_ms, self._interval_s, self._mask = cluster, now_ms, interval_ms / 1000, mask
        self.view = ClusterView()
        self.history: LagHistory[tuple[str, MessageQueue | None]] = LagHistory(_MOMENTS, _SERIES)
        self._names: dict[str, set[str]] = {}
        self._names_at_ms = 0
        self._verdicts: dict[str, Verdict] = {}
        self._being_asked: set[str] = set()
        self._unwritten: dict[str, dict[MessageQueue, QueueLag]] = {}
        self._watched_ms = 0
        self._changed = asyncio.Condition()
        self._version = 0
        self.is_closed = False
        self._tasks: list[asyncio.Task[None]] = []

    # -- life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Look from now on. Call from a running loop."""
        steps: list[Callable[[], Awaitable[None]]] = [self._look_again, *([self._ask_doctors] * _DOCTORS)]
        self._tasks = [asyncio.ensure_future(step()) for step in steps]

    async def close(self) -> None:
        """Look no more; who waits for a change is told."""
        self.is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._changed:
            self._changed.notify_all()

    def is_watched(self) -> None:
        """Somebody looks at a page: the doctor works for the next two minutes."""
        self._watched_ms = self._now_ms()

    async def change(self, version: int, limit_s: float) -> int:
        """Wait for a view that is newer than ``version``, up to the limit; returns the version that is there now."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s), self._changed:
                await self._changed.wait_for(lambda: self._version > version or self.is_closed)
        return self._version

    # -- looking ---------------------------------------------------------------------------------------------------------------

    async def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            try:
                await self.look()
            except Exception:  # the next look may do better, and the page says how old this one is
                log.exception("looking at the cluster failed")
            await asyncio.sleep(max(0.0, self._interval_s - (loop.time() - begun_s)))

    async def look(self) -> None:
        """One look; replaces ``view``."""
        missing: list[str] = []
        brokers = await self._cluster.ask("the brokers", self._cluster.admin.brokers(), limits=2)
        if brokers.value is None:
            await self._show(ClusterView(self._now_ms(), (), self.view.groups, (brokers.missing or "",)))
            return
        missing += [
            f"broker {one.broker_name} ({one.address}) does not answer" for one in brokers.value if not one.is_up
        ]
        seen = ClusterView(self._now_ms(), tuple(brokers.value))
        up, silent = seen.masters_up, set(seen.masters_silent)
        told = dict(zip(up, await asyncio.gather(*map(self._progress_at, up)), strict=True))
        silent |= {name for name, progress in told.items() if isinstance(progress, str)}
        missing += [progress for progress in told.values() if isinstance(progress, str)]
        missing += await self._learn_names(up)
        groups = self._states([one for one in told.values() if not isinstance(one, str)], tuple(sorted(silent)))
        await self._show(ClusterView(self._now_ms(), tuple(brokers.value), groups, tuple(missing)))

    async def _progress_at(self, broker: str) -> _Progress | str:
        """The progress of all groups at one broker, or why it is not known."""
        found = await self._cluster.ask(f"broker {broker}", self._cluster.admin.broker_consume_stats(broker))
        if found.value is None:
            return found.missing or ""
        progress: _Progress = {}
        wrong = f"broker {broker}: it tells of offsets that no queue can have"
        for row in found.value.consume_stats_list:
            for group, stats in row.items():
                queues = progress.setdefault(group, {})
                for one in stats:
                    for queue, at in one.offset_table.items():
                        if max(abs(at.broker_offset), abs(at.consumer_offset)) > _MOST_OFFSET:
                            return wrong
                        consumed = at.consumer_offset if at.consumer_offset >= 0 else None
                        queues[queue] = QueueLag(at.broker_offset, consumed)
        return progress

    async def _learn_names(self, brokers: list[str]) -> list[str]:
        """Names of groups without progress, too; returns what could not be learned."""
        now_ms = self._now_ms()
        if _is_within(self._names_at_ms, now_ms, _NAMES_EACH_MS) and set(brokers) <= self._names.keys():
            return []
        self._names_at_ms = now_ms

        async def learn(broker: str) -> str | None:
            found = await self._cluster.ask(
                f"the groups of broker {broker}", self._cluster.admin.group_configs(broker), limits=2
            )
            if found.value is not None:
                self._names[broker] = set(found.value)
            return found.missing

        return [why for why in await asyncio.gather(*map(learn, brokers)) if why is not None]

    def _states(self, told: list[_Progress], silent: tuple[str, ...]) -> dict[str, GroupState]:
        names = {name for known in self._names.values() for name in known} | {name for one in told for name in one}
        self._verdicts = {group: verdict for group, verdict in self._verdicts.items() if group in names}
        self._unwritten = {group: queues for group, queues in self._unwritten.items() if group in names}
        found: dict[str, GroupState] = {}
        for group in sorted(names):
            queues = {queue: at for progress in told for queue, at in progress.get(group, {}).items()}
            if any(not queue.topic.startswith(_RETRY) for queue in queues):
                self._unwritten.pop(group, None)
            queues = {**self._unwritten.get(group, {}), **queues}
            found[group] = GroupState(
                group,
                {queue: at for queue, at in sorted(queues.items()) if not queue.topic.startswith(_RETRY)},
                sum(at.lag for queue, at in queues.items() if queue.topic.startswith(_RETRY)),
                silent,
                self._verdicts.get(group),
                self._rate(group, queues),
            )
        return found

    def _rate(self, group: str, queues: Mapping[MessageQueue, QueueLag]) -> float | None:
        """Messages a second between the last look and this one; None where one of them is not there."""
        before = self.view.groups.get(group)
        if before is None or self.view.at_ms is None:
            return None
        seconds = (self._now_ms() - self.view.at_ms) / 1000
        both = [
            (at.consumer_offset, before.queues[queue].consumer_offset)
            for queue, at in queues.items()
            if queue in before.queues
        ]
        moved = [now - then for now, then in both if now is not None and then is not None]
        return max(0, sum(moved)) / seconds if moved and seconds > 0 else None

    async def _show(self, view: ClusterView) -> None:
        lags: dict[tuple[str, MessageQueue | None], int] = {}
        if view.brokers:  # else nothing was asked, and the groups are those of an earlier look
            lags = {
                (group, None): state.lag
                for group, state in view.groups.items()
                if state.lag is not None and not state.silent
            }
            for group, state in view.groups.items():  # behind the sums: where not all have room, these have none
                lags.update({(group, queue): at.lag for queue, at in state.queues.items()})
        assert view.at_ms is not None
        self.history.add(view.at_ms, lags)
        self.view = view
        await self._tell()

    async def _first_progress(self, group: str) -> dict[MessageQueue, QueueLag]:
        """The queues of a group whose members have finished nothing yet: of it brokers tell only what is asked for by topic."""
        admin = self._cluster.admin
        connection = await admin.consumer_connection(group)
        topics = [one for one in (connection.subscription_table if connection else {}) if not one.startswith(_RETRY)]
        found: dict[MessageQueue, QueueLag] = {}
        for topic in topics:
            for queue, at in (await admin.consumer_progress(group, topic)).items():
                found[queue] = QueueLag(at.broker_offset, at.consumer_offset if at.consumer_offset > 0 else None)
        return found

    async def _tell(self) -> None:
        async with self._changed:
            self._version += 1
            self._changed.notify_all()

    # -- the doctor --------------------------------------------------------------------------------------------------------------

    async def _ask_doctors(self) -> None:
        while True:
            group = self._next_patient()
            if group is None:
                await self.change(self._version, self._interval_s)
                continue
            try:
                await self.diagnose(group)
            except Exception:  # the others want to be looked at, too
                log.exception("the doctor failed at group %s", group)
                self._verdicts[group] = Verdict(self._now_ms(), None, "the doctor failed; the console's log says how")

    def _next_patient(self) -> str | None:
        """The next group: without a verdict, with lag, with the oldest verdict, in that order; None if nobody looks or all are new."""
        now_ms = self._now_ms()
        if not _is_within(self._watched_ms, now_ms, _WATCHED_FOR_MS):
            return None
        due = [
            (
                group in self._verdicts,
                not state.lag,
                self._verdicts[group].at_ms if group in self._verdicts else 0,
                group,
            )
            for group, state in self.view.groups.items()
            if group not in self._being_asked and self._is_due(group, now_ms)
        ]
        return min(due)[-1] if due else None

    def _is_due(self, group: str, now_ms: int) -> bool:
        """What is wrong is looked at more often."""
        last = self._verdicts.get(group)
        if last is None:
            return True
        is_well = last.diagnosis is not None and last.diagnosis.verdict.is_well
        return not _is_within(last.at_ms, now_ms, _VERDICT_EACH_MS if is_well else _BAD_VERDICT_EACH_MS)

    async def diagnose(self, group: str) -> Verdict:
        """Ask the doctor now. The verdict is also in later views."""
        self._being_asked.add(group)
        try:
            found = await self._cluster.ask(
                f"group {group}", self._cluster.admin.diagnose_group(group), limits=_DOCTOR_LIMITS
            )
        finally:
            self._being_asked.discard(group)
        verdict = Verdict(self._now_ms(), _masked(found.value, self._mask), found.missing)
        state = self.view.groups.get(group)
        if state is not None:  # anybody may ask for any name, and only known groups are kept
            self._verdicts[group] = verdict
        if state is not None and (not state.queues or group in self._unwritten):
            early = await self._cluster.ask(f"the lag of group {group}", self._first_progress(group), limits=2)
            self._unwritten[group] = early.value or {}
        if state is not None:
            groups = {**self.view.groups, group: _with(state, verdict)}
            self.view = ClusterView(self.view.at_ms, self.view.brokers, groups, self.view.missing)
            await self._tell()
        return verdict


_DOCTOR_LIMITS: Final = 4
"""The doctor asks each broker and each member several things, twice."""


def _masked(diagnosis: GroupDiagnosis | None, mask: Mask) -> GroupDiagnosis | None:
    """The doctor quotes what listeners raised, and that often has parts of messages in it."""
    if diagnosis is None:
        return None
    return msgspec.structs.replace(
        diagnosis, sentence=mask.text(diagnosis.sentence), evidence=tuple(map(mask.text, diagnosis.evidence))
    )


def _is_within(at_ms: int, now_ms: int, span_ms: int) -> bool:
    """Whether it was less than that long ago. A time that is still to come, as after the clock was set back, was long ago."""
    return 0 <= now_ms - at_ms < span_ms


def _with(state: GroupState, verdict: Verdict) -> GroupState:
    return GroupState(state.group, state.queues, state.retry_lag, state.silent, verdict, state.per_second)
