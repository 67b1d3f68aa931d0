"""Headers about the members of groups: codes 35, 38, 40, 203, 204, 208, 307, 309, 315, 317, and a heartbeat's answer (34)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32

__all__ = [
    "ConsumeMessageDirectlyResultRequestHeader",
    "GetConsumeStatsInBrokerHeader",
    "GetConsumeStatsRequestHeader",
    "GetConsumerConnectionListRequestHeader",
    "GetConsumerListByGroupRequestHeader",
    "GetConsumerRunningInfoRequestHeader",
    "GetProducerConnectionListRequestHeader",
    "HeartbeatResponseHeader",
    "NotifyConsumerIdsChangedRequestHeader",
    "UnregisterClientRequestHeader",
    "ViewBrokerStatsDataRequestHeader",
]


class HeartbeatResponseHeader(ExtHeader):
    """Answer to code 34 of a 5.x broker. Java writes these as plain ext fields, without a header class."""

    is_support_heart_beat_v2: bool = msgspec.field(default=False, name="IS_SUPPORT_HEART_BEAT_V2")
    is_sub_change: bool = msgspec.field(default=False, name="IS_SUB_CHANGE")


class UnregisterClientRequestHeader(ExtHeader):
    """Code 35."""

    client_id: str = msgspec.field(default="", name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequestHeader(ExtHeader):
    """Code 38."""

    consumer_group: str


class NotifyConsumerIdsChangedRequestHeader(ExtHeader):
    """Code 40, broker to consumer, one-way: membership of the group changed, rebalance now."""

    consumer_group: str


class GetConsumerConnectionListRequestHeader(ExtHeader):
    """Code 203."""

    consumer_group: str


class GetConsumeStatsRequestHeader(ExtHeader):
    """Code 208. Without ``topic``, all topics of the group; ``topic_list`` holds several, each followed by ``;``."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetConsumerRunningInfoRequestHeader(ExtHeader):
    """Code 307, admin to broker to client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyResultRequestHeader(ExtHeader):
    """Code 309, admin to broker to client: run the listener once on one message. The relayed request carries the record as body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class GetProducerConnectionListRequestHeader(ExtHeader):
    """Code 204."""

    producer_group: str


class ViewBrokerStatsDataRequestHeader(ExtHeader):
    """Code 315: one counter, such as TOPIC_PUT_NUMS of a topic or GROUP_GET_NUMS of ``topic@group``."""

    stats_name: str
    stats_key: str


class GetConsumeStatsInBrokerHeader(ExtHeader):
    """Code 317."""

    is_order: bool = False
