"""Stored messages by an administrator: found, read, followed, consumed once more (mqadmin: queryMsgById, queryMsgByKey, printMsg, ...)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sprocketmq.client.admin.offsets import OffsetRequests
from sprocketmq.client.admin.topic_traffic import TopicTrafficRequests
from sprocketmq.client.read.pull_loop import decode_pull
from sprocketmq.client.settings.validators import check_group, check_range, check_text, check_time_ms
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.core.group.subscription import FilterExpression, build_subscription, matches_tags
from sprocketmq.errors import RemoteError
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageExt, MessageQueue, format_host
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.record import decode_record, decode_records
from sprocketmq.wire.trace import TRACE_TOPIC, TraceRecord, decode_trace

__all__ = ["MessageRequests", "MessageTrack", "TrackType"]

_FOREVER_MS: Final = (1 << 63) - 1
_CALL_TIMEOUT_MS: Final = 15_000
# MixAll.TOOLS_CONSUMER_GROUP: brokers have it from the start.
_TOOLS_GROUP: Final = "TOOLS_CONSUMER"


class TrackType(str, Enum):
    """What became of a message in one group (Java: TrackType)."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    """The group is past it, but its filter leaves it out."""
    PULL = "PULL"
    """A pull consumer: only its application knows."""
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    """Each member keeps its own progress."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class MessageTrack:
    """What became of a message in one group."""

    group: str
    track_type: TrackType


class MessageRequests(TopicTrafficRequests, OffsetRequests):
    """The part of AsyncAdmin about stored messages."""

    async def view_message(self, offset_message_id: str) -> MessageExt:
        """The stored copy that ``offset_message_id`` names (mqadmin: queryMsgById).

        Args:
            offset_message_id: of the stored copy: ``offset_message_id`` of a send's result, or of a received message.

        Returns:
            The message as it is stored.

        Raises:
            ConfigurationError: it is no offset message id; a unique key (``message_id``) is for ``messages_by_unique_key``.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        host, offset = decode_offset_message_id(offset_message_id)
        return decode_record(await self._api.view_message(format_host(*host), offset))

    @staticmethod
    def decode_message_id(offset_message_id: str) -> tuple[str, int]:
        """``(host:port of the broker, commit log offset)`` that an offset message id names; asks nobody (mqadmin: DecodeMessageId).

        Args:
            offset_message_id: of the stored copy: ``offset_message_id`` of a send's result, or of a received message.

        Returns:
            Address and offset.

        Raises:
            ConfigurationError: it is no offset message id.
        """
        host, offset = decode_offset_message_id(check_text("offset_message_id", offset_message_id))
        return format_host(*host), offset

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = _FOREVER_MS,
    ) -> list[MessageExt]:
        """Messages of ``topic`` with this key, stored between two times, by the brokers' index, oldest first (mqadmin: queryMsgByKey).

        Args:
            topic: its name.
            key: one of the message's ``keys``.
            max_messages: at most so many, the newest.
            begin_ms: stored at this time or later, milliseconds since 1970.
            end_ms: stored at this time or before, milliseconds since 1970.

        Returns:
            The messages.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        found = await self._query(topic, key, max_messages, begin_ms, end_ms, unique=False)
        return [message for message in found if key in message.keys]

    async def messages_by_unique_key(self, topic: str, unique_key: str) -> list[MessageExt]:
        """The stored copies of the message with this ``message_id``, oldest first: more than one after a send that was tried again
        (mqadmin: queryMsgByUniqueKey).

        Args:
            topic: its name.
            unique_key: the ``message_id``.

        Returns:
            The copies.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        found = await self._query(topic, unique_key, 32, 0, _FOREVER_MS, unique=True)
        return [message for message in found if message.message_id == unique_key]

    async def message_trace(
        self,
        message_id: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = _FOREVER_MS,
    ) -> list[TraceRecord]:
        """Who sent and who consumed a message, by what clients of any language told the trace topic, oldest first
        (mqadmin: queryMsgTraceById).

        Args:
            message_id: that of the message (not of a stored copy).
            trace_topic: where the clients' traces go.
            max_messages: look at so many trace messages, the newest.
            begin_ms: stored at this time or later, milliseconds since 1970.
            end_ms: stored at this time or before, milliseconds since 1970.

        Returns:
            One record for each send, and for each call of a listener before and after it.

        Raises:
            TopicNotExist: nobody has traced anything there yet.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        found = await self._query(trace_topic, message_id, max_messages, begin_ms, end_ms, unique=False)
        records = [
            record for message in found for record in decode_trace(message.body) if record.message_id == message_id
        ]
        return sorted(records, key=lambda record: record.timestamp_ms)

    async def _query(
        self, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int, *, unique: bool
    ) -> list[MessageExt]:
        if end_ms != _FOREVER_MS:
            check_time_ms("end_ms", end_ms)
        header = headers.QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=check_range("max_messages", max_messages, 1, 10_000),
            begin_timestamp=check_time_ms("begin_ms", begin_ms, or_zero=True),
            end_timestamp=check_range("end_ms", end_ms, begin_ms, _FOREVER_MS),
        )

        async def ask(name: str, address: str) -> list[MessageExt]:
            command = requests.messages.QUERY_MESSAGE.command(header)
            command.ext_fields = {**command.ext_fields, headers.UNIQUE_KEY_QUERY: str(unique).lower()}
            answer = await self._api.invoke(address, command, self._api.timeout_ms * 3)
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return []
            if answer.code != ResponseCode.SUCCESS:
                raise RemoteError(answer.code, answer.remark, address)
            return decode_records(answer.body, name)

        masters = await self._masters_of(topic)
        answers = await asyncio.gather(*(ask(name, address) for name, address in masters.items()))
        # The index compares hashes, so the callers compare keys; and a broker's index may hold another topic of this hash.
        found = (message for answer in answers for message in answer if message.topic == topic)
        return sorted(found, key=lambda message: (message.store_timestamp_ms, message.commit_log_offset))[
            -max_messages:
        ]

    async def message_at(self, queue: MessageQueue, offset: int) -> MessageExt | None:
        """The message at one place of a queue; None when there is none (mqadmin: queryMsgByOffset).

        Args:
            queue: of which topic, broker and number.
            offset: its place in the queue.

        Returns:
            The message, or None.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        messages, _ = await self._read(queue, check_range("offset", offset, 0, _FOREVER_MS), 1, "*")
        return messages[0] if messages and messages[0].queue_offset == offset else None

    async def read_messages(
        self,
        queue: MessageQueue,
        begin_offset: int | None = None,
        *,
        end_offset: int | None = None,
        max_messages: int = 32,
        expression: FilterExpression | str = "*",
    ) -> list[MessageExt]:
        """Messages of a queue in order, without a group and without progress (mqadmin: printMsg, printMsgByQueue, consumeMessage).

        For whole topics use QueueReader, which is made for speed.

        Args:
            queue: of which topic, broker and number.
            begin_offset: default the oldest message.
            end_offset: read up to here, exclusive; default the end as it is now.
            max_messages: at most so many.
            expression: tags as ``"a || b"``, or ``sql92("...")``.

        Returns:
            The messages.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_range("max_messages", max_messages, 1, 1_000_000)
        low, high = await asyncio.gather(self.min_offset(queue), self.max_offset(queue))
        at = max(low, low if begin_offset is None else begin_offset)
        end = high if end_offset is None else min(end_offset, high)
        found: list[MessageExt] = []
        while at < end and len(found) < max_messages:
            messages, behind = await self._read(queue, at, max_messages - len(found), expression)
            found += [message for message in messages if message.queue_offset < end]
            if behind <= at:
                break
            at = behind
        return found[:max_messages]

    async def read_onward(
        self,
        positions: Mapping[MessageQueue, int],
        *,
        max_messages: int = 32,
        expression: FilterExpression | str = "*",
    ) -> tuple[list[MessageExt], dict[MessageQueue, int]]:
        """One pull at each of these queues at once, without a group and without progress, to follow a topic (mqadmin:
        consumeMessage).

        Args:
            positions: where to read on, by queue; what lies before the oldest message begins there.
            max_messages: at most so many of each queue; a broker gives 32 in one pull by default.
            expression: tags as ``"a || b"``, or ``sql92("...")``.

        Returns:
            The messages that are there, in the order in which they were stored, and where to read on: behind them, and behind what the
            filter left out.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_range("max_messages", max_messages, 1, 1_000)
        queues = list(positions)
        answers = await asyncio.gather(
            *(self._read(queue, positions[queue], max_messages, expression) for queue in queues)
        )
        found = [message for messages, _ in answers for message in messages]
        found.sort(key=lambda message: (message.store_timestamp_ms, message.broker_name, message.commit_log_offset))
        return found, {queue: behind for queue, (_, behind) in zip(queues, answers, strict=True)}

    async def _read(
        self, queue: MessageQueue, offset: int, count: int, expression: FilterExpression | str
    ) -> tuple[list[MessageExt], int]:
        """The messages of one pull, and where the next one begins."""
        subscription = build_subscription(queue.topic, expression, 0)
        result = await self._api.read_queue(
            await self._address_of(queue),
            _TOOLS_GROUP,
            queue,
            offset,
            min(count, 32),
            expression=subscription.sub_string,
            expression_type=subscription.expression_type,
            sub_version=subscription.sub_version,
        )
        if result.status is not PullStatus.FOUND:
            return [], result.next_begin_offset
        return decode_pull(result, queue, subscription, _TOOLS_GROUP), result.next_begin_offset

    async def message_track(self, message: MessageExt) -> list[MessageTrack]:
        """What became of a message in each group that reads its topic (mqadmin: queryMsgById prints it).

        Args:
            message: as a lookup returned it.

        Returns:
            A row for each group.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        groups = await self.consumers_of(message.topic)
        return [MessageTrack(group, await self._track(message, group)) for group in groups]

    async def _track(self, message: MessageExt, group: str) -> TrackType:
        connection = await self._connection(group)
        if connection is None:
            return TrackType.NOT_ONLINE
        if connection.message_model == bodies.MessageModel.BROADCASTING:
            return TrackType.CONSUME_BROADCASTING
        if connection.consume_type == bodies.ConsumeType.CONSUME_ACTIVELY:
            return TrackType.PULL
        for queue, progress in (await self.consumer_progress(group, message.topic)).items():
            here = (message.topic, message.queue_id) == (queue.topic, queue.queue_id)
            if (
                here
                and message.broker_name in ("", queue.broker_name)
                and progress.consumer_offset > message.queue_offset
            ):
                subscription = connection.subscription_table.get(message.topic)
                if subscription is None or matches_tags(subscription, message.tags):
                    return TrackType.CONSUMED
                return TrackType.CONSUMED_BUT_FILTERED
        return TrackType.NOT_CONSUME_YET

    async def consume_directly(
        self, group: str, client_id: str, message: MessageExt | str
    ) -> bodies.ConsumeMessageDirectlyResult:
        """Let one member run its listener on a stored message, now; progress and retries stay as they are
        (mqadmin: queryMsgById -g -d).

        Args:
            group: the consumer group.
            client_id: of the member, ``ip@instanceName``.
            message: as a lookup returned it, or its offset message id.

        Returns:
            What the listener made of it, and how long that took.

        Raises:
            RemoteError: the member is not online, is no push consumer, or did not answer within 10 s.
            ConfigurationError: an argument is wrong; nothing was asked.
            NetworkError, RequestTimeout: a server did not answer.
        """
        message_id = message if isinstance(message, str) else message.offset_message_id
        address, _ = self.decode_message_id(message_id)
        topic = message.topic if isinstance(message, MessageExt) else None
        header = headers.ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=check_group(group), client_id=client_id, msg_id=message_id, topic=topic
        )
        return await self._ask_body(
            address, requests.consumers.CONSUME_MESSAGE_DIRECTLY, header, timeout_ms=_CALL_TIMEOUT_MS
        )

    async def consume_queue(
        self, queue: MessageQueue, index: int = 0, count: int = 10, group: str | None = None
    ) -> bodies.QueryConsumeQueueResponseBody:
        """Entries of the index that a queue is: where each message is in the commit log, and whether it passes the filter of ``group``
        (mqadmin: queryCq).

        Args:
            queue: of which topic, broker and number.
            index: the offset to begin at.
            count: how many entries.
            group: whose filter is tried; default none.

        Returns:
            The entries, and what the group subscribes to.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.QueryConsumeQueueRequestHeader(
            topic=queue.topic,
            queue_id=queue.queue_id,
            index=check_range("index", index, 0, _FOREVER_MS),
            count=check_range("count", count, 1, 10_000),
            consumer_group=group,
        )
        address = await self._address_of(queue)
        if group is not None:
            await self._check_exists(group)
        return await self._ask_body(address, requests.offsets.QUERY_CONSUME_QUEUE, header)

    async def resume_half_message(self, topic: str, offset_message_id: str) -> None:
        """Have the producers asked again about a transaction whose checks are used up.

        Args:
            topic: where it was sent.
            offset_message_id: of the half message.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        address, _ = self.decode_message_id(offset_message_id)
        header = headers.ResumeCheckHalfMessageRequestHeader(msg_id=offset_message_id, topic=topic)
        await self._ask(address, requests.messages.RESUME_CHECK_HALF_MESSAGE, header)
