"""Offsets of queues and progress of groups by an administrator (mqadmin: resetOffsetByTime, skipAccumulatedMessage, cloneGroupOffset).

Moving a group. A 5.x broker moves it by itself, members or none: the next pull is answered with the new place. A 4.9 broker tells
the members, and can do so only while one is online; while none is, its stored progress is set instead, as mqadmin does. A 4.9 broker
cannot move one queue of a group that is online: it takes the request for one of all queues, so it is never sent there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from sprocketmq.client.admin.group_progress import GroupProgressRequests
from sprocketmq.client.settings.validators import check_group, check_range, check_time_ms
from sprocketmq.errors import ConfigurationError, RemoteError
from sprocketmq.wire import headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["OffsetRequests"]

_MAX: Final = 1 << 62
_THE_END: Final = -1
_CALL_TIMEOUT_MS: Final = 15_000


class OffsetRequests(GroupProgressRequests):
    """The part of AsyncAdmin about offsets."""

    # -- queues ----------------------------------------------------------------------------------------------------------------

    async def min_offset(self, queue: MessageQueue) -> int:
        """The oldest message that is still there.

        Args:
            queue: of which topic, broker and number.

        Returns:
            Its offset.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return await self._api.min_offset(await self._address_of(queue), queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """One behind the newest message.

        Args:
            queue: of which topic, broker and number.

        Returns:
            The offset.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return await self._api.max_offset(await self._address_of(queue), queue)

    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int | datetime, *, last: bool = False) -> int:
        """The first message stored at or after a time; when there is none, one behind the newest (a 4.9 broker: the newest).

        Args:
            queue: of which topic, broker and number.
            timestamp_ms: milliseconds since 1970, 0 for the beginning, or a datetime (without a zone it is local time).
            last: of several messages of that very millisecond the last one (5.x).

        Returns:
            The offset.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.SearchOffsetRequestHeader(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=_ms(timestamp_ms),
            boundary_type="upper" if last else None,
        )
        address = await self._address_of(queue)
        return (await self._ask_header(address, requests.offsets.SEARCH_OFFSET_BY_TIMESTAMP, header)).offset

    async def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """When the oldest message was stored, -1 for an empty queue.

        Args:
            queue: of which topic, broker and number.

        Returns:
            Milliseconds since 1970, or -1.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return await self._api.earliest_store_time(await self._address_of(queue), queue)

    # -- progress of groups ----------------------------------------------------------------------------------------------------

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The next offset ``group`` will consume; None when it has no progress there.

        Args:
            group: the consumer group.
            queue: of which topic, broker and number.

        Returns:
            The offset, or None.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        offset = await self._api.query_consumer_offset(await self._address_of(queue), check_group(group), queue)
        if not offset:  # of a young topic a broker says 0, whoever asks
            await self._check_exists(group)
        return offset

    async def set_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the progress of ``group``; its members must be down, or they overwrite it with theirs: see ``reset_offset``.

        Args:
            group: the consumer group.
            queue: of which topic, broker and number.
            offset: the next one to consume.

        Raises:
            GroupNotExist, TopicNotExist: a 5.x broker does not know it; see ``create_group`` (4.9 takes any).
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_range("offset", offset, 0, _MAX)
        await self._api.update_consumer_offset(await self._address_of(queue), check_group(group), queue, offset)

    async def reset_offset_by_time(
        self, group: str, topic: str, timestamp_ms: int | datetime, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Let ``group`` go on in ``topic`` with what was stored from a time on, whether members are online or not
        (mqadmin: resetOffsetByTime).

        Args:
            group: the consumer group.
            topic: its name.
            timestamp_ms: milliseconds since 1970, 0 for the beginning, or a datetime (without a zone it is local time).
            force: False moves no queue forward (4.9; a 5.x broker always moves).

        Returns:
            Where each queue goes on.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            RemoteError: a broker refused.
            ConfigurationError: an argument is wrong; nothing was asked.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return await self._reset(group, topic, _ms(timestamp_ms), force)

    async def skip_accumulated(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Let ``group`` forget what waits in ``topic`` and go on with what comes (mqadmin: skipAccumulatedMessage).

        Args:
            group: the consumer group.
            topic: its name.

        Returns:
            Where each queue goes on.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return await self._reset(group, topic, _THE_END, True)

    async def _reset(self, group: str, topic: str, timestamp_ms: int, force: bool) -> dict[MessageQueue, int]:
        header = headers.ResetOffsetRequestHeader(
            topic=topic, group=check_group(group), timestamp=timestamp_ms, is_force=force
        )

        async def ask(name: str, address: str) -> Mapping[MessageQueue, int]:
            try:
                answer = await self._ask(address, requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET, header)
            except RemoteError as error:
                # 4.9 wants members online, and progress in each queue to compare with.
                if error.code == ResponseCode.CONSUMER_NOT_ONLINE or (
                    error.code == ResponseCode.SYSTEM_ERROR and not await self._api.consumer_ids(address, group)
                ):
                    await self._check_exists(group)
                    return await self._reset_stored(name, address, group, topic, timestamp_ms, force)
                raise
            return requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET.answer_body_in(answer).offset_table

        masters = await self._masters_of(topic)
        tables = await asyncio.gather(*(ask(name, address) for name, address in masters.items()))
        return dict(sorted((item for table in tables for item in table.items()), key=lambda item: item[0]))

    async def _reset_stored(
        self, name: str, address: str, group: str, topic: str, timestamp_ms: int, force: bool
    ) -> dict[MessageQueue, int]:
        """Nobody of the group is online at this broker: set what it will read when it comes (Java: resetOffsetByTimestampOld)."""
        table: dict[MessageQueue, int] = {}
        for queue in [queue for queue in await self._queues_of(topic) if queue.broker_name == name]:
            if timestamp_ms == _THE_END:
                offset = await self._api.max_offset(address, queue)
            else:
                offset = await self._api.search_offset(address, queue, timestamp_ms)
            stored = await self._api.query_consumer_offset(address, group, queue)
            if not force and stored is not None and stored < offset:
                offset = stored
            await self._api.update_consumer_offset(address, group, queue, offset)
            table[queue] = offset
        return table

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        self._routes.table.update(topic, await self._route(topic))
        return list(self._routes.table.subscribe_queues(topic))

    async def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let ``group`` go on at ``offset`` in one queue (mqadmin: resetOffsetByTime -b -q -o).

        Args:
            group: the consumer group.
            queue: of which topic, broker and number.
            offset: the next one to consume.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: members are online and the broker is 4.9, which can only move whole topics: stop them first.
            RemoteError: the offset is not between the queue's oldest message and its end (5.x).
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_range("offset", offset, 0, _MAX)
        address = await self._address_of(queue)
        if await self._moves_single_queues(address, queue.topic):
            await self._api.update_consumer_offset(address, check_group(group), queue, offset)
            header = headers.ResetOffsetRequestHeader(
                topic=queue.topic, group=group, timestamp=0, is_force=True, queue_id=queue.queue_id, offset=offset
            )
            await self._ask(address, requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET, header)
            return
        if members := await self._api.consumer_ids(address, check_group(group)):
            raise ConfigurationError(
                f"group {group!r} has members online ({', '.join(sorted(members))}) and {address} is a 4.x broker, which can move "
                "only whole topics; stop them first, or use reset_offset_by_time"
            )
        await self._check_exists(group)
        await self._api.update_consumer_offset(address, group, queue, offset)

    async def _moves_single_queues(self, address: str, topic: str) -> bool:
        """Whether a broker speaks 5.x, found by asking something harmless that 4.9 does not know: what it calls itself is no promise."""
        try:
            await self._ask(address, requests.topics.GET_TOPIC_CONFIG, headers.GetTopicConfigRequestHeader(topic=topic))
        except RemoteError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return False
            raise
        return True

    async def clone_offsets(self, source: str, destination: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Let ``destination`` begin where ``source`` is, in one topic or in all (mqadmin: cloneGroupOffset).

        Members of ``destination`` must be down, and a 5.x broker must know it: see ``create_group``. The retry topic of ``source`` is not
        taken along.

        Args:
            source: the group whose progress is taken.
            destination: the group that gets it.
            topic: in this topic; default in all topics of ``source``.

        Returns:
            Where each queue begins.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_group(destination)
        cloned: dict[MessageQueue, int] = {}
        for queue, progress in (await self.consumer_progress(source, topic)).items():
            if progress.consumer_offset >= 0 and not queue.topic.startswith("%RETRY%"):
                address = await self._address_of(queue)
                await self._api.update_consumer_offset(address, destination, queue, progress.consumer_offset)
                cloned[queue] = progress.consumer_offset
        return cloned

    async def consume_status(
        self, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """The progress in memory of each member that is online, or of one, by client id (mqadmin: getConsumerStatus).

        Args:
            topic: its name.
            group: the consumer group.
            client_id: of one member; default all that are online.

        Returns:
            The next offset of each queue, by client id.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.GetConsumerStatusRequestHeader(
            topic=topic, group=check_group(group), client_addr=client_id or ""
        )
        found: dict[str, dict[MessageQueue, int]] = {}
        for address in (await self._masters_of(topic)).values():
            asked = requests.offsets.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
            answer = await self._ask_body(address, asked, header, timeout_ms=_CALL_TIMEOUT_MS)
            for member, offsets in answer.consumer_table.items():
                found.setdefault(member, {}).update(offsets)
        return dict(sorted(found.items()))


def _ms(time: int | datetime) -> int:
    return check_time_ms("timestamp_ms", time.astimezone() if isinstance(time, datetime) else time, or_zero=True)
