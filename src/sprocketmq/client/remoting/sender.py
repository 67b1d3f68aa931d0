# SPDX-License-Identifier: Apache-2.0
"""Sending: the tries of a send, and what happens when one fails (Java: DefaultMQProducerImpl.sendDefaultImpl, sendKernelImpl).

``queue_choice`` chooses the queue, ``message_writer`` makes the request. Another broker is tried within the timeout after no answer, or a
code that another broker may not give; a queue that the caller chose is never replaced, because that would break the order of messages.

An ordinary send waits once: its first try begins at once (``_begin_try``: the route is known, the connection is open, no hook is
called) and ends with a stored answer. If it ends otherwise, ``_deliver`` counts it as the first of its tries and makes the others.
A try whose signature was refused is repeated within that try, if the keys may have changed.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from sprocketmq.client.hooks import EndTransactionContext, Hooks, SendMessageContext, message_type
from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.client.remoting.message_writer import ANY_DELAY_LEVEL, MessageWriter, send_answer
from sprocketmq.client.remoting.queue_choice import QueueChoice, left_until
from sprocketmq.client.remoting.send import BATCH, Send, Try
from sprocketmq.client.remoting.unique_keys import UniqueKeys
from sprocketmq.client.results import SendResult, SendStatus
from sprocketmq.client.settings.namespace import unwrap, unwrap_queue, wrap
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.client.settings.validators import check_message, check_text, check_timeout_ms, check_topic
from sprocketmq.core.resource_names import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.errors import (
    ConfigurationError,
    ConnectFailed,
    NetworkError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    RocketMQError,
)
from sprocketmq.net.process.clock import Clock
from sprocketmq.wire import headers, requests
from sprocketmq.wire.recall_handle import RecallHandle
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import encode_batch
from sprocketmq.wire.records.message import Message, MessageQueue
from sprocketmq.wire.records.sys_flag import TRANSACTION_PREPARED_TYPE
from sprocketmq.wire.send_frames import StoredAnswer

if TYPE_CHECKING:
    from sprocketmq.core.transactions.open_transactions import HalfPlace, LocalTransactionState


def vip_address(address: str) -> str:
    """The broker's second port, two below the first, where a broker that is busy with consumers still accepts sends
    (MixAll.brokerVIPChannel)."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"


class Sender:
    """Sends for one producer group. Belongs to one instance and its loop. ``namespace``: goes in front of topics; the
    group in ``settings`` has it already. ``unit_mode``: sent in each request (Java: unitMode, for deployments of
    several units). ``max_delay_level``: the highest a message may ask for."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        keys: UniqueKeys,
        settings: SendSettings,
        *,
        namespace: str | None = None,
        unit_mode: bool = False,
        vip_channel: bool = False,
        max_delay_level: int = ANY_DELAY_LEVEL,
    ) -> None:
        self.cluster, self._routes, self._clock = cluster, cluster.routes, clock
        table = cluster.routes.table
        self._known_queues, self._known_address = table.publish_queues, table.master_address
        self._awaited = cluster.routes.awaited
        self.settings = settings
        self.namespace = namespace
        self._vip_channel = vip_channel
        self._pool = cluster.pool
        self.writer = MessageWriter(
            settings, clock, keys, namespace, unit_mode, max_delay_level, self._pool.added_fields
        )
        self.queue_choice = QueueChoice(cluster, clock, settings, namespace)
        self._turns = self.queue_choice.turns
        # Without these two options, a stored answer to the first try ends a send, and its latency is not recorded.
        self._ends_with_first = (
            not settings.send_latency_fault_enable and not settings.retry_another_broker_when_not_store_ok
        )
        self._first_ms = self._try_ms(settings.send_msg_timeout_ms)
        self.hooks: Hooks | None = None  # None when there are none
        self.client_id = ""

    def check(self, message: Message) -> None:
        check_message(message, self.settings.max_message_bytes)

    # -- the verbs -------------------------------------------------------------------------------------------------------------

    async def send(self, send: Send) -> SendResult:
        """Send one message. One that ``begin`` has begun is only waited for."""
        target = send.target
        if not send.body:
            self.writer.write(send)
            if send.queue is not None or send.selector is not None or send.sharding_key is not None:
                if send.queue is None and not self._known_queues(send.topic):
                    send.end_s = self._end_s(send.timeout_ms)
                target = await self.queue_choice.chosen_by_caller(send)
        if self._ends_with_first and self.hooks is None and send.end_s is None and send.trying is None:
            timeout_ms, topic = send.timeout_ms, send.topic
            limit_ms = self._first_ms if timeout_ms is None else self._try_ms(check_timeout_ms(timeout_ms))
            if target is None and (queues := self._known_queues(topic)):
                target = (self._turns.get(topic) or self.queue_choice.turn(topic)).next(queues)
            if target is not None and (trying := self._begin_try(send, target, limit_ms)) is not None:
                try:
                    answer = await trying.answer
                    if type(answer) is StoredAnswer:
                        return self._result(send, target, SendStatus.SEND_OK, answer.extFields)
                except (NetworkError, RequestTimeout):
                    pass  # ``_deliver`` awaits the same answer and handles the failure
                except BaseException:
                    trying.connection.forget(trying.opaque)
                    raise
                send.trying = trying
                del trying  # its future holds the error of the first try
        send.target = target
        return await self._deliver(send)

    def begin(self, send: Send) -> bool:
        """Write the request of the only try now, for callers that keep many sends in flight and await the answers themselves; ``send``
        ends it. False: it cannot be done at once, and nothing was sent."""
        if not (self._ends_with_first and self.sends_as_given):
            return False
        self.writer.write(send)
        target = send.queue
        if target is None and (queues := self._known_queues(send.topic)):
            target = (self._turns.get(send.topic) or self.queue_choice.turn(send.topic)).next(queues)
        if target is not None:
            send.queue = send.target = target
            send.trying = self._begin_try(send, target, self._first_ms)
        return send.trying is not None

    async def send_batch(self, send: Send) -> SendResult:
        """Send a batch: ``send.messages``, which are checked, or one whose request is written."""
        if not send.body:
            send.end_s = self._end_s(send.timeout_ms)
            self.writer.write_batch(send)
            send.target = await self.queue_choice.chosen_by_caller(send)
        return await self._deliver(send)

    async def send_oneway(self, send: Send) -> None:
        """As in Java, the timeout of a send limits route queries, connecting and writing."""
        send.end_s = end_s = self._end_s(None)
        self.writer.write(send)
        target = await self.queue_choice.chosen_by_caller(send)
        if target is None:
            target = self.queue_choice.next_queue(send.topic, await self.queue_choice.queues(send.topic, end_s), None)
        address, left_ms = await self._address_within(target, left_until(end_s))
        if self.hooks is None:
            await self._pool.invoke_oneway(address, self.writer.command(send, target), left_ms)
            return
        with self.hooks.around_send(self._context(send, target, address, is_oneway=True)):
            await self._pool.invoke_oneway(address, self.writer.command(send, target), left_ms)

    @property
    def sends_as_given(self) -> bool:
        """Whether messages are sent as they are given: no hooks and no namespace."""
        return self.hooks is None and self.namespace is None

    def unique_keys(self, count: int) -> list[str]:
        keys: list[str] = []
        while len(keys) < count:
            keys += self.writer.next_keys(self._clock.now_ms())
        return keys[:count]

    async def recall(self, topic: str, recall_handle: str) -> str:
        recall_handle, topic = check_text("recall_handle", recall_handle), check_topic(topic)
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            raise ConfigurationError(f"topic is {topic!r}, messages of retry and dead-letter topics cannot be recalled")
        try:
            handle = RecallHandle.decode(recall_handle)
        except (ProtocolError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"recall_handle is {recall_handle!r}, the recall_handle of a SendResult is allowed"
            ) from error
        topic = wrap(self.namespace, topic)
        target = MessageQueue(topic, handle.broker_name, 0)
        address, left_ms = await self._address_within(target, self.settings.send_msg_timeout_ms)
        header = headers.RecallMessageRequestHeader(
            topic=topic,
            recall_handle=recall_handle,
            producer_group=self.settings.group,
            bname=handle.broker_name,
        )
        asked = requests.messages.RECALL_MESSAGE
        return (await self.cluster.ask_header(asked, header, at=address, timeout_ms=left_ms)).msg_id

    async def end_transaction(
        self,
        message: Message,
        half: SendResult,
        place: HalfPlace,
        state: LocalTransactionState,
        remark: str | None,
    ) -> None:
        """END_TRANSACTION, one-way as in every client: a broker that does not receive it checks back. The timeout is that of a send."""
        broker_name = half.message_queue.broker_name
        topic = wrap(self.namespace, message.topic)
        header = headers.EndTransactionRequestHeader(
            producer_group=self.settings.group,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.commit_log_offset,
            commit_or_rollback=state.sys_flag,
            msg_id=half.message_id,
            transaction_id=half.transaction_id,
            topic=topic,
            bname=broker_name,
        )
        command = requests.messages.END_TRANSACTION.command(header, oneway=True)
        command.remark = remark
        target = MessageQueue(topic, broker_name, 0)
        address, left_ms = await self._address_within(target, self.settings.send_msg_timeout_ms, vip=False)
        if self.hooks is not None and self.hooks.end_transaction:
            group, transaction = unwrap(self.namespace, self.settings.group), half.transaction_id or half.message_id
            self.hooks.ended_transaction(
                EndTransactionContext(
                    group, self.client_id, message, half.message_id, transaction, address, state, False, self._clock.now_ms()
                )
            )  # fmt: skip
        await self._pool.invoke_oneway(address, command, left_ms)

    # -- delivering ------------------------------------------------------------------------------------------------------------

    async def _deliver(self, send: Send) -> SendResult:
        """Send, in up to ``1 + retries`` tries, of which one may have begun. Each try goes to another broker than the one before, if
        there is one. The timeout covers everything: route queries, connecting, writing and waiting for answers."""
        settings = self.settings
        end_s = send.end_s
        if end_s is None:
            end_s = self._end_s(send.timeout_ms, None if send.trying is None else send.trying.started_s)
        now_s = asyncio.get_running_loop().time
        tries = 1 if send.is_bound else 1 + settings.retry_times_when_send_failed
        failure: RocketMQError | None = None
        last_broker: str | None = None
        for attempt in range(tries):
            if attempt and end_s <= now_s():
                break
            target, send.target = send.target, None
            if target is None:
                queues = self._known_queues(send.topic) or await self.queue_choice.queues(send.topic, end_s)
                target = self.queue_choice.next_queue(send.topic, queues, last_broker)
            started_s = now_s()
            left_ms = math.ceil((end_s - started_s) * 1000)
            last_broker = target.broker_name
            try:
                result = await self._try(send, target, max(1, left_ms))
            except (NetworkError, RequestTimeout) as error:
                self.queue_choice.record_try(target, started_s, error)
                failure = error
            except RemoteError as error:
                self.queue_choice.record_try(target, started_s, error)
                failure = error
                if error.code not in settings.retry_response_codes:
                    raise
            else:
                self.queue_choice.record_try(target, started_s, None)
                if (
                    result.status is SendStatus.SEND_OK
                    or not settings.retry_another_broker_when_not_store_ok
                    or attempt + 1 == tries
                ):
                    return result
                stored = result
                continue
        if failure is None:
            return stored
        try:
            raise failure.with_traceback(None)
        finally:
            del failure  # its traceback holds this frame

    async def _try(self, send: Send, target: MessageQueue, left_ms: int) -> SendResult:
        trying, send.trying = send.trying, None  # its future may hold an error, whose traceback holds ``send``
        if trying is None:
            timeout_ms = self._try_ms(left_ms)
            if self.hooks is not None:
                return await self._try_with_hooks(self.hooks, send, target, timeout_ms)
            trying = self._begin_try(send, target, timeout_ms)
        if trying is not None:
            outcome, trying = self._outcome(send, target, trying), None  # so that this frame does not hold the error
            return await outcome
        address, left_ms = await self._address_within(target, timeout_ms)
        answer = await self.cluster.invoke(address, self.writer.command(send, target), left_ms)
        return self._result(send, target, *send_answer(answer, address))

    def _begin_try(self, send: Send, target: MessageQueue, timeout_ms: int) -> Try | None:
        """Write the request of a try now. None: it cannot be written at once, or only as a Command; nothing was sent."""
        name = target.broker_name
        if self._awaited and (name, target.topic) in self._awaited:  # sends that wait for this address go first
            return None
        address = None if self._vip_channel else self._known_address(name)
        connection = None if address is None else self._pool.open_connection(address)
        template = None if connection is None else self.writer.template(send, target, self._pool.credentials)
        if address is None or connection is None or template is None:
            return None
        opaque = connection.next_opaque()
        frame = self.writer.frame(template, opaque, send)
        # Before its deadline is set: at its timeout, the time of the whole send is over, too.
        started_s = connection.now_s()
        answer = connection.start_send(opaque, frame, send.code, timeout_ms)
        return Try(address, connection, opaque, started_s, timeout_ms, answer)

    async def _outcome(self, send: Send, target: MessageQueue, trying: Try) -> SendResult:
        try:
            answer = await trying.answer
        except BaseException as error:
            if isinstance(error, RequestTimeout):
                self._pool.close_if_silent(trying.address, trying.connection, trying.started_s, error)
            else:
                trying.connection.forget(trying.opaque)
            del trying  # its future holds the error
            raise
        if isinstance(answer, StoredAnswer):
            return self._result(send, target, SendStatus.SEND_OK, answer.extFields)
        if self._pool.refuses_renewable(answer):  # it was not executed, so it may be sent again
            left_ms = trying.timeout_ms - int((trying.connection.now_s() - trying.started_s) * 1000)
            command = self.writer.command(send, target)
            answer = await self.cluster.invoke(trying.address, command, max(1, left_ms))
        return self._result(send, target, *send_answer(answer, trying.address))

    async def _try_with_hooks(self, hooks: Hooks, send: Send, target: MessageQueue, timeout_ms: int) -> SendResult:
        """``_try`` with hooks. The request is encoded after ``before_send``, which may change the properties."""
        address, left_ms = await self._address_within(target, timeout_ms)
        context = self._context(send, target, address, is_oneway=False)
        with hooks.around_send(context):
            if send.code == BATCH:
                send.body = encode_batch(send.messages)
            command = self.writer.command(send, target)
            answer = await self.cluster.invoke(address, command, left_ms)
            result, marks = self._result(send, target, *send_answer(answer, address)), answer.ext_fields
            context.region_id = marks.get(props.MSG_REGION) or context.region_id
            context.trace_on = marks.get(props.TRACE_ON) != "false"
            context.result = result
        return result

    def _context(self, send: Send, target: MessageQueue, address: str, *, is_oneway: bool) -> SendMessageContext:
        properties = [one.properties for one in send.messages] if send.code == BATCH else [send.properties]
        return SendMessageContext(
            unwrap(self.namespace, self.settings.group),
            self.client_id,
            send.all_messages,
            properties,
            unwrap_queue(self.namespace, target),
            address,
            message_type(properties[0]),
            is_oneway,
            self._clock.now_ms(),
        )

    def _result(
        self,
        send: Send,
        target: MessageQueue,
        status: SendStatus,
        header: headers.SendMessageResponseHeader,
    ) -> SendResult:
        if self.namespace is not None or header.queue_id != target.queue_id:
            target = MessageQueue(unwrap(self.namespace, target.topic), target.broker_name, header.queue_id)
        return SendResult(
            status,
            header.batch_uniq_id or send.message_id,
            target,
            header.queue_offset,
            header.msg_id,
            header.transaction_id if send.sys_flag & TRANSACTION_PREPARED_TYPE else None,
            header.recall_handle,
        )

    def _try_ms(self, left_ms: int) -> int:
        limit_ms = self.settings.send_msg_max_timeout_per_request_ms
        return left_ms if limit_ms < 0 else min(left_ms, limit_ms)

    def _end_s(self, timeout_ms: int | None, started_s: float | None = None) -> float:
        total_ms = self.settings.send_msg_timeout_ms if timeout_ms is None else check_timeout_ms(timeout_ms)
        return (asyncio.get_running_loop().time() if started_s is None else started_s) + total_ms / 1000

    async def _address_within(self, queue: MessageQueue, timeout_ms: int, *, vip: bool = True) -> tuple[str, int]:
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        address = await self._routes.master_address(queue, timeout_ms)
        if address is None:
            raise ConnectFailed(
                f"broker {queue.broker_name!r} of {queue} has no master at the moment; the name server names no address for it"
            )
        left_ms = max(1, timeout_ms - int((now_s() - began_s) * 1000))
        return (vip_address(address) if vip and self._vip_channel else address), left_ms
