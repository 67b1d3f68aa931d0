# SPDX-License-Identifier: Apache-2.0
"""The blocking form of AsyncTransactionProducer; a plain ``execute`` runs in the caller's thread (Java: TransactionMQProducer)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from sprocketmq.client.produce.async_transaction_producer import (
    AsyncTransactionProducer,
    ExecuteCallback,
    TransactionSendResult,
)
from sprocketmq.client.produce.producer import Producer
from sprocketmq.client.produce.transaction_checks import CheckCallback
from sprocketmq.client.remoting.send import QueueSelector, Send
from sprocketmq.client.results import SendStatus
from sprocketmq.core.callbacks import is_async
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import RocketMQError
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.records.message import Message, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import ProducerOptions


class TransactionProducer(Producer):
    """A producer whose messages appear together with a local transaction, or not at all (AsyncTransactionProducer: for callers with an
    event loop). A plain ``execute`` runs in the thread that sends, so that it shares that thread's database session.

    ::

        def check(message: rmq.MessageExt) -> rmq.LocalTransactionState: ...

        with rmq.TransactionProducer("ops", check=check, namesrv_addr="127.0.0.1:9876") as producer:
            producer.send_in_transaction(rmq.Message("payments", b"...", keys="o-1"), execute=pay)

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
        engine: the engine whose thread runs the client; default: one engine for all blocking clients of the process.

    What every method takes and raises is said by Producer. The class raises ConfigurationError (an option is unknown or out of
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
        engine: Engine | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._transactional = AsyncTransactionProducer(
            group,
            check=check,
            execute=execute,
            check_thread_pool_max_size=check_thread_pool_max_size,
            check_request_hold_max=check_request_hold_max,
            **options,
        )
        self._wrap(self._transactional, engine)

    def send_in_transaction(
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
        steps = self._transactional
        run = steps._chosen_execute(execute)
        send = Send(message, queue, selector, sharding_key, timeout_ms=timeout_ms)
        half = self._run(steps._send_half(send, check_immunity_time_s))
        if half.status is not SendStatus.SEND_OK:
            return self._run(steps._end(message, half, LocalTransactionState.ROLLBACK_MESSAGE))
        try:
            answer = self._run(_awaited(run(message))) if is_async(run) else run(message)
            state = steps._state_of(answer)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the state is sent to the broker
            return self._run(steps._end(message, half, LocalTransactionState.UNKNOWN, error))
        except BaseException as error:
            with contextlib.suppress(RocketMQError):
                self._run(steps._end(message, half, LocalTransactionState.UNKNOWN, error))
            raise
        return self._run(steps._end(message, half, state))


async def _awaited(answer: Any) -> Any:
    return await answer
