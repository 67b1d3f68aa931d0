# SPDX-License-Identifier: Apache-2.0
"""The handle by which a producer recalls a timer message: in the answer to its send, and in RECALL_MESSAGE (Java: RecallMessageHandle).

    URL-safe base64, padded, of   "v1" topic brokerName deliverMs uniqueKey   joined by spaces

``deliverMs`` is the time slot of the waiting message (TIMER_OUT_MS) plus one, so that rounding down gives the same slot.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from msgspec import Struct

from sprocketmq.errors import ProtocolError

_VERSION: Final = "v1"
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}").fullmatch


class RecallHandle(Struct, frozen=True):
    """The content of a handle. ``deliver_ms`` is text: as in Java, the broker checks whether it is a number."""

    topic: str
    broker_name: str
    deliver_ms: str
    unique_key: str

    def encode(self) -> str:
        plain = " ".join((_VERSION, self.topic, self.broker_name, self.deliver_ms, self.unique_key))
        return base64.urlsafe_b64encode(plain.encode()).decode()

    @classmethod
    def decode(cls, handle: str) -> RecallHandle:
        """Read a handle. Missing padding is accepted, as in Java. Raises ProtocolError (it is not a handle)."""
        problem = ProtocolError(
            f"the recall handle {handle[:64]!r} is not valid; pass the recallHandle of the send's answer as it is"
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
