# SPDX-License-Identifier: Apache-2.0
"""Requests of administrators about topics and groups: create, change, delete, show."""

from __future__ import annotations

from sprocketmq.wire.bodies.connections import GroupForbidden, GroupList, QuerySubscriptionResponseBody
from sprocketmq.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList, SubscriptionGroupWrapper
from sprocketmq.wire.bodies.route import TopicList
from sprocketmq.wire.bodies.stats import TopicStatsTable
from sprocketmq.wire.bodies.topic_config import CreateTopicListRequestBody, TopicConfig, TopicConfigSerializeWrapper
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers.topics import (
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
    GetAllTopicConfigRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetSubscriptionGroupConfigRequestHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)
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
from sprocketmq.wire.requests.declaration import Peer, Request


def _names_of_new_topics(body: bytes) -> Names:
    return [("topic", config.topic_name) for config in CreateTopicListRequestBody.of_request(body).topic_config_list]


def _name_of_new_group(body: bytes) -> Names:
    return [("group", SubscriptionGroupConfig.of_request(body).group_name)] if body else []


def _names_of_new_groups(body: bytes) -> Names:
    return [("group", config.group_name) for config in SubscriptionGroupList.of_request(body).group_config_list]


UPDATE_AND_CREATE_TOPIC = Request(
    code=RequestCode.UPDATE_AND_CREATE_TOPIC,
    served_by=Peer.BROKER,
    access=topic("topic", CREATE),
    header=CreateTopicRequestHeader,
    changes_tables=True,
)
UPDATE_AND_CREATE_TOPIC_LIST = Request(
    code=RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    served_by=Peer.BROKER,
    access=in_body(_names_of_new_topics, CREATE),
    body=CreateTopicListRequestBody,
    changes_tables=True,
)
GET_ALL_TOPIC_CONFIG = Request(
    code=RequestCode.GET_ALL_TOPIC_CONFIG,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=GetAllTopicConfigRequestHeader,
    answer_header=GetAllTopicConfigResponseHeader,
    answer_body=TopicConfigSerializeWrapper,
)
GET_TOPIC_CONFIG = Request(
    code=RequestCode.GET_TOPIC_CONFIG,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK),
    header=GetTopicConfigRequestHeader,
    answer_body=TopicConfig,
)
GET_TOPIC_STATS_INFO = Request(
    code=RequestCode.GET_TOPIC_STATS_INFO,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK),
    header=GetTopicStatsInfoRequestHeader,
    answer_body=TopicStatsTable,
)
GET_SYSTEM_TOPIC_LIST_FROM_BROKER = Request(
    code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=TopicList,
)
DELETE_TOPIC_IN_BROKER = Request(
    code=RequestCode.DELETE_TOPIC_IN_BROKER,
    served_by=Peer.BROKER,
    access=topic("topic", DELETE),
    header=DeleteTopicRequestHeader,
    changes_tables=True,
)
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = Request(
    code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    served_by=Peer.BROKER,
    access=in_body(_name_of_new_group, CREATE_OR_UPDATE),
    body=SubscriptionGroupConfig,
    changes_tables=True,
)
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = Request(
    code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    served_by=Peer.BROKER,
    access=in_body(_names_of_new_groups, CREATE_OR_UPDATE),
    body=SubscriptionGroupList,
    changes_tables=True,
)
GET_ALL_SUBSCRIPTIONGROUP_CONFIG = Request(
    code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=GetAllSubscriptionGroupRequestHeader,
    answer_header=GetAllSubscriptionGroupResponseHeader,
    answer_body=SubscriptionGroupWrapper,
)
GET_SUBSCRIPTIONGROUP_CONFIG = Request(
    code=RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
    served_by=Peer.BROKER,
    access=group("group", LOOK_AT_GROUP),
    header=GetSubscriptionGroupConfigRequestHeader,
    answer_body=SubscriptionGroupConfig,
)
DELETE_SUBSCRIPTIONGROUP = Request(
    code=RequestCode.DELETE_SUBSCRIPTIONGROUP,
    served_by=Peer.BROKER,
    access=group("groupName", DELETE),
    header=DeleteSubscriptionGroupRequestHeader,
    changes_tables=True,
)
UPDATE_AND_GET_GROUP_FORBIDDEN = Request(
    code=RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    served_by=Peer.BROKER,
    access=group("group", UPDATE) + topic("topic", UPDATE),
    header=UpdateGroupForbiddenRequestHeader,
    answer_body=GroupForbidden,
    changes_tables=True,
)
QUERY_TOPIC_CONSUME_BY_WHO = Request(
    code=RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK),
    header=QueryTopicConsumeByWhoRequestHeader,
    answer_body=GroupList,
)
QUERY_TOPICS_BY_CONSUMER = Request(
    code=RequestCode.QUERY_TOPICS_BY_CONSUMER,
    served_by=Peer.BROKER,
    access=group("group", LOOK_AT_GROUP),
    header=QueryTopicsByConsumerRequestHeader,
    answer_body=TopicList,
)
QUERY_SUBSCRIPTION_BY_CONSUMER = Request(
    code=RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK) + group("group", LOOK_AT_GROUP),
    header=QuerySubscriptionByConsumerRequestHeader,
    answer_body=QuerySubscriptionResponseBody,
)
