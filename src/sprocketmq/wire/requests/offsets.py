# SPDX-License-Identifier: Apache-2.0
"""Requests about the offsets of queues and the progress of groups."""

from __future__ import annotations

from sprocketmq.wire.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    GetConsumerStatusBody,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
)
from sprocketmq.wire.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
)
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers.consumers import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from sprocketmq.wire.headers.offsets import (
    CloneGroupOffsetRequestHeader,
    GetConsumerStatusRequestHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumeQueueRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from sprocketmq.wire.headers.topics import QueryConsumeTimeSpanRequestHeader
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
    served_by=Peer.BROKER,
    access=topic("topic", CONSUME_OR_LOOK) + group("consumerGroup", CONSUME_OR_LOOK),
    header=QueryConsumerOffsetRequestHeader,
    answer_header=QueryConsumerOffsetResponseHeader,
)
UPDATE_CONSUMER_OFFSET = Request(
    code=RequestCode.UPDATE_CONSUMER_OFFSET,
    served_by=Peer.BROKER,
    access=topic("topic", CONSUME_OR_UPDATE) + group("consumerGroup", CONSUME_OR_UPDATE),
    header=UpdateConsumerOffsetRequestHeader,
    oneway=True,
)
SEARCH_OFFSET_BY_TIMESTAMP = Request(
    code=RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK),
    header=SearchOffsetRequestHeader,
    answer_header=SearchOffsetResponseHeader,
)
GET_MAX_OFFSET = Request(
    code=RequestCode.GET_MAX_OFFSET,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK),
    header=GetMaxOffsetRequestHeader,
    answer_header=GetMaxOffsetResponseHeader,
)
GET_MIN_OFFSET = Request(
    code=RequestCode.GET_MIN_OFFSET,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK),
    header=GetMinOffsetRequestHeader,
    answer_header=GetMinOffsetResponseHeader,
)
GET_EARLIEST_MSG_STORETIME = Request(
    code=RequestCode.GET_EARLIEST_MSG_STORETIME,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK),
    header=GetEarliestMsgStoretimeRequestHeader,
    answer_header=GetEarliestMsgStoretimeResponseHeader,
)
GET_ALL_CONSUMER_OFFSET = Request(
    code=RequestCode.GET_ALL_CONSUMER_OFFSET,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=ConsumerOffsetSerializeWrapper,
)
GET_ALL_DELAY_OFFSET = Request(
    code=RequestCode.GET_ALL_DELAY_OFFSET,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=DelayOffsetSerializeWrapper,
)
RESET_CONSUMER_CLIENT_OFFSET = Request(
    code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=ResetOffsetRequestHeader,
    body=ResetOffsetBody,
    oneway=True,
)
GET_CONSUMER_STATUS_FROM_CLIENT = Request(
    code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=GetConsumerStatusRequestHeader,
    answer_body=GetConsumerStatusBody,
)
INVOKE_BROKER_TO_RESET_OFFSET = Request(
    code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    served_by=Peer.BROKER,
    access=group("group", UPDATE_OWN) + topic("topic", UPDATE_OWN),
    header=ResetOffsetRequestHeader,
    answer_body=ResetOffsetBody,
    changes_tables=True,
)
INVOKE_BROKER_TO_GET_CONSUMER_STATUS = Request(
    code=RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK) + group("group", LOOK_AT_GROUP),
    header=GetConsumerStatusRequestHeader,
    answer_body=GetConsumerStatusBody,
)
GET_CONSUME_STATS = Request(
    code=RequestCode.GET_CONSUME_STATS,
    served_by=Peer.BROKER,
    access=group("consumerGroup", LOOK_AT_GROUP) + topic("topic", LOOK, optional=True) + topics("topicList", ";", LOOK),
    header=GetConsumeStatsRequestHeader,
    answer_body=ConsumeStats,
)
GET_BROKER_CONSUME_STATS = Request(
    code=RequestCode.GET_BROKER_CONSUME_STATS,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=GetConsumeStatsInBrokerHeader,
    answer_body=ConsumeStatsList,
)
QUERY_CONSUME_TIME_SPAN = Request(
    code=RequestCode.QUERY_CONSUME_TIME_SPAN,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK) + group("group", LOOK_AT_GROUP),
    header=QueryConsumeTimeSpanRequestHeader,
    answer_body=QueryConsumeTimeSpanBody,
)
QUERY_CORRECTION_OFFSET = Request(
    code=RequestCode.QUERY_CORRECTION_OFFSET,
    served_by=Peer.BROKER,
    access=groups("filterGroups", ",", LOOK_AT_GROUP) + group("compareGroup", LOOK_AT_GROUP) + topic("topic", LOOK),
    header=QueryCorrectionOffsetHeader,
    answer_body=QueryCorrectionOffsetBody,
)
CLONE_GROUP_OFFSET = Request(
    code=RequestCode.CLONE_GROUP_OFFSET,
    served_by=Peer.BROKER,
    access=group("srcGroup", CONSUME_OR_LOOK)
    + group("destGroup", UPDATE_OWN)
    + topic("topic", UPDATE_OWN, optional=True),
    header=CloneGroupOffsetRequestHeader,
    changes_tables=True,
)
QUERY_CONSUME_QUEUE = Request(
    code=RequestCode.QUERY_CONSUME_QUEUE,
    served_by=Peer.BROKER,
    access=topic("topic", LOOK) + group("consumerGroup", LOOK_AT_GROUP, optional=True),
    header=QueryConsumeQueueRequestHeader,
    answer_body=QueryConsumeQueueResponseBody,
)
