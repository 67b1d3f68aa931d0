"""What a request touches under 5.x's authorization (Java: DefaultAuthorizationContextBuilder, and the annotations of the headers).

A request whose resources cannot be told from its code touches nothing: any user may send it. Apache 5.4.0 has no entry for lite pulls
(361) and for those changes of topics, groups and settings that travel in bodies; here they need what their siblings need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sprocketmq.core.access.policies import Need
from sprocketmq.core.access.users import Needs
from sprocketmq.wire import fastjson
from sprocketmq.wire.bodies import HeartbeatData, LockBatchRequestBody
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.command import Command

__all__ = ["auth_needs"]

Reader = Callable[[Command, str], Iterable[Need]]

_RETRY: Final = "%RETRY%"
_DEAD: Final = "%DLQ%"


def auth_needs(command: Command, cluster_name: str) -> Needs:
    """Topics, groups and the cluster that ``command`` touches, with what it does to them.

    Raises:
        ProtocolError: a body cannot be read.
    """
    reader = _READERS.get(command.code)
    return () if reader is None else tuple(reader(command, cluster_name))


def _actions(*names: str) -> frozenset[str]:
    return frozenset(names)


_PUB, _SUB, _GET = _actions("Pub"), _actions("Sub"), _actions("Get")
_CREATE, _UPDATE, _DELETE = _actions("Create"), _actions("Update"), _actions("Delete")
_SUB_GET, _SUB_UPDATE = _actions("Sub", "Get"), _actions("Sub", "Update")


def _group(name: str, actions: frozenset[str]) -> Need:
    for prefix in (_RETRY, _DEAD):
        name = name.removeprefix(prefix)
    return Need("Group", name, actions)


def _topic(name: str, actions: frozenset[str]) -> Need:
    return Need("Topic", name, actions)


def _fields(actions: frozenset[str], **kinds: str) -> Reader:
    """Header fields that name topics and groups; a retry topic is its group, an absent field nothing, ``a,b`` two."""

    def read(command: Command, cluster: str) -> Iterable[Need]:
        for field, kind in kinds.items():
            for name in _names(command.ext_fields.get(field), field):
                if kind == "topic" and not name.startswith(_RETRY):
                    yield _topic(name, actions)
                else:
                    yield _group(name, actions)

    return read


def _names(value: str | None, field: str) -> list[str]:
    if not value:
        return []
    separator = {"filterGroups": ",", "topicList": ";"}.get(field)
    return [name for name in value.split(separator) if name] if separator else [value]


def _of_cluster(actions: frozenset[str]) -> Reader:
    return lambda command, cluster: (Need("Cluster", cluster, actions),)


def _consumption(actions: frozenset[str]) -> Reader:
    """A topic and the group that reads it; a retry topic is covered by its group."""

    def read(command: Command, cluster: str) -> Iterable[Need]:
        topic, group = command.ext_fields.get("topic"), command.ext_fields.get("consumerGroup")
        if topic and not topic.startswith(_RETRY):
            yield _topic(topic, actions)
        if group:
            yield _group(group, actions)

    return read


def _send(topic_field: str, group_field: str) -> Reader:
    def read(command: Command, cluster: str) -> Iterable[Need]:
        topic = command.ext_fields.get(topic_field) or ""
        if topic.startswith(_RETRY):
            yield _group(command.ext_fields.get(group_field) or topic, _SUB)
        else:
            yield _topic(topic, _PUB)

    return read


def _route(command: Command, cluster: str) -> Iterable[Need]:
    topic = command.ext_fields.get("topic") or ""
    yield (_group(topic, _SUB_GET) if topic.startswith(_RETRY) else _topic(topic, _actions("Pub", "Sub", "Get")))


def _heartbeat(command: Command, cluster: str) -> Iterable[Need]:
    for consumer in HeartbeatData.decode(command.body).consumer_data_set:
        yield _group(consumer.group_name, _SUB)
        for subscription in consumer.subscription_data_set:
            if not subscription.topic.startswith(_RETRY):
                yield _topic(subscription.topic, _SUB)


def _lock(command: Command, cluster: str) -> Iterable[Need]:
    body = LockBatchRequestBody.decode(command.body)
    yield _group(body.consumer_group or "", _SUB)
    for topic in sorted({queue.topic for queue in body.mq_set}):
        if not topic.startswith(_RETRY):
            yield _topic(topic, _SUB)


def _listed(list_field: str, name_field: str, kind: str, actions: frozenset[str]) -> Reader:
    """Names in a JSON body: a list of configurations, or one configuration."""

    def read(command: Command, cluster: str) -> Iterable[Need]:
        body = fastjson.loads(command.body) if command.body else {}
        entries = body.get(list_field, [body]) if isinstance(body, dict) else []
        for entry in entries if isinstance(entries, list) else ():
            name = entry.get(name_field) if isinstance(entry, dict) else None
            if isinstance(name, str):
                yield Need(kind, name, actions)

    return read


_READERS: Final[dict[int, Reader]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route,
    RequestCode.SEND_MESSAGE: _send("topic", "group"),
    RequestCode.SEND_MESSAGE_V2: _send("b", "a"),
    RequestCode.SEND_BATCH_MESSAGE: _send("b", "a"),
    RequestCode.RECALL_MESSAGE: _fields(_PUB, topic="topic"),
    RequestCode.END_TRANSACTION: _fields(_PUB, topic="topic"),
    RequestCode.CONSUMER_SEND_MSG_BACK: _fields(_SUB, group="group"),
    RequestCode.PULL_MESSAGE: _consumption(_SUB),
    RequestCode.LITE_PULL_MESSAGE: _consumption(_SUB),
    RequestCode.QUERY_MESSAGE: _fields(_SUB_GET, topic="topic"),
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _fields(_SUB, consumerGroup="group"),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _fields(_SUB_GET, consumerGroup="group"),
    RequestCode.QUERY_CONSUMER_OFFSET: _consumption(_SUB_GET),
    RequestCode.UPDATE_CONSUMER_OFFSET: _consumption(_SUB_UPDATE),
    RequestCode.LOCK_BATCH_MQ: _lock,
    RequestCode.UNLOCK_BATCH_MQ: _lock,
    # by annotations
    RequestCode.UPDATE_AND_CREATE_TOPIC: _fields(_CREATE, topic="topic"),
    RequestCode.DELETE_TOPIC_IN_BROKER: _fields(_DELETE, topic="topic"),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _fields(_DELETE, groupName="group"),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _fields(_UPDATE, group="group", topic="topic"),
    RequestCode.CLONE_GROUP_OFFSET: _fields(_UPDATE, destGroup="group", topic="topic"),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: _fields(_UPDATE, group="group", topic="topic"),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _fields(_UPDATE, topic="topic"),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _fields(_SUB, consumerGroup="group", topic="topic"),
    **dict.fromkeys(
        (
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            RequestCode.GET_MAX_OFFSET,
            RequestCode.GET_MIN_OFFSET,
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            RequestCode.VIEW_MESSAGE_BY_ID,
            RequestCode.GET_TOPIC_STATS_INFO,
            RequestCode.GET_TOPIC_CONFIG,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        ),
        _fields(_GET, topic="topic"),
    ),
    **dict.fromkeys(
        (
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            RequestCode.GET_CONSUME_STATS,
            RequestCode.QUERY_CONSUME_QUEUE,
        ),
        _fields(_GET, consumerGroup="group", topic="topic", topicList="topic"),
    ),
    **dict.fromkeys(
        (
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            RequestCode.QUERY_TOPICS_BY_CONSUMER,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        ),
        _fields(_GET, topic="topic", group="group"),
    ),
    RequestCode.QUERY_CORRECTION_OFFSET: _fields(_GET, filterGroups="group", compareGroup="group", topic="topic"),
    **dict.fromkeys(
        (
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            RequestCode.GET_ALL_PRODUCER_INFO,
            RequestCode.VIEW_BROKER_STATS_DATA,
            RequestCode.GET_BROKER_CONSUME_STATS,
            RequestCode.AUTH_GET_USER,
            RequestCode.AUTH_LIST_USER,
            RequestCode.AUTH_GET_ACL,
            RequestCode.AUTH_LIST_ACL,
        ),
        _of_cluster(_GET),
    ),
    **dict.fromkeys(
        (
            RequestCode.AUTH_CREATE_USER,
            RequestCode.AUTH_UPDATE_USER,
            RequestCode.AUTH_DELETE_USER,
            RequestCode.AUTH_CREATE_ACL,
            RequestCode.AUTH_UPDATE_ACL,
            RequestCode.AUTH_DELETE_ACL,
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
            RequestCode.EXCHANGE_BROKER_HA_INFO,
            # without an entry in Apache
            RequestCode.UPDATE_BROKER_CONFIG,
            RequestCode.HANDOVER,
            RequestCode.SET_MESSAGE_REQUEST_MODE,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.CLEAN_UNUSED_TOPIC,
            RequestCode.DELETE_EXPIRED_COMMITLOG,
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
            RequestCode.DELETE_ACL_CONFIG,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
        ),
        _of_cluster(_UPDATE),
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _listed("topicConfigList", "topicName", "Topic", _CREATE),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _listed("", "groupName", "Group", _actions("Create", "Update")),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _listed(
        "groupConfigList", "groupName", "Group", _actions("Create", "Update")
    ),
}
