# SPDX-License-Identifier: Apache-2.0
"""Making the request of a send: ids, properties, compression, header; reading its answer (Java: DefaultMQProducerImpl.sendKernelImpl,
MessageBatch, MQClientAPIImpl.processSendResponse)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from sprocketmq.client.remoting.send import BATCH, REPLY, SINGLE, Send
from sprocketmq.client.remoting.unique_keys import UniqueKeys
from sprocketmq.client.results import SEND_STATUS_BY_CODE, SendStatus
from sprocketmq.client.settings.namespace import wrap
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.client.settings.validators import MAX_OFFSET, check_message, check_range, check_time_ms
from sprocketmq.core.produce.topic_types import type_refusal
from sprocketmq.core.resource_names import RETRY_PREFIX
from sprocketmq.errors import ConfigurationError, remote_error
from sprocketmq.net.process.clock import Clock
from sprocketmq.plain_values import plain_int
from sprocketmq.wire import headers
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, request
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import encode_batch
from sprocketmq.wire.records.compression import CompressionType, compress
from sprocketmq.wire.records.message import Message, MessageQueue
from sprocketmq.wire.records.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK, TRANSACTION_PREPARED_TYPE
from sprocketmq.wire.send_frames import SendTemplate

if TYPE_CHECKING:
    from sprocketmq.wire.frames.acl_signature import Credentials

ANY_DELAY_LEVEL: Final = 0x7FFFFFFF
"""``max_delay_level`` for copies whose level was not chosen by the user, such as retries: their level grows with the number of tries."""
_NOTHING: Final[Mapping[str, str]] = {}
REPLY_TYPE: Final = "reply"
"""MSG_TYPE of a reply. Java: MixAll.REPLY_MESSAGE_FLAG."""
_NO_FLAG: Final = 0
_DO_NOT_WAIT: Final = f"{props.WAIT}\x01false\x02"
# The limit for one request code. A template takes some 500 bytes; a producer that sends to more queues clears the table now and then.
_MOST_TEMPLATES: Final = 10_000


class MessageWriter:
    """Makes the send requests of one producer group. ``added``: fields that the connections add. Others: as of Sender."""

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
        self._templates: dict[int, dict[MessageQueue, SendTemplate]] = {SINGLE: {}, BATCH: {}, REPLY: {}}

    def checked_topic(self, message: Message) -> str:
        """What brokers call the topic; it is checked in full once. Raises ConfigurationError: ``message`` cannot be sent."""
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
        key = message.unique_key if message._text is None else message._unique_key
        if key is None:
            key = self._keys.next(self._clock.now_ms())
            message.identify(key)
        return key

    def next_keys(self, now_ms: int) -> Iterator[str]:
        return self._keys.block(now_ms)

    def write(self, send: Send) -> None:
        """Check the one message, and make its request, with the properties of this send; the message itself only gets its UNIQ_KEY."""
        message = send.message
        send.topic = self.checked_topic(message)
        send.message_id = self.identify(message)
        text, properties = message._text, _NOTHING  # here, because a property is a call
        if text is None:
            text, properties = message.properties_text, message.properties
        if (extra := send.extra) is not None:
            properties = {**properties, **extra}
            for name, value in extra.items():
                text = props.text_with(text, name, value)
        if send.sharding_key is not None or self.namespace is not None:
            text = self.text_of_send(text, send.sharding_key)
        if send.delay_level != 0 or send.delay_ms is not None or send.deliver_time_ms is not None:
            if send.delay_level == 0 and props.DELAY in properties:
                send.delay_level = message.delay_level  # with a time beside it, it is one too many
            text = props.text_with(text, *_delay(send, self._max_delay_level))
        elif props.DELAY in properties:  # of the message
            _check_level(message.delay_level, self._max_delay_level)
        send.text = text
        if send.stored_flag or len(message.body) >= self._compress_from:
            self.write_body(send)
        else:
            send.body = message.body
        if properties:
            if properties.get(props.TRAN_MSG) == "true":
                send.sys_flag |= TRANSACTION_PREPARED_TYPE
            elif properties.get(props.MSG_TYPE) == REPLY_TYPE:
                send.code = REPLY

    def write_body(self, send: Send) -> None:
        send.body = body = send.message.body
        if send.stored_flag & COMPRESSED:
            send.sys_flag = send.stored_flag & (COMPRESSED | COMPRESSION_TYPE_MASK)
        elif len(body) >= self._compress_from:
            packed = compress(body, self._compression, self._settings.compress_level)
            if len(packed) < len(body):
                send.body, send.sys_flag = packed, self._compression.sys_flag

    def text_of_send(self, text: str, sharding_key: str | None) -> str:
        if self.namespace is not None:
            text = props.text_with(text, props.INSTANCE_ID, self.namespace)
        if sharding_key is not None:
            text = props.text_with(text, props.SHARDING_KEY, props.checked_value("sharding_key", sharding_key))
        return text

    def write_batch(self, send: Send) -> None:
        """Make the request of a batch of messages that are checked; each gets its UNIQ_KEY."""
        messages, sharding_key = send.messages, send.sharding_key
        ids = [self.identify(message) for message in messages]
        if sharding_key is not None:
            sharding_key = props.checked_value("sharding_key", sharding_key)
        for message in messages:
            if sharding_key is not None:
                message.properties[props.SHARDING_KEY] = sharding_key
            if self.namespace is not None:
                message.properties[props.INSTANCE_ID] = self.namespace
        send.body, limit = encode_batch(messages), self._settings.max_message_bytes
        if len(send.body) > limit:
            raise ConfigurationError(
                f"the batch of {len(messages)} messages takes {len(send.body)} bytes, at most {limit} are allowed (max_message_bytes); "
                "send it in parts"
            )
        send.topic, send.code, send.message_id = wrap(self.namespace, send.message.topic), BATCH, ",".join(ids)
        send.text = self.text_of_batch(send.message.wait_store_msg_ok)

    def text_of_batch(self, wait_store_msg_ok: bool) -> str:
        return self.text_of_send("" if wait_store_msg_ok else _DO_NOT_WAIT, None)

    def encoded_batch(self, topic: str, elements: bytes | memoryview) -> Send:
        """A batch that the caller has encoded (``wire.records.batch``). Allowed only while ``Sender.sends_as_given``."""
        stand_in = Message(topic, b"-")
        return Send(stand_in, topic=self.checked_topic(stand_in), code=BATCH, body=bytes(elements))

    def template(self, send: Send, target: MessageQueue, credentials: Credentials | None) -> SendTemplate | None:
        """The template for ``frame``. None for a retry topic: its headers differ in more fields than a template has.
        ``credentials``: those that sign the request; None: it is not signed."""
        known = self._templates[send.code]
        template = known.get(target)
        if template is not None and template.credentials is credentials:
            return template
        if send.topic.startswith(RETRY_PREFIX):
            return None
        if len(known) >= _MOST_TEMPLATES:
            known.clear()
        header = self.header(send, target)
        template = known[target] = SendTemplate(send.code, header, self._added, credentials)
        return template

    def frame(self, template: SendTemplate, opaque: int, send: Send) -> bytes:
        """The request as bytes: the same as ``command``, with this opaque."""
        text = send.text
        properties = send.properties_text if text is None else props.header_text(text)
        return template.frame(opaque, send.sys_flag, self._clock.now_ms(), send.message.flag, properties, send.body)

    def command(self, send: Send, target: MessageQueue) -> Command:
        """The connection completes and signs it."""
        return request(send.code, self.header(send, target), send.body)

    def header(self, send: Send, target: MessageQueue) -> headers.SendMessageRequestHeaderV2:
        text = None
        reconsume_times = 0
        max_reconsume_times: int | None = None
        born_ms = self._clock.now_ms()
        if send.topic.startswith(RETRY_PREFIX):
            # The broker reads these from the header; as properties they would stay with the message for ever.
            properties = dict(send.properties)
            reconsume_times = int(properties.pop(props.RECONSUME_TIME, "0"))
            limit = properties.pop(props.MAX_RECONSUME_TIMES, None)
            born_ms = int(properties.pop(props.BORN_TIMESTAMP, born_ms))
            max_reconsume_times = None if limit is None else int(limit)
            text = props.properties_text(properties)
        return headers.SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=send.topic,
            default_topic=self._default_topic,
            default_topic_queue_nums=self._settings.default_topic_queue_nums,
            queue_id=target.queue_id,
            sys_flag=send.sys_flag,
            born_timestamp=born_ms,
            flag=send.message.flag,
            properties=send.properties_text if text is None else text,
            reconsume_times=reconsume_times,
            unit_mode=self._unit_mode,
            max_reconsume_times=max_reconsume_times,
            batch=send.code == BATCH,
            bname=target.broker_name,
        )


def send_answer(answer: Command, address: str) -> tuple[SendStatus, headers.SendMessageResponseHeader]:
    """How the message is stored, of which four codes speak, and where. Raises RemoteError for other codes."""
    status = SEND_STATUS_BY_CODE.get(answer.code)
    if status is None:
        in_words = type_refusal(answer.remark or "") if answer.code == ResponseCode.MESSAGE_ILLEGAL else None
        raise remote_error(answer.code, in_words or answer.remark, address)
    return status, answer.header(headers.SendMessageResponseHeader)


def _delay(send: Send, max_delay_level: int) -> tuple[str, str]:
    """The one property that delays a message, name and value. Raises ConfigurationError: more than one is given (a broker would
    take the level and drop the others), or a value is out of range."""
    delay_level, delay_ms, deliver_time_ms = send.delay_level, send.delay_ms, send.deliver_time_ms
    if (delay_level != 0) + (delay_ms is not None) + (deliver_time_ms is not None) > 1:
        raise ConfigurationError(
            "more than one of delay_level, delay_ms and deliver_time_ms is given, at most one is allowed"
        )
    if delay_ms is not None:
        return props.TIMER_DELAY_MS, str(check_range("delay_ms", delay_ms, 0, MAX_OFFSET))
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
