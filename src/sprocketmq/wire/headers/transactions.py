# SPDX-License-Identifier: Apache-2.0
"""Headers of transactions: codes 37 and 39, which are one-way, and 323."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64


class EndTransactionRequestHeader(ExtHeader):
    """``commit_or_rollback`` is 8 for commit, 12 for rollback, 0 for unknown. Both offsets are those of the half message."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str = ""
    transaction_id: str | None = None
    topic: str | None = None
    bname: str | None = None


class CheckTransactionStateRequestHeader(ExtHeader):
    """Header of CHECK_TRANSACTION_STATE (39), to one producer of the group: how did a transaction end? The body is the half message as a
    record, with its real topic and queue."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    bname: str | None = None


class ResumeCheckHalfMessageRequestHeader(ExtHeader):
    """Check again the half message in TRANS_CHECK_MAX_TIME_TOPIC with the offset message id ``msg_id``."""

    msg_id: str
    topic: str | None = None
