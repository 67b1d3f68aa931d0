# SPDX-License-Identifier: Apache-2.0
"""Sending a failed message back to the broker for a later try (Java: DefaultMQPushConsumerImpl.sendMessageBack).

The broker that stores it makes the retry copy, or the dead letter; the level is the listener's choice, else the group's retry policy
(5.x), else the broker's schedule. If it refuses or does not answer, this client sends the copy to %RETRY%group itself. If that fails,
too, the caller keeps the message and tries again locally.

Rules
1. A chosen level applies either way, and so does the decision for a dead letter (a copy of this client has a limit of 0).
2. A message whose properties leave no room for a copy's (near 32,767 bytes) is retried locally until its limit. Its dead letter is then
   made without its largest properties, and ERROR names them. Java calls the listener every 5 s for ever.
3. A request without an answer may have been carried out. Then there are two copies, which is better than losing the message.
4. A dead letter with a reason is made by this client: the broker's copy has no room for one. A reason never prevents a dead letter: it is
   cut to fit, and left out if the copy with it is not stored with SEND_OK.
5. Another copy that is stored, but not yet on the disk or at a slave (FLUSH_DISK_TIMEOUT and the like), counts, and WARNING names it:
   each further one would come again, too, so that while a slave is away a message would be 2, 4, 8. (Java makes another one.) Only a dead
   letter, which does not come again, is made twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from sprocketmq.client.logged_messages import logged_message
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.results import NOT_SAFE_YET, SendResult, SendStatus
from sprocketmq.core.resource_names import retry_topic
from sprocketmq.core.retry.retry_policy import RetryPolicy, read_retry_policy
from sprocketmq.core.retry.retry_schedule import DelayLevels, retry_level
from sprocketmq.errors import (
    ConfigurationError,
    NetworkError,
    ProtocolError,
    RemoteError,
    RequestNotServed,
    RequestTimeout,
    RocketMQError,
)
from sprocketmq.wire import headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageExt, MessageQueue

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")

SEND_BACK_TIMEOUT_MS = 5_000
_POLICY_VALID_MS: Final = 60_000
_POLICY_TIMEOUT_MS: Final = 1_000
_NOT_SAFE = "the retry copy of %s is stored with %s, and lost if that machine fails now"
# Set anew by the send, by the broker on storing, or only meaningful while delayed: the copy must not have them.
_NOT_COPIED = (
    props.DELAY,
    props.WAIT,
    props.TRAN_MSG,  # the copy is no half message
    props.MIN_OFFSET,
    props.MAX_OFFSET,
    props.CONSUME_START_TIME,
    props.BORN_TIMESTAMP,
    props.REAL_TOPIC,
    props.REAL_QID,
)

# Properties that brokers add to a copy: DELAY, REAL_TOPIC, REAL_QID, the dead letter's origin.
_ROOM_BYTES = 1_024
_LONGEST_REASON_BYTES = 1_024
_NO_COPY = "no retry copy of %s could be stored: %s"
_SEPARATORS = str.maketrans("\x01\x02", "  ")
# A dead letter is found and replayed by these; all others may be left out if there is no room.
_NEVER_CUT = frozenset(
    (props.UNIQ_KEY, props.RETRY_TOPIC, props.ORIGIN_MESSAGE_ID, props.RECONSUME_TIME, props.MAX_RECONSUME_TIMES)
)


def retry_copy(
    message: MessageExt, group: str, max_reconsume_times: int, delay_level: int, reason: str = ""
) -> Message:
    """The message to send to ``%RETRY%group``. ``message``: its topic restored to the original. ``delay_level``: 0 and -1 mean the
    dead-letter topic, which a limit of 0 makes of it at every broker (4.9 reads the count alone, 5.x also the group's queue locks).
    ``reason``: stored as RETRY_REASON."""
    copy = Message(retry_topic(group), message.body, flag=message.flag)
    copied = copy.properties
    copied.update({name: value for name, value in message.properties.items() if name not in _NOT_COPIED})
    copied[props.RETRY_TOPIC] = message.properties.get(props.RETRY_TOPIC) or message.topic
    copied[props.ORIGIN_MESSAGE_ID] = message.properties.get(props.ORIGIN_MESSAGE_ID) or message.offset_message_id
    copied[props.RECONSUME_TIME] = str(message.reconsume_times + 1)
    copied[props.MAX_RECONSUME_TIMES] = str(max_reconsume_times if delay_level > 0 else 0)
    if delay_level > 0:
        copied[props.DELAY] = str(delay_level)
    if message.born_timestamp_ms > 0:
        copied[props.BORN_TIMESTAMP] = str(message.born_timestamp_ms)
    if reason:
        copied.pop(props.RETRY_REASON, None)
        copied[props.RETRY_REASON] = _fitting(reason, copied)
    return copy


def _fitting(reason: str, properties: dict[str, str]) -> str:
    """The reason as a property value: without the two separators, and short enough for the message."""
    taken = sum(len(name.encode()) + len(value.encode("utf-8", "replace")) + 2 for name, value in properties.items())
    room = max(1, min(_LONGEST_REASON_BYTES, props.MAX_PROPERTIES_BYTES - 2 * _ROOM_BYTES - taken))
    text = reason.translate(_SEPARATORS).strip() or "?"
    return text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") or "?"


class SendBack:
    def __init__(self, consumer: RunningConsumer) -> None:
        self._consumer, self._group = consumer, consumer.name
        self._instance = consumer.instance
        self._max_reconsume_times = consumer.max_reconsume_times  # sent along: the broker dead-letters at it
        self._retry_policy = GroupRetryPolicy(consumer) if consumer.settings.follow_group_retry_policy else None
        self.retried = Counter[str]()  # messages by topic since the start, and those that became dead letters
        self.dead_letters = Counter[str]()

    async def send(self, message: MessageExt, delay_level: int, reason: str = "") -> bool:
        """Send ``message`` back; whether a retry copy or dead letter is stored. ``delay_level``: 0 the group's policy or the broker
        chooses, 1..18 this level, -1 the dead-letter topic. ``reason``: stored with a dead letter."""
        tries = message.reconsume_times
        is_last = delay_level < 0 or tries >= self._max_reconsume_times
        stored = await self._store(message, delay_level, reason, is_last)
        if stored and is_last:
            self._dead_lettered(message, reason)
        else:
            self.retried[message.topic] += stored
        if (tape := self._consumer.tape) is not None:
            tape.note("sent_back", message=message, delay_level=delay_level, tries=tries, stored=stored)
        return stored

    async def _store(self, message: MessageExt, delay_level: int, reason: str, is_last: bool) -> bool:
        if delay_level < 0 and reason and await self._send_with_reason(message, reason):
            return True
        # By name first: the store host is the address the broker knows of itself, which a client cannot always reach.
        address = self._instance.cluster.routes.table.master_address(message.broker_name) or message.store_host
        if delay_level == 0 and self._retry_policy is not None:
            delay_level = await self._retry_policy.delay_level(address, message.reconsume_times)
        try:
            await self._ask_broker(address, message, delay_level)
            return True
        except (RemoteError, NetworkError, RequestTimeout) as error:
            if not is_last and isinstance(error, RemoteError) and error.remark in NOT_SAFE_YET:
                self._failed(_NOT_SAFE, message, error.remark)
                return True
            self._failed("%s could not be sent back (%s), sending a copy to its retry topic", message, error)
        level = -1 if delay_level < 0 else retry_level(message.reconsume_times, delay_level)
        return await self._send_copy(retry_copy(message, self._group, self._max_reconsume_times, level), message)

    async def dead_letter_orderly(self, message: MessageExt, reason: str = "") -> bool:
        """By the retry topic, with a limit that is reached."""
        stored = await self._send_copy(self._dead(message, reason), message)
        if stored:
            self._dead_lettered(message, reason)
        if (tape := self._consumer.tape) is not None:
            tape.note("dead_lettered", message=message, tries=message.reconsume_times, stored=stored)
        return stored

    def _dead_lettered(self, message: MessageExt, reason: str) -> None:
        self.dead_letters[message.topic] += 1
        named = logged_message(message, message.message_id, f"try {message.reconsume_times + 1}")
        because = f": {reason}" if reason else ""
        self._instance.cluster.outages.failed(
            "dead letters",
            None,
            "group %s: %s became a dead letter%s",
            self._group,
            named,
            because,
            of=message.message_id,
        )

    async def _send_with_reason(self, message: MessageExt, reason: str) -> bool:
        # To the broker that stores it, as its own copy would be; it makes the retry topic with the first message for it.
        queue = MessageQueue(retry_topic(self._group), message.broker_name, 0)
        try:
            sent = await self._send_inner(self._dead(message, reason), message, queue)
            if sent.status is SendStatus.SEND_OK:
                return True
            problem: object = sent.status
        except RocketMQError as error:
            problem = error
        self._failed(
            "the dead letter of %s could not be sent with its reason, the broker makes it without: %s", message, problem
        )
        return False

    async def _send_inner(self, copy: Message, message: MessageExt, queue: MessageQueue | None = None) -> SendResult:
        return await self._instance.inner_sender.send(Send(copy, queue, stored_flag=message.sys_flag))

    def _dead(self, message: MessageExt, reason: str) -> Message:
        return retry_copy(message, self._group, self._max_reconsume_times, -1, reason)

    async def _ask_broker(self, address: str, message: MessageExt, delay_level: int) -> None:
        header = headers.ConsumerSendMsgBackRequestHeader(
            offset=message.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            bname=message.broker_name,
            max_reconsume_times=self._max_reconsume_times,
        )
        asked = requests.messages.CONSUMER_SEND_MSG_BACK
        await self._instance.cluster.ask(asked, header, at=address, timeout_ms=SEND_BACK_TIMEOUT_MS)

    def _failed(self, sentence: str, message: MessageExt, problem: object, level: int = logging.WARNING) -> None:
        error = problem if isinstance(problem, Exception) else None
        args = (self._group, message.message_id, problem)
        what = "retries" if isinstance(error, RemoteError) else sentence
        self._instance.cluster.outages.failed(what, error, f"group %s: {sentence}", *args, of=self._group, level=level)

    async def _send_copy(self, copy: Message, message: MessageExt) -> bool:
        try:
            sent = await self._send_inner(copy, message)
            if sent.status is not SendStatus.SEND_OK:
                self._failed(_NOT_SAFE, message, sent.status)
            return True
        except (ConfigurationError, RemoteError) as error:
            self._failed(_NO_COPY, message, error, logging.ERROR)
            limit = int(copy.properties[props.MAX_RECONSUME_TIMES])
            cut = _cut(copy) if message.reconsume_times >= limit and _is_about_size(error) else []  # rule 2
        except RocketMQError as error:
            self._failed(_NO_COPY, message, error, logging.ERROR)
            return False
        if not cut:
            return False
        sentence = "group %s: the dead letter of %s has no room for its properties and is made without %s"
        log.error(sentence, self._group, message.message_id, ", ".join(cut))
        return await self._send_copy(copy, message)


class GroupRetryPolicy:
    """The group's own delays, read from a 5.x broker when the first message fails, and valid for a minute; so is their absence (4.9, no
    permission, no answer). Failures at the same time share one request, and whatever the broker answers, the message is sent back."""

    def __init__(self, consumer: RunningConsumer) -> None:
        self._consumer = consumer
        self._levels = DelayLevels.parse()
        self._policy: RetryPolicy | None = None
        self._valid_until_ms = -1
        self._asking = asyncio.Lock()
        self._is_refusal_logged = False

    async def delay_level(self, address: str, reconsume_times: int) -> int:
        """The level to ask for after this failure; 0 lets the broker choose."""
        clock = self._consumer.clock
        if clock.steady_ms() >= self._valid_until_ms:
            async with self._asking:
                if clock.steady_ms() >= self._valid_until_ms:  # else another caller has asked meanwhile
                    self._policy = await self._ask(address)
                    self._valid_until_ms = clock.steady_ms() + _POLICY_VALID_MS
        return 0 if self._policy is None else self._levels.level_for(self._policy.next_delay_ms(reconsume_times))

    async def _ask(self, address: str) -> RetryPolicy | None:
        group, cluster = self._consumer.name, self._consumer.instance.cluster
        header = headers.GetSubscriptionGroupConfigRequestHeader(group=group)
        asked = requests.topics.GET_SUBSCRIPTIONGROUP_CONFIG
        try:
            config = await cluster.ask_body(asked, header, at=address, timeout_ms=_POLICY_TIMEOUT_MS)
            return read_retry_policy(config.group_retry_policy)
        except RequestNotServed as error:
            if not self._is_refusal_logged:
                self._is_refusal_logged = True
                log.warning("group %s: the broker chooses the delays of retries: %s", group, error)
        except (NetworkError, RemoteError, RequestTimeout, ProtocolError) as error:
            log.debug("group %s: %s was not asked for the retry policy: %s", group, address, error)
        return None


def _is_about_size(error: ConfigurationError | RemoteError) -> bool:
    """Whether the copy is too large to be stored. A busy broker answers MESSAGE_ILLEGAL, too, and stores it later
    (SendMessageProcessor)."""
    return isinstance(error, ConfigurationError) or error.code == ResponseCode.MESSAGE_ILLEGAL


def _cut(copy: Message) -> list[str]:
    """Leave out the largest properties of ``copy`` until it is small enough, and return their names; none if it was small enough."""
    properties = copy.properties
    sizes = {name: len(name.encode()) + len(value.encode("utf-8", "replace")) + 2 for name, value in properties.items()}
    excess, cut = sum(sizes.values()) + _ROOM_BYTES - props.MAX_PROPERTIES_BYTES, []
    for name in sorted(sizes.keys() - _NEVER_CUT, key=sizes.__getitem__, reverse=True):
        if excess <= 0:
            break
        excess -= sizes[name]
        del properties[name]
        cut.append(name)
    if cut:
        properties.pop(props.DELAY, None)
        properties[props.MAX_RECONSUME_TIMES] = "0"
    return cut
