# SPDX-License-Identifier: Apache-2.0
"""Sending within transactions (Java: TransactionMQProducer).

Rules
1. ``execute`` runs only when the half is stored with SEND_OK; any other status rolls back without it.
2. The result of ``execute`` is sent to the broker once. If that fails, or the result is UNKNOWN, the broker checks back.
3. ``execute`` and ``check`` never run on the event loop unless they are ``async def``: a plain ``execute`` runs in the caller's
   thread (blocking client) or in a worker thread (async client), a plain ``check`` in ``check_thread_pool_max_size`` threads of the
   producer.
4. Which copy of the half an END names is decided by ``core.transactions.open_transactions``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from sprocketmq.client.logged_messages import logged_message
from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.client.produce.transaction_checks import CheckCallback
from sprocketmq.client.remoting.send import QueueSelector, Send
from sprocketmq.client.results import SendResult, SendStatus
from sprocketmq.client.settings.validators import MAX_INT, check_range
from sprocketmq.core.callbacks import check_callback, is_async
from sprocketmq.core.transactions.open_transactions import (
    HalfPlace,
    LocalTransactionState,
    OpenTransactions,
    local_transaction_state,
)
from sprocketmq.errors import ConfigurationError, RocketMQError, described
from sprocketmq.troubles import raised_at
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageQueue, format_host
from sprocketmq.wire.records.message_id import decode_offset_message_id

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import ProducerOptions
    from sprocketmq.client.produce.running_producer import RunningProducer

log = logging.getLogger("sprocketmq.client")

ExecuteCallback = Callable[[Message], "LocalTransactionState | Awaitable[LocalTransactionState]"]
_DELAYS = (props.DELAY, props.TIMER_DELAY_MS, props.TIMER_DELAY_SEC, props.TIMER_DELIVER_MS)


class TransactionSendResult(SendResult, frozen=True):
    """The broker's acknowledgement of a half message, and how its transaction ended here: ``local_transaction_state`` is what
    ``execute`` returned (UNKNOWN when it raised, ROLLBACK_MESSAGE when the half was not stored safely), ``local_failure`` what it
    raised, else None."""

    local_transaction_state: LocalTransactionState = LocalTransactionState.UNKNOWN
    local_failure: BaseException | None = None


class AsyncTransactionProducer(AsyncProducer):
    """A producer whose messages appear together with a local transaction, or not at all.

    ::

        async def check(message):            # the broker asks when it heard nothing: look into your database
            return LocalTransactionState.COMMIT_MESSAGE if await paid(message.keys[0]) else LocalTransactionState.UNKNOWN

        async with AsyncTransactionProducer("ops", check=check) as producer:
            await producer.send_in_transaction(Message("payments", b"...", keys="o-1"), execute=pay)

    Args:
        group: the producer group. Each member must be able to answer check-backs for the others, because the broker asks any of
            them.
        check: a function of the half message (a MessageExt), ``def`` or ``async def``, that returns a LocalTransactionState. It is
            called if the broker does not know how the transaction ended. It must use stored data, not what this process remembers.
        execute: the default of ``send_in_transaction``'s argument; without it, each call needs its own.
        check_thread_pool_max_size: how many checks may run at the same time, 1 to 1000.
        check_request_hold_max: how many checks may wait or run; the broker asks again about others.
        options: those of ProducerOptions and CommonOptions. ``topics`` lets brokers ask about transactions before anything was
            sent.

    What every method takes and raises is said by AsyncProducer. The class raises ConfigurationError (an option is unknown or out of
    range, or a callback is no function of one message; nothing was opened).
    """

    def __init__(
        self,
        group: str,
        *,
        check: CheckCallback,
        execute: ExecuteCallback | None = None,
        check_thread_pool_max_size: int = 1,
        check_request_hold_max: int = 2_000,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, **options)
        check_callback("check", check, "message", may_be_async=True)
        if execute is not None:
            check_callback("execute", execute, "message", may_be_async=True)
        self._check, self._execute = check, execute
        self._told_of_checks = False
        self._workers = check_range("check_thread_pool_max_size", check_thread_pool_max_size, 1, 1000)
        self._hold_max = check_range("check_request_hold_max", check_request_hold_max, 1, MAX_INT)
        self._open = OpenTransactions(self._hold_max)
        self._half_properties = {props.TRAN_MSG: "true", props.PGROUP: self._settings.group}

    def _make(self) -> RunningProducer:
        parts = super()._make()
        parts.check_with(self._check, self._open, self._workers)
        return parts

    async def send_in_transaction(
        self,
        message: Message,
        *,
        execute: ExecuteCallback | None = None,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        check_immunity_time_s: int | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionSendResult:
        """Store ``message`` as a half message, which consumers do not see, run ``execute``, and commit or roll back the message.

        Args:
            execute: does the local work: a function of ``message``, whose ``transaction_id`` is set, that returns a
                LocalTransactionState. A ``def`` function runs in a worker thread (of TransactionProducer in the calling thread). An
                exception counts as UNKNOWN and is in the result. Default: the producer's.
            check_immunity_time_s: how many seconds the broker waits before its first check-back; default: its
                ``transactionTimeOut``, 6 s.
            timeout_ms: the limit for storing the half, not for ``execute``, in milliseconds; default: ``send_msg_timeout_ms``.

        Returns the result, even if the broker could not be informed of it. Raises only before ``execute`` is called, so the local
        work has not begun. Raises ConfigurationError: the message or an argument is wrong (such as a delay), or no ``execute`` is
        given.
        """
        run = self._chosen_execute(execute)
        send = Send(message, queue, selector, sharding_key, timeout_ms=timeout_ms)
        half = await self._send_half(send, check_immunity_time_s)
        if half.status is not SendStatus.SEND_OK:
            return await self._end(message, half, LocalTransactionState.ROLLBACK_MESSAGE)
        try:
            answer = run(message) if is_async(run) else asyncio.to_thread(run, message)
            state = self._state_of(await answer)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the state is sent to the broker
            return await self._end(message, half, LocalTransactionState.UNKNOWN, error)
        except BaseException:
            self._open.finished(half.message_id, LocalTransactionState.UNKNOWN)
            raise
        return await self._end(message, half, state)

    async def send_prepared(
        self, message: Message, *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> tuple[SendResult, HalfPlace]:
        """Store ``message``, which has no delay, as a half message that others will end: code that stores the decision, or
        ``check``, which reads it. A half whose send failed may be stored all the same; ``check`` must know that it does not count.
        With a status other than SEND_OK it may get lost. Returns the acknowledgement, and where the half lies; nothing of it is
        kept here."""
        half = await self._send_half(Send(message, queue, timeout_ms=timeout_ms), None)
        if half.status is SendStatus.SEND_OK:
            self._open.finished(half.message_id, LocalTransactionState.UNKNOWN)
        return half, _place(half)

    def begin_prepared(self, message: Message, *, queue: MessageQueue | None = None) -> Send | None:
        """Begin ``send_prepared`` without waiting, for callers that keep many sends in flight; ``prepared`` takes what it returns.
        None: it cannot be sent at once (its route or connection is missing, it must be signed, the broker does not read); nothing
        was sent, use ``send_prepared``."""
        self._refuse_delay(message)
        send = Send(message, queue, extra=self._half_properties)
        return send if self._started_sender().begin(send) else None

    async def prepared(self, half: Send) -> tuple[SendResult, HalfPlace]:
        """The result of ``begin_prepared``, as that of ``send_prepared``; there is no second try. Raises NetworkError,
        RequestTimeout: the broker did not answer; it may have been stored nevertheless."""
        result = await self._started_sender().send(half)
        return result, _place(result)

    # -- the steps, which the blocking client takes one by one ---------------------------------------------------------------------------

    def _chosen_execute(self, execute: ExecuteCallback | None) -> ExecuteCallback:
        chosen = execute if execute is not None else self._execute
        if chosen is None:
            raise ConfigurationError(
                "no execute is given; pass it to send_in_transaction or, for all sends, to the producer"
            )
        if chosen is not self._execute:
            check_callback("execute", chosen, "message", may_be_async=True)  # before the half is stored
        return chosen

    async def _send_half(self, send: Send, check_immunity_time_s: int | None) -> SendResult:
        """Store the half message; with SEND_OK its transaction is open from now on."""
        sender, message = self._started_sender(), send.message
        sender.check(message)
        self._refuse_delay(message)
        send.extra = self._half_properties
        if check_immunity_time_s is not None:
            seconds = check_range("check_immunity_time_s", check_immunity_time_s, 1, MAX_INT)
            send.extra = {**send.extra, props.CHECK_IMMUNITY_TIME_IN_SECONDS: str(seconds)}
        is_new_topic = not sender.queue_choice.has_route(message.topic)
        half = await sender.send(send)
        if is_new_topic and self._instance is not None:
            self._instance.heartbeats.soon()  # a broker can only ask clients from which it had a heartbeat
        message.transaction_id = half.message_id
        if half.status is SendStatus.SEND_OK:
            self._open.begin(half.message_id, _place(half))
        return half

    @staticmethod
    def _refuse_delay(message: Message) -> None:
        given = getattr(message, "properties", ())
        for name in _DELAYS:
            if name in given:
                raise ConfigurationError(
                    f"the message has {name}={message.properties[name]}, a message sent in a transaction cannot be delayed"
                )

    def _state_of(self, answer: object) -> LocalTransactionState:
        state, allowed = local_transaction_state(answer)
        if not allowed:
            sentence = "group %s: execute returned %r; a LocalTransactionState is allowed, so it counts as UNKNOWN"
            self._hooks.troubles.failed("execute", sentence, self.group, answer, level=logging.ERROR)
        return state

    async def _end(
        self,
        message: Message,
        half: SendResult,
        state: LocalTransactionState,
        failure: BaseException | None = None,
    ) -> TransactionSendResult:
        if failure is not None:
            self._hooks.troubles.failed(
                raised_at(failure),
                "group %s: execute raised %s; the broker will ask about %s",
                self.group, described(failure), logged_message(message, half.message_id), error=failure,
            )  # fmt: skip
        stored = half.status is SendStatus.SEND_OK
        place = self._open.finished(half.message_id, state) if stored else _place(half)
        if place is not None and self._sender is not None:
            if self._sender.cluster.behind_proxy and not self._told_of_checks:
                # Apache's proxy passes an end on only if it has passed a check on before (TransactionProcessor.endTransaction).
                self._told_of_checks = True
                sentence = "group %s: behind a proxy a transaction ends when the broker checks it, by default within half a minute"
                log.warning(sentence, self.group)
            remark = None if failure is None else f"execute raised {described(failure)}"
            try:
                await self._sender.end_transaction(message, half, place, state, remark)
            except RocketMQError as error:
                sentence = "group %s: the end of transaction %s could not be sent, the broker will ask: %s"
                outages = self._sender.cluster.outages
                outages.failed("transactions", error, sentence, self.group, half.message_id, error, of=self.group)
        return TransactionSendResult(
            half.status,
            half.message_id,
            half.message_queue,
            half.queue_offset,
            half.offset_message_id,
            half.transaction_id,
            None,
            state,
            failure,
        )


def _place(half: SendResult) -> HalfPlace:
    host, commit_log_offset = decode_offset_message_id(half.offset_message_id)
    return HalfPlace(format_host(*host), half.queue_offset, commit_log_offset)
