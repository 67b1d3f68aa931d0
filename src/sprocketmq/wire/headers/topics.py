"""Headers about topics, groups and settings of a broker: codes 17, 21, 26, 201, 202, 207, 215, 300, 303, 343, 345, 351, 352 and 353."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32

__all__ = [
    "CreateTopicRequestHeader",
    "DeleteSubscriptionGroupRequestHeader",
    "DeleteTopicRequestHeader",
    "GetAllSubscriptionGroupRequestHeader",
    "GetAllSubscriptionGroupResponseHeader",
    "GetAllTopicConfigRequestHeader",
    "GetAllTopicConfigResponseHeader",
    "GetBrokerConfigResponseHeader",
    "GetSubscriptionGroupConfigRequestHeader",
    "GetTopicConfigRequestHeader",
    "GetTopicStatsInfoRequestHeader",
    "QueryConsumeTimeSpanRequestHeader",
    "QuerySubscriptionByConsumerRequestHeader",
    "QueryTopicConsumeByWhoRequestHeader",
    "QueryTopicsByConsumerRequestHeader",
    "UpdateGroupForbiddenRequestHeader",
]


class CreateTopicRequestHeader(ExtHeader):
    """Code 17. ``attributes`` is a change list such as ``+message.type=FIFO`` (5.x)."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class DeleteTopicRequestHeader(ExtHeader):
    """Code 215."""

    topic: str


class GetTopicStatsInfoRequestHeader(ExtHeader):
    """Code 202."""

    topic: str


class GetAllTopicConfigRequestHeader(ExtHeader):
    """Code 21. A 5.x caller may ask for pages: ``topic_seq`` the first topic, ``max_topic_num`` the page size."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponseHeader(ExtHeader):
    """Answer to code 21 of a 5.x broker."""

    total_topic_num: Int32


class GetAllSubscriptionGroupRequestHeader(ExtHeader):
    """Code 201. Pages as in code 21."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponseHeader(ExtHeader):
    """Answer to code 201 of a 5.x broker."""

    total_group_num: Int32


class DeleteSubscriptionGroupRequestHeader(ExtHeader):
    """Code 207. Whether its progress goes too is ``clean_offset`` to 5.x and ``remove_offset`` to 4.9; send both."""

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None


class QueryTopicConsumeByWhoRequestHeader(ExtHeader):
    """Code 300."""

    topic: str


class GetTopicConfigRequestHeader(ExtHeader):
    """Code 351 (5.x)."""

    topic: str


class GetSubscriptionGroupConfigRequestHeader(ExtHeader):
    """Code 352 (5.x)."""

    group: str


class QueryConsumeTimeSpanRequestHeader(ExtHeader):
    """Code 303."""

    topic: str
    group: str


class QueryTopicsByConsumerRequestHeader(ExtHeader):
    """Code 343 (5.x)."""

    group: str


class QuerySubscriptionByConsumerRequestHeader(ExtHeader):
    """Code 345 (5.x)."""

    group: str
    topic: str


class UpdateGroupForbiddenRequestHeader(ExtHeader):
    """Code 353 (5.x). ``readable`` None only asks."""

    group: str
    topic: str
    readable: bool | None = None


class GetBrokerConfigResponseHeader(ExtHeader):
    """Answer to code 26. ``version``: the DataVersion of the settings, as JSON."""

    version: str
