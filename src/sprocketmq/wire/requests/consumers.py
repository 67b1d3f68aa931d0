# SPDX-License-Identifier: Apache-2.0
"""Requests about members of groups: heartbeats, queue locks, assignments, and requests of a broker to members."""

from __future__ import annotations

from sprocketmq.wire.bodies.assignment import (
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from sprocketmq.wire.bodies.connections import (
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    ProducerConnection,
    ProducerTableInfo,
)
from sprocketmq.wire.bodies.heartbeat import CheckClientConfigRequestBody, HeartbeatData
from sprocketmq.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from sprocketmq.wire.bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers.consumers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetProducerConnectionListRequestHeader,
    HeartbeatResponseHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from sprocketmq.wire.requests.access import (
    CHANGE_CLUSTER,
    CONSUME,
    CONSUME_OR_LOOK,
    FROM_ITS_BROKER,
    LOOK_AT_CLUSTER,
    LOOK_AT_GROUP,
    Names,
    cluster,
    group,
    in_body,
    record,
)
from sprocketmq.wire.requests.declaration import Peer, Request
from sprocketmq.wire.requests.messages import offset_in


def _names_in_heartbeat(body: bytes) -> Names:
    """The topics and groups in a heartbeat. Producer groups are left out, because neither generation has a right on them."""
    for consumer in HeartbeatData.of_request(body).consumer_data_set:
        yield "group", consumer.group_name
        for subscription in consumer.subscription_data_set:
            yield "topic", subscription.topic


def _names_in_client_config(body: bytes) -> Names:
    if body in (b"", b"null"):
        return
    asked = CheckClientConfigRequestBody.of_request(body)
    yield "group", asked.group
    if asked.subscription_data is not None:
        yield "topic", asked.subscription_data.topic


def _names_in_lock(body: bytes) -> Names:
    return _names_of_queues(LockBatchRequestBody.of_request(body))


def _names_in_unlock(body: bytes) -> Names:
    return _names_of_queues(UnlockBatchRequestBody.of_request(body))


def _names_of_queues(lock: LockBatchRequestBody | UnlockBatchRequestBody) -> Names:
    yield "group", lock.consumer_group
    for name in sorted({queue.topic for queue in lock.mq_set}):
        yield "topic", name


def _names_in_assignment(body: bytes) -> Names:
    asked = QueryAssignmentRequestBody.of_request(body)
    return ("topic", asked.topic), ("group", asked.consumer_group)


def _offset_of_consumed(command: Command) -> int:
    return offset_in(command.header(ConsumeMessageDirectlyResultRequestHeader).msg_id)


HEART_BEAT = Request(
    code=RequestCode.HEART_BEAT,
    served_by=Peer.BROKER,
    access=in_body(_names_in_heartbeat, CONSUME, optional=True),
    body=HeartbeatData,
    answer_header=HeartbeatResponseHeader,
)
UNREGISTER_CLIENT = Request(
    code=RequestCode.UNREGISTER_CLIENT,
    served_by=Peer.BROKER,
    access=group("consumerGroup", CONSUME, optional=True),
    header=UnregisterClientRequestHeader,
)
CHECK_CLIENT_CONFIG = Request(
    code=RequestCode.CHECK_CLIENT_CONFIG,
    served_by=Peer.BROKER,
    access=in_body(_names_in_client_config, CONSUME),
    body=CheckClientConfigRequestBody,
)
GET_CONSUMER_LIST_BY_GROUP = Request(
    code=RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    served_by=Peer.BROKER,
    access=group("consumerGroup", CONSUME_OR_LOOK),
    header=GetConsumerListByGroupRequestHeader,
    answer_body=GetConsumerListByGroupResponseBody,
)
NOTIFY_CONSUMER_IDS_CHANGED = Request(
    code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=NotifyConsumerIdsChangedRequestHeader,
    oneway=True,
)
LOCK_BATCH_MQ = Request(
    code=RequestCode.LOCK_BATCH_MQ,
    served_by=Peer.BROKER,
    access=in_body(_names_in_lock, CONSUME),
    body=LockBatchRequestBody,
    answer_body=LockBatchResponseBody,
)
UNLOCK_BATCH_MQ = Request(
    code=RequestCode.UNLOCK_BATCH_MQ,
    served_by=Peer.BROKER,
    access=in_body(_names_in_unlock, CONSUME),
    body=UnlockBatchRequestBody,
    oneway=True,
)
QUERY_ASSIGNMENT = Request(
    code=RequestCode.QUERY_ASSIGNMENT,
    served_by=Peer.BROKER,
    access=in_body(_names_in_assignment, CONSUME),
    body=QueryAssignmentRequestBody,
    answer_body=QueryAssignmentResponseBody,
)
SET_MESSAGE_REQUEST_MODE = Request(
    code=RequestCode.SET_MESSAGE_REQUEST_MODE,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    body=SetMessageRequestModeRequestBody,
    changes_tables=True,
)
GET_ALL_MESSAGE_REQUEST_MODE = Request(
    code=RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=MessageRequestModeSerializeWrapper,
)
GET_CONSUMER_CONNECTION_LIST = Request(
    code=RequestCode.GET_CONSUMER_CONNECTION_LIST,
    served_by=Peer.BROKER,
    access=group("consumerGroup", LOOK_AT_GROUP),
    header=GetConsumerConnectionListRequestHeader,
    answer_body=ConsumerConnection,
)
GET_PRODUCER_CONNECTION_LIST = Request(
    code=RequestCode.GET_PRODUCER_CONNECTION_LIST,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=GetProducerConnectionListRequestHeader,
    answer_body=ProducerConnection,
)
GET_ALL_PRODUCER_INFO = Request(
    code=RequestCode.GET_ALL_PRODUCER_INFO,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=ProducerTableInfo,
)
GET_CONSUMER_RUNNING_INFO = Request(
    code=RequestCode.GET_CONSUMER_RUNNING_INFO,
    served_by=Peer.BROKER | Peer.CLIENT,
    access=group("consumerGroup", LOOK_AT_GROUP),
    header=GetConsumerRunningInfoRequestHeader,
    answer_body=ConsumerRunningInfo,
)
CONSUME_MESSAGE_DIRECTLY = Request(
    code=RequestCode.CONSUME_MESSAGE_DIRECTLY,
    served_by=Peer.BROKER | Peer.CLIENT,
    access=group("consumerGroup", CONSUME) + record(_offset_of_consumed, CONSUME),
    header=ConsumeMessageDirectlyResultRequestHeader,
    answer_body=ConsumeMessageDirectlyResult,
)
