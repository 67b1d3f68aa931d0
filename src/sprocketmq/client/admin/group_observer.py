# SPDX-License-Identifier: Apache-2.0
"""Everything that can be seen of a consumer group, twice, and one verdict about it (no mqadmin command)."""

from __future__ import annotations

import asyncio
import difflib
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from sprocketmq.client.admin.brokers import gone_brokers, rivalry
from sprocketmq.client.admin.session import is_older_than_5
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.core.consume.flow_control import MIB, FlowLimits
from sprocketmq.core.doctor.group_doctor import GroupDiagnosis, HeadMessage, diagnose
from sprocketmq.core.doctor.group_state import GroupState, HeldQueue, MemberState, QueueState
from sprocketmq.core.doctor.listener_stacks import listener_stacks
from sprocketmq.core.produce.route_table import MASTER_ID, is_readable
from sprocketmq.core.resource_names import is_retry_topic, retry_topic
from sprocketmq.errors import (
    ConfigurationError,
    GroupNotExist,
    NetworkError,
    ProtocolError,
    RemoteError,
    RequestNotServed,
    RequestTimeout,
)
from sprocketmq.wire import bodies
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from sprocketmq.client.admin.async_admin import AsyncAdmin

_DECADES_MS: Final = 30 * 365 * 86_400_000
_FAILURES: Final = (RemoteError, NetworkError, RequestTimeout, ProtocolError)


_Reports = Mapping[str, bodies.ConsumerRunningInfo | str]
_Configs = Mapping[str, bodies.SubscriptionGroupConfig]


class _Position(NamedTuple):
    """The position of a group in a queue; ``consumer_offset`` is -1 if it has no progress."""

    broker_offset: int
    consumer_offset: int
    min_offset: int = 0

    @property
    def lag(self) -> int:
        return self.broker_offset - max(self.consumer_offset, self.min_offset)


class GroupObserver:
    def __init__(self, admin: AsyncAdmin, group: str, configs: _Configs | RequestNotServed) -> None:
        self._admin, self._group = admin, group
        self._configs: _Configs = {} if isinstance(configs, RequestNotServed) else configs
        self._proxy = configs.address if isinstance(configs, RequestNotServed) else None
        self._unknown: list[str] = []  # what could not be found out, a sentence each
        if isinstance(configs, RequestNotServed):
            self._unknown.append(f"whether the group may consume, and how many retries wait: {configs}")

    async def diagnosis(self, stuck_after_ms: int, watch_ms: int) -> GroupDiagnosis:
        clock = self._admin._options.clock
        reports = await self._reports(jstack=False)
        unknown = list(self._unknown)
        first = await self._positions(reports)
        self._unknown = unknown  # what the second observation does not learn counts
        begun_ms = clock.now_ms()
        if reports:  # else nobody moves it
            await asyncio.sleep(watch_ms / 1000)
        state = await self._observation(first, begun_ms)
        found = diagnose(state, stuck_after_ms)
        offset = state.head_offset(found.queue) if found.queue is not None else None
        if found.queue is None or offset is None:
            return found
        return await self._with_head(found, found.queue, offset)

    async def _with_head(self, found: GroupDiagnosis, queue: MessageQueue, offset: int) -> GroupDiagnosis:
        try:
            messages = await self._admin.read_messages(queue, offset, max_messages=1)
        except (*_FAILURES, ConfigurationError):
            messages = []
        if not messages or messages[0].queue_offset != offset:
            sentence = f"the oldest unfinished message of {queue} has offset {offset:,}"
            return msgspec.structs.replace(found, evidence=(*found.evidence, sentence))
        head = HeadMessage(queue, offset, messages[0].message_id or "", tuple(messages[0].keys))
        keys = f", keys {', '.join(head.keys)}" if head.keys else ""
        sentence = (
            f"the oldest unfinished message of {queue} has offset {offset:,}{keys}, id {head.message_id}: "
            f"sprocketmq message show {head.message_id} --topic {queue.topic}"
        )
        return msgspec.structs.replace(found, evidence=(*found.evidence, sentence), head=head)

    async def _observation(self, first: Mapping[MessageQueue, _Position], begun_ms: int) -> GroupState:
        admin, group, proxy = self._admin, self._group, self._proxy
        reports = await self._reports(jstack=True)
        second = await self._positions(reports)
        now_ms = admin._options.clock.now_ms()
        connection = await admin.consumer_connection(group)
        subscribed = set(connection.subscription_table) if connection is not None else set()
        wanted = _wanted(reports) | {topic for topic in subscribed if not is_retry_topic(topic)}
        own = {queue: at for queue, at in second.items() if not is_retry_topic(queue.topic)}
        info = await admin.cluster_info() if proxy is None else None
        if info is not None:
            self._unknown += _rivals(info)
        strange = {queue.broker_name for queue in own} - self._configs.keys() if proxy is None else set[str]()
        refusing, unreached = await self._unknown_at(strange)
        waiting = await self._waiting(own)
        count, next_ms = await self._retries() if proxy is None else (None, None)
        # A proxy remembers a topic that did not exist, and would keep the first retries back, see ``make_retry_topic``.
        had_retries = proxy is None or retry_topic(group) in subscribed
        absent = await self._absent(wanted) if proxy is None else ()
        return GroupState(
            group,
            now_ms,
            now_ms - begun_ms,
            switched_off=tuple(sorted(name for name, config in self._configs.items() if not config.consume_enable)),
            unknown_at=tuple(refusing),
            unreached=tuple(unreached),
            gone=self._gone(reports, info) if info is not None else (),
            same_ids=_more_than_once(connection),
            absent=absent,
            unreadable=tuple(await self._unreadable(wanted - {name for name, _ in absent})),
            hidden=tuple(one for one in await self._hidden(own) if not wanted or one.topic in wanted),
            members=tuple(_member_state(group, client_id, report) for client_id, report in reports.items()),
            broadcasting=connection is not None and connection.message_model == bodies.MessageModel.BROADCASTING,
            queues={
                queue: _queue_state(at, first.get(queue), waiting.get(queue))
                for queue, at in own.items()
                if not wanted or queue.topic in wanted
            },
            retry_lag=sum(at.lag for queue, at in second.items() if is_retry_topic(queue.topic))
            if had_retries
            else None,
            retries_waiting=count,
            next_retry_ms=next_ms,
            last_error=await self._last_error() if had_retries else None,
            not_learned=tuple(self._unknown),
            proxy=proxy,
        )

    async def _reports(self, *, jstack: bool) -> dict[str, bodies.ConsumerRunningInfo | str]:
        """The running info of each member, or the reason why there is none."""

        async def ask(client_id: str) -> bodies.ConsumerRunningInfo | str:
            try:
                return await self._admin.running_info(self._group, client_id, jstack=jstack)
            except _FAILURES as error:
                return str(error)

        ids = await self._admin.consumer_ids(self._group)
        return dict(zip(ids, await all_ended(map(ask, ids)), strict=True))

    async def _positions(self, reports: _Reports) -> dict[MessageQueue, _Position]:
        """The position of the group in each queue: from the brokers, or from a member that is further and has not written its progress
        yet (members write it every 5 s, for the first time after 10 s)."""
        commits = _commits(reports)
        try:
            progress = await self._admin.consumer_progress(self._group)
        except GroupNotExist:
            raise
        except RemoteError as error:
            self._unknown.append(f"how far the group is: {error}")
            return {}
        found = {
            queue: _Position(at.broker_offset, max(at.consumer_offset, commits.get(queue, -1)), at.min_offset)
            for queue, at in progress.items()
        }
        for topic in _wanted(reports) - {queue.topic for queue in found}:  # brokers have no progress for these
            try:
                stats = await self._admin.topic_stats(topic)
            except _FAILURES as error:
                self._unknown.append(f"which queues topic {topic} has: {error}")
                continue
            for queue, offsets in stats.items():
                found[queue] = _Position(offsets.max_offset, commits.get(queue, -1), offsets.min_offset)
        return found

    async def _waiting(self, positions: Mapping[MessageQueue, _Position]) -> dict[MessageQueue, int]:
        found: dict[MessageQueue, int] = {}
        for topic in sorted({queue.topic for queue, at in positions.items() if at.lag}):
            try:
                spans = await self._admin.consume_time_span(topic, self._group)
            except _FAILURES as error:
                self._unknown.append(f"for how long messages of {topic} wait: {error}")
                continue
            # Java brokers count from 1970 if they find no message.
            found.update({one.message_queue: one.delay_time for one in spans if 0 < one.delay_time < _DECADES_MS})
        return found

    async def _absent(self, wanted: set[str]) -> tuple[tuple[str, str], ...]:
        """The topics that do not exist, each with a similar name."""
        try:
            known = set(await self._admin.topics()) if wanted else set()
        except _FAILURES as error:
            self._unknown.append(f"which topics exist: {error}")
            return ()
        return tuple(
            (topic, next(iter(difflib.get_close_matches(topic, known, 1)), "")) for topic in sorted(wanted - known)
        )

    async def _unreadable(self, wanted: set[str]) -> list[tuple[str, str]]:
        """The topics that the group may not consume, with the reason."""
        found: list[tuple[str, str]] = []
        for topic in sorted(wanted):
            try:
                for name, config in (await self._admin.topic_config(topic)).items():
                    if not is_readable(config.perm):
                        found.append((topic, f"its permission at {name} is {config.perm}, which lets nobody read it"))
                readable = await self._admin.group_readable(self._group, topic)
                found += [(topic, f"{name} forbids it to this group") for name, may in readable.items() if not may]
            except RequestNotServed:
                if not await self._admin.queues(topic):
                    found.append((topic, "it has no queue that may be read"))
            except RemoteError as error:
                if not is_older_than_5(error):  # 4.9 cannot forbid a topic to a group
                    self._unknown.append(f"whether topic {topic} may be read: {error}")
            except (NetworkError, RequestTimeout) as error:
                self._unknown.append(f"whether topic {topic} may be read: {error}")
        return found

    async def _hidden(self, positions: Mapping[MessageQueue, _Position]) -> list[MessageQueue]:
        """The queues with waiting messages that no route tells members to read."""
        found: list[MessageQueue] = []
        for topic in sorted({queue.topic for queue in positions}):
            waiting = {queue for queue, at in positions.items() if queue.topic == topic and at.lag}
            try:
                readable = set(await self._admin.queues(topic)) if waiting else set()
            except _FAILURES as error:
                self._unknown.append(f"which queues of topic {topic} may be read: {error}")
                continue
            found += sorted(waiting - readable) if readable else []  # else the topic may not be read at all
        return found

    async def _retries(self) -> tuple[int | None, int | None]:
        """How many retries wait for delivery, and when the first one is due."""
        try:
            waiting = await self._admin.waiting_retries()
        except (*_FAILURES, ConfigurationError) as error:
            self._unknown.append(f"how many retries wait: {error}")
            return None, None
        if not waiting.is_whole:
            self._unknown.append("how many retries wait: more messages are delayed than were looked at")
        return waiting.counts.get(self._group, 0), waiting.next_ms.get(self._group)

    def _gone(self, reports: _Reports, info: bodies.ClusterInfo) -> tuple[str, ...]:
        """A clause about each broker that was lost, or of which members read queues that no name server knows."""
        gone = [one for one in gone_brokers(info) if one.broker_id == MASTER_ID]
        self._unknown += [f"what a broker holds that is gone: {one.absence}" for one in gone if one.has_left]
        held = {
            queue.broker_name for report in reports.values() if not isinstance(report, str) for queue in report.mq_table
        }
        strangers = held - info.broker_addr_table.keys() - {one.broker_name for one in gone}
        return (
            *(one.absence or "" for one in gone if not one.has_left),
            *(f"{name} is not registered, and members read its queues" for name in sorted(strangers)),
        )

    async def _unknown_at(self, brokers: set[str]) -> tuple[list[str], list[str]]:
        """Those of the brokers that do not know the group which do not create it by themselves, and those which no member has reached."""
        refusing: list[str] = []
        for name, address in (await self._admin._masters(None, None) if brokers else {}).items():
            try:
                if (
                    name in brokers
                    and (await self._admin.broker_config(address))["autoCreateSubscriptionGroup"] == "false"
                ):
                    refusing.append(name)
            except (*_FAILURES, KeyError):
                refusing.append(name)  # as far as is known
        return refusing, sorted(brokers - set(refusing))

    async def _last_error(self) -> str | None:
        newest: MessageExt | None = None
        try:
            for queue in await self._admin.queues(retry_topic(self._group)):
                end = await self._admin.max_offset(queue)
                for one in await self._admin.read_messages(queue, max(0, end - 1), max_messages=1):
                    if newest is None or one.store_timestamp_ms > newest.store_timestamp_ms:
                        newest = one
        except (*_FAILURES, ConfigurationError):  # there was no retry yet
            return None
        return newest.properties.get(props.RETRY_REASON) if newest is not None else None


def _wanted(reports: _Reports) -> set[str]:
    """The topics that members subscribe to."""
    return {
        one.topic
        for report in reports.values()
        if not isinstance(report, str)
        for one in report.subscription_set
        if not is_retry_topic(one.topic)
    }


def _more_than_once(connection: bodies.ConsumerConnection | None) -> tuple[str, ...]:
    """The client ids that more than one connection of a broker has."""
    counts = Counter(one.client_id for one in (connection.connection_set if connection is not None else ()))
    return tuple(sorted(client_id for client_id, count in counts.items() if count > 1))


def _commits(reports: _Reports) -> dict[MessageQueue, int]:
    """The members' progress in memory. If several members read a queue (broadcasting), the smallest one."""
    found: dict[MessageQueue, int] = {}
    for report in reports.values():
        for queue, held in ({} if isinstance(report, str) else report.mq_table).items():
            if held.commit_offset >= 0:
                found[queue] = min(held.commit_offset, found.get(queue, held.commit_offset))
    return found


def _queue_state(at: _Position, before: _Position | None, waiting_ms: int | None) -> QueueState:
    known = at.consumer_offset >= 0
    return QueueState(
        at.broker_offset,
        at.consumer_offset if known else at.min_offset or None,
        at.consumer_offset - before.consumer_offset if known and before and before.consumer_offset >= 0 else None,
        at.broker_offset - before.broker_offset if before else None,
        waiting_ms if known else None,
    )


def _member_state(group: str, client_id: str, info: bodies.ConsumerRunningInfo | str) -> MemberState:
    """A member, from its running info; the keys of ``properties`` are Java's names of options."""
    if isinstance(info, str):
        return MemberState(client_id, silent_because=info)
    properties = info.properties
    statuses = [status for topic, status in info.status_table.items() if not is_retry_topic(topic)] or list(
        info.status_table.values()
    )
    return MemberState(
        client_id,
        subscriptions={
            one.topic: f"{one.expression_type or 'TAG'}: {_normal(one.sub_string)}"
            for one in info.subscription_set
            if not is_retry_topic(one.topic)
        },
        queues={queue: _held(held) for queue, held in info.mq_table.items() if not held.droped},
        orderly=properties.get(bodies.PROP_CONSUME_ORDERLY, "").lower() == "true"
        if bodies.PROP_CONSUME_ORDERLY in properties
        else None,
        threads=int(threads) if (threads := properties.get(bodies.PROP_THREADPOOL_CORE_SIZE, "")).isdigit() else None,
        polls=properties.get(bodies.PROP_CONSUME_TYPE) == bodies.ConsumeType.CONSUME_ACTIVELY.value,
        limits=_limits(properties),
        ok_tps=sum(status.consume_ok_tps for status in info.status_table.values()) if statuses else None,
        failed_tps=sum(status.consume_failed_tps for status in info.status_table.values()) if statuses else None,
        failed_in_hour=sum(status.consume_failed_msgs for status in info.status_table.values()) if statuses else None,
        listener_stacks=listener_stacks(info.jstack, group) if info.jstack else None,
        oldest_call_ms=_count(info, bodies.OLDEST_CALL_TIMESTAMP),
        paused=info.user_consumer_info.get(bodies.PAUSED) == "true",
        ok_count=_count(info, bodies.CONSUMED_SINCE_START),
        failed_count=_count(info, bodies.FAILED_SINCE_START),
        last_failure=info.user_consumer_info.get(bodies.LAST_FAILURE),
        last_failure_ms=_count(info, bodies.LAST_FAILURE_TIMESTAMP),
    )


def _rivals(info: bodies.ClusterInfo) -> list[str]:
    """A sentence for each broker of which there are two, so that the two observations may be of different ones."""
    return [
        rivalry(name, number, (info.broker_addr_table[name].broker_addrs.get(number, "?"), *addresses))
        for name, by_id in (info.rivals or {}).items()
        for number, addresses in by_id.items()
    ]


def _count(info: bodies.ConsumerRunningInfo, key: str) -> int | None:
    text = info.user_consumer_info.get(key, "")
    return int(text) if text.isdigit() else None


def _normal(expression: str) -> str:
    """A subscription with sorted tags, because their order does not matter."""
    return " || ".join(sorted(part.strip() for part in expression.split("||"))) or "*"


def _held(held: bodies.ProcessQueueInfo) -> HeldQueue:
    """The number of cached messages. Java counts those of an orderly listener separately."""
    cached = held.cached_msg_count + held.transaction_msg_count
    first = [held.cached_msg_min_offset] * bool(held.cached_msg_count)
    first += [held.transaction_msg_min_offset] * bool(held.transaction_msg_count)
    return HeldQueue(
        cached,
        min(first, default=None),
        held.cached_msg_size_in_mi_b,
        held.cached_msg_max_offset - held.cached_msg_min_offset if held.cached_msg_count else 0,
        held.locked,
        held.last_lock_timestamp,
        held.last_consume_timestamp,
    )


def _limits(properties: Mapping[str, str]) -> FlowLimits | None:
    """The limits of flow control; None if a member has other limits, such as a pull consumer."""
    try:
        return FlowLimits(
            int(properties["pullThresholdForQueue"]),
            int(properties["pullThresholdSizeForQueue"]) * MIB,
            int(properties["consumeConcurrentlyMaxSpan"]),
        )
    except (KeyError, ValueError, ConfigurationError):
        return None
