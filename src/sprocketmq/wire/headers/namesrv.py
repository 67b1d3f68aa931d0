# SPDX-License-Identifier: Apache-2.0
"""Headers of the name server: codes 100 to 105, 205, 216, 217, 219, 224, 322, 327, 901, 904 and 905."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64


class GetRouteInfoRequestHeader(ExtHeader):
    """Header of GET_ROUTEINFO_BY_TOPIC (105). ``accept_standard_json_only`` requests an answer with quoted integer keys."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerRequestHeader(ExtHeader):
    """``body_crc32`` is CRC32(body) & 0x7FFFFFFF; 0 means no check. ``compressed`` is the form of the body. ``is_part``, not in
    Apache: the broker has more topics than these. Apache's name servers ignore it."""

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
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionRequestHeader(ExtHeader):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(ExtHeader):
    changed: bool


class DeleteTopicFromNamesrvRequestHeader(ExtHeader):
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
    namespace: str
    key: str
    value: str


class GetKVConfigRequestHeader(ExtHeader):
    namespace: str
    key: str


class GetKVConfigResponseHeader(ExtHeader):
    value: str | None = None


class DeleteKVConfigRequestHeader(ExtHeader):
    namespace: str
    key: str


class GetKVListByNamespaceRequestHeader(ExtHeader):
    namespace: str


class WipeWritePermOfBrokerRequestHeader(ExtHeader):
    broker_name: str


class WipeWritePermOfBrokerResponseHeader(ExtHeader):
    wipe_topic_count: Int32


class AddWritePermOfBrokerRequestHeader(ExtHeader):
    broker_name: str


class AddWritePermOfBrokerResponseHeader(ExtHeader):
    add_topic_count: Int32


class RegisterTopicRequestHeader(ExtHeader):
    topic: str


class GetTopicsByClusterRequestHeader(ExtHeader):
    cluster: str


class GetBrokerMemberGroupRequestHeader(ExtHeader):
    cluster_name: str
    broker_name: str


class NotifyMinBrokerIdChangeRequestHeader(ExtHeader):
    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
