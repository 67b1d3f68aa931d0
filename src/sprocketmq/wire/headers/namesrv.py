"""Headers of the name server: codes 103, 104, 105, 216, 322 and 904."""

from __future__ import annotations

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32, Int64

__all__ = [
    "BrokerHeartbeatRequestHeader",
    "DeleteTopicFromNamesrvRequestHeader",
    "GetRouteInfoRequestHeader",
    "QueryDataVersionRequestHeader",
    "QueryDataVersionResponseHeader",
    "RegisterBrokerRequestHeader",
    "RegisterBrokerResponseHeader",
    "UnRegisterBrokerRequestHeader",
]


class GetRouteInfoRequestHeader(ExtHeader):
    """Code 105. ``accept_standard_json_only`` asks for quoted integer keys in the answer."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerRequestHeader(ExtHeader):
    """Code 103. ``body_crc32`` is CRC32(body) & 0x7FFFFFFF, 0 = do not check; ``compressed`` tells the form of the body."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerResponseHeader(ExtHeader):
    """Answer to code 103. Both are addresses of the current master, for a slave."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(ExtHeader):
    """Code 104."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionRequestHeader(ExtHeader):
    """Code 322; the body is the broker's DataVersion."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(ExtHeader):
    """Answer to code 322: whether the name server needs a registration."""

    changed: bool


class DeleteTopicFromNamesrvRequestHeader(ExtHeader):
    """Code 216."""

    topic: str
    cluster_name: str | None = None


class BrokerHeartbeatRequestHeader(ExtHeader):
    """Code 904, a 5.x broker's sign of life between registrations. The misspelt field is the wire's."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None
