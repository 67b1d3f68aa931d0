# SPDX-License-Identifier: Apache-2.0
"""One send: what a caller asked for, the request that ``message_writer`` makes of it, and its try by ``sender``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageQueue
from sprocketmq.wire.send_frames import StoredAnswer

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]

SINGLE: Final = int(RequestCode.SEND_MESSAGE_V2)
BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)


class Try(msgspec.Struct):
    """A try whose request is written, with its timeout; ``answer`` may be waited for more than once."""

    address: str
    connection: Connection
    opaque: int
    started_s: float
    timeout_ms: int
    answer: asyncio.Future[StoredAnswer | Command]


class Send(msgspec.Struct):
    """A message, or a batch of ``messages`` with its first one as ``message``, on its way to a broker.

    Attributes:
        extra: properties of this send, which do not stay with the message.
        stored_flag: the sys_flag of the stored message that this is a copy of. A body that could not be decompressed here is sent
            compressed, with its flags, for consumers that have the library.
        end_s: when the send ends at the latest, on the loop's clock; None until somebody asks for it.
        topic: as brokers know it.
        text: the properties in the request's header, in their text form. None after they were read as a dict (``pairs``), which may
            have changed since.
        code, body, sys_flag: the request without its queue; no body: it is not written yet.
        target, trying: the queue of the next try, or of this one; the try that waits for its answer.
    """

    message: Message
    queue: MessageQueue | None = None
    selector: QueueSelector | None = None
    sharding_key: str | None = None
    delay_level: int = 0
    delay_ms: int | None = None
    deliver_time_ms: int | datetime | None = None
    timeout_ms: int | None = None
    extra: Mapping[str, str] | None = None
    stored_flag: int = 0
    end_s: float | None = None
    messages: Sequence[Message] = ()
    topic: str = ""
    text: str | None = ""
    pairs: dict[str, str] | None = None
    message_id: str = ""
    code: int = SINGLE
    body: bytes = b""
    sys_flag: int = 0
    target: MessageQueue | None = None
    trying: Try | None = None

    @property
    def is_bound(self) -> bool:
        """Whether the caller chose the queue, so that no other one is tried: that would break the order of messages."""
        return self.queue is not None or self.selector is not None or self.sharding_key is not None

    def check_choice(self) -> None:
        """Raises ConfigurationError: the queue is chosen in more than one way."""
        if (self.queue is not None) + (self.selector is not None) + (self.sharding_key is not None) > 1:
            raise ConfigurationError(
                "more than one of queue, selector and sharding_key is given, at most one is allowed"
            )

    @property
    def is_delayed(self) -> bool:
        return self.delay_level != 0 or self.delay_ms is not None or self.deliver_time_ms is not None

    @property
    def answer(self) -> asyncio.Future[StoredAnswer | Command]:
        """The answer to the try that has begun. StoredAnswer: it is stored, with SEND_OK. Anything else: ``Sender.send`` decides."""
        assert self.trying is not None
        return self.trying.answer

    @property
    def all_messages(self) -> Sequence[Message]:
        return self.messages or (self.message,)

    @property
    def properties(self) -> dict[str, str]:
        """The properties in the request's header; hooks may change them."""
        if self.pairs is None:
            self.pairs, self.text = props.pairs_of_text(self.text or ""), None
        return self.pairs

    @property
    def properties_text(self) -> str:
        """The properties as they stand in the request's header. Raises ConfigurationError: they are too long, or hold a separator."""
        text = self.text
        return props.properties_text(self.properties) if text is None else props.header_text(text)


_HOW: Final = frozenset(Send.__struct_fields__[1:8])


def send_of(message: Message, how: Mapping[str, object]) -> Send:
    """A send with the arguments of SendArguments. Raises TypeError: there is another one."""
    if not _HOW.issuperset(how):
        raise TypeError(f"send() got an unexpected keyword argument {min(how.keys() - _HOW)!r}")
    return Send(message, **how)  # type: ignore[arg-type]  # those that ``_HOW`` names
