# SPDX-License-Identifier: Apache-2.0
"""Name servers: routes, brokers' registrations, settings by namespace and key."""

from __future__ import annotations

from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.requests.access import ANY_ADDRESS, NAMED_ADDRESS
from sprocketmq.wire.requests.declaration import Peer, PropertiesText, Request

GET_ROUTEINFO_BY_TOPIC = Request(
    code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=headers.GetRouteInfoRequestHeader,
    answer_body=bodies.TopicRouteData,
)
GET_BROKER_CLUSTER_INFO = Request(
    code=RequestCode.GET_BROKER_CLUSTER_INFO,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=bodies.ClusterInfo,
)
REGISTER_BROKER = Request(
    code=RequestCode.REGISTER_BROKER,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.RegisterBrokerRequestHeader,
    body=bodies.RegisterBrokerBody,
    answer_header=headers.RegisterBrokerResponseHeader,
    answer_body=bodies.KVTable,
    oneway=True,
)
UNREGISTER_BROKER = Request(
    code=RequestCode.UNREGISTER_BROKER,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.UnRegisterBrokerRequestHeader,
)
# This request also keeps a broker's registration alive, so it needs an allowed address.
QUERY_DATA_VERSION = Request(
    code=RequestCode.QUERY_DATA_VERSION,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.QueryDataVersionRequestHeader,
    body=bodies.DataVersion,
    answer_header=headers.QueryDataVersionResponseHeader,
    answer_body=bodies.DataVersion,
    oneway=True,
)
BROKER_HEARTBEAT = Request(
    code=RequestCode.BROKER_HEARTBEAT,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.BrokerHeartbeatRequestHeader,
    oneway=True,
)
GET_BROKER_MEMBER_GROUP = Request(
    code=RequestCode.GET_BROKER_MEMBER_GROUP,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=headers.GetBrokerMemberGroupRequestHeader,
    answer_body=bodies.GetBrokerMemberGroupResponseBody,
)
# Only brokers of 5.x serve it, for slaves that act as master, which we do not have.
NOTIFY_MIN_BROKER_ID_CHANGE = Request(
    code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
    served_by=Peer.NOBODY,
    access=(),
    header=headers.NotifyMinBrokerIdChangeRequestHeader,
    oneway=True,
)
WIPE_WRITE_PERM_OF_BROKER = Request(
    code=RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.WipeWritePermOfBrokerRequestHeader,
    answer_header=headers.WipeWritePermOfBrokerResponseHeader,
)
ADD_WRITE_PERM_OF_BROKER = Request(
    code=RequestCode.ADD_WRITE_PERM_OF_BROKER,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.AddWritePermOfBrokerRequestHeader,
    answer_header=headers.AddWritePermOfBrokerResponseHeader,
)
GET_ALL_TOPIC_LIST_FROM_NAMESERVER = Request(
    code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=bodies.TopicList,
)
GET_TOPICS_BY_CLUSTER = Request(
    code=RequestCode.GET_TOPICS_BY_CLUSTER,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=headers.GetTopicsByClusterRequestHeader,
    answer_body=bodies.TopicList,
)
GET_SYSTEM_TOPIC_LIST_FROM_NS = Request(
    code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=bodies.TopicList,
)
GET_UNIT_TOPIC_LIST = Request(
    code=RequestCode.GET_UNIT_TOPIC_LIST,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=bodies.TopicList,
)
GET_HAS_UNIT_SUB_TOPIC_LIST = Request(
    code=RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=bodies.TopicList,
)
GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = Request(
    code=RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    answer_body=bodies.TopicList,
)
DELETE_TOPIC_IN_NAMESRV = Request(
    code=RequestCode.DELETE_TOPIC_IN_NAMESRV,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.DeleteTopicFromNamesrvRequestHeader,
)
REGISTER_TOPIC_IN_NAMESRV = Request(
    code=RequestCode.REGISTER_TOPIC_IN_NAMESRV,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.RegisterTopicRequestHeader,
    body=bodies.TopicRouteData,
)
PUT_KV_CONFIG = Request(
    code=RequestCode.PUT_KV_CONFIG,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.PutKVConfigRequestHeader,
)
GET_KV_CONFIG = Request(
    code=RequestCode.GET_KV_CONFIG,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=headers.GetKVConfigRequestHeader,
    answer_header=headers.GetKVConfigResponseHeader,
)
DELETE_KV_CONFIG = Request(
    code=RequestCode.DELETE_KV_CONFIG,
    served_by=Peer.NAME_SERVER,
    access=NAMED_ADDRESS,
    header=headers.DeleteKVConfigRequestHeader,
)
GET_KVLIST_BY_NAMESPACE = Request(
    code=RequestCode.GET_KVLIST_BY_NAMESPACE,
    served_by=Peer.NAME_SERVER,
    access=ANY_ADDRESS,
    header=headers.GetKVListByNamespaceRequestHeader,
    answer_body=bodies.KVTable,
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
