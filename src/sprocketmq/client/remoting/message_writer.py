# SPDX-License-Identifier: Apache-2.0
"""Making the request of a send: ids, properties, compression, header (Java: DefaultMQProducerImpl.sendKernelImpl, MessageBatch)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.client.remoting.unique_keys import UniqueKeys
from sprocketmq.client.settings.namespace import wrap
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.client.settings.validators import check_message, check_range, check_time_ms
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.process.clock import Clock
from sprocketmq.plain_values import plain_int
from sprocketmq.wire import headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command, request
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import encode_batch
from sprocketmq.wire.records.compression import CompressionType, compress
from sprocketmq.wire.records.message import Message, MessageQueue
from sprocketmq.wire.records.sys_flag import TRANSACTION_PREPARED_TYPE
from sprocketmq.wire.send_frames import SendTemplate

if TYPE_CHECKING:
    from sprocketmq.wire.frames.acl_signature import Credentials

ANY_DELAY_LEVEL: Final = 0x7FFFFFFF
"""``max_delay_level`` for copies whose level was not chosen by the user, such as retries: their level grows with the number of tries."""
_MAX_TIME_MS: Final = 1 << 62
_NOTHING: Final[Mapping[str, str]] = {}
# MixAll.REPLY_MESSAGE_FLAG
_REPLY: Final = "reply"
_NO_FLAG: Final = 0
_DO_NOT_WAIT: Final = f"{props.WAIT}\x01false\x02"
_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_SINGLE: Final = int(RequestCode.SEND_MESSAGE_V2)
_REPLYING: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
# The limit for one request code. A template takes some 500 bytes; a producer that sends to more queues clears the table now and then.
_MOST_TEMPLATES: Final = 10_000


class OutgoingMessage(msgspec.Struct):
    """One send, ready to be written as a request.

    Attributes:
        topic: as brokers know it.
        messages: one, or those of a batch.
        text: the properties in the request's header, in their text form: of the message and of this send, or of the batch as a whole.
            None after they were read as a dict, which may have changed since.
        message_id: the one in the result.
        code, body, sys_flag: the request without its queue.
    """

    topic: str
    messages: Sequence[Message]
    text: str | None
    message_id: str
    code: int
    body: bytes
    sys_flag: int = 0
    pairs: dict[str, str] | None = None

    @property
    def is_batch(self) -> bool:
        return self.code == _BATCH

    @property
    def properties(self) -> dict[str, str]:
        """The properties in the request's header; hooks may change them."""
        if self.pairs is None:
            self.pairs, self.text = props.pairs_of_text(self.text or ""), None
        return self.pairs

    @property
    def properties_text(self) -> str:
        """The properties as they stand in the request's header. Raises ConfigurationError: they are too long, or hold a separator."""
        text = self.text
        return props.properties_text(self.properties) if text is None else props.header_text(text)


class MessageWriter:
    """Makes the send requests of one producer group. ``namespace``, ``unit_mode``, ``max_delay_level``: as of Sender. ``added``:
    fields that the connections add to each request."""

    def __init__(
        self,
        settings: SendSettings,
        clock: Clock,
        keys: UniqueKeys,
        namespace: str | None,
        unit_mode: bool,
        max_delay_level: int = ANY_DELAY_LEVEL,
        added: Mapping[str, str] = _NOTHING,
    ) -> None:
        self._settings, self._clock, self._keys, self._added = settings, clock, keys, added
        self.namespace, self._unit_mode, self._max_delay_level = namespace, unit_mode, max_delay_level
        self._compression = CompressionType.of(settings.compress_type)
        self._group, self._default_topic = settings.group, settings.create_topic_key
        self._max_body_bytes, self._compress_from = settings.max_message_bytes, settings.compress_msg_body_over_bytes
        self._topics: dict[str, str] = {}  # names that were checked, and what brokers call them
        self._templates: dict[int, dict[MessageQueue, SendTemplate]] = {_SINGLE: {}, _BATCH: {}, _REPLYING: {}}

    def checked_topic(self, message: Message) -> str:
        """What brokers call the topic of ``message``. Raises ConfigurationError: it cannot be sent. A topic is checked in full
        once."""
        topic = self._topics.get(message.topic) if isinstance(message, Message) and type(message.topic) is str else None
        if (
            topic is None
            or message.flag is not _NO_FLAG
            or type(message.body) is not bytes
            or not 0 < len(message.body) <= self._max_body_bytes
        ):
            check_message(message, self._max_body_bytes)
            topic = wrap(self.namespace, message.topic)
            self._topics[message.topic] = topic
        return topic

    def identify(self, message: Message) -> str:
        """The message's UNIQ_KEY. A message without one gets it now and keeps it, so that a second send has the same id."""
        key = message.unique_key
        if key is None:
            key = self._keys.next(self._clock.now_ms())
            message.identify(key)
        return key

    def next_keys(self, now_ms: int) -> Iterator[str]:
        """UNIQ_KEYs for the next messages."""
        return self._keys.block(now_ms)

    def one(
        self,
        message: Message,
        sharding_key: str | None,
        delay_level: int,
        delay_ms: int | None,
        deliver_time_ms: int | datetime | None,
        extra: Mapping[str, str] | None,
    ) -> OutgoingMessage:
        """One message, checked, with the properties of this send; the message itself only gets its UNIQ_KEY."""
        topic = self.checked_topic(message)
        key = self.identify(message)
        text, found = message.properties_text, message.exposed_properties
        if extra is not None:
            found = {**found, **extra}
            for name, value in extra.items():
                text = props.text_with(text, name, value)
        if sharding_key is not None or self.namespace is not None:
            text = self.text_of_send(text, sharding_key)
        if delay_level != 0 or delay_ms is not None or deliver_time_ms is not None:
            if delay_level == 0 and props.DELAY in found:
                delay_level = message.delay_level  # with a time beside it, it is one too many
            name, value = _delay(delay_level, delay_ms, deliver_time_ms, self._max_delay_level)
            text = props.text_with(text, name, value)
        elif props.DELAY in found:  # of the message
            _check_level(message.delay_level, self._max_delay_level)
        outgoing = self.single(topic, message, text, key)
        if found:
            if found.get(props.TRAN_MSG) == "true":
                outgoing.sys_flag |= TRANSACTION_PREPARED_TYPE
            elif found.get(props.MSG_TYPE) == _REPLY:
                outgoing.code = _REPLYING
        return outgoing

    def single(self, topic: str, message: Message, text: str, key: str) -> OutgoingMessage:
        """One message that is checked, with these properties, compressed if it is large."""
        body, sys_flag = message.body, 0
        if len(body) >= self._compress_from:
            packed = compress(body, self._compression, self._settings.compress_level)
            if len(packed) < len(body):
                body, sys_flag = packed, self._compression.sys_flag
        return OutgoingMessage(topic, (message,), text, key, _SINGLE, body, sys_flag)

    def text_of_send(self, text: str, sharding_key: str | None) -> str:
        """The properties of a message, in their text form, with those of this send."""
        if self.namespace is not None:
            text = props.text_with(text, props.INSTANCE_ID, self.namespace)
        if sharding_key is not None:
            text = props.text_with(text, props.SHARDING_KEY, props.checked_value("sharding_key", sharding_key))
        return text

    def batch(self, messages: Sequence[Message]) -> OutgoingMessage:
        """A batch of messages that are checked and have their UNIQ_KEYs."""
        first = messages[0]
        if self.namespace is not None:
            for message in messages:
                message.properties[props.INSTANCE_ID] = self.namespace
        body = encode_batch(messages)
        if len(body) > self._settings.max_message_bytes:
            raise ConfigurationError(
                f"the batch of {len(messages)} messages takes {len(body)} bytes, at most {self._settings.max_message_bytes} are allowed "
                "(max_message_bytes); send it in parts"
            )
        ids = [self.identify(message) for message in messages]
        return self.batch_of(wrap(self.namespace, first.topic), messages, first.wait_store_msg_ok, ids, body)

    def batch_of(
        self, topic: str, messages: Sequence[Message], wait_store_msg_ok: bool, ids: Sequence[str], body: bytes
    ) -> OutgoingMessage:
        """A batch of messages whose elements are encoded. ``topic``: as brokers know it. ``messages``: at least the first one; all
        if there are hooks, which are shown them."""
        text = self.text_of_send("" if wait_store_msg_ok else _DO_NOT_WAIT, None)
        return OutgoingMessage(topic, messages, text, ",".join(ids), _BATCH, body)

    def encoded_batch(self, topic: str, body: bytes | memoryview) -> OutgoingMessage:
        """A batch whose body the caller has encoded."""
        stand_in = Message(topic, b"-")
        return OutgoingMessage(self.checked_topic(stand_in), (stand_in,), "", "", _BATCH, bytes(body))

    def template(
        self, outgoing: OutgoingMessage, target: MessageQueue, credentials: Credentials | None
    ) -> SendTemplate | None:
        """The template for ``frame``. None for a retry topic: its headers differ in more fields than a template has.
        ``credentials``: those that sign the request; None: it is not signed."""
        known = self._templates[outgoing.code]
        template = known.get(target)
        if template is not None and template.credentials is credentials:
            return template
        if outgoing.topic.startswith("%RETRY%"):
            return None
        if len(known) >= _MOST_TEMPLATES:
            known.clear()
        header = self.header(outgoing, target)
        template = known[target] = SendTemplate(outgoing.code, header, self._added, credentials)
        return template

    def frame(self, template: SendTemplate, opaque: int, outgoing: OutgoingMessage) -> bytes:
        """The request as bytes: the same as ``command``, with this opaque."""
        return template.frame(
            opaque,
            outgoing.sys_flag,
            self._clock.now_ms(),
            outgoing.messages[0].flag,
            outgoing.properties_text,
            outgoing.body,
        )

    def command(self, outgoing: OutgoingMessage, target: MessageQueue) -> Command:
        """The request as a Command, which the connection completes and signs."""
        return request(outgoing.code, self.header(outgoing, target), outgoing.body)

    def header(self, outgoing: OutgoingMessage, target: MessageQueue) -> headers.SendMessageRequestHeaderV2:
        text = None
        reconsume_times = 0
        max_reconsume_times: int | None = None
        born_ms = self._clock.now_ms()
        if outgoing.topic.startswith("%RETRY%"):
            # The broker reads these from the header; as properties they would stay with the message for ever.
            properties = dict(outgoing.properties)
            reconsume_times = int(properties.pop(props.RECONSUME_TIME, "0"))
            limit = properties.pop(props.MAX_RECONSUME_TIMES, None)
            born_ms = int(properties.pop(props.BORN_TIMESTAMP, born_ms))
            max_reconsume_times = None if limit is None else int(limit)
            text = props.properties_text(properties)
        return headers.SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=outgoing.topic,
            default_topic=self._default_topic,
            default_topic_queue_nums=self._settings.default_topic_queue_nums,
            queue_id=target.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=born_ms,
            flag=outgoing.messages[0].flag,
            properties=outgoing.properties_text if text is None else text,
            reconsume_times=reconsume_times,
            unit_mode=self._unit_mode,
            max_reconsume_times=max_reconsume_times,
            batch=outgoing.is_batch,
            bname=target.broker_name,
        )


def _delay(
    delay_level: int, delay_ms: int | None, deliver_time_ms: int | datetime | None, max_delay_level: int
) -> tuple[str, str]:
    """The one property that delays a message, name and value. Raises ConfigurationError: more than one is given (a broker would
    take the level and drop the others), or a value is out of range."""
    if (delay_level != 0) + (delay_ms is not None) + (deliver_time_ms is not None) > 1:
        raise ConfigurationError(
            "more than one of delay_level, delay_ms and deliver_time_ms is given, at most one is allowed"
        )
    if delay_ms is not None:
        return props.TIMER_DELAY_MS, str(check_range("delay_ms", delay_ms, 0, _MAX_TIME_MS))
    if deliver_time_ms is not None:
        return props.TIMER_DELIVER_MS, str(check_time_ms("deliver_time_ms", deliver_time_ms))
    return props.DELAY, _check_level(delay_level, max_delay_level)


def _check_level(level: object, highest: int) -> str:
    """A delay level as text. A broker silently replaces a higher level by its highest one (Java: CommitLog.handleScheduleMessage).
    Raises ConfigurationError (the level is no number from 0 to ``highest``)."""
    level = plain_int(level)
    if type(level) is int:
        if 0 <= level <= highest:
            return str(level)
        hint = "; if the brokers have more levels (messageDelayLevel), give max_delay_level" if level > highest else ""
        raise ConfigurationError(f"delay_level is {level}, a whole number from 0 to {highest} is allowed{hint}")
    raise ConfigurationError(f"delay_level is {level!r}, a whole number from 0 to {highest} is allowed")
