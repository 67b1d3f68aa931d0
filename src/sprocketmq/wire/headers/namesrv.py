# SPDX-License-Identifier: Apache-2.0
"""Headers of the name server: codes 100 to 105, 205, 216, 217, 219, 224, 322, 327, 901, 904 and 905."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64


class GetRouteInfoRequestHeader(ExtHeader):
    """Header of GET_ROUTEINFO_BY_TOPIC (105). ``accept_standard_json_only`` requests an answer with quoted integer keys."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerRequestHeader(ExtHeader):
    """Header of REGISTER_BROKER (103): a broker's addresses and topics. ``body_crc32`` is CRC32(body) & 0x7FFFFFFF; 0 means no check.
    ``compressed`` is the form of the body. ``is_part``, not in Apache: the broker has more topics than these. Apache's name servers
    ignore it."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    is_part: bool | None = None


class RegisterBrokerResponseHeader(ExtHeader):
    """Header of the answer to REGISTER_BROKER (103): two addresses of the current master, for a slave."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(ExtHeader):
    """Header of UNREGISTER_BROKER (104): remove a broker that is stopping from the routes."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionRequestHeader(ExtHeader):
    """Header of QUERY_DATA_VERSION (322): ask whether the topics of a broker have changed. The body is the broker's DataVersion."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(ExtHeader):
    """Header of the answer to QUERY_DATA_VERSION (322): whether the name server needs a registration."""

    changed: bool


class DeleteTopicFromNamesrvRequestHeader(ExtHeader):
    """Header of DELETE_TOPIC_IN_NAMESRV (216): remove the route of a topic."""

    topic: str
    cluster_name: str | None = None


class BrokerHeartbeatRequestHeader(ExtHeader):
    """Header of BROKER_HEARTBEAT (904), which a 5.x broker sends between registrations. The protocol misspells the timeout field."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class PutKVConfigRequestHeader(ExtHeader):
    """Header of PUT_KV_CONFIG (100): set a key of a namespace in the name server."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequestHeader(ExtHeader):
    """Header of GET_KV_CONFIG (101): get the value of a key."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(ExtHeader):
    """Header of the answer to GET_KV_CONFIG (101): the value."""

    value: str | None = None


class DeleteKVConfigRequestHeader(ExtHeader):
    """Header of DELETE_KV_CONFIG (102): delete a key."""

    namespace: str
    key: str


class GetKVListByNamespaceRequestHeader(ExtHeader):
    """Header of GET_KVLIST_BY_NAMESPACE (219): get all keys of a namespace."""

    namespace: str


class WipeWritePermOfBrokerRequestHeader(ExtHeader):
    """Header of WIPE_WRITE_PERM_OF_BROKER (205): take the write permission of a broker out of all routes."""

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(ExtHeader):
    """Header of the answer to WIPE_WRITE_PERM_OF_BROKER (205): how many topics changed."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequestHeader(ExtHeader):
    """Header of ADD_WRITE_PERM_OF_BROKER (327): give a broker its write permission back in all routes."""

    broker_name: str


class AddWritePermOfBrokerResponseHeader(ExtHeader):
    """Header of the answer to ADD_WRITE_PERM_OF_BROKER (327): how many topics changed."""

    add_topic_count: Int32


class RegisterTopicRequestHeader(ExtHeader):
    """Header of REGISTER_TOPIC_IN_NAMESRV (217): add the queues of a topic to its route. The body is a TopicRouteData."""

    topic: str


class GetTopicsByClusterRequestHeader(ExtHeader):
    """Header of GET_TOPICS_BY_CLUSTER (224): get the topics of a cluster's brokers."""

    cluster: str


class GetBrokerMemberGroupRequestHeader(ExtHeader):
    """Header of GET_BROKER_MEMBER_GROUP (901): get the addresses of the brokers with one name."""

    cluster_name: str
    broker_name: str


class NotifyMinBrokerIdChangeRequestHeader(ExtHeader):
    """Header of NOTIFY_MIN_BROKER_ID_CHANGE (905), name server to the brokers of one name: the lowest id now, and the lost broker."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
