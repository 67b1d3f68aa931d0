# SPDX-License-Identifier: Apache-2.0
"""Requests about the offsets of queues and the progress of groups."""

from __future__ import annotations

from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.requests.access import (
    CONSUME_OR_LOOK,
    CONSUME_OR_UPDATE,
    FROM_ITS_BROKER,
    LOOK,
    LOOK_AT_CLUSTER,
    LOOK_AT_GROUP,
    UPDATE_OWN,
    cluster,
    group,
    groups,
    topic,
    topics,
)
from sprocketmq.wire.requests.declaration import Peer, Request

QUERY_CONSUMER_OFFSET = Request(
    code=RequestCode.QUERY_CONSUMER_OFFSET,
    access=topic("topic", CONSUME_OR_LOOK) + group("consumerGroup", CONSUME_OR_LOOK),
    header=headers.QueryConsumerOffsetRequestHeader,
    answer_header=headers.QueryConsumerOffsetResponseHeader,
)
UPDATE_CONSUMER_OFFSET = Request(
    code=RequestCode.UPDATE_CONSUMER_OFFSET,
    access=topic("topic", CONSUME_OR_UPDATE) + group("consumerGroup", CONSUME_OR_UPDATE),
    header=headers.UpdateConsumerOffsetRequestHeader,
    oneway=True,
)
SEARCH_OFFSET_BY_TIMESTAMP = Request(
    code=RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    access=topic("topic", LOOK),
    header=headers.SearchOffsetRequestHeader,
    answer_header=headers.SearchOffsetResponseHeader,
)
GET_MAX_OFFSET = Request(
    code=RequestCode.GET_MAX_OFFSET,
    access=topic("topic", LOOK),
    header=headers.GetMaxOffsetRequestHeader,
    answer_header=headers.GetMaxOffsetResponseHeader,
)
GET_MIN_OFFSET = Request(
    code=RequestCode.GET_MIN_OFFSET,
    access=topic("topic", LOOK),
    header=headers.GetMinOffsetRequestHeader,
    answer_header=headers.GetMinOffsetResponseHeader,
)
GET_EARLIEST_MSG_STORETIME = Request(
    code=RequestCode.GET_EARLIEST_MSG_STORETIME,
    access=topic("topic", LOOK),
    header=headers.GetEarliestMsgStoretimeRequestHeader,
    answer_header=headers.GetEarliestMsgStoretimeResponseHeader,
)
GET_ALL_CONSUMER_OFFSET = Request(
    code=RequestCode.GET_ALL_CONSUMER_OFFSET,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=bodies.ConsumerOffsetSerializeWrapper,
)
GET_ALL_DELAY_OFFSET = Request(
    code=RequestCode.GET_ALL_DELAY_OFFSET,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=bodies.DelayOffsetSerializeWrapper,
)
RESET_CONSUMER_CLIENT_OFFSET = Request(
    code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=headers.ResetOffsetRequestHeader,
    body=bodies.ResetOffsetBody,
    oneway=True,
)
GET_CONSUMER_STATUS_FROM_CLIENT = Request(
    code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=headers.GetConsumerStatusRequestHeader,
    answer_body=bodies.GetConsumerStatusBody,
)
INVOKE_BROKER_TO_RESET_OFFSET = Request(
    code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    access=group("group", UPDATE_OWN) + topic("topic", UPDATE_OWN),
    header=headers.ResetOffsetRequestHeader,
    answer_body=bodies.ResetOffsetBody,
    changes_tables=True,
)
INVOKE_BROKER_TO_GET_CONSUMER_STATUS = Request(
    code=RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    access=topic("topic", LOOK) + group("group", LOOK_AT_GROUP),
    header=headers.GetConsumerStatusRequestHeader,
    answer_body=bodies.GetConsumerStatusBody,
)
GET_CONSUME_STATS = Request(
    code=RequestCode.GET_CONSUME_STATS,
    access=group("consumerGroup", LOOK_AT_GROUP) + topic("topic", LOOK, optional=True) + topics("topicList", ";", LOOK),
    header=headers.GetConsumeStatsRequestHeader,
    answer_body=bodies.ConsumeStats,
)
GET_BROKER_CONSUME_STATS = Request(
    code=RequestCode.GET_BROKER_CONSUME_STATS,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.GetConsumeStatsInBrokerHeader,
    answer_body=bodies.ConsumeStatsList,
)
QUERY_CONSUME_TIME_SPAN = Request(
    code=RequestCode.QUERY_CONSUME_TIME_SPAN,
    access=topic("topic", LOOK) + group("group", LOOK_AT_GROUP),
    header=headers.QueryConsumeTimeSpanRequestHeader,
    answer_body=bodies.QueryConsumeTimeSpanBody,
)
QUERY_CORRECTION_OFFSET = Request(
    code=RequestCode.QUERY_CORRECTION_OFFSET,
    access=groups("filterGroups", ",", LOOK_AT_GROUP) + group("compareGroup", LOOK_AT_GROUP) + topic("topic", LOOK),
    header=headers.QueryCorrectionOffsetHeader,
    answer_body=bodies.QueryCorrectionOffsetBody,
)
CLONE_GROUP_OFFSET = Request(
    code=RequestCode.CLONE_GROUP_OFFSET,
    access=group("srcGroup", CONSUME_OR_LOOK)
    + group("destGroup", UPDATE_OWN)
    + topic("topic", UPDATE_OWN, optional=True),
    header=headers.CloneGroupOffsetRequestHeader,
    changes_tables=True,
)
QUERY_CONSUME_QUEUE = Request(
    code=RequestCode.QUERY_CONSUME_QUEUE,
    access=topic("topic", LOOK) + group("consumerGroup", LOOK_AT_GROUP, optional=True),
    header=headers.QueryConsumeQueueRequestHeader,
    answer_body=bodies.QueryConsumeQueueResponseBody,
)
