# SPDX-License-Identifier: Apache-2.0
"""Message trace: records of what a client sent and consumed, sent to the trace topic (Java: AsyncTraceDispatcher,
SendMessageTraceHookImpl, ConsumeMessageTraceHookImpl, EndTransactionTraceHookImpl).

``mqadmin queryMsgTraceById`` and the dashboard read them. Switched on by ``enable_trace=True``; brokers have the topic when they
were started with ``traceTopicEnable=true``, else the first trace creates it like any other.

Rules
1. Tracing does not affect the messages: at most 2048 records wait, others are dropped and counted; a failed send is logged.
2. Records are sent when ``trace_msg_batch_num`` wait, 5 s after the first of them, and when the client shuts down.
3. Trace messages are not traced, nor are messages that the broker marks with TRACE_ON=false.
4. Each message of a batch has its own record. (Java writes one record for the batch, under an id that no message has.)
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from sprocketmq.client.hooks import ConsumeMessageContext, EndTransactionContext, SendMessageContext
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.results import SendStatus
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.core.resource_names import TRACE_TOPIC
from sprocketmq.errors import RocketMQError
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message
from sprocketmq.wire.trace import (
    CLOUD_TRACE_TOPIC_PREFIX,
    DEFAULT_REGION,
    MessageType,
    TraceRecord,
    TraceType,
    encode_trace,
    trace_keys,
)

log = logging.getLogger("sprocketmq.client")

_MAX_WAITING: Final = 2048
_FLUSH_MS: Final = 5_000
_SEND_TIMEOUT_MS: Final = 5_000
_CLOSE_TIMEOUT_S: Final = 5.0
# What one trace message may hold. Java cuts at 128,000 bytes after it has gone over them; 100 records are 4.9's batch.
_MAX_BYTES: Final = 128_000
_MAX_RECORDS: Final = 100
_MAX_KEY_BYTES: Final = 16_000
_GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
_MAX_GROUP: Final = 120
_JAVA_STATES: Final = {"UNKNOWN": "UNKNOW"}
_NOTE: Final = "sprocketmq.trace"
_serial = itertools.count(1)


class MessageTrace:
    """The trace of one producer or consumer: its hook, and the sending, through a producer of its own group at ``instance``.
    ``kind`` is "PRODUCE" or "CONSUME", a part of that group's name."""

    def __init__(self, instance: ClientInstance, options: ClientOptions, group: str, kind: str) -> None:
        self._instance, self._clock = instance, instance.clock
        self._topic = options.trace_topic or TRACE_TOPIC
        self._cloud = options.access_channel == "CLOUD"
        self._batch_num = options.trace_msg_batch_num
        self._waiting: deque[TraceRecord] = deque()
        self.discarded = 0
        tail = f"-{kind}-{next(_serial)}"
        self._group = f"{_GROUP_PREFIX}-{group}"[: _MAX_GROUP - len(tail)] + tail
        settings = SendSettings(
            group=self._group, send_msg_timeout_ms=_SEND_TIMEOUT_MS, max_message_bytes=_MAX_BYTES + _MAX_KEY_BYTES
        )
        self._sender = instance.add_sender(settings)
        self._loop = asyncio.get_running_loop()
        self._wanted = asyncio.Event()
        self._idle = self._full = False  # no record waits; enough records wait to be sent now
        self._closing = False
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Send what waits and let what is being sent arrive, within 5 s, and leave."""
        self._closing = True
        self._wanted.set()
        _, late = await asyncio.wait([self._task], timeout=_CLOSE_TIMEOUT_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if late:
            log.warning("trace of %s: the last records were not stored within %g s", self._group, _CLOSE_TIMEOUT_S)
        if self.discarded:
            log.warning("trace of %s: %d records were dropped, because they came too fast", self._group, self.discarded)
        await self._instance.remove_sender(self._group)

    # -- hooks -----------------------------------------------------------------------------------------------------------------

    def before_send(self, context: SendMessageContext) -> None:
        """Nothing to do: the context knows when the try began."""

    def after_send(self, context: SendMessageContext) -> None:
        result = context.result
        if result is None or not context.trace_on or self._is_own(context.message.topic):
            return
        success = result.status is SendStatus.SEND_OK
        cost_ms = (self._clock.now_ms() - context.started_ms) // len(context.messages)
        stored = result.offset_message_id.split(",")
        for index, message in enumerate(context.messages):
            keys = message.properties
            self._append(
                TraceRecord(
                    TraceType.PUB,
                    context.started_ms,
                    context.region_id,
                    context.producer_group,
                    message.topic,
                    keys.get(props.UNIQ_KEY) or result.message_id,
                    keys.get(props.TAGS),
                    keys.get(props.KEYS),
                    context.broker_address,
                    len(message.body),
                    cost_ms,
                    context.message_type,
                    stored[index] if index < len(stored) else None,
                    success,
                )
            )

    def before_consume(self, context: ConsumeMessageContext) -> None:
        request_id = self._instance.keys.next(self._clock.now_ms())
        records = [
            TraceRecord(
                TraceType.SUB_BEFORE,
                context.started_ms,
                message.properties.get(props.MSG_REGION) or DEFAULT_REGION,
                context.group,
                message.topic,
                message.message_id,
                keys=message.properties.get(props.KEYS),
                request_id=request_id,
                retry_times=message.reconsume_times,
            )
            for message in context.messages
            if message.properties.get(props.TRACE_ON) != "false" and not self._is_own(message.topic)
        ]
        context.notes[_NOTE] = records
        for record in records:
            self._append(record)

    def after_consume(self, context: ConsumeMessageContext) -> None:
        now_ms = self._clock.now_ms()
        cost_ms = (now_ms - context.started_ms) // len(context.messages)
        for before in context.notes.get(_NOTE, ()):
            self._append(
                TraceRecord(
                    TraceType.SUB_AFTER,
                    now_ms,
                    before.region_id,
                    before.group,
                    before.topic,
                    before.message_id,
                    keys=before.keys,
                    cost_ms=cost_ms,
                    success=context.success,
                    request_id=before.request_id,
                    context_code=int(context.return_type),
                )
            )

    def end_transaction(self, context: EndTransactionContext) -> None:
        message = context.message
        if self._is_own(message.topic):
            return
        found = message.properties
        self._append(
            TraceRecord(
                TraceType.END_TRANSACTION,
                context.ended_ms,
                found.get(props.MSG_REGION) or DEFAULT_REGION,
                context.producer_group,
                message.topic,
                context.message_id,
                found.get(props.TAGS),
                found.get(props.KEYS),
                context.broker_address,
                message_type=MessageType.TRANSACTION_COMMIT,
                transaction_id=context.transaction_id,
                transaction_state=_JAVA_STATES.get(context.state.value, context.state.value),
                from_transaction_check=context.from_transaction_check,
            )
        )

    def _is_own(self, topic: str) -> bool:
        return topic.startswith(CLOUD_TRACE_TOPIC_PREFIX if self._cloud else self._topic)

    # -- on the way to the trace topic -----------------------------------------------------------------------------------------

    def _append(self, record: TraceRecord) -> None:
        """From any thread."""
        waiting = self._waiting
        if len(waiting) >= _MAX_WAITING:
            self.discarded += 1
            return
        waiting.append(record)
        if self._idle:
            self._idle = False
            self._loop.call_soon_threadsafe(self._wanted.set)
        elif not self._full and len(waiting) >= self._batch_num:
            self._full = True
            self._loop.call_soon_threadsafe(self._wanted.set)

    async def _run(self) -> None:
        # The marks are set before the check: a record that comes in between is seen, or wakes this task.
        while not self._closing:
            self._idle = True
            if not self._waiting:
                await self._wait()
            self._idle = self._full = False
            if len(self._waiting) < self._batch_num and not self._closing:
                timer = self._clock.call_later(_FLUSH_MS, self._wanted.set)
                try:
                    await self._wait()
                finally:
                    timer.cancel()
            await self._flush()
        await self._flush()

    async def _wait(self) -> None:
        await self._wanted.wait()
        self._wanted.clear()

    async def _flush(self) -> None:
        while self._waiting:
            by_topic: dict[tuple[str, str], list[TraceRecord]] = {}
            for _ in range(min(len(self._waiting), _MAX_RECORDS)):
                record = self._waiting.popleft()
                topic = CLOUD_TRACE_TOPIC_PREFIX + record.region_id if self._cloud else self._topic
                by_topic.setdefault((record.topic, topic), []).append(record)
            await asyncio.gather(*(self._send(topic, records) for (_, topic), records in by_topic.items()))

    async def _send(self, topic: str, records: Sequence[TraceRecord]) -> None:
        for body, keys in self._packed(records):
            message = Message(topic, body)
            if keys:
                message.properties[props.KEYS] = props.KEY_SEPARATOR.join(keys)
            try:
                await self._sender.send(Send(message))
            except RocketMQError as error:
                sentence, count = "trace of %s: %d records could not be stored: %s", len(records)
                self._instance.cluster.outages.failed("trace", error, sentence, self._group, count, error)

    def _packed(self, records: Iterable[TraceRecord]) -> Iterable[tuple[bytes, list[str]]]:
        """Bodies and keys of trace messages, each within its limits."""
        texts: list[bytes] = []
        packed: list[TraceRecord] = []
        size = key_size = 0
        for record in records:
            text = encode_trace(record, cloud=self._cloud).encode()
            key_bytes = sum(len(key) + 1 for key in record.index_keys)
            if texts and (size + len(text) > _MAX_BYTES or key_size + key_bytes > _MAX_KEY_BYTES):
                yield b"".join(texts), trace_keys(packed)
                texts, packed, size, key_size = [], [], 0, 0
            texts.append(text)
            packed.append(record)
            size += len(text)
            key_size += key_bytes
        if texts:
            yield b"".join(texts), trace_keys(packed)
