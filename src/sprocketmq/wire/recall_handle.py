"""The handle by which a producer takes a timer message back: in the answer to its send, and in RECALL_MESSAGE. Java: RecallMessageHandle.

    URL-safe base64, padded, of   "v1" topic brokerName deliverMs uniqueKey   joined by one blank

``deliverMs`` is the time slot of the waiting message (TIMER_OUT_MS) plus one, so that flooring it to the slots' precision finds the same
slot again. The unique key is the message id that the producer knows.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from msgspec import Struct

from sprocketmq.errors import ProtocolError

__all__ = ["RecallHandle"]

_VERSION: Final = "v1"
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}").fullmatch


class RecallHandle(Struct, frozen=True):
    """What a handle says. ``deliver_ms`` stays text: whether it is a number is the broker's question, as in Java."""

    topic: str
    broker_name: str
    deliver_ms: str
    unique_key: str

    def encode(self) -> str:
        """The text form."""
        plain = " ".join((_VERSION, self.topic, self.broker_name, self.deliver_ms, self.unique_key))
        return base64.urlsafe_b64encode(plain.encode()).decode()

    @classmethod
    def decode(cls, handle: str) -> RecallHandle:
        """Read a handle; a missing padding is forgiven, as Java's decoder forgives it.

        Raises:
            ProtocolError: it is no handle.
        """
        problem = ProtocolError(
            f"the recall handle {handle[:64]!r} is none; pass the recallHandle of the send's answer as it is"
        )
        if not handle or _ALPHABET(handle) is None:
            raise problem
        try:
            plain = base64.urlsafe_b64decode(handle.rstrip("=") + "=" * (-len(handle.rstrip("=")) % 4))
        except (binascii.Error, ValueError) as error:
            raise problem from error
        words = plain.decode("utf-8", "replace").split(" ")
        if words[0] != _VERSION or len(words) < 5:
            raise problem
        return cls(*words[1:5])
