# SPDX-License-Identifier: Apache-2.0
"""Name servers: routes, brokers' registrations, settings by namespace and key."""

from __future__ import annotations

from sprocketmq.wire.bodies.register_broker import RegisterBrokerBody
from sprocketmq.wire.bodies.route import (
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
    KVTable,
    TopicList,
    TopicRouteData,
)
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers.namesrv import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatRequestHeader,
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    NotifyMinBrokerIdChangeRequestHeader,
    PutKVConfigRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicRequestHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from sprocketmq.wire.requests.access import ANY_ADDRESS, NAMED_ADDRESS
from sprocketmq.wire.requests.declaration import Peer, PropertiesText, Request

GET_ROUTEINFO_BY_TOPIC = Request(
    code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=GetRouteInfoRequestHeader,
    answer_body=TopicRouteData,
)
GET_BROKER_CLUSTER_INFO = Request(
    code=RequestCode.GET_BROKER_CLUSTER_INFO,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=ClusterInfo,
)
REGISTER_BROKER = Request(
    code=RequestCode.REGISTER_BROKER,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=RegisterBrokerRequestHeader,
    body=RegisterBrokerBody,
    answer_header=RegisterBrokerResponseHeader,
    answer_body=KVTable,
    oneway=True,
)
UNREGISTER_BROKER = Request(
    code=RequestCode.UNREGISTER_BROKER,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=UnRegisterBrokerRequestHeader,
)
# This request also keeps a broker's registration alive, so it needs an allowed address.
QUERY_DATA_VERSION = Request(
    code=RequestCode.QUERY_DATA_VERSION,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=QueryDataVersionRequestHeader,
    body=DataVersion,
    answer_header=QueryDataVersionResponseHeader,
    answer_body=DataVersion,
    oneway=True,
)
BROKER_HEARTBEAT = Request(
    code=RequestCode.BROKER_HEARTBEAT,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=BrokerHeartbeatRequestHeader,
    oneway=True,
)
GET_BROKER_MEMBER_GROUP = Request(
    code=RequestCode.GET_BROKER_MEMBER_GROUP,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=GetBrokerMemberGroupRequestHeader,
    answer_body=GetBrokerMemberGroupResponseBody,
)
# Only brokers of 5.x serve it, for slaves that act as master, which we do not have.
NOTIFY_MIN_BROKER_ID_CHANGE = Request(
    code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
    served_by=Peer.NOBODY,
    access=(),
    header=NotifyMinBrokerIdChangeRequestHeader,
    oneway=True,
)
WIPE_WRITE_PERM_OF_BROKER = Request(
    code=RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=WipeWritePermOfBrokerRequestHeader,
    answer_header=WipeWritePermOfBrokerResponseHeader,
)
ADD_WRITE_PERM_OF_BROKER = Request(
    code=RequestCode.ADD_WRITE_PERM_OF_BROKER,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=AddWritePermOfBrokerRequestHeader,
    answer_header=AddWritePermOfBrokerResponseHeader,
)
GET_ALL_TOPIC_LIST_FROM_NAMESERVER = Request(
    code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=TopicList,
)
GET_TOPICS_BY_CLUSTER = Request(
    code=RequestCode.GET_TOPICS_BY_CLUSTER,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=GetTopicsByClusterRequestHeader,
    answer_body=TopicList,
)
GET_SYSTEM_TOPIC_LIST_FROM_NS = Request(
    code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=TopicList,
)
GET_UNIT_TOPIC_LIST = Request(
    code=RequestCode.GET_UNIT_TOPIC_LIST,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=TopicList,
)
GET_HAS_UNIT_SUB_TOPIC_LIST = Request(
    code=RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=TopicList,
)
GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = Request(
    code=RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=TopicList,
)
DELETE_TOPIC_IN_NAMESRV = Request(
    code=RequestCode.DELETE_TOPIC_IN_NAMESRV,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=DeleteTopicFromNamesrvRequestHeader,
)
REGISTER_TOPIC_IN_NAMESRV = Request(
    code=RequestCode.REGISTER_TOPIC_IN_NAMESRV,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=RegisterTopicRequestHeader,
    body=TopicRouteData,
)
PUT_KV_CONFIG = Request(
    code=RequestCode.PUT_KV_CONFIG,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=PutKVConfigRequestHeader,
)
GET_KV_CONFIG = Request(
    code=RequestCode.GET_KV_CONFIG,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=GetKVConfigRequestHeader,
    answer_header=GetKVConfigResponseHeader,
)
DELETE_KV_CONFIG = Request(
    code=RequestCode.DELETE_KV_CONFIG,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=DeleteKVConfigRequestHeader,
)
GET_KVLIST_BY_NAMESPACE = Request(
    code=RequestCode.GET_KVLIST_BY_NAMESPACE,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=GetKVListByNamespaceRequestHeader,
    answer_body=KVTable,
)
UPDATE_NAMESRV_CONFIG = Request(
    code=RequestCode.UPDATE_NAMESRV_CONFIG,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    body=PropertiesText,
)
GET_NAMESRV_CONFIG = Request(
    code=RequestCode.GET_NAMESRV_CONFIG,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=PropertiesText,
)
