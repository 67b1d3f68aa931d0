"""Headers of code 370: take back a timer message that still waits (Java: RecallMessageRequestHeader, 5.x)."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader

__all__ = ["RecallMessageRequestHeader", "RecallMessageResponseHeader"]


class RecallMessageRequestHeader(ExtHeader):
    """``recall_handle`` is what the answer to the send carried, see ``wire.recall_handle``.

    Required in Java's class as well, but there a missing field only leaves a line in the log: the handle is then refused as an empty one.
    """

    topic: str
    recall_handle: str = ""
    producer_group: str | None = None
    bname: str | None = None


class RecallMessageResponseHeader(ExtHeader):
    """``msg_id`` is the unique key of the message that was taken back."""

    msg_id: str
