# SPDX-License-Identifier: Apache-2.0
"""Headers of RECALL_MESSAGE (370): cancel a timer message that is not due yet (Java: RecallMessageRequestHeader, 5.x)."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader


class RecallMessageRequestHeader(ExtHeader):
    """``recall_handle`` comes from the answer to the send, see ``wire.recall_handle``; to Java a missing one is an empty one."""

    topic: str
    recall_handle: str = ""
    producer_group: str | None = None
    bname: str | None = None


class RecallMessageResponseHeader(ExtHeader):
    """Header of the answer to RECALL_MESSAGE (370). ``msg_id`` is the unique key of the cancelled message."""

    msg_id: str
