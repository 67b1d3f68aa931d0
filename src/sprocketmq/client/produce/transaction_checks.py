# SPDX-License-Identifier: Apache-2.0
"""Transaction checks: a broker asks how a transaction ended (CHECK_TRANSACTION_STATE), the producer's callback answers with
END_TRANSACTION (Java: ClientRemotingProcessor.checkTransactionState, DefaultMQProducerImpl.checkTransactionState).

A plain callback runs in threads of its own, an ``async def`` one as a task. ``core.transactions.open_transactions`` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from sprocketmq.client.hooks import EndTransactionContext, Hooks
from sprocketmq.client.listen.async_listener_pool import AsyncListenerPool
from sprocketmq.client.listen.listener_pool import ListenerPool
from sprocketmq.client.listen.thread_listener_pool import ThreadListenerPool
from sprocketmq.client.logged_messages import logged_message
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.settings.namespace import unwrap
from sprocketmq.core.callbacks import is_async
from sprocketmq.core.transactions.open_transactions import (
    HalfPlace,
    LocalTransactionState,
    OpenTransactions,
    local_transaction_state,
)
from sprocketmq.errors import NetworkError, ProtocolError, RequestTimeout
from sprocketmq.net.connection import Connection
from sprocketmq.net.process.clock import watch
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt
from sprocketmq.wire.records.record import decode_record

log = logging.getLogger("sprocketmq.client")

CheckCallback = Callable[[MessageExt], "LocalTransactionState | Awaitable[LocalTransactionState]"]
_CLOSE_TIMEOUT_MS: Final = 3_000


@dataclass(slots=True, eq=False)
class Check:
    """One check-back of a broker, and its answer."""

    transaction: str
    message: MessageExt
    header: CheckTransactionStateRequestHeader
    connection: Connection
    state: LocalTransactionState = LocalTransactionState.UNKNOWN
    failure: BaseException | None = None

    @property
    def named(self) -> str:
        times = self.message.properties.get(props.TRANSACTION_CHECK_TIMES, "1")
        return logged_message(self.message, self.transaction, f"check {times}")


class TransactionChecks:
    """The check-back of one producer, whose ``group`` is the name at the brokers. Belongs to its instance's loop. ``workers``: how many
    callbacks run at once."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        namespace: str | None,
        check: CheckCallback,
        open_transactions: OpenTransactions,
        workers: int,
    ) -> None:
        self._instance, self._group, self._namespace = instance, group, namespace
        self._check: Callable[[MessageExt], Any] = check
        self._open = open_transactions
        self._complained = False
        self.hooks: Hooks | None = None
        name = f"sprocketmq-check-{group}"
        self._pool: ListenerPool[Check] = (
            AsyncListenerPool(self._run_async, self._answer, workers, name, instance.clock)
            if is_async(check)
            else ThreadListenerPool(self._run, self._answer, workers, name, instance.clock)
        )
        watch(instance.clock, self._pool)
        self._router = instance.processor(RequestCode.CHECK_TRANSACTION_STATE, _CheckRouter)
        self._router.producers[group] = self

    @property
    def runs_caller(self) -> bool:
        return self._pool.runs_caller

    async def close(self) -> bool:
        """Accept no more checks and wait for running callbacks; False when one still ran after 3 s."""
        self._router.producers.pop(self._group, None)
        return await self._pool.close(_CLOSE_TIMEOUT_MS)

    def ask(
        self, connection: Connection, header: CheckTransactionStateRequestHeader, message: MessageExt, key: str
    ) -> None:
        place = HalfPlace(message.store_host, header.tran_state_table_offset, header.commit_log_offset)
        message.broker_name = header.bname or self._name_of(connection.remote_address)
        if self._open.asked(key, place):
            message.topic = unwrap(self._namespace, message.topic)
            message.transaction_id = key
            self._pool.submit([Check(key, message, header, connection)])
        else:
            log.info("group %s: %d checks wait or run, including that of %s", self._group, self._open.checks, key)

    def _name_of(self, address: str) -> str:
        """The name of the broker with this address, for a check that does not say it: of 4.9, and of a proxy, whose address all brokers
        behind it have. Empty if there are several."""
        brokers = self._instance.cluster.routes.table.brokers()
        names = [name for name, addresses in brokers.items() if address in addresses.values()]
        return names[0] if len(names) == 1 else ""

    def _run(self, check: Check, origin: None = None) -> Check:
        try:
            check.state = self._state(self._check(check.message))
        except BaseException as error:  # noqa: BLE001 - even SystemExit in a worker must not lose the answer
            check.failure = error
        return check

    async def _run_async(self, check: Check, origin: None = None) -> Check:
        try:
            check.state = self._state(await self._check(check.message))
        except Exception as error:  # noqa: BLE001 - an exception of a callback counts as UNKNOWN
            check.failure = error
        return check

    def _state(self, answer: object) -> LocalTransactionState:
        state, allowed = local_transaction_state(answer)
        if not allowed and not self._complained:
            self._complained = True
            log.error(
                "group %s: check returned %r; a LocalTransactionState is allowed, so it counts as UNKNOWN (logged once)",
                self._group, answer,
            )  # fmt: skip
        return state

    def _answer(self, checks: list[Check], origin: None, spent_s: float) -> None:
        for check in checks:
            if check.failure is not None:
                self._instance.cluster.outages.raised(
                    check.failure,
                    "group %s: check raised %s: %s; the broker will ask again about %s",
                    self._group, type(check.failure).__name__, check.failure, check.named,
                )  # fmt: skip
            place, state = self._open.checked(check.transaction, check.state)
            if place is not None:
                self._instance.spawn(self._end(check, place, state))

    async def _end(self, check: Check, place: HalfPlace, state: LocalTransactionState) -> None:
        header = EndTransactionRequestHeader(
            producer_group=self._group,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.commit_log_offset,
            commit_or_rollback=state.sys_flag,
            from_transaction_check=True,
            msg_id=check.transaction,
            transaction_id=check.header.transaction_id,
            topic=check.header.topic,
            bname=check.message.broker_name or None,
        )
        command = requests.messages.END_TRANSACTION.command(header, oneway=True)
        if self.hooks is not None and self.hooks.end_transaction:
            self._call_hooks(self.hooks, check, state)
        if check.failure is not None:
            command.remark = f"check raised {type(check.failure).__name__}: {check.failure}"
        try:
            # The broker was restarted or cut us off; it is the same broker at that address.
            if check.connection.is_closed:
                await self._instance.cluster.pool.invoke_oneway(check.connection.remote_address, command)
            else:
                await check.connection.invoke_oneway(command)
        except (NetworkError, RequestTimeout) as error:
            sentence = "the end of transaction %s could not be sent, the broker will ask again: %s"
            self._instance.cluster.outages.failed("transactions", error, sentence, check.transaction, error)

    def _call_hooks(self, hooks: Hooks, check: Check, state: LocalTransactionState) -> None:
        hooks.ended_transaction(
            EndTransactionContext(
                unwrap(self._namespace, self._group),
                self._instance.client_id,
                check.message,
                check.transaction,
                check.header.transaction_id or check.transaction,
                check.connection.remote_address,
                state,
                True,
                self._instance.clock.now_ms(),
            )
        )


class _CheckRouter:
    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self.producers: dict[str, TransactionChecks] = {}

    def process(self, connection: Connection, command: Command) -> None:
        """Checks are one-way. One that cannot be decoded or has no producer is logged; the broker asks again."""
        try:
            header = command.header(CheckTransactionStateRequestHeader)
            message = decode_record(bytes(command.body))
        except ProtocolError as error:
            sentence = "%s asks about a transaction in a way that cannot be read: %s"
            self._instance.cluster.outages.failed("checks", error, sentence, connection.remote_address, error)
            return
        group = message.properties.get(props.PGROUP)
        producer = self.producers.get(group or "")
        if producer is None:
            log.info("%s asks about a transaction of group %s, which is not here", connection.remote_address, group)
            return
        producer.ask(connection, header, message, message.properties.get(props.UNIQ_KEY) or header.msg_id or "")
