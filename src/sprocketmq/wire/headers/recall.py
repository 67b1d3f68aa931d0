"""Headers of code 370: take back a timer message that still waits (Java: RecallMessageRequestHeader, 5.x)."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader

__all__ = ["RecallMessageRequestHeader", "RecallMessageResponseHeader"]


class RecallMessageRequestHeader(ExtHeader):
    """``recall_handle`` is what the answer to the send carried, see ``wire.recall_handle``."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
    bname: str | None = None


class RecallMessageResponseHeader(ExtHeader):
    """``msg_id`` is the unique key of the message that was taken back."""

    msg_id: str
