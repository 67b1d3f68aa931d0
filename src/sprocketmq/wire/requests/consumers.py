# SPDX-License-Identifier: Apache-2.0
"""Requests about members of groups: heartbeats, queue locks, assignments, and requests of a broker to members."""

from __future__ import annotations

from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
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
    for consumer in bodies.HeartbeatData.of_request(body).consumer_data_set:
        yield "group", consumer.group_name
        for subscription in consumer.subscription_data_set:
            yield "topic", subscription.topic


def _names_in_client_config(body: bytes) -> Names:
    if body in (b"", b"null"):
        return
    asked = bodies.CheckClientConfigRequestBody.of_request(body)
    yield "group", asked.group
    if asked.subscription_data is not None:
        yield "topic", asked.subscription_data.topic


def _names_in_lock(body: bytes) -> Names:
    return _names_of_queues(bodies.LockBatchRequestBody.of_request(body))


def _names_in_unlock(body: bytes) -> Names:
    return _names_of_queues(bodies.UnlockBatchRequestBody.of_request(body))


def _names_of_queues(lock: bodies.LockBatchRequestBody | bodies.UnlockBatchRequestBody) -> Names:
    yield "group", lock.consumer_group
    for name in sorted({queue.topic for queue in lock.mq_set}):
        yield "topic", name


def _names_in_assignment(body: bytes) -> Names:
    asked = bodies.QueryAssignmentRequestBody.of_request(body)
    return ("topic", asked.topic), ("group", asked.consumer_group)


def _offset_of_consumed(command: Command) -> int:
    return offset_in(command.header(headers.ConsumeMessageDirectlyResultRequestHeader).msg_id)


HEART_BEAT = Request(
    code=RequestCode.HEART_BEAT,
    access=in_body(_names_in_heartbeat, CONSUME, optional=True),
    body=bodies.HeartbeatData,
    answer_header=headers.HeartbeatResponseHeader,
)
UNREGISTER_CLIENT = Request(
    code=RequestCode.UNREGISTER_CLIENT,
    access=group("consumerGroup", CONSUME, optional=True),
    header=headers.UnregisterClientRequestHeader,
)
CHECK_CLIENT_CONFIG = Request(
    code=RequestCode.CHECK_CLIENT_CONFIG,
    access=in_body(_names_in_client_config, CONSUME),
    body=bodies.CheckClientConfigRequestBody,
)
GET_CONSUMER_LIST_BY_GROUP = Request(
    code=RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    access=group("consumerGroup", CONSUME_OR_LOOK),
    header=headers.GetConsumerListByGroupRequestHeader,
    answer_body=bodies.GetConsumerListByGroupResponseBody,
)
NOTIFY_CONSUMER_IDS_CHANGED = Request(
    code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    served_by=Peer.CLIENT,
    access=FROM_ITS_BROKER,
    header=headers.NotifyConsumerIdsChangedRequestHeader,
    oneway=True,
)
LOCK_BATCH_MQ = Request(
    code=RequestCode.LOCK_BATCH_MQ,
    access=in_body(_names_in_lock, CONSUME),
    body=bodies.LockBatchRequestBody,
    answer_body=bodies.LockBatchResponseBody,
)
UNLOCK_BATCH_MQ = Request(
    code=RequestCode.UNLOCK_BATCH_MQ,
    access=in_body(_names_in_unlock, CONSUME),
    body=bodies.UnlockBatchRequestBody,
    oneway=True,
)
QUERY_ASSIGNMENT = Request(
    code=RequestCode.QUERY_ASSIGNMENT,
    access=in_body(_names_in_assignment, CONSUME),
    body=bodies.QueryAssignmentRequestBody,
    answer_body=bodies.QueryAssignmentResponseBody,
)
SET_MESSAGE_REQUEST_MODE = Request(
    code=RequestCode.SET_MESSAGE_REQUEST_MODE,
    access=cluster(CHANGE_CLUSTER),
    body=bodies.SetMessageRequestModeRequestBody,
    changes_tables=True,
)
GET_ALL_MESSAGE_REQUEST_MODE = Request(
    code=RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=bodies.MessageRequestModeSerializeWrapper,
)
GET_CONSUMER_CONNECTION_LIST = Request(
    code=RequestCode.GET_CONSUMER_CONNECTION_LIST,
    access=group("consumerGroup", LOOK_AT_GROUP),
    header=headers.GetConsumerConnectionListRequestHeader,
    answer_body=bodies.ConsumerConnection,
)
GET_PRODUCER_CONNECTION_LIST = Request(
    code=RequestCode.GET_PRODUCER_CONNECTION_LIST,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.GetProducerConnectionListRequestHeader,
    answer_body=bodies.ProducerConnection,
)
GET_ALL_PRODUCER_INFO = Request(
    code=RequestCode.GET_ALL_PRODUCER_INFO,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=bodies.ProducerTableInfo,
)
GET_CONSUMER_RUNNING_INFO = Request(
    code=RequestCode.GET_CONSUMER_RUNNING_INFO,
    served_by=Peer.BROKER | Peer.CLIENT,
    access=group("consumerGroup", LOOK_AT_GROUP),
    header=headers.GetConsumerRunningInfoRequestHeader,
    answer_body=bodies.ConsumerRunningInfo,
)
CONSUME_MESSAGE_DIRECTLY = Request(
    code=RequestCode.CONSUME_MESSAGE_DIRECTLY,
    served_by=Peer.BROKER | Peer.CLIENT,
    access=group("consumerGroup", CONSUME) + record(_offset_of_consumed, CONSUME),
    header=headers.ConsumeMessageDirectlyResultRequestHeader,
    answer_body=bodies.ConsumeMessageDirectlyResult,
)
