# SPDX-License-Identifier: Apache-2.0
"""Requests of administrators about topics and groups: create, change, delete, show."""

from __future__ import annotations

from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.requests.access import (
    CREATE,
    CREATE_OR_UPDATE,
    DELETE,
    LOOK,
    LOOK_AT_CLUSTER,
    LOOK_AT_GROUP,
    UPDATE,
    Names,
    cluster,
    group,
    in_body,
    topic,
)
from sprocketmq.wire.requests.declaration import Request


def _names_of_new_topics(body: bytes) -> Names:
    return [
        ("topic", config.topic_name) for config in bodies.CreateTopicListRequestBody.of_request(body).topic_config_list
    ]


def _name_of_new_group(body: bytes) -> Names:
    return [("group", bodies.SubscriptionGroupConfig.of_request(body).group_name)] if body else []


def _names_of_new_groups(body: bytes) -> Names:
    return [("group", config.group_name) for config in bodies.SubscriptionGroupList.of_request(body).group_config_list]


UPDATE_AND_CREATE_TOPIC = Request(
    code=RequestCode.UPDATE_AND_CREATE_TOPIC,
    access=topic("topic", CREATE),
    header=headers.CreateTopicRequestHeader,
    changes_tables=True,
)
UPDATE_AND_CREATE_TOPIC_LIST = Request(
    code=RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    access=in_body(_names_of_new_topics, CREATE),
    body=bodies.CreateTopicListRequestBody,
    changes_tables=True,
)
GET_ALL_TOPIC_CONFIG = Request(
    code=RequestCode.GET_ALL_TOPIC_CONFIG,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.GetAllTopicConfigRequestHeader,
    answer_header=headers.GetAllTopicConfigResponseHeader,
    answer_body=bodies.TopicConfigSerializeWrapper,
)
GET_TOPIC_CONFIG = Request(
    code=RequestCode.GET_TOPIC_CONFIG,
    access=topic("topic", LOOK),
    header=headers.GetTopicConfigRequestHeader,
    answer_body=bodies.TopicConfig,
)
GET_TOPIC_STATS_INFO = Request(
    code=RequestCode.GET_TOPIC_STATS_INFO,
    access=topic("topic", LOOK),
    header=headers.GetTopicStatsInfoRequestHeader,
    answer_body=bodies.TopicStatsTable,
)
GET_SYSTEM_TOPIC_LIST_FROM_BROKER = Request(
    code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=bodies.TopicList,
)
DELETE_TOPIC_IN_BROKER = Request(
    code=RequestCode.DELETE_TOPIC_IN_BROKER,
    access=topic("topic", DELETE),
    header=headers.DeleteTopicRequestHeader,
    changes_tables=True,
)
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = Request(
    code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    access=in_body(_name_of_new_group, CREATE_OR_UPDATE),
    body=bodies.SubscriptionGroupConfig,
    changes_tables=True,
)
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = Request(
    code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    access=in_body(_names_of_new_groups, CREATE_OR_UPDATE),
    body=bodies.SubscriptionGroupList,
    changes_tables=True,
)
GET_ALL_SUBSCRIPTIONGROUP_CONFIG = Request(
    code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.GetAllSubscriptionGroupRequestHeader,
    answer_header=headers.GetAllSubscriptionGroupResponseHeader,
    answer_body=bodies.SubscriptionGroupWrapper,
)
GET_SUBSCRIPTIONGROUP_CONFIG = Request(
    code=RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
    access=group("group", LOOK_AT_GROUP),
    header=headers.GetSubscriptionGroupConfigRequestHeader,
    answer_body=bodies.SubscriptionGroupConfig,
)
DELETE_SUBSCRIPTIONGROUP = Request(
    code=RequestCode.DELETE_SUBSCRIPTIONGROUP,
    access=group("groupName", DELETE),
    header=headers.DeleteSubscriptionGroupRequestHeader,
    changes_tables=True,
)
UPDATE_AND_GET_GROUP_FORBIDDEN = Request(
    code=RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    access=group("group", UPDATE) + topic("topic", UPDATE),
    header=headers.UpdateGroupForbiddenRequestHeader,
    answer_body=bodies.GroupForbidden,
    changes_tables=True,
)
QUERY_TOPIC_CONSUME_BY_WHO = Request(
    code=RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    access=topic("topic", LOOK),
    header=headers.QueryTopicConsumeByWhoRequestHeader,
    answer_body=bodies.GroupList,
)
QUERY_TOPICS_BY_CONSUMER = Request(
    code=RequestCode.QUERY_TOPICS_BY_CONSUMER,
    access=group("group", LOOK_AT_GROUP),
    header=headers.QueryTopicsByConsumerRequestHeader,
    answer_body=bodies.TopicList,
)
QUERY_SUBSCRIPTION_BY_CONSUMER = Request(
    code=RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    access=topic("topic", LOOK) + group("group", LOOK_AT_GROUP),
    header=headers.QuerySubscriptionByConsumerRequestHeader,
    answer_body=bodies.QuerySubscriptionResponseBody,
)
