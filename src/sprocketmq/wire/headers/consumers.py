# SPDX-License-Identifier: Apache-2.0
"""Headers about the members of groups: codes 35, 38, 40, 203, 204, 208, 307, 309, 315, 317, and a heartbeat's answer (34)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.headers.ext_header import ExtHeader, Int32


class HeartbeatResponseHeader(ExtHeader):
    """Header of a 5.x broker's answer to HEART_BEAT (34). Java writes these as plain ext fields, without a header class."""

    is_support_heart_beat_v2: bool = msgspec.field(default=False, name="IS_SUPPORT_HEART_BEAT_V2")
    is_sub_change: bool = msgspec.field(default=False, name="IS_SUB_CHANGE")


class UnregisterClientRequestHeader(ExtHeader):
    client_id: str = msgspec.field(default="", name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequestHeader(ExtHeader):
    consumer_group: str


class NotifyConsumerIdsChangedRequestHeader(ExtHeader):
    consumer_group: str


class GetConsumerConnectionListRequestHeader(ExtHeader):
    consumer_group: str


class GetConsumeStatsRequestHeader(ExtHeader):
    """The progress of a group in one topic, all its topics, or those of ``topic_list``, each followed by ``;``."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetConsumerRunningInfoRequestHeader(ExtHeader):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyResultRequestHeader(ExtHeader):
    """Call the listener once with one message, whose record the broker sends to the client as body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class GetProducerConnectionListRequestHeader(ExtHeader):
    producer_group: str


class ViewBrokerStatsDataRequestHeader(ExtHeader):
    """Header of VIEW_BROKER_STATS_DATA (315): get a counter, such as TOPIC_PUT_NUMS of a topic or GROUP_GET_NUMS of ``topic@group``."""

    stats_name: str
    stats_key: str


class GetConsumeStatsInBrokerHeader(ExtHeader):
    """Header of GET_BROKER_CONSUME_STATS (317): get the progress of all groups; with ``is_order`` only of topics with an order setting."""

    is_order: bool = False
