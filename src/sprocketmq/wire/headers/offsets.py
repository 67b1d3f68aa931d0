# SPDX-License-Identifier: Apache-2.0
"""Headers about queue offsets: codes 14, 15, 29, 30, 31, 32, 220 and 221, and 222, 223, 308, 314 and 321 of administrators."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64


class QueryConsumerOffsetRequestHeader(ExtHeader):
    """A queue without progress whose first message is in memory has 0, or with ``set_zero_if_not_found`` False none."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    bname: str | None = None


class QueryConsumerOffsetResponseHeader(ExtHeader):
    """Header of the answer to QUERY_CONSUMER_OFFSET (14); missing if nothing was found (QUERY_NOT_FOUND)."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(ExtHeader):
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    bname: str | None = None


class SearchOffsetRequestHeader(ExtHeader):
    """Header of SEARCH_OFFSET_BY_TIMESTAMP (29): find the first (LOWER) or last (UPPER) message of a store time, in ms."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    bname: str | None = None


class SearchOffsetResponseHeader(ExtHeader):
    offset: Int64


class GetMaxOffsetRequestHeader(ExtHeader):
    topic: str
    queue_id: Int32
    committed: bool | None = None
    bname: str | None = None


class GetMaxOffsetResponseHeader(ExtHeader):
    """Header of the answer to GET_MAX_OFFSET (30): the offset that the next message will get."""

    offset: Int64


class GetMinOffsetRequestHeader(ExtHeader):
    topic: str
    queue_id: Int32
    bname: str | None = None


class GetMinOffsetResponseHeader(ExtHeader):
    offset: Int64


class GetEarliestMsgStoretimeRequestHeader(ExtHeader):
    topic: str
    queue_id: Int32
    bname: str | None = None


class GetEarliestMsgStoretimeResponseHeader(ExtHeader):
    """Header of the answer to GET_EARLIEST_MSG_STORETIME (32): ms since the epoch, -1 for an empty queue."""

    timestamp: Int64


class ResetOffsetRequestHeader(ExtHeader):
    """Codes 222, and 220 to a client. ``timestamp`` -1 means the end of the queue."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None


class GetConsumerStatusRequestHeader(ExtHeader):
    """Codes 223, and 221 to a client: the progress that a running consumer has in memory."""

    topic: str
    group: str
    client_addr: str | None = None


class QueryCorrectionOffsetHeader(ExtHeader):
    """The lowest progress of all groups in a topic but ``filter_groups`` (separated by ``,``), compared with ``compare_group``."""

    topic: str
    compare_group: str
    filter_groups: str | None = None


class CloneGroupOffsetRequestHeader(ExtHeader):
    """Header of CLONE_GROUP_OFFSET (314): copy the progress of ``src_group`` in ``topic``, or in all its topics, to ``dest_group``."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryConsumeQueueRequestHeader(ExtHeader):
    """``count`` entries of a consume queue from ``index`` on, and whether they pass the group's filter."""

    topic: str
    queue_id: Int32
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
