# SPDX-License-Identifier: Apache-2.0
"""One call of a listener, with its hooks; reads its answer and catches what it raises (Java: ConsumeRequest.run).

It runs in the worker, and changes only the batch that it was given, so it needs no lock; the loop decides what follows.

Rules
1. A call ends with a status, whatever the listener or a hook answers, raises (SystemExit too) or leaves in its context; only the end of the
   consumer itself cancels one for good.
2. A message counts as consumed only if the listener ran: the coroutine that a lambda returns is awaited on the loop; generators are
   refused.
3. The listener gets a copy of the list of messages.
4. An invalid answer is logged once for each kind, with the allowed values and what happens to the messages.
5. An exception that is returned counts as raised: ``return RetryLater()`` was meant to get the message again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sprocketmq.client.hooks import ConsumeMessageContext
from sprocketmq.client.listener_signals import ListenerSignal
from sprocketmq.client.logged_messages import logged_messages
from sprocketmq.client.results import ConsumeConcurrentlyContext, ConsumeOrderlyContext
from sprocketmq.core.callbacks import is_async
from sprocketmq.core.consume.consume_result import ConsumeConcurrentlyStatus
from sprocketmq.core.consume.orderly_turn import ConsumeOrderlyStatus
from sprocketmq.errors import ClosedError, ConfigurationError, described
from sprocketmq.wire.records.message import MessageExt
from sprocketmq.wire.trace import ConsumeReturnType

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer
    from sprocketmq.client.listen.listener_service import ListenerService

log = logging.getLogger("sprocketmq.client")

S = TypeVar("S")

_DEAD_LETTERS: Final = "becomes a dead letter", "become dead letters"
_MOST_COMPLAINTS: Final = 8
_MOST_IDS: Final = 32
_WAIT_S: Final = 1.0  # between two checks of the loop


def described_failure(failure: BaseException) -> str:
    """What was raised and where (Java: UtilAll.exceptionSimpleDesc)."""
    text = described(failure)
    trace = failure.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return text
    code = trace.tb_frame.f_code
    return f"{text}, {code.co_name}({code.co_filename}:{trace.tb_lineno})"


class ListenerBatch(Generic[S]):
    """The messages of one call. ``status`` (None: it was not called), ``failure``, ``spent_s`` and ``returned_none`` are its outcome.
    ``began_ms`` is 0 until it is known when the call began."""

    __slots__ = ("began_ms", "context", "failure", "messages", "returned_none", "spent_s", "status", "stuck_reported")

    def __init__(self, messages: list[MessageExt], context: Any) -> None:
        self.messages = messages
        self.context = context
        self.status: S | None = None
        self.failure: BaseException | None = None
        self.returned_none = False
        self.spent_s = 0.0
        self.began_ms = 0
        self.stuck_reported = False


class Listener:
    def __init__(
        self, service: ListenerService[Any], consumer: RunningConsumer, listener: Callable[[list[MessageExt], Any], Any]
    ) -> None:
        self._service, self._consumer, self._listener = service, consumer, listener
        self._read = service.read_answer
        self._complaints: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self.is_async = is_async_listener(listener)
        self.closing = False
        self._with_hooks = True

    def without_hooks(self) -> Listener:
        """For a call by an administrator's tool."""
        direct = copy.copy(self)
        direct._with_hooks = False
        return direct

    def run(self, batch: ListenerBatch[Any]) -> None:
        hook_context = self._begin(batch)
        started_s = time.perf_counter()
        try:
            self._record_answer(batch, self._listener(list(batch.messages), batch.context))
        except BaseException as error:  # noqa: BLE001 - even SystemExit in a worker must not lose the batch
            batch.failure = error
        self._end(batch, hook_context, started_s)

    async def run_async(self, batch: ListenerBatch[Any]) -> None:
        """Only the consumer's own end cancels it for good; any other cancellation is a failure."""
        hook_context = self._begin(batch)
        started_s = time.perf_counter()
        try:
            self._record_answer(batch, await self._listener(list(batch.messages), batch.context))
        except asyncio.CancelledError as error:
            if self.closing:
                raise
            batch.failure = error
        except BaseException as error:  # noqa: BLE001 - as above
            batch.failure = error
        self._end(batch, hook_context, started_s)

    def record_answer(self, batch: ListenerBatch[Any], answer: object) -> None:
        try:
            self._record_answer(batch, answer)
        except BaseException as error:  # noqa: BLE001 - as above
            batch.failure = error
        self._end(batch, None, time.perf_counter())

    def record_failure(self, batch: ListenerBatch[Any], failure: BaseException) -> None:
        batch.failure = failure
        self._end(batch, None, time.perf_counter())

    def _record_answer(self, batch: ListenerBatch[Any], answer: Any) -> None:
        status, complaint = self._read(answer, batch.context)
        if complaint is not None:
            if not self.is_async and inspect.isawaitable(answer):
                answer = self._wait_for(answer)
                status, complaint = self._read(answer, batch.context)
            _raise_returned(answer)
            batch.returned_none = answer is None
            self._complain(complaint, answer)
        batch.status = status

    def _wait_for(self, answer: Awaitable[Any]) -> Any:
        """The result of an awaitable that a listener returned on a thread. It runs on the client's loop, which may end before it does."""
        result = asyncio.run_coroutine_threadsafe(_awaited(answer), self._loop)
        while not concurrent.futures.wait([result], _WAIT_S).done and not self._loop.is_closed():
            pass
        if not result.done():
            raise ClosedError("the client's event loop ended before the listener's coroutine")
        return result.result()

    def _begin(self, batch: ListenerBatch[Any]) -> ConsumeMessageContext | None:
        consumer = self._consumer
        if not consumer.hooks.consume or not self._with_hooks:
            return None
        context: ConsumeConcurrentlyContext | ConsumeOrderlyContext = batch.context
        hook_context = ConsumeMessageContext(
            consumer.own_name, context.message_queue, batch.messages, consumer.clock.now_ms(), consumer.client_id
        )
        consumer.hooks.before_consume(hook_context)
        return hook_context

    def _complain(self, complaint: str | None, answer: object) -> None:
        if complaint is None:
            return
        kind = complaint.partition(" to ")[0] if complaint.startswith("set ") else type(answer).__name__
        if kind in self._complaints or len(self._complaints) == _MOST_COMPLAINTS:
            return
        self._complaints.add(kind)
        _, consequence = self._service.consequence
        log.error(
            "group %s: the listener %s, so those not acknowledged %s (logged once)",
            self._consumer.name,
            complaint,
            consequence,
        )

    def _end(self, batch: ListenerBatch[Any], hook_context: ConsumeMessageContext | None, started_s: float) -> None:
        batch.spent_s = time.perf_counter() - started_s
        if batch.failure is not None:
            batch.status = self._service.failed
            self._raised(batch, batch.failure)
        if hook_context is not None:
            hook_context.status, hook_context.failure = batch.status, batch.failure
            hook_context.spent_ms = batch.spent_s * 1000
            hook_context.return_type = self._return_type(batch, hook_context)
            self._consumer.hooks.after_consume(hook_context)

    def _raised(self, batch: ListenerBatch[Any], failure: BaseException) -> None:
        consumer = self._consumer
        consumer.last_failure = consumer.clock.now_ms(), described_failure(failure)
        if isinstance(failure, ListenerSignal):
            batch.context.apply_signal(failure)
            if log.isEnabledFor(logging.INFO):
                named = logged_messages(batch.messages)
                log.info("group %s: the listener raised %r for %s", consumer.name, failure, named)
            return
        consumer.has_raised = True
        limit = self._service.last_try
        is_last = limit is not None and all(message.reconsume_times >= limit for message in batch.messages)
        consumer.instance.cluster.outages.raised(
            failure,
            "group %s: the listener raised %s: %s; %s from %s %s",
            consumer.name,
            type(failure).__name__,
            failure,
            logged_messages(batch.messages, limit),
            batch.context.message_queue,
            (_DEAD_LETTERS if is_last else self._service.consequence)[len(batch.messages) > 1],
            of=batch.messages[0].message_id,
            extra={
                "consumer_group": consumer.name,
                "topic": batch.messages[0].topic,
                "message_ids": [message.message_id for message in batch.messages[:_MOST_IDS]],
                "reconsume_times": batch.messages[0].reconsume_times,
            },
        )

    def _return_type(self, batch: ListenerBatch[Any], hook_context: ConsumeMessageContext) -> ConsumeReturnType:
        """Java: ConsumeRequest.run, in its order."""
        if batch.failure is not None:
            return ConsumeReturnType.EXCEPTION
        if batch.returned_none:
            return ConsumeReturnType.RETURN_NULL
        limit_ms = self._consumer.settings.consume_timeout_ms
        if 0 < limit_ms <= hook_context.spent_ms:
            return ConsumeReturnType.TIME_OUT
        return ConsumeReturnType.SUCCESS if hook_context.success else ConsumeReturnType.FAILED


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _raise_returned(answer: object) -> None:
    """Rule 5, for an exception and for a class of them."""
    if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
        raise answer


def is_async_listener(listener: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await: ``async def``, a partial of one, or an object with ``async def __call__``.
    Raises ConfigurationError (it cannot be called, or is a generator, whose body a call does not run)."""
    if not callable(listener):
        raise ConfigurationError(f"the listener is {listener!r}, a function is allowed")
    if isinstance(listener, OneAtATime):
        return listener.is_async
    calls = (listener, type(listener).__call__)
    if any(inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call) for call in calls):
        raise ConfigurationError(
            f"the listener {listener!r} contains yield, so a call would not run it; a plain or an async function is allowed"
        )
    return is_async(listener)


class OneAtATime:
    """A concurrent listener made of a function of one message, which succeeds by returning. ``OneAtATimeService`` calls ``listener``
    directly: None means success, other results go through ``answer``. What is neither a status nor an exception is ignored, and logged
    once for each type (rule 4)."""

    __slots__ = ("_group", "_ignored", "is_async", "listener")

    def __init__(self, group: str, listener: Callable[[MessageExt], Any]) -> None:
        self._group, self.listener = group, listener
        self.is_async = is_async_listener(listener)
        self._ignored: set[type] = set()

    def __call__(self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> Any:
        returned = self.listener(messages[0])
        return self._settled_later(returned) if self.is_async else self.answer(returned)

    def answer(self, returned: Any) -> Any:
        if returned is None:
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        if not self.is_async and inspect.isawaitable(returned):  # rule 2: what it returned has not run yet
            return self._settled_later(returned)
        return self._settled(returned)

    async def _settled_later(self, returned: Awaitable[Any]) -> Any:
        return self._settled(await returned)

    def _settled(self, returned: object) -> object:
        _raise_returned(returned)
        if isinstance(returned, _STATUSES) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
            return returned  # a generator has not run any code: it is refused as an answer, as the orderly status is
        kind = type(returned)
        if returned is not None and kind not in self._ignored and len(self._ignored) < _MOST_COMPLAINTS:
            self._ignored.add(kind)
            log.warning(
                "group %s: the listener returned %r, which is ignored: the message is done. Return nothing, a "
                "ConsumeConcurrentlyStatus, or raise RetryLater or DeadLetter (logged once)",
                self._group,
                returned,
            )
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


_STATUSES: Final = (ConsumeConcurrentlyStatus, ConsumeOrderlyStatus)
