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
    """Header of QUERY_CONSUMER_OFFSET (14).

    With ``set_zero_if_not_found`` False the broker answers "not found" where it would otherwise answer 0, for a queue whose first message
    is in memory.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    bname: str | None = None


class QueryConsumerOffsetResponseHeader(ExtHeader):
    """Answer to code 14; absent when nothing was found (QUERY_NOT_FOUND)."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(ExtHeader):
    """Header of UPDATE_CONSUMER_OFFSET (15)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    bname: str | None = None


class SearchOffsetRequestHeader(ExtHeader):
    """Header of SEARCH_OFFSET_BY_TIMESTAMP (29): the first (LOWER) or last (UPPER) message of a store timestamp. ``timestamp`` in ms."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    bname: str | None = None


class SearchOffsetResponseHeader(ExtHeader):
    """Answer to code 29."""

    offset: Int64


class GetMaxOffsetRequestHeader(ExtHeader):
    """Header of GET_MAX_OFFSET (30)."""

    topic: str
    queue_id: Int32
    committed: bool | None = None
    bname: str | None = None


class GetMaxOffsetResponseHeader(ExtHeader):
    """Answer to code 30: the offset that the next message will get."""

    offset: Int64


class GetMinOffsetRequestHeader(ExtHeader):
    """Header of GET_MIN_OFFSET (31)."""

    topic: str
    queue_id: Int32
    bname: str | None = None


class GetMinOffsetResponseHeader(ExtHeader):
    """Answer to code 31: the offset of the oldest message still there."""

    offset: Int64


class GetEarliestMsgStoretimeRequestHeader(ExtHeader):
    """Header of GET_EARLIEST_MSG_STORETIME (32)."""

    topic: str
    queue_id: Int32
    bname: str | None = None


class GetEarliestMsgStoretimeResponseHeader(ExtHeader):
    """Answer to code 32: ms since the epoch, -1 for an empty queue."""

    timestamp: Int64


class ResetOffsetRequestHeader(ExtHeader):
    """Header of INVOKE_BROKER_TO_RESET_OFFSET (222, admin to broker) and RESET_CONSUMER_CLIENT_OFFSET (220, broker to client).

    ``timestamp`` -1 means the end of the queue.
    """

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None


class GetConsumerStatusRequestHeader(ExtHeader):
    """Header of INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223, admin to broker) and GET_CONSUMER_STATUS_FROM_CLIENT (221, broker to client)."""

    topic: str
    group: str
    client_addr: str | None = None


class QueryCorrectionOffsetHeader(ExtHeader):
    """Header of QUERY_CORRECTION_OFFSET (308): the progress of all groups except ``filter_groups`` (separated by ``,``), compared with
    ``compare_group``.
    """

    topic: str
    compare_group: str
    filter_groups: str | None = None


class CloneGroupOffsetRequestHeader(ExtHeader):
    """Header of CLONE_GROUP_OFFSET (314). Without ``topic``, all topics of ``src_group``."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryConsumeQueueRequestHeader(ExtHeader):
    """Header of QUERY_CONSUME_QUEUE (321): ``count`` entries of a consume queue from ``index`` on, and whether they pass the group's
    filter.
    """

    topic: str
    queue_id: Int32
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
