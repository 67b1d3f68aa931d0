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
from sprocketmq.client.remoting.queue_choice import QueueSelector
from sprocketmq.client.results import SendStatus
from sprocketmq.core.callbacks import is_async
from sprocketmq.core.transactions.open_transactions import LocalTransactionState
from sprocketmq.errors import RocketMQError
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.records.message import Message, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import ProducerOptions

__all__ = ["TransactionProducer"]


class TransactionProducer(Producer):
    """A producer whose messages appear together with a local transaction, or not at all (AsyncTransactionProducer: for callers with an
    event loop). A plain ``execute`` runs in the thread that sends, so that it shares that thread's database session.

    ::

        def check(message: rmq.MessageExt) -> rmq.LocalTransactionState: ...

        with rmq.TransactionProducer("ops", check=check, namesrv_addr="127.0.0.1:9876") as producer:
            producer.send_in_transaction(rmq.Message("payments", b"...", keys="o-1"), execute=pay)

    Args:
        group: the producer group. All members must be able to answer for each other: the broker asks any of them.
        check: called with the half message (a MessageExt) when the broker does not know how its transaction ended; returns a
            LocalTransactionState. Plain or ``async def``. It must look at what is stored, not at what this process remembers.
        execute: what ``send_in_transaction`` calls when it is not told; by default it must be told.
        check_thread_pool_max_size: how many checks run at once, 1 to 1000.
        check_request_hold_max: how many may wait or run; the broker asks again for those beyond.
        options: as ProducerOptions and CommonOptions say (``help(sprocketmq.ProducerOptions)``).
            ``topics=[...]`` tells the brokers of these topics of this producer at start, so that they can ask it
            about transactions of members that died, before it sends anything.
        engine: the engine whose thread runs the client; default: one engine for all blocking clients of the process.

    Raises:
        ConfigurationError: an option is unknown or out of range, or a callback is no function of one message; nothing was opened.
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
        """Store ``message`` as a half message that nobody sees, run ``execute``, and let the message appear or vanish.

        What is raised here was raised before ``execute`` was called: nothing happened locally.

        Args:
            message: what to send; no delay of any kind is allowed.
            execute: called with ``message``, whose ``transaction_id`` is set; does the local work and returns a LocalTransactionState. A
                plain function runs in a worker thread (of TransactionProducer: in the calling one, so that it shares that thread's database
                session). What it raises counts as UNKNOWN and is in the result. Default that of the producer.
            queue: exactly this queue (see ``publish_queues``), no other one is tried; default any.
            selector: a function called with (queues, message) that returns one of the queues; default none.
            sharding_key: messages of one key go to one queue and stay in order, by Java's hash, so that all clients agree; default none.
            check_immunity_time_s: the broker does not ask before so many seconds; default its own ``transactionTimeOut``, 6 s.
            timeout_ms: limit of storing the half, milliseconds, default ``send_msg_timeout_ms``; ``execute`` may take any time.

        Returns:
            TransactionSendResult. The local work stands as ``local_transaction_state`` says, whether or not the broker could be told.

        Raises:
            ConfigurationError: the message (a delay?) or an argument is wrong, or no ``execute`` is given.
            TopicNotExist: the topic has no route and no broker creates it.
            RemoteError: the broker refused it (after the retries that make sense).
            NetworkError, RequestTimeout: no broker answered; it may have been stored nevertheless.
            ClosedError: the producer is not started, or was shut down.
        """
        steps = self._transactional
        run = steps._chosen_execute(execute)
        half = self._run(steps._send_half(message, queue, selector, sharding_key, check_immunity_time_s, timeout_ms))
        if half.status is not SendStatus.SEND_OK:
            return self._run(steps._end(message, half, LocalTransactionState.ROLLBACK_MESSAGE))
        try:
            answer = self._run(_awaited(run(message))) if is_async(run) else run(message)
            state = steps._state_of(answer)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the half must not stay behind unheard of
            return self._run(steps._end(message, half, LocalTransactionState.UNKNOWN, error))
        except BaseException as error:
            with contextlib.suppress(RocketMQError):
                self._run(steps._end(message, half, LocalTransactionState.UNKNOWN, error))
            raise
        return self._run(steps._end(message, half, state))

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncTransactionProducer", "TransactionProducer", 1)


async def _awaited(answer: Any) -> Any:
    return await answer
