# SPDX-License-Identifier: Apache-2.0
"""Queries the cluster periodically while it is in use: brokers, lag of all groups, and the doctor's verdict for each group.

    each interval   the brokers, and from each master that answers, with one request, the progress of all its groups
    each minute     the names of its groups, because some have no progress yet
    always          the doctor, for a few groups at once; healthy groups once a minute, others each 15 s; with it the queues of the group
                    that the brokers leave out of the progress of all groups

It is in use while a page is open that waits for events, and for two minutes after a page was loaded: the progress of all groups costs a
broker time, and the doctor requests the stacks of members' threads. A proxy lists no brokers and no groups, and needs requests about each
queue; there the groups are those whose pages were opened last. A slow or dead broker does not delay the others, which are queried
concurrently. What a broker did not report this time is missing; older values are not shown in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from sprocketmq.client.admin import BrokerStatus, QueueProgress
from sprocketmq.console.cluster import Cluster
from sprocketmq.console.safety.mask import Mask
from sprocketmq.console.watch.group_state import GroupState, QueueLag, Verdict
from sprocketmq.console.watch.lag_history import LagHistory
from sprocketmq.core.doctor.group_doctor import GroupDiagnosis
from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.errors import GroupNotExist, RequestNotServed
from sprocketmq.troubles import Troubles
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.console")

_MOMENTS: Final = 720  # one hour with an update each 5 s
_SERIES: Final = 4_096  # with 720 numbers of 8 bytes each: 24 MB
_MASTER: Final = 0
_NAMES_EACH_MS: Final = 60_000
_VERDICT_EACH_MS: Final = 60_000
_BAD_VERDICT_EACH_MS: Final = 15_000
_IN_USE_FOR_MS: Final = 120_000
_GONE_FOR_MS: Final = 3_600_000
_CONCURRENT_DIAGNOSES: Final = 8  # each waits two seconds between its two observations
_MOST_OFFSET: Final = (1 << 63) - 1
_MOST_OPENED: Final = 16

_Progress = dict[str, dict[MessageQueue, QueueLag]]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The state of the cluster at ``at_ms`` (None before the first update), with a sentence for each missing value. ``proxy``: the
    address of the proxy, if one answers in place of name servers and brokers."""

    at_ms: int | None = None
    brokers: tuple[BrokerStatus, ...] = ()
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    proxy: str | None = None

    @property
    def masters_up(self) -> list[str]:
        """Names of the masters that answered; the address of the proxy if there is one."""
        if self.proxy is not None:
            return [self.proxy]
        return [one.broker_name for one in self.brokers if one.broker_id == _MASTER and one.is_up]

    @property
    def masters_silent(self) -> list[str]:
        """Names of the masters that did not answer, and are not queried."""
        return [one.broker_name for one in self.brokers if one.broker_id == _MASTER and not one.is_up]


class Watcher:
    """``mask`` is applied to texts that the doctor quotes."""

    def __init__(self, cluster: Cluster, now_ms: Callable[[], int], interval_ms: int, mask: Mask) -> None:
        self._cluster, self._now_ms, self._interval_s, self._mask = cluster, now_ms, interval_ms / 1000, mask
        self._troubles = Troubles(log)
        self.view = ClusterView()
        self.history: LagHistory[tuple[str, MessageQueue | None]] = LagHistory(_MOMENTS, _SERIES)
        self._seen: dict[tuple[str, int], tuple[int, BrokerStatus]] = {}  # brokers, and when they were listed last
        self._names: dict[str, set[str]] = {}
        self._names_at_ms = 0
        self._verdicts: dict[str, Verdict] = {}
        self._being_diagnosed: set[str] = set()
        self._left_out: dict[str, dict[MessageQueue, QueueLag]] = {}
        self._reported: list[_Progress] = []  # at the last update
        self._page_loaded_ms = 0
        self._opened: dict[
            str, str | None
        ] = {}  # groups -> the topic that the user named; the last one was opened last
        self._changed = asyncio.Condition()
        self._in_use = asyncio.Event()
        self._version = 0
        self.is_closed = False
        self._tasks: list[asyncio.Task[None]] = []

    # -- life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        steps: list[Callable[[], Awaitable[None]]] = [
            self._update_periodically,
            *([self._diagnose_due_groups] * _CONCURRENT_DIAGNOSES),
        ]
        self._tasks = [asyncio.ensure_future(step()) for step in steps]

    async def close(self) -> None:
        self.is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._changed:
            self._changed.notify_all()

    def page_loaded(self) -> None:
        """Record that a page was loaded: the cluster is queried for the next two minutes."""
        self._page_loaded_ms = self._now_ms()
        self._in_use.set()

    def group_opened(self, group: str, topic: str | None) -> None:
        """Record that the page of a group was loaded, with the name of a topic that the group reads, if the user gave one."""
        known = self._opened.pop(group, None)
        self._opened[group] = topic or known
        if len(self._opened) > _MOST_OPENED:
            del self._opened[next(iter(self._opened))]

    async def change(self, version: int, limit_s: float) -> int:
        """Wait for a view that is newer than ``version``, at most ``limit_s``; return the current version."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s), self._changed:
                await self._changed.wait_for(lambda: self._version > version or self.is_closed)
        return self._version

    # -- updating --------------------------------------------------------------------------------------------------------------

    async def _update_periodically(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._until_in_use()
            begun_s = loop.time()
            try:
                await self.update()
            except Exception as error:  # noqa: BLE001 - the next update may succeed, and the page shows the age of this one
                self._failed("update", "updating the view failed: %s", error)
            await asyncio.sleep(max(0.0, self._interval_s - (loop.time() - begun_s)))

    def _failed(self, what: str, sentence: str, *args: object) -> None:
        error = args[-1]
        assert isinstance(error, Exception)
        self._troubles.failed((what, type(error)), sentence, *args, level=logging.ERROR, error=error)

    async def _until_in_use(self) -> None:
        while not self._is_in_use():
            self._in_use.clear()
            await self._in_use.wait()

    def _is_in_use(self) -> bool:
        return _is_within(self._page_loaded_ms, self._now_ms(), _IN_USE_FOR_MS)

    async def update(self) -> None:
        missing: list[str] = []
        brokers = await self._cluster.ask("the brokers", self._brokers_or_proxy(), limits=2)
        if isinstance(brokers.value, str):
            await self._update_at(brokers.value)
            return
        if brokers.value is None:
            await self._show(ClusterView(self._now_ms(), (), self.view.groups, (brokers.missing or "",)))
            return
        listed = self.with_gone(brokers.value)
        missing += [
            f"broker {one.absence}"
            if one.absence is not None
            else f"broker {one.broker_name} ({one.address}) does not answer"
            for one in listed
            if not one.is_up
        ]
        missing += [one.rivalry for one in listed if one.rivalry is not None]
        seen = ClusterView(self._now_ms(), listed)
        up, silent = seen.masters_up, set(seen.masters_silent)
        answers = dict(zip(up, await asyncio.gather(*map(self._progress_at, up)), strict=True))
        silent |= {name for name, progress in answers.items() if isinstance(progress, str)}
        missing += [progress for progress in answers.values() if isinstance(progress, str)]
        missing += await self._update_names(up)
        groups = self._states([one for one in answers.values() if not isinstance(one, str)], tuple(sorted(silent)))
        await self._show(ClusterView(self._now_ms(), listed, groups, tuple(missing)))

    def with_gone(self, listed: list[BrokerStatus]) -> tuple[BrokerStatus, ...]:
        """Also those that were listed within the last hour: Apache's name servers forget a broker as soon as its connection breaks, and a
        cluster that has lost a master would look well."""
        now_ms = self._now_ms()
        here = {(one.broker_name, one.broker_id) for one in listed}
        up = {(one.broker_name, one.broker_id): (now_ms, one) for one in listed if one.gone_for_ms is None}
        self._seen = {key: at for key, at in self._seen.items() if _is_within(at[0], now_ms, _GONE_FOR_MS)} | up
        gone = [
            replace(one, is_up=False, in_tps=0.0, out_tps=0.0, info={}, rivals=(), gone_for_ms=now_ms - seen_ms)
            for key, (seen_ms, one) in self._seen.items()
            if key not in here
        ]
        return *listed, *gone

    async def _brokers_or_proxy(self) -> list[BrokerStatus] | str:
        """All brokers, or the address of the proxy that does not list them."""
        try:
            return await self._cluster.admin.brokers()
        except RequestNotServed as error:
            return error.address

    async def _update_at(self, proxy: str) -> None:
        opened = dict(self._opened)
        self._names = {proxy: set(opened)}
        ask, admin = self._cluster.ask, self._cluster.admin
        found = await asyncio.gather(
            *(ask("its lag", admin.consumer_progress(group, topic), limits=3) for group, topic in opened.items())
        )
        known = {group: one.value for group, one in zip(opened, found, strict=True) if one.value is not None}
        progress = {
            group: {queue: _queue_lag(at.broker_offset, at.consumer_offset) for queue, at in queues.items()}
            for group, queues in known.items()
        }
        why = {group: one.missing for group, one in zip(opened, found, strict=True) if one.missing is not None}
        await self._show(ClusterView(self._now_ms(), (), self._states([progress], (), why), (), proxy))

    async def _progress_at(self, broker: str) -> _Progress | str:
        found = await self._cluster.ask(f"broker {broker}", self._cluster.admin.broker_consume_stats(broker))
        if found.value is None:
            return found.missing or ""
        progress: _Progress = {}
        wrong = f"broker {broker}: it reports offsets that no queue can have"
        for row in found.value.consume_stats_list:
            for group, stats in row.items():
                queues = progress.setdefault(group, {})
                for one in stats:
                    for queue, at in one.offset_table.items():
                        if max(abs(at.broker_offset), abs(at.consumer_offset)) > _MOST_OFFSET:
                            return wrong
                        queues[queue] = _queue_lag(at.broker_offset, at.consumer_offset)
        return progress

    async def _update_names(self, brokers: list[str]) -> list[str]:
        """Update the names of groups, also of those without progress; return a sentence for each failure."""
        now_ms = self._now_ms()
        if _is_within(self._names_at_ms, now_ms, _NAMES_EACH_MS) and set(brokers) <= self._names.keys():
            return []
        self._names_at_ms = now_ms

        async def request_names(broker: str) -> str | None:
            found = await self._cluster.ask(
                f"the groups of broker {broker}", self._cluster.admin.group_configs(broker), limits=2
            )
            if found.value is not None:
                self._names[broker] = set(found.value)
            return found.missing

        return [why for why in await asyncio.gather(*map(request_names, brokers)) if why is not None]

    def _states(
        self, answers: list[_Progress], silent: tuple[str, ...], missing: Mapping[str, str] | None = None
    ) -> dict[str, GroupState]:
        names = {name for known in self._names.values() for name in known} | {name for one in answers for name in one}
        self._verdicts = {group: verdict for group, verdict in self._verdicts.items() if group in names}
        self._left_out = {group: queues for group, queues in self._left_out.items() if group in names}
        self._reported = answers
        found: dict[str, GroupState] = {}
        for group in sorted(names):
            queues = {queue: at for progress in answers for queue, at in progress.get(group, {}).items()}
            left_out = self._left_out.get(group, {})
            queues = {**{queue: at for queue, at in left_out.items() if queue.broker_name not in silent}, **queues}
            found[group] = GroupState(
                group,
                {queue: at for queue, at in sorted(queues.items()) if not is_retry_topic(queue.topic)},
                sum(at.lag for queue, at in queues.items() if is_retry_topic(queue.topic)),
                silent,
                self._verdicts.get(group),
                self._rate(group, queues),
                (missing or {}).get(group),
                sum(at.broker_offset for queue, at in queues.items() if is_retry_topic(queue.topic)),
            )
        return found

    def _rate(self, group: str, queues: Mapping[MessageQueue, QueueLag]) -> float | None:
        """Messages per second between the last update and this one; None if one of them is missing."""
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
        if (
            view.brokers or view.proxy
        ):  # otherwise the brokers did not answer, and the groups are those of an earlier update
            lags = {
                (group, None): state.lag
                for group, state in view.groups.items()
                if state.lag is not None and not state.silent
            }
            for (
                group,
                state,
            ) in view.groups.items():  # after the sums: if there is no room for all series, the sums are kept
                lags.update({(group, queue): at.lag for queue, at in state.queues.items()})
        assert view.at_ms is not None
        self.history.add(view.at_ms, lags)
        self.view = view
        await self._notify()

    async def _queues_left_out(self, group: str) -> dict[MessageQueue, QueueLag]:
        """Those of a group without progress have to be requested by topic."""
        admin = self._cluster.admin
        progress: dict[MessageQueue, QueueProgress] = {}
        with contextlib.suppress(GroupNotExist):
            progress = await admin.consumer_progress(group)
        has_progress = any(not is_retry_topic(queue.topic) for queue in progress)
        if not has_progress:
            connection = await admin.consumer_connection(group)
            for topic in connection.subscription_table if connection else ():
                if not is_retry_topic(topic):
                    progress.update(await admin.consumer_progress(group, topic))
        least = 0 if has_progress else 1  # brokers answer 0 for a group without progress
        return {
            queue: QueueLag(
                at.broker_offset, at.consumer_offset if at.consumer_offset >= least else None, at.min_offset
            )
            for queue, at in progress.items()
            if not any(queue in reported.get(group, ()) for reported in self._reported)
        }

    async def _notify(self) -> None:
        async with self._changed:
            self._version += 1
            self._changed.notify_all()

    # -- the doctor --------------------------------------------------------------------------------------------------------------

    async def _diagnose_due_groups(self) -> None:
        while True:
            group = self._next_group()
            if group is None:
                await self.change(self._version, self._interval_s)
                continue
            try:
                await self.diagnose(group)
            except Exception as error:  # noqa: BLE001 - continue with the other groups
                self._failed("doctor", "the doctor failed at group %s: %s", group, error)
                self._verdicts[group] = Verdict(self._now_ms(), None, "the doctor failed; the console's log says how")

    def _next_group(self) -> str | None:
        """The next group to diagnose: without a verdict, with lag, with retried messages, with the oldest verdict. None if none is due."""
        now_ms = self._now_ms()
        if not self._is_in_use():
            return None
        due = [
            (
                group in self._verdicts,
                not state.lag,
                not state.retried,
                self._verdicts[group].at_ms if group in self._verdicts else 0,
                group,
            )
            for group, state in self.view.groups.items()
            if group not in self._being_diagnosed and self._is_due(group, now_ms)
        ]
        return min(due)[-1] if due else None

    def _is_due(self, group: str, now_ms: int) -> bool:
        last = self._verdicts.get(group)
        if last is None:
            return True
        is_well = last.diagnosis is not None and last.diagnosis.verdict.is_well
        return not _is_within(last.at_ms, now_ms, _VERDICT_EACH_MS if is_well else _BAD_VERDICT_EACH_MS)

    async def diagnose(self, group: str) -> Verdict:
        """Run the doctor now. The verdict is also in later views."""
        self._being_diagnosed.add(group)
        try:
            found = await self._cluster.ask(
                f"group {group}", self._cluster.admin.diagnose_group(group), limits=_DOCTOR_LIMITS
            )
        finally:
            self._being_diagnosed.discard(group)
        verdict = Verdict(self._now_ms(), _masked(found.value, self._mask), found.missing)
        state = self.view.groups.get(group)
        if state is not None:  # a user may request any name; only existing groups are kept
            self._verdicts[group] = verdict
        if state is not None and (self.view.proxy is None or not state.queues or group in self._left_out):
            more = await self._cluster.ask(f"the lag of group {group}", self._queues_left_out(group), limits=2)
            self._left_out[group] = more.value or {}
        if state is not None:
            groups = {**self.view.groups, group: replace(state, verdict=verdict)}
            self.view = replace(self.view, groups=groups)
            await self._notify()
        return verdict


_DOCTOR_LIMITS: Final = 4
"""The doctor sends several requests to each broker and each member, twice."""


def _masked(diagnosis: GroupDiagnosis | None, mask: Mask) -> GroupDiagnosis | None:
    """Apply the mask: the doctor quotes exceptions of listeners, which often contain parts of messages."""
    if diagnosis is None:
        return None
    return msgspec.structs.replace(
        diagnosis, sentence=mask.text(diagnosis.sentence), evidence=tuple(map(mask.text, diagnosis.evidence))
    )


def _queue_lag(broker_offset: int, consumer_offset: int) -> QueueLag:
    return QueueLag(broker_offset, consumer_offset if consumer_offset >= 0 else None)


def _is_within(at_ms: int, now_ms: int, span_ms: int) -> bool:
    """Whether ``at_ms`` is less than ``span_ms`` ago. False for a time in the future, which occurs when the clock was set back."""
    return 0 <= now_ms - at_ms < span_ms
