# SPDX-License-Identifier: Apache-2.0
"""Headers about topics, groups and settings of a broker: codes 17, 21, 26, 201, 202, 207, 215, 300, 303, 343, 345, 351, 352 and 353."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32


class CreateTopicRequestHeader(ExtHeader):
    """Header of UPDATE_AND_CREATE_TOPIC (17). ``attributes`` is a list of changes such as ``+message.type=FIFO`` (5.x)."""

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
    topic: str


class GetTopicStatsInfoRequestHeader(ExtHeader):
    topic: str


class GetAllTopicConfigRequestHeader(ExtHeader):
    """Header of GET_ALL_TOPIC_CONFIG (21). For pages (5.x) ``topic_seq`` is the first topic and ``max_topic_num`` the page size."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponseHeader(ExtHeader):
    total_topic_num: Int32


class GetAllSubscriptionGroupRequestHeader(ExtHeader):
    """Header of GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201): get all consumer groups of a broker. Pages as for GET_ALL_TOPIC_CONFIG."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponseHeader(ExtHeader):
    total_group_num: Int32


class DeleteSubscriptionGroupRequestHeader(ExtHeader):
    """``clean_offset`` (5.x) and ``remove_offset`` (4.9): is its progress deleted, too? Send both."""

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None


class QueryTopicConsumeByWhoRequestHeader(ExtHeader):
    topic: str


class GetTopicConfigRequestHeader(ExtHeader):
    topic: str


class GetSubscriptionGroupConfigRequestHeader(ExtHeader):
    group: str


class QueryConsumeTimeSpanRequestHeader(ExtHeader):
    topic: str
    group: str


class QueryTopicsByConsumerRequestHeader(ExtHeader):
    group: str


class QuerySubscriptionByConsumerRequestHeader(ExtHeader):
    group: str
    topic: str


class UpdateGroupForbiddenRequestHeader(ExtHeader):
    """Header of UPDATE_AND_GET_GROUP_FORBIDDEN (353, 5.x): whether a group may read a topic. With ``readable`` None nothing changes."""

    group: str
    topic: str
    readable: bool | None = None


class GetBrokerConfigResponseHeader(ExtHeader):
    """Header of the answer to GET_BROKER_CONFIG (26). ``version``: the DataVersion of the settings, as JSON."""

    version: str
