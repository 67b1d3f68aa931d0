"""What each request needs: one table for both generations of access control. A request without an entry here is not served by anybody.

Java: PlainAccessValidator.parse of 4.9; DefaultAuthorizationContextBuilder and the annotations of the headers of 5.x. Both leave requests
out, and skip a name that is missing; here every request has its needs, and a missing name refuses it. What is stricter than Apache is
listed in the guide on security; ``authorizationWhitelist`` opens single codes again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sprocketmq.core.access.need_readers import (
    Place,
    Reader,
    all_of,
    any_account,
    cluster,
    group,
    groups,
    heartbeat,
    in_body,
    record,
    reply,
    topic,
    topics,
)
from sprocketmq.core.access.rights import (
    CHANGE_CLUSTER,
    CONSUME,
    CONSUME_OR_LOOK,
    CONSUME_OR_UPDATE,
    CREATE,
    CREATE_OR_UPDATE,
    DELETE,
    LOOK,
    LOOK_AT_CLUSTER,
    LOOK_AT_GROUP,
    PUBLISH,
    UPDATE,
    UPDATE_OWN,
    Need,
)
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.bodies import (
    CheckClientConfigRequestBody,
    CreateTopicListRequestBody,
    LockBatchRequestBody,
    QueryAssignmentRequestBody,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    UnlockBatchRequestBody,
)
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.command import Command
from sprocketmq.wire.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    ConsumerSendMsgBackRequestHeader,
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
    ViewMessageRequestHeader,
)
from sprocketmq.wire.message_id import decode_offset_message_id

__all__ = ["check_stated", "needs_of"]


def needs_of(command: Command, place: Place) -> Iterable[Need]:
    """What ``command`` needs, one by one, in the order of asking.

    Raises:
        ProtocolError: it cannot be told; also while the needs are taken out one by one.
    """
    reader = _NEEDS.get(command.code)
    if reader is None:
        raise ProtocolError(f"request code {command.code} has no stated need")
    return reader(command, place)


def check_stated(codes: Iterable[int]) -> None:
    """Every code that is served has its needs here, and no other.

    Raises:
        ConfigurationError: naming the codes without, or without a handler.
    """
    served = set(codes)
    for without, what in (
        (served - _NEEDS.keys(), "no stated need"),
        (_NEEDS.keys() - served, "a stated need and no handler"),
    ):
        if without:
            names = ", ".join(str(int(code)) for code in sorted(without))
            raise ConfigurationError(f"request codes {names} have {what}; state it in core.access.request_needs")


# -- names in bodies, each decoded as the handler does -----------------------------------------------------------------------------

Names = Iterable[tuple[str, "str | None"]]


def _locked(body: bytes) -> Names:
    return _of_queues(LockBatchRequestBody.of_request(body))


def _unlocked(body: bytes) -> Names:
    return _of_queues(UnlockBatchRequestBody.of_request(body))


def _of_queues(lock: LockBatchRequestBody | UnlockBatchRequestBody) -> Names:
    yield "group", lock.consumer_group
    for name in sorted({queue.topic for queue in lock.mq_set}):
        yield "topic", name


def _assigned(body: bytes) -> Names:
    asked = QueryAssignmentRequestBody.of_request(body)
    return ("topic", asked.topic), ("group", asked.consumer_group)


def _checked(body: bytes) -> Names:
    if body in (b"", b"null"):
        return
    asked = CheckClientConfigRequestBody.of_request(body)
    yield "group", asked.group
    if asked.subscription_data is not None:
        yield "topic", asked.subscription_data.topic


def _topics_made(body: bytes) -> Names:
    return [("topic", config.topic_name) for config in CreateTopicListRequestBody.of_request(body).topic_config_list]


def _group_made(body: bytes) -> Names:
    return [("group", SubscriptionGroupConfig.of_request(body).group_name)] if body else []


def _groups_made(body: bytes) -> Names:
    return [("group", config.group_name) for config in SubscriptionGroupList.of_request(body).group_config_list]


# -- places of records -------------------------------------------------------------------------------------------------------------


def _viewed(command: Command) -> int:
    return command.header(ViewMessageRequestHeader).offset


def _sent_back(command: Command) -> int:
    return command.header(ConsumerSendMsgBackRequestHeader).offset


def _ended(command: Command) -> int:
    return command.header(EndTransactionRequestHeader).commit_log_offset


def _consumed(command: Command) -> int:
    return _offset_in(command.header(ConsumeMessageDirectlyResultRequestHeader).msg_id)


def _resumed(command: Command) -> int:
    return _offset_in(command.header(ResumeCheckHalfMessageRequestHeader).msg_id)


def _offset_in(message_id: str | None) -> int:
    try:
        return decode_offset_message_id(message_id or "")[1]
    except ConfigurationError as error:
        raise ProtocolError(str(error)) from error


# -- the table ---------------------------------------------------------------------------------------------------------------------

_LOOK_AT_CLUSTER: Final = cluster(LOOK_AT_CLUSTER)
_CHANGE_CLUSTER: Final = cluster(CHANGE_CLUSTER)
_PULL: Final = all_of(topic("topic", CONSUME), group("consumerGroup", CONSUME))
_LOOK: Final = topic("topic", LOOK)
_LOOK_AT_CONSUMERS: Final = group("consumerGroup", LOOK_AT_GROUP)
_LOOK_AT_GROUP: Final = group("group", LOOK_AT_GROUP)

_R = RequestCode
_NEEDS: Final[dict[int, Reader]] = {
    # messages
    _R.SEND_MESSAGE: topic("topic", PUBLISH),
    _R.SEND_MESSAGE_V2: topic("b", PUBLISH),
    _R.SEND_BATCH_MESSAGE: topic("b", PUBLISH),
    _R.SEND_REPLY_MESSAGE: reply("topic"),
    _R.SEND_REPLY_MESSAGE_V2: reply("b"),
    _R.RECALL_MESSAGE: topic("topic", PUBLISH),
    _R.END_TRANSACTION: record(_ended, PUBLISH),
    _R.RESUME_CHECK_HALF_MESSAGE: record(_resumed, UPDATE),
    _R.PULL_MESSAGE: _PULL,
    _R.LITE_PULL_MESSAGE: _PULL,
    _R.CONSUMER_SEND_MSG_BACK: all_of(group("group", CONSUME), record(_sent_back, CONSUME)),
    _R.CONSUME_MESSAGE_DIRECTLY: all_of(group("consumerGroup", CONSUME), record(_consumed, CONSUME)),
    _R.QUERY_MESSAGE: topic("topic", CONSUME_OR_LOOK),
    _R.VIEW_MESSAGE_BY_ID: record(_viewed, CONSUME_OR_LOOK),
    # members of groups and their progress
    _R.HEART_BEAT: heartbeat(CONSUME),
    _R.UNREGISTER_CLIENT: group("consumerGroup", CONSUME, optional=True),
    _R.CHECK_CLIENT_CONFIG: in_body(_checked, CONSUME),
    _R.GET_CONSUMER_LIST_BY_GROUP: group("consumerGroup", CONSUME_OR_LOOK),
    _R.LOCK_BATCH_MQ: in_body(_locked, CONSUME),
    _R.UNLOCK_BATCH_MQ: in_body(_unlocked, CONSUME),
    _R.QUERY_ASSIGNMENT: in_body(_assigned, CONSUME),
    _R.QUERY_CONSUMER_OFFSET: all_of(topic("topic", CONSUME_OR_LOOK), group("consumerGroup", CONSUME_OR_LOOK)),
    _R.UPDATE_CONSUMER_OFFSET: all_of(topic("topic", CONSUME_OR_UPDATE), group("consumerGroup", CONSUME_OR_UPDATE)),
    _R.INVOKE_BROKER_TO_RESET_OFFSET: all_of(group("group", UPDATE_OWN), topic("topic", UPDATE_OWN)),
    _R.CLONE_GROUP_OFFSET: all_of(
        group("srcGroup", CONSUME_OR_LOOK), group("destGroup", UPDATE_OWN), topic("topic", UPDATE_OWN, optional=True)
    ),
    # looking
    _R.SEARCH_OFFSET_BY_TIMESTAMP: _LOOK,
    _R.GET_MAX_OFFSET: _LOOK,
    _R.GET_MIN_OFFSET: _LOOK,
    _R.GET_EARLIEST_MSG_STORETIME: _LOOK,
    _R.GET_TOPIC_STATS_INFO: _LOOK,
    _R.GET_TOPIC_CONFIG: _LOOK,
    _R.QUERY_TOPIC_CONSUME_BY_WHO: _LOOK,
    _R.GET_CONSUMER_CONNECTION_LIST: _LOOK_AT_CONSUMERS,
    _R.GET_CONSUMER_RUNNING_INFO: _LOOK_AT_CONSUMERS,
    _R.GET_CONSUME_STATS: all_of(
        _LOOK_AT_CONSUMERS, topic("topic", LOOK, optional=True), topics("topicList", ";", LOOK)
    ),
    _R.QUERY_CONSUME_QUEUE: all_of(_LOOK, group("consumerGroup", LOOK_AT_GROUP, optional=True)),
    _R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: all_of(_LOOK, _LOOK_AT_GROUP),
    _R.QUERY_CONSUME_TIME_SPAN: all_of(_LOOK, _LOOK_AT_GROUP),
    _R.QUERY_TOPICS_BY_CONSUMER: _LOOK_AT_GROUP,
    _R.QUERY_SUBSCRIPTION_BY_CONSUMER: all_of(_LOOK, _LOOK_AT_GROUP),
    _R.GET_SUBSCRIPTIONGROUP_CONFIG: _LOOK_AT_GROUP,
    _R.QUERY_CORRECTION_OFFSET: all_of(
        groups("filterGroups", ",", LOOK_AT_GROUP), group("compareGroup", LOOK_AT_GROUP), _LOOK
    ),
    # topics and groups, by administrators
    _R.UPDATE_AND_CREATE_TOPIC: topic("topic", CREATE),
    _R.UPDATE_AND_CREATE_TOPIC_LIST: in_body(_topics_made, CREATE),
    _R.DELETE_TOPIC_IN_BROKER: topic("topic", DELETE),
    _R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: in_body(_group_made, CREATE_OR_UPDATE),
    _R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: in_body(_groups_made, CREATE_OR_UPDATE),
    _R.DELETE_SUBSCRIPTIONGROUP: group("groupName", DELETE),
    _R.UPDATE_AND_GET_GROUP_FORBIDDEN: all_of(group("group", UPDATE), topic("topic", UPDATE)),
    # the broker: its settings are without secrets, and clients read them (our Spark sink asks how long its transactions are left alone)
    _R.GET_BROKER_CONFIG: any_account,
    **dict.fromkeys(
        (
            _R.GET_ALL_TOPIC_CONFIG,
            _R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            _R.GET_ALL_CONSUMER_OFFSET,
            _R.GET_ALL_DELAY_OFFSET,
            _R.GET_ALL_MESSAGE_REQUEST_MODE,
            _R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            _R.GET_TIMER_CHECK_POINT,
            _R.GET_TIMER_METRICS,
            _R.GET_BROKER_RUNTIME_INFO,
            _R.GET_BROKER_HA_STATUS,
            _R.GET_BROKER_CLUSTER_ACL_INFO,
            _R.GET_PRODUCER_CONNECTION_LIST,
            _R.GET_ALL_PRODUCER_INFO,
            _R.VIEW_BROKER_STATS_DATA,
            _R.GET_BROKER_CONSUME_STATS,
            _R.AUTH_GET_USER,
            _R.AUTH_LIST_USER,
            _R.AUTH_GET_ACL,
            _R.AUTH_LIST_ACL,
        ),
        _LOOK_AT_CLUSTER,
    ),
    **dict.fromkeys(
        (
            _R.UPDATE_BROKER_CONFIG,
            _R.SET_MESSAGE_REQUEST_MODE,
            _R.CLEAN_EXPIRED_CONSUMEQUEUE,
            _R.CLEAN_UNUSED_TOPIC,
            _R.DELETE_EXPIRED_COMMITLOG,
            _R.EXCHANGE_BROKER_HA_INFO,
            _R.HANDOVER,
            _R.UPDATE_AND_CREATE_ACL_CONFIG,
            _R.DELETE_ACL_CONFIG,
            _R.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            _R.GET_BROKER_CLUSTER_ACL_CONFIG,
            _R.AUTH_CREATE_USER,
            _R.AUTH_UPDATE_USER,
            _R.AUTH_DELETE_USER,
            _R.AUTH_CREATE_ACL,
            _R.AUTH_UPDATE_ACL,
            _R.AUTH_DELETE_ACL,
        ),
        _CHANGE_CLUSTER,
    ),
}
