# SPDX-License-Identifier: Apache-2.0
"""A message that an iteration hands out; ack, nack and dead_letter decide what happens to it. None of them waits for the broker, so they
are plain functions, the same for ``async for`` and ``for``, and may be called in any thread. Without any of them progress waits for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from sprocketmq.client.listener_signals import DeadLetter, RetryLater
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.message import MessageExt, V

if TYPE_CHECKING:
    from typing import Self


class Verdict(Enum):
    ACK = "ack"
    NACK = "nack"
    DEAD_LETTER = "dead_letter"


class Delivery:
    """What becomes of a message; here of one that was made by hand: the verdict is only stored. ``item``: None when it is settled, or given
    up."""

    __slots__ = ("_verdict",)
    item: object = None

    def __init__(self) -> None:
        self._verdict: Verdict | None = None

    @property
    def is_settled(self) -> bool:
        return self._verdict is not None

    def settle(self, verdict: Verdict, failure: BaseException | None) -> None:
        check_one_verdict(self._verdict, verdict)
        self._verdict = verdict

    def give_up(self) -> None:
        """Wait for no verdict any more."""


class _DeliveryElsewhere(Delivery):
    """The delivery of an unpickled message: the real one is in the process that received it."""

    def settle(self, verdict: Verdict, failure: BaseException | None) -> None:
        raise ConfigurationError(
            f"this is a pickled copy of a message, which cannot have a verdict; call {verdict.value}() of the message that the consumer "
            "handed out"
        )


def check_one_verdict(given: Verdict | None, verdict: Verdict) -> None:
    if given not in (None, verdict):
        raise ConfigurationError(
            f"the message has its {given.value} already and cannot have a {verdict.value}, too; give one for each delivery"
        )


class ReceivedMessage(MessageExt[V]):
    """A message that ``consumer.messages()`` handed out: a MessageExt that is acked, or sent back.

    ::

        async for message in messages:
            with message.process():
                handle(message)

    Args:
        topic: where it is stored.
        body: its bytes.
        fields: as those of MessageExt. A consumer makes these messages; a verdict on one made by hand, as in a test of a handler, is only
            stored. A pickled copy has no verdict: the process that received the message gives it.

    Every method that gives a verdict may be called twice. Every method raises ConfigurationError (an argument is out of range, or the
    message has another verdict) and ClosedError (the consumer was shut down before, so the message is delivered again).
    """

    __slots__ = ("_delivery",)

    _delivery: Delivery

    def __init__(self, topic: str, body: bytes, **fields: Any) -> None:
        super().__init__(topic, body, **fields)
        self._delivery = Delivery()

    def __copy__(self) -> Self:
        return cast("Self", received_message(self, self._delivery))

    def __getstate__(self) -> object:
        """For pickle: without the delivery, which stays in this process."""
        own, slots = cast("tuple[Any, dict[str, Any]]", super().__getstate__())
        return own, {**slots, "_delivery": _DeliveryElsewhere()}

    def ack(self) -> None:
        """It is done: the group's progress may pass it, when everything before it in its queue is done, too. Progress is written every
        5 s and at shutdown, as for listeners, so after a crash it may come again."""
        self._delivery.settle(Verdict.ACK, None)

    def nack(self, reason: str = "", *, delay_ms: int | None = None, delay_level: int = 0) -> None:
        """It failed: send it back for a retry (to the dead-letter topic when its retries are used up); an orderly queue pauses
        instead. ``delay_ms``: milliseconds, rounded up to the broker's next delay level (orderly: as it is, 10 ms to 30 s); default
        the schedule chooses: 10 s, 30 s, 1 min, ... ``delay_level``: wins over it, 1 to 18 by the broker's default."""
        self._delivery.settle(Verdict.NACK, RetryLater(reason, delay_ms=delay_ms, delay_level=delay_level))

    def dead_letter(self, reason: str = "") -> None:
        """No retry can help: to the dead-letter topic of the group now. ``reason``: stored with the dead letter
        (``DeadLetterMessage.reason``)."""
        self._delivery.settle(Verdict.DEAD_LETTER, DeadLetter(reason))

    @property
    def is_settled(self) -> bool:
        """Whether one of the three was called."""
        return self._delivery.is_settled

    @contextlib.contextmanager
    def process(self, *, dead_letter_on: type[Exception] | tuple[type[Exception], ...] = DeadLetter) -> Iterator[Self]:
        """A ``with`` block that treats the message as a listener would: its end is an ack, an exception sends the message back.

        An exception ends in the log with its traceback and not in your loop, which goes on with the next message. RetryLater and DeadLetter
        choose, as in a listener. ``dead_letter_on``: exceptions that no retry helps, such as ValueDeserializationError. A block that
        settled the message itself is left alone. What is no Exception (a cancellation, Ctrl-C) goes through and settles nothing.
        """
        try:
            yield self
        except Exception as error:
            if self.is_settled:
                raise
            is_hopeless = isinstance(error, (DeadLetter, dead_letter_on))
            self._delivery.settle(Verdict.DEAD_LETTER if is_hopeless else Verdict.NACK, error)
        else:
            if not self.is_settled:
                self.ack()


def received_message(message: MessageExt, delivery: Delivery) -> ReceivedMessage[Any]:
    """A copy of ``message`` for one delivery: when the same message comes again, an old copy says nothing about the new delivery."""
    copy = message._copy_as(ReceivedMessage)
    copy._delivery = delivery
    return copy
