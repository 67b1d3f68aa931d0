"""Sending: which queue, which form on the wire, what to do when it fails (Java: DefaultMQProducerImpl.sendDefaultImpl, sendKernelImpl).

    message --> checked --> queue chosen --> UNIQ_KEY, compressed, header --> broker --> SendResult
                               ^                                               |
                               +---- another broker, within the timeout -------+   no answer, or a code that another broker may not give

A queue that the caller chose (queue, selector, sharding key) is never replaced: order is worth more than this message's success.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sprocketmq.client.api import RemotingApi
from sprocketmq.client.results import SendResult, SendStatus
from sprocketmq.client.routes import Routes
from sprocketmq.client.unique_keys import UniqueKeys
from sprocketmq.client.validators import (
    MAX_BODY_BYTES,
    check_batch,
    check_group,
    check_message,
    check_range,
    check_topic,
    int_option,
)
from sprocketmq.core.route_table import DEFAULT_TOPIC
from sprocketmq.core.send_latency import LatencyFaultTable, QueueRoundRobin, queue_of_sharding_key
from sprocketmq.errors import (
    ConfigurationError,
    ConnectFailed,
    NetworkError,
    RemoteError,
    RequestTimeout,
    RocketMQError,
)
from sprocketmq.net.clock import Clock
from sprocketmq.wire import headers
from sprocketmq.wire import properties as props
from sprocketmq.wire.batch import encode_batch
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import Command, request
from sprocketmq.wire.compression import CompressionType, compress
from sprocketmq.wire.message import Message, MessageQueue

__all__ = ["QueueSelector", "SendSettings", "Sender"]

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]

# DefaultMQProducer.retryResponseCodes: another broker may well take it.
_RETRY_CODES: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.GO_AWAY,
        204,  # NO_BUYER_ID
        205,  # NOT_IN_CURRENT_UNIT
    }
)
_COMPRESSION_LEVEL: Final = 5
_MAX_DELAY_LEVEL: Final = 0x7FFFFFFF


@dataclass(frozen=True, kw_only=True)
class SendSettings:
    """What a producer can be told (DefaultMQProducer).

    Args:
        group: the producer group.
        send_msg_timeout_ms: limit of one send, all tries together.
        send_msg_max_timeout_per_request_ms: limit of one try; -1 lets the first try use up the whole timeout, as Java does.
        retry_times_when_send_failed: further tries after a failure.
        retry_another_broker_when_not_store_ok: also try again after FLUSH_DISK_TIMEOUT and its kin, which means storing it twice.
        compress_msg_body_over_bytes: bodies of this size and more are compressed (single messages only).
        compress_type: "ZLIB", "LZ4" or "ZSTD"; a 4.9 consumer only understands ZLIB.
        max_message_bytes: largest body, or batch; the broker has a limit of its own (4 MiB by default).
        send_latency_fault_enable: avoid brokers that were slow or unreachable lately.
        create_topic_key: topic whose route stands in for topics that do not exist yet.
        default_topic_queue_nums: queues of a topic that is created by sending to it.

    Raises:
        ConfigurationError: at construction, naming the option.
    """

    group: str
    send_msg_timeout_ms: int = 3_000
    send_msg_max_timeout_per_request_ms: int = -1
    retry_times_when_send_failed: int = 2
    retry_another_broker_when_not_store_ok: bool = False
    compress_msg_body_over_bytes: int = 4_096
    compress_type: str = "ZLIB"
    max_message_bytes: int = MAX_BODY_BYTES
    send_latency_fault_enable: bool = False
    create_topic_key: str = DEFAULT_TOPIC
    default_topic_queue_nums: int = 4

    def __post_init__(self) -> None:
        check_group(self.group, "the producer group")
        check_range("send_msg_timeout_ms", self.send_msg_timeout_ms, 1, 86_400_000)
        int_option("send_msg_max_timeout_per_request_ms", self.send_msg_max_timeout_per_request_ms, 1, 86_400_000)
        check_range("retry_times_when_send_failed", self.retry_times_when_send_failed, 0, 1000)
        check_range("compress_msg_body_over_bytes", self.compress_msg_body_over_bytes, 1, 0x7FFFFFFF)
        check_range("max_message_bytes", self.max_message_bytes, 1, 0x7FFFFFFF)
        check_range("default_topic_queue_nums", self.default_topic_queue_nums, 1, 65_535)
        CompressionType.of(self.compress_type)


class Sender:
    """Sends for one producer group. Belongs to one instance and its loop."""

    def __init__(
        self, api: RemotingApi, routes: Routes, clock: Clock, keys: UniqueKeys, settings: SendSettings
    ) -> None:
        self._api, self._routes, self._clock, self._keys = api, routes, clock, keys
        self.settings = settings
        self._compression = CompressionType.of(settings.compress_type)
        self._turns: dict[str, QueueRoundRobin] = {}
        self._latency = LatencyFaultTable() if settings.send_latency_fault_enable else None

    @property
    def topics(self) -> set[str]:
        """Topics that were sent to: their routes are refreshed."""
        return set(self._turns)

    # -- the verbs -------------------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
        deliver_time_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """See ``AsyncProducer.send``."""
        check_message(message, self.settings.max_message_bytes)
        properties = self._send_properties(message, sharding_key, delay_level, deliver_time_ms)

        def command(target: MessageQueue) -> Command:
            return self._command(message, properties, target)

        return await self._deliver(
            message, command, properties[props.UNIQ_KEY], queue, selector, sharding_key, timeout_ms
        )

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """See ``AsyncProducer.send_batch``."""
        messages = list(messages)
        check_batch(messages, self.settings.max_message_bytes)
        for message in messages:
            self._identify(message)
            if sharding_key is not None:
                message.properties[props.SHARDING_KEY] = props.checked_value("sharding_key", sharding_key)
        body = encode_batch(messages)
        if len(body) > self.settings.max_message_bytes:
            raise ConfigurationError(
                f"the batch of {len(messages)} messages takes {len(body)} bytes, at most {self.settings.max_message_bytes} are allowed "
                "(max_message_bytes); send it in parts"
            )
        first = messages[0]
        properties = {} if first.wait_store_msg_ok else {props.WAIT: "false"}
        ids = ",".join(message.properties[props.UNIQ_KEY] for message in messages)

        def command(target: MessageQueue) -> Command:
            header = self._header(first, properties, target, sys_flag=0, batch=True)
            return request(RequestCode.SEND_BATCH_MESSAGE, header, body)

        return await self._deliver(first, command, ids, queue, None, sharding_key, timeout_ms)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
    ) -> None:
        """See ``AsyncProducer.send_oneway``."""
        check_message(message, self.settings.max_message_bytes)
        properties = self._send_properties(message, sharding_key, delay_level, None)
        target = await self._chosen_queue(message, queue, selector, sharding_key)
        if target is None:
            target = self._next_queue(message.topic, await self._queues(message.topic), None)
        command = self._command(message, properties, target)
        await self._api.pool.invoke_oneway(await self._address(target), command)

    # -- delivering ------------------------------------------------------------------------------------------------------------

    async def _deliver(
        self,
        message: Message,
        command: Callable[[MessageQueue], Command],
        message_id: str,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        sharding_key: str | None,
        timeout_ms: int | None,
    ) -> SendResult:
        """Up to ``1 + retries`` tries within the timeout, each on another broker than the one before, as far as there is one."""
        total_ms = (
            self.settings.send_msg_timeout_ms
            if timeout_ms is None
            else check_range("timeout_ms", timeout_ms, 1, 86_400_000)
        )
        loop = asyncio.get_running_loop()
        end_s = loop.time() + total_ms / 1000
        chosen = await self._chosen_queue(message, queue, selector, sharding_key)
        tries = 1 if chosen is not None else 1 + self.settings.retry_times_when_send_failed
        failure: RocketMQError | None = None
        last_broker: str | None = None
        for attempt in range(tries):
            left_ms = int((end_s - loop.time()) * 1000)
            if attempt and left_ms <= 0:
                break
            target = chosen or self._next_queue(message.topic, await self._queues(message.topic), last_broker)
            last_broker = target.broker_name
            started_s = loop.time()
            try:
                result = await self._try(target, command(target), message_id, self._try_ms(max(1, left_ms)))
            except (NetworkError, RequestTimeout) as error:
                self._note(target, started_s, error)
                failure = error
            except RemoteError as error:
                self._note(target, started_s, error)
                failure = error
                if error.code not in _RETRY_CODES:
                    raise
            else:
                self._note(target, started_s, None)
                if (
                    result.status is SendStatus.SEND_OK
                    or not self.settings.retry_another_broker_when_not_store_ok
                    or attempt + 1 == tries
                ):
                    return result
                stored = result
                continue
        if failure is None:
            return stored
        raise failure

    async def _try(self, target: MessageQueue, command: Command, message_id: str, timeout_ms: int) -> SendResult:
        status, header = await self._api.send_message(await self._address(target), command, timeout_ms)
        return SendResult(
            status,
            header.batch_uniq_id or message_id,
            MessageQueue(target.topic, target.broker_name, header.queue_id),
            header.queue_offset,
            header.msg_id,
            header.transaction_id,
        )

    def _try_ms(self, left_ms: int) -> int:
        limit_ms = self.settings.send_msg_max_timeout_per_request_ms
        return left_ms if limit_ms < 0 else min(left_ms, limit_ms)

    async def _address(self, queue: MessageQueue) -> str:
        address = self._routes.broker_address(queue.broker_name)
        if address is None:
            await self._routes.refresh(queue.topic)
            address = self._routes.broker_address(queue.broker_name)
        if address is None:
            raise ConnectFailed(
                f"broker {queue.broker_name!r} of {queue} has no master at the moment; the name server names no address for it"
            )
        return address

    def _note(self, queue: MessageQueue, started_s: float, error: Exception | None) -> None:
        if self._latency is not None:
            spent_ms = int((asyncio.get_running_loop().time() - started_s) * 1000)
            self._latency.update(
                queue.broker_name,
                spent_ms,
                self._clock.now_ms(),
                isolated=error is not None,
                reachable=not isinstance(error, NetworkError),
            )

    # -- choosing --------------------------------------------------------------------------------------------------------------

    async def _queues(self, topic: str) -> list[MessageQueue]:
        return await self._routes.publish_queues(topic, self.settings.create_topic_key)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues a message to ``topic`` may go to."""
        return list(await self._queues(check_topic(topic)))

    async def _chosen_queue(
        self, message: Message, queue: MessageQueue | None, selector: QueueSelector | None, sharding_key: str | None
    ) -> MessageQueue | None:
        if (queue is not None) + (selector is not None) + (sharding_key is not None) > 1:
            raise ConfigurationError(
                "more than one of queue, selector and sharding_key is given, one at most is allowed"
            )
        self._turn(message.topic)
        if queue is not None:
            if not isinstance(queue, MessageQueue) or queue.topic != message.topic:
                raise ConfigurationError(f"queue is {queue}, a MessageQueue of topic {message.topic!r} is allowed")
            return queue
        if sharding_key is not None:
            return queue_of_sharding_key(sharding_key, await self._queues(message.topic))
        if selector is not None:
            queues = list(await self._queues(message.topic))
            chosen = selector(queues, message)
            if chosen not in queues:
                raise ConfigurationError(
                    f"the selector returned {chosen!r}, one of the {len(queues)} queues it was given is allowed"
                )
            return chosen
        return None

    def _turn(self, topic: str) -> QueueRoundRobin:
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = QueueRoundRobin(random.randrange(1 << 16))
        return turn

    def _next_queue(self, topic: str, queues: list[MessageQueue], last_broker: str | None) -> MessageQueue:
        latency = self._latency
        if latency is None:
            return self._turn(topic).choose(queues, last_broker)
        now_ms = self._clock.now_ms()
        return self._turn(topic).choose(queues, last_broker, lambda name: latency.is_available(name, now_ms))

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def _identify(self, message: Message) -> None:
        if props.UNIQ_KEY not in message.properties:
            message.properties[props.UNIQ_KEY] = self._keys.next(self._clock.now_ms())

    def _send_properties(
        self, message: Message, sharding_key: str | None, delay_level: int, deliver_time_ms: int | None
    ) -> dict[str, str]:
        """The message's own properties and those of this send; only UNIQ_KEY stays with the message, so that it can be sent again."""
        self._identify(message)
        properties = dict(message.properties)
        if sharding_key is not None:
            properties[props.SHARDING_KEY] = props.checked_value("sharding_key", sharding_key)
        if delay_level:
            properties[props.DELAY] = str(check_range("delay_level", delay_level, 0, _MAX_DELAY_LEVEL))
        if deliver_time_ms is not None:
            properties[props.TIMER_DELIVER_MS] = str(check_range("deliver_time_ms", deliver_time_ms, 0, 1 << 62))
        return properties

    def _command(self, message: Message, properties: dict[str, str], target: MessageQueue) -> Command:
        body, sys_flag = message.body, 0
        if len(body) >= self.settings.compress_msg_body_over_bytes:
            packed = compress(body, self._compression, _COMPRESSION_LEVEL)
            if len(packed) < len(body):
                body, sys_flag = packed, self._compression.sys_flag
        return request(RequestCode.SEND_MESSAGE_V2, self._header(message, properties, target, sys_flag=sys_flag), body)

    def _header(
        self, message: Message, properties: dict[str, str], target: MessageQueue, *, sys_flag: int, batch: bool = False
    ) -> headers.SendMessageRequestHeaderV2:
        reconsume_times = 0
        max_reconsume_times: int | None = None
        if message.topic.startswith("%RETRY%"):
            # The broker reads these two from the header; as properties they would stay with the message for ever.
            properties = dict(properties)
            reconsume_times = int(properties.pop(props.RECONSUME_TIME, "0"))
            limit = properties.pop(props.MAX_RECONSUME_TIMES, None)
            max_reconsume_times = None if limit is None else int(limit)
        return headers.SendMessageRequestHeaderV2(
            producer_group=self.settings.group,
            topic=message.topic,
            default_topic=self.settings.create_topic_key,
            default_topic_queue_nums=self.settings.default_topic_queue_nums,
            queue_id=target.queue_id,
            sys_flag=sys_flag,
            born_timestamp=self._clock.now_ms(),
            flag=message.flag,
            properties=props.encode_properties(properties).decode(),
            reconsume_times=reconsume_times,
            unit_mode=False,
            max_reconsume_times=max_reconsume_times,
            batch=batch,
            bname=target.broker_name,
        )
