# SPDX-License-Identifier: Apache-2.0
"""Hooks: objects of the user that a client calls around sends, around listener calls, before messages are cached and at the end of
a transaction (Java: SendMessageHook, CheckForbiddenHook, ConsumeMessageHook, FilterMessageHook, EndTransactionHook).

``add_hook`` takes every kind of hook and calls each of these methods that the object has. Hooks are called in the order in which
they were added, ``after`` methods in the opposite order, so that hooks are nested.

Rules
1. An exception of a hook is logged and changes nothing. Two methods change something: ``check_forbidden`` stops a send by raising,
   ``filter_messages`` takes messages out.
2. A hook is called for each try of a send, because each try may go to another broker, and once for a listener call.
3. Without hooks no context is made.

Hooks of sends, transactions and filters run on the client's event loop, so they must not block; those of a listener call run where
the listener runs (its thread, or its task).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from sprocketmq.core.callbacks import check_callback, is_async
from sprocketmq.errors import ConfigurationError
from sprocketmq.troubles import Troubles, raised_at
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageExt, MessageQueue
from sprocketmq.wire.trace import DEFAULT_REGION, ConsumeReturnType, MessageType

if TYPE_CHECKING:
    from sprocketmq.client.results import SendResult
    from sprocketmq.core.transactions.open_transactions import LocalTransactionState

log = logging.getLogger("sprocketmq.client")


async def run_callback(
    callback: Callable[[Any], object], report: object, troubles: Troubles, failed: str, *args: object
) -> None:
    """Call a function of the user that is told something and changes nothing: in a thread, or here if it is async. If it raises, ``failed``
    is logged, a text with ``args``."""
    try:
        if is_async(callback):
            await callback(report)
        else:
            await asyncio.to_thread(callback, report)
    except Exception as error:  # noqa: BLE001 - logged
        troubles.failed(raised_at(error), failed, *args, level=logging.ERROR, error=error)


class SendMessageContext(msgspec.Struct):
    """One try of a send, the argument of hooks (Java: SendMessageContext).

    Attributes:
        messages: one, or those of a batch.
        properties: one dict per message, the properties of this send; ``before_send`` may add to it without changing the message.
        message_queue, broker_address: where this try goes.
        is_oneway: there is no answer; ``result`` stays None.
        started_ms: when the try began, on the client's clock.
        result, failure: what the broker answered, or this try raised.
        region_id, trace_on: what the broker says about message trace.
        notes: the hook's own, carried from ``before_send`` to ``after_send``.
    """

    producer_group: str
    client_id: str
    messages: Sequence[Message]
    properties: Sequence[dict[str, str]]
    message_queue: MessageQueue
    broker_address: str
    message_type: MessageType
    is_oneway: bool
    started_ms: int
    result: SendResult | None = None
    failure: BaseException | None = None
    region_id: str = DEFAULT_REGION
    trace_on: bool = True
    notes: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def message(self) -> Message:
        """The message, or the first of a batch."""
        return self.messages[0]


class ConsumeMessageContext(msgspec.Struct):
    """One listener call, the argument of hooks (Java: ConsumeMessageContext).

    Attributes:
        started_ms, spent_ms: when it began, on the client's clock, and how long the listener took.
        status, failure: what the listener answered (None before the call), or raised.
        return_type: how the call ended, in Java's five words.
        notes: the hook's own, carried from ``before_consume`` to ``after_consume``.
    """

    group: str
    message_queue: MessageQueue
    messages: Sequence[MessageExt]
    started_ms: int
    client_id: str = ""
    status: object = None
    failure: BaseException | None = None
    return_type: ConsumeReturnType = ConsumeReturnType.SUCCESS
    spent_ms: float = 0.0
    notes: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def success(self) -> bool:
        """The listener said that the messages are done."""
        return getattr(self.status, "name", None) in _DONE


_DONE: Final = frozenset({"CONSUME_SUCCESS", "SUCCESS", "COMMIT"})


class FilterMessageContext(msgspec.Struct):
    """Messages that came with one pull, after the check of their tags (Java: FilterMessageContext). ``messages`` may be shortened
    in place or replaced; what is missing afterwards counts as consumed. ``received_ms`` is on the client's clock."""

    group: str
    client_id: str
    message_queue: MessageQueue
    messages: list[MessageExt]
    received_ms: int = 0


class EndTransactionContext(msgspec.Struct):
    """The end of a transaction, as sent to the broker (Java: EndTransactionContext). ``state`` is what the local part said;
    ``from_transaction_check``: the broker had asked."""

    producer_group: str
    client_id: str
    message: Message
    message_id: str
    transaction_id: str
    broker_address: str
    state: LocalTransactionState
    from_transaction_check: bool
    ended_ms: int


class SendMessageHook(Protocol):
    """Around each try of a send."""

    def before_send(self, context: SendMessageContext) -> None:
        """Called before the request leaves. What is put into the ``notes`` of ``context`` is there in ``after_send``."""
        ...

    def after_send(self, context: SendMessageContext) -> None:
        """Called when the try has succeeded or failed, with the same ``context``."""
        ...


class CheckForbiddenHook(Protocol):
    """Called before each try of a send. If it raises, the send raises the same and nothing is sent."""

    def check_forbidden(self, context: SendMessageContext) -> None:
        """Called before each try. Raises Exception: whatever it likes; the send raises it."""
        ...


class ConsumeMessageHook(Protocol):
    """Around each listener call."""

    def before_consume(self, context: ConsumeMessageContext) -> None:
        """Called before the listener, where it runs. What is put into the ``notes`` of ``context`` is there in ``after_consume``."""
        ...

    def after_consume(self, context: ConsumeMessageContext) -> None:
        """Called when the listener returned or raised, with the same ``context``."""
        ...


class FilterMessageHook(Protocol):
    """Removes messages before they are cached. A removed message counts as consumed and does not come again."""

    def filter_messages(self, context: FilterMessageContext) -> None:
        """Called with what a pull brought; removes messages from ``context.messages``."""
        ...


class EndTransactionHook(Protocol):
    """Called when the end of a transaction was sent to the broker."""

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Called after the end was sent."""
        ...


# Attribute of Hooks -> the methods that a hook has to have for it.
_METHODS: Final = {
    "send": ("before_send", "after_send"),
    "check_forbidden": ("check_forbidden",),
    "consume": ("before_consume", "after_consume"),
    "filter": ("filter_messages",),
    "end_transaction": ("end_transaction",),
}


for_all: Final[list[Any]] = []
"""Hooks that each client gets which is made from now on; opentelemetry-instrument adds one."""


class Hooks:
    """The hooks of one client, by method."""

    __slots__ = ("check_forbidden", "consume", "end_transaction", "filter", "send", "troubles")

    def __init__(self) -> None:
        self.troubles = Troubles(log)
        self.send: list[SendMessageHook] = []
        self.check_forbidden: list[CheckForbiddenHook] = []
        self.consume: list[ConsumeMessageHook] = []
        self.filter: list[FilterMessageHook] = []
        self.end_transaction: list[EndTransactionHook] = []

    @classmethod
    def of_client(cls, allowed: Sequence[str]) -> Hooks:
        """Those of a new client: of ``for_all`` what it has a use for."""
        hooks = cls()
        for hook in for_all:
            if any(hasattr(hook, _METHODS[kind][0]) for kind in allowed):
                hooks.add(hook, allowed)
        return hooks

    def add(self, hook: Any, allowed: Sequence[str]) -> None:
        """Add ``hook`` for each hook method that it has. ``allowed``: the attributes of this class that the client has a use for. Raises
        ConfigurationError: it has none of these methods, one of a pair without the other, or one that does not take a context."""
        taken = False
        for kind in allowed:
            methods = _METHODS[kind]
            had = [method for method in methods if callable(getattr(hook, method, None))]
            if had and len(had) < len(methods):
                missing = next(method for method in methods if method not in had)
                raise ConfigurationError(f"the hook {hook!r} has {had[0]} without {missing}; give it both")
            if had:
                for method in methods:
                    check_callback(f"{method} of the hook", getattr(hook, method), "context")
                getattr(self, kind).append(hook)
                taken = True
        if not taken:
            names = ", ".join(" with ".join(_METHODS[kind]) for kind in allowed)
            raise ConfigurationError(f"the hook {hook!r} has no method that is called here; the methods are {names}")

    def with_hook(self, hook: Any) -> Hooks:
        """A copy with one more hook: the client's own ones are not added twice by a second start."""
        copy = Hooks()
        for kind, methods in _METHODS.items():
            getattr(copy, kind).extend(getattr(self, kind))
            if all(callable(getattr(hook, method, None)) for method in methods):
                getattr(copy, kind).append(hook)
        return copy

    # -- calls, with rule 1 -----------------------------------------------------------------------------------------------------

    def before_send(self, context: SendMessageContext) -> None:
        for check in self.check_forbidden:
            check.check_forbidden(context)
        for hook in self.send:
            self._guarded(hook.before_send, context)

    def after_send(self, context: SendMessageContext) -> None:
        for hook in reversed(self.send):
            self._guarded(hook.after_send, context)

    @contextmanager
    def around_send(self, context: SendMessageContext) -> Iterator[None]:
        """``before_send``, the try, ``after_send`` with what it raised; after a check that forbids the send, nothing else is called."""
        self.before_send(context)
        try:
            yield
        except BaseException as error:
            context.failure = error
            raise
        finally:
            self.after_send(context)

    def before_consume(self, context: ConsumeMessageContext) -> None:
        for hook in self.consume:
            self._guarded(hook.before_consume, context)

    def after_consume(self, context: ConsumeMessageContext) -> None:
        for hook in reversed(self.consume):
            self._guarded(hook.after_consume, context)

    def filter_messages(self, context: FilterMessageContext) -> list[MessageExt]:
        for hook in self.filter:
            self._guarded(hook.filter_messages, context)
        return context.messages

    def ended_transaction(self, context: EndTransactionContext) -> None:
        for hook in self.end_transaction:
            self._guarded(hook.end_transaction, context)

    def _guarded(self, call: Callable[[Any], None], context: object) -> None:
        try:
            call(context)
        except BaseException as error:  # noqa: BLE001 - rule 1: a hook that raises SystemExit must not lose a worker's messages
            name = getattr(call, "__qualname__", call)
            self.troubles.failed(raised_at(error), "a hook failed: %s", name, level=logging.ERROR, error=error)

    def __bool__(self) -> bool:
        return bool(self.send or self.check_forbidden or self.consume or self.filter or self.end_transaction)


def message_type(properties: dict[str, str]) -> MessageType:
    """The type of a message with these properties, as Java's producer reports it to hooks."""
    if props.DELAY in properties or any(name in properties for name in _TIMERS):
        return MessageType.DELAY
    if properties.get(props.TRAN_MSG) == "true":
        return MessageType.TRANSACTION_HALF
    return MessageType.ORDER if props.SHARDING_KEY in properties else MessageType.NORMAL


_TIMERS: Final = (props.TIMER_DELIVER_MS, props.TIMER_DELAY_MS, props.TIMER_DELAY_SEC, "__STARTDELIVERTIME")
