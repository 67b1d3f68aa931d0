# SPDX-License-Identifier: Apache-2.0
"""Offsets of queues and progress of groups by an administrator (mqadmin: resetOffsetByTime, skipAccumulatedMessage,
cloneGroupOffset).

How a group is moved: a 5.x broker does it by itself, with or without members, and answers the next pull with the new offset. A
4.9 broker pushes the new offsets to the members, which must be online; for a group without members its stored progress is set
instead, as mqadmin does. A 4.9 broker cannot move one queue of a group that is online: it would move all queues, so that request
is never sent. Behind a proxy the stored progress of a group without members is set, too; one that is online cannot be moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from sprocketmq.client.admin.session import AdminRequests, is_older_than_5
from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.group_members import consumer_ids
from sprocketmq.client.remoting.queue_offsets import commit_offset, committed_offset, queue_ends
from sprocketmq.client.remoting.server_kind import not_served
from sprocketmq.client.settings.validators import check_group, check_range, check_time_ms
from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.errors import ConfigurationError, RemoteError, RequestNotServed
from sprocketmq.wire import headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP

_MAX: Final = 1 << 62
_THE_END: Final = -1
_CALL_TIMEOUT_MS: Final = 15_000


class OffsetRequests(AdminRequests):
    """The part of AsyncAdmin about offsets."""

    # -- queues ----------------------------------------------------------------------------------------------------------------

    async def min_offset(self, queue: MessageQueue) -> int:
        """The oldest message that is still there."""
        return (await self._cluster.ask_queue(GET_MIN_OFFSET, queue, at=await self._address_of(queue))).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """The end of a queue: one more than the offset of its newest message."""
        return (await self._cluster.ask_queue(GET_MAX_OFFSET, queue, at=await self._address_of(queue))).offset

    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int | datetime, *, last: bool = False) -> int:
        """The offset of the first message stored at or after a time; the end of the queue if there is none (with 4.9, the newest
        message). ``last``: the last one of several messages of that millisecond instead (5.x)."""
        timestamp_ms = _ms(timestamp_ms)
        return (
            await self._cluster.ask_queue(
                SEARCH_OFFSET_BY_TIMESTAMP,
                queue,
                at=await self._address_of(queue),
                timestamp=timestamp_ms,
                boundary_type="upper" if last else None,
            )
        ).offset

    async def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """The store time of the oldest message in milliseconds since 1970; -1 for an empty queue."""
        address = await self._address_of(queue)
        try:
            asked = requests.offsets.GET_EARLIEST_MSG_STORETIME
            return (await self._cluster.ask_queue(asked, queue, at=address)).timestamp
        except RequestNotServed:  # by a proxy
            oldest = (await self._cluster.ask_queue(GET_MIN_OFFSET, queue, at=address)).offset
            return await self._store_time_ms(address, queue, oldest)

    # -- progress of groups ----------------------------------------------------------------------------------------------------

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset of the next message that ``group`` consumes; None if it has no progress there."""
        offset = await committed_offset(self._cluster, check_group(group), queue, at=await self._address_of(queue))
        if not offset:  # for a new topic brokers answer 0 for any group
            await self._check_exists(group)
        return offset

    async def set_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the offset of the next message that ``group`` consumes. No member may be online, because it would overwrite it (see
        ``reset_offset``); a 5.x broker must know the group."""
        check_range("offset", offset, 0, _MAX)
        await commit_offset(self._cluster, check_group(group), queue, offset, at=await self._address_of(queue))

    async def reset_offset_by_time(
        self, group: str, topic: str, timestamp_ms: int | datetime, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Let ``group`` continue in ``topic`` with the messages stored from a time on. Members may be online (mqadmin:
        resetOffsetByTime). ``force`` False: do not move queues forward (only 4.9; 5.x brokers always move them). Returns the new
        offset by queue."""
        return await self._reset(group, topic, _ms(timestamp_ms), force)

    async def skip_accumulated(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Let ``group`` skip what waits in ``topic`` (mqadmin: skipAccumulatedMessage). Returns the new offset by queue."""
        return await self._reset(group, topic, _THE_END, True)

    async def _reset(self, group: str, topic: str, timestamp_ms: int, force: bool) -> dict[MessageQueue, int]:
        header = headers.ResetOffsetRequestHeader(
            topic=topic, group=check_group(group), timestamp=timestamp_ms, is_force=force
        )

        async def ask(name: str, address: str) -> Mapping[MessageQueue, int]:
            try:
                answer = await self._cluster.ask(requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET, header, at=address)
            except RemoteError as error:
                # 4.9 requires members online, and progress in each queue.
                if error.code == ResponseCode.CONSUMER_NOT_ONLINE or (
                    error.code == ResponseCode.SYSTEM_ERROR and not await consumer_ids(self._cluster, address, group)
                ):
                    await self._check_exists(group)
                    return await self._reset_stored(name, address, group, topic, timestamp_ms, force)
                raise
            return (await answer_body(requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET, answer)).offset_table

        masters = await self._masters_of(topic)
        try:
            tables = await all_ended(ask(name, address) for name, address in masters.items())
        except RequestNotServed as error:
            await self._check_offline(group, error.address)
            set_each = (
                self._reset_stored(name, address, group, topic, timestamp_ms, force)
                for name, address in masters.items()
            )
            tables = await all_ended(set_each)
        return dict(sorted((item for table in tables for item in table.items()), key=lambda item: item[0]))

    async def _check_offline(self, group: str, proxy: str) -> None:
        """Raises RequestNotServed if members are connected to the proxy, which moves no group that is online."""
        if members := await consumer_ids(self._cluster, proxy, group):
            raise not_served(
                proxy,
                requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET,
                f"members of group {group!r} are online ({', '.join(sorted(members))}), so its offsets cannot be set; stop them first",
            )

    async def _reset_stored(
        self, name: str, address: str, group: str, topic: str, timestamp_ms: int, force: bool
    ) -> dict[MessageQueue, int]:
        """Set the stored offsets of a group that has no member online at this broker (Java: resetOffsetByTimestampOld)."""
        table: dict[MessageQueue, int] = {}
        for queue in [queue for queue in await self._queues_of(topic) if queue.broker_name == name]:
            if timestamp_ms == _THE_END:
                offset = (await self._cluster.ask_queue(GET_MAX_OFFSET, queue, at=address)).offset
            else:
                offset = (
                    await self._cluster.ask_queue(SEARCH_OFFSET_BY_TIMESTAMP, queue, at=address, timestamp=timestamp_ms)
                ).offset
            stored = await committed_offset(self._cluster, group, queue, at=address)
            if not force and stored is not None and stored < offset:
                offset = stored
            await commit_offset(self._cluster, group, queue, offset, at=address)
            table[queue] = offset
        return table

    async def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let ``group`` continue at ``offset`` in one queue (mqadmin: resetOffsetByTime -b -q -o). Raises ConfigurationError (the
        offset is not between the queue's oldest message and its end; or members are online, and the broker is 4.9, which can only
        reset whole topics)."""
        check_range("offset", offset, 0, _MAX)
        check_group(group)
        address = await self._address_of(queue)
        # 5.x brokers check it with the reset, after they took the progress, and 4.9 does not. Beyond the end it would pass over messages
        # that are still to come.
        low, high = await queue_ends(self._cluster, queue, at=address)
        check_range("offset", offset, low, high)
        try:
            moves_single_queues = await self._moves_single_queues(address, queue.topic)
        except RequestNotServed as error:
            await self._check_offline(group, error.address)
            await commit_offset(self._cluster, group, queue, offset, at=address)
            return
        if moves_single_queues:
            await commit_offset(self._cluster, group, queue, offset, at=address)
            header = headers.ResetOffsetRequestHeader(
                topic=queue.topic, group=group, timestamp=0, is_force=True, queue_id=queue.queue_id, offset=offset
            )
            await self._cluster.ask(requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET, header, at=address)
            return
        if members := await consumer_ids(self._cluster, address, group):
            raise ConfigurationError(
                f"group {group!r} has members online ({', '.join(sorted(members))}) and {address} is a 4.x broker, which can move "
                "only whole topics; stop them first, or use reset_offset_by_time"
            )
        await self._check_exists(group)
        await commit_offset(self._cluster, group, queue, offset, at=address)

    async def _moves_single_queues(self, address: str, topic: str) -> bool:
        try:
            await self._cluster.ask(
                requests.topics.GET_TOPIC_CONFIG, headers.GetTopicConfigRequestHeader(topic=topic), at=address
            )
        except RemoteError as error:
            if is_older_than_5(error):
                return False
            raise
        return True

    async def clone_offsets(self, source: str, destination: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Copy the progress of ``source`` to ``destination``, in one ``topic`` or (default) in all (mqadmin: cloneGroupOffset).
        No member of ``destination`` may be online, and 5.x brokers must know it. Progress in the retry topic is not copied.
        Returns the new offset by queue."""
        check_group(destination)
        cloned: dict[MessageQueue, int] = {}
        for queue, progress in (await self._admin.consumer_progress(source, topic)).items():
            if progress.consumer_offset >= 0 and not is_retry_topic(queue.topic):
                address = await self._address_of(queue)
                await commit_offset(self._cluster, destination, queue, progress.consumer_offset, at=address)
                cloned[queue] = progress.consumer_offset
        return cloned

    async def consume_status(
        self, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """By client id: the next offset by queue in a member's memory; ``client_id``: default: all (mqadmin: getConsumerStatus)."""
        header = headers.GetConsumerStatusRequestHeader(
            topic=topic, group=check_group(group), client_addr=client_id or ""
        )
        found: dict[str, dict[MessageQueue, int]] = {}
        for address in (await self._masters_of(topic)).values():
            asked = requests.offsets.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
            answer = await self._cluster.ask_body(asked, header, at=address, timeout_ms=_CALL_TIMEOUT_MS)
            for member, offsets in answer.consumer_table.items():
                found.setdefault(member, {}).update(offsets)
        return dict(sorted(found.items()))


def _ms(time: int | datetime) -> int:
    return check_time_ms("timestamp_ms", time.astimezone() if isinstance(time, datetime) else time, or_zero=True)
