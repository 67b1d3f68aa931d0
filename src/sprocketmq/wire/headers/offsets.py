"""Headers about queue offsets: codes 14, 15, 29, 30, 31, 32, 220, 221 and the admin's 222, 223, 308, 314, 321."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64

__all__ = [
    "CloneGroupOffsetRequestHeader",
    "GetConsumerStatusRequestHeader",
    "GetEarliestMsgStoretimeRequestHeader",
    "GetEarliestMsgStoretimeResponseHeader",
    "GetMaxOffsetRequestHeader",
    "GetMaxOffsetResponseHeader",
    "GetMinOffsetRequestHeader",
    "GetMinOffsetResponseHeader",
    "QueryConsumeQueueRequestHeader",
    "QueryConsumerOffsetRequestHeader",
    "QueryConsumerOffsetResponseHeader",
    "QueryCorrectionOffsetHeader",
    "ResetOffsetRequestHeader",
    "SearchOffsetRequestHeader",
    "SearchOffsetResponseHeader",
    "UpdateConsumerOffsetRequestHeader",
]


class QueryConsumerOffsetRequestHeader(ExtHeader):
    """Code 14. ``set_zero_if_not_found`` False asks for "not found" where the broker would otherwise answer 0 for a young queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    bname: str | None = None


class QueryConsumerOffsetResponseHeader(ExtHeader):
    """Answer to code 14; absent when nothing was found (QUERY_NOT_FOUND)."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(ExtHeader):
    """Code 15."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    bname: str | None = None


class SearchOffsetRequestHeader(ExtHeader):
    """Code 29: the first (LOWER) or last (UPPER) message of a store timestamp. ``timestamp`` in ms."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    bname: str | None = None


class SearchOffsetResponseHeader(ExtHeader):
    """Answer to code 29."""

    offset: Int64


class GetMaxOffsetRequestHeader(ExtHeader):
    """Code 30."""

    topic: str
    queue_id: Int32
    committed: bool | None = None
    bname: str | None = None


class GetMaxOffsetResponseHeader(ExtHeader):
    """Answer to code 30: the offset that the next message will get."""

    offset: Int64


class GetMinOffsetRequestHeader(ExtHeader):
    """Code 31."""

    topic: str
    queue_id: Int32
    bname: str | None = None


class GetMinOffsetResponseHeader(ExtHeader):
    """Answer to code 31: the offset of the oldest message still there."""

    offset: Int64


class GetEarliestMsgStoretimeRequestHeader(ExtHeader):
    """Code 32."""

    topic: str
    queue_id: Int32
    bname: str | None = None


class GetEarliestMsgStoretimeResponseHeader(ExtHeader):
    """Answer to code 32: ms since the epoch, -1 for an empty queue."""

    timestamp: Int64


class ResetOffsetRequestHeader(ExtHeader):
    """Codes 222 (admin to broker) and 220 (broker to client). ``timestamp`` -1 means the end of the queue."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None


class GetConsumerStatusRequestHeader(ExtHeader):
    """Codes 223 (admin to broker) and 221 (broker to client)."""

    topic: str
    group: str
    client_addr: str | None = None


class QueryCorrectionOffsetHeader(ExtHeader):
    """Code 308: how far all groups but ``filter_groups`` (joined by ``,``) have come, compared with ``compare_group``."""

    topic: str
    compare_group: str
    filter_groups: str | None = None


class CloneGroupOffsetRequestHeader(ExtHeader):
    """Code 314. Without ``topic``, all topics of ``src_group``."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryConsumeQueueRequestHeader(ExtHeader):
    """Code 321: ``count`` entries of a consume queue from ``index`` on, and whether they pass the group's filter."""

    topic: str
    queue_id: Int32
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
