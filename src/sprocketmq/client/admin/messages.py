# SPDX-License-Identifier: Apache-2.0
"""Stored messages: finding, reading, following, and consuming one again (mqadmin: queryMsgById, queryMsgByKey, printMsg, ...)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sprocketmq.client.admin.session import AdminRequests
from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.consume.pull_loop import decode_pull
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.pulls import TOOLS_GROUP, read_queue
from sprocketmq.client.remoting.queue_offsets import queue_ends
from sprocketmq.client.remoting.server_kind import not_served
from sprocketmq.client.settings.validators import check_group, check_range, check_text, check_time_ms
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.core.group.subscription import FilterExpression, build_subscription, matches_tags
from sprocketmq.core.resource_names import TRACE_TOPIC
from sprocketmq.errors import NetworkError, RequestTimeout
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message import MessageExt, MessageQueue, format_host
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.record import decode_record, decode_records
from sprocketmq.wire.requests.declaration import A, B, H, Request
from sprocketmq.wire.trace import TraceRecord, decode_trace

_FOREVER_MS: Final = (1 << 63) - 1
_CALL_TIMEOUT_MS: Final = 15_000


class TrackType(str, Enum):
    """Whether one group has consumed a message (Java: TrackType)."""

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
    """Whether one group has consumed a message."""

    group: str
    track_type: TrackType


class MessageRequests(AdminRequests):
    """The part of AsyncAdmin about stored messages."""

    async def view_message(self, offset_message_id: str) -> MessageExt:
        """The copy with this id, not a ``message_id``: see ``messages_by_unique_key`` (mqadmin: queryMsgById)."""
        address, offset = self.decode_message_id(offset_message_id)
        header = headers.ViewMessageRequestHeader(offset=offset)
        answer = await self._ask_where_stored(address, requests.messages.VIEW_MESSAGE_BY_ID, header)
        return decode_record(answer.body)

    async def _ask_where_stored(
        self, address: str, asked: Request[H, A, B], header: H, timeout_ms: int | None = None
    ) -> Command:
        """Ask the broker that an offset message id names. If that is behind a proxy, often only the proxy can reach it."""
        try:
            return await self._cluster.ask(asked, header, at=address, timeout_ms=timeout_ms)
        except (NetworkError, RequestTimeout) as error:
            proxy = await self._proxy()
            if proxy is None:
                raise
            instead = f"{address}, which the id names, cannot be reached from here; the message can be read by queue and offset"
            raise not_served(proxy, asked, instead) from error

    @staticmethod
    def decode_message_id(offset_message_id: str) -> tuple[str, int]:
        """The ``host:port`` and commit log offset in an offset message id; sends no request (mqadmin: DecodeMessageId)."""
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
        broker: str | None = None,
    ) -> list[MessageExt]:
        """The newest messages of ``topic`` with this key, stored between two times, oldest first (mqadmin: queryMsgByKey).
        ``begin_ms``, ``end_ms``: in milliseconds since 1970. ``broker``: default: all that have the topic."""
        found = await self._query(topic, key, max_messages, begin_ms, end_ms, unique=False, broker=broker)
        return [message for message in found if key in message.keys]

    async def messages_by_unique_key(
        self, topic: str, unique_key: str, *, broker: str | None = None
    ) -> list[MessageExt]:
        """The copies with this ``message_id``, several if its send was retried, oldest first (mqadmin: queryMsgByUniqueKey)."""
        found = await self._query(topic, unique_key, 32, 0, _FOREVER_MS, unique=True, broker=broker)
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
        """The trace of the message with this ``message_id``: a record for each send, and for each call of a listener before and
        after it, as clients of any language recorded them in the trace topic, oldest first (mqadmin: queryMsgTraceById). Reads the
        newest ``max_messages`` of it between ``begin_ms`` and ``end_ms``, in milliseconds since 1970."""
        found = await self._query(trace_topic, message_id, max_messages, begin_ms, end_ms, unique=False)
        records = [
            record for message in found for record in decode_trace(message.body) if record.message_id == message_id
        ]
        return sorted(records, key=lambda record: record.timestamp_ms)

    async def _query(
        self,
        topic: str,
        key: str,
        max_messages: int,
        begin_ms: int,
        end_ms: int,
        *,
        unique: bool,
        broker: str | None = None,
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
            query = requests.messages.QUERY_MESSAGE
            command = query.command(header)
            command.ext_fields = {**command.ext_fields, headers.UNIQUE_KEY_QUERY: str(unique).lower()}
            answer = await self._cluster.invoke(address, command, self._cluster.timeout_ms * 3)
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return []
            if answer.code != ResponseCode.SUCCESS:
                raise await self._cluster.kinds.refusal(address, query, answer.code, answer.remark)
            return decode_records(answer.body, name)

        masters = await self._masters_of(topic)
        asked = {name: address for name, address in masters.items() if broker in (None, name)}
        answers = await all_ended(ask(name, address) for name, address in asked.items())
        # The index compares hashes of topic and key. So callers compare the keys, and this method compares the topics.
        found = (message for answer in answers for message in answer if message.topic == topic)
        return sorted(found, key=lambda message: (message.store_timestamp_ms, message.commit_log_offset))[
            -max_messages:
        ]

    async def message_at(self, queue: MessageQueue, offset: int) -> MessageExt | None:
        """The message at an offset of a queue; None if there is none (mqadmin: queryMsgByOffset). ``offset``: the queue offset."""
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
        """Messages of a queue in order, without a group and progress (mqadmin: printMsg, printMsgByQueue, consumeMessage);
        QueueReader reads whole topics faster. ``begin_offset``: default: the oldest message. ``end_offset``: where to stop, before
        it; default: the current end of the queue. ``expression``: tags as ``"a || b"``, or ``sql92("...")``."""
        check_range("max_messages", max_messages, 1, 1_000_000)
        low, high = await queue_ends(self._cluster, queue, at=await self._address_of(queue))
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
        """Pull once from each queue at its offset, without a group and progress, to follow a topic (mqadmin: consumeMessage). An
        offset before the oldest message counts as its offset. ``max_messages``: for each queue; brokers return at most 32 by
        default. Returns the messages, in the order in which they were stored, and the positions for the next call: behind these
        messages and behind those that the filter left out."""
        check_range("max_messages", max_messages, 1, 1_000)
        queues = list(positions)
        answers = await all_ended(self._read(queue, positions[queue], max_messages, expression) for queue in queues)
        found = [message for messages, _ in answers for message in messages]
        found.sort(key=lambda message: (message.store_timestamp_ms, message.broker_name, message.commit_log_offset))
        return found, {queue: behind for queue, (_, behind) in zip(queues, answers, strict=True)}

    async def _read(
        self, queue: MessageQueue, offset: int, count: int, expression: FilterExpression | str
    ) -> tuple[list[MessageExt], int]:
        """The messages of one pull, and where the next one begins."""
        subscription = build_subscription(queue.topic, expression, 0)
        result = await read_queue(
            self._cluster,
            await self._address_of(queue),
            TOOLS_GROUP,
            queue,
            offset,
            min(count, 32),
            expression=subscription.sub_string,
            expression_type=subscription.expression_type,
            sub_version=subscription.sub_version,
        )
        if result.status is not PullStatus.FOUND:
            return [], result.next_begin_offset
        return decode_pull(result, queue, subscription, TOOLS_GROUP), result.next_begin_offset

    async def message_track(self, message: MessageExt) -> list[MessageTrack]:
        """Whether each group that consumes its topic has consumed a message (mqadmin: queryMsgById prints it)."""
        groups = await self._admin.consumers_of(message.topic)
        return [MessageTrack(group, await self._track(message, group)) for group in groups]

    async def _track(self, message: MessageExt, group: str) -> TrackType:
        connection = await self._connection(group)
        if connection is None:
            return TrackType.NOT_ONLINE
        if connection.message_model == bodies.MessageModel.BROADCASTING:
            return TrackType.CONSUME_BROADCASTING
        if connection.consume_type == bodies.ConsumeType.CONSUME_ACTIVELY:
            return TrackType.PULL
        for queue, progress in (await self._admin.consumer_progress(group, message.topic)).items():
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
        """Have one member consume a stored message now, without a change of progress and retries; ``message`` may be an offset
        message id (mqadmin: queryMsgById -g -d). Raises RemoteError (the member is not online, is not a push consumer, or did not
        answer within 10 s)."""
        message_id = message if isinstance(message, str) else message.offset_message_id
        address, _ = self.decode_message_id(message_id)
        topic = message.topic if isinstance(message, MessageExt) else None
        header = headers.ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=check_group(group), client_id=client_id, msg_id=message_id, topic=topic
        )
        asked = requests.consumers.CONSUME_MESSAGE_DIRECTLY
        return await answer_body(asked, await self._ask_where_stored(address, asked, header, _CALL_TIMEOUT_MS))

    async def consume_queue(
        self, queue: MessageQueue, index: int = 0, count: int = 10, group: str | None = None
    ) -> bodies.QueryConsumeQueueResponseBody:
        """``count`` entries of a consume queue from ``index`` on: the place of each message in the commit log, and whether it
        passes the filter of ``group`` (default: none), whose subscription is returned, too (mqadmin: queryCq)."""
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
        return await self._cluster.ask_body(requests.offsets.QUERY_CONSUME_QUEUE, header, at=address)

    async def resume_half_message(self, topic: str, offset_message_id: str) -> None:
        """Let the broker ask the producers again about a transaction after it has used up its check-backs."""
        address, _ = self.decode_message_id(offset_message_id)
        header = headers.ResumeCheckHalfMessageRequestHeader(msg_id=offset_message_id, topic=topic)
        await self._ask_where_stored(address, requests.messages.RESUME_CHECK_HALF_MESSAGE, header)
