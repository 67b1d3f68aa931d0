# SPDX-License-Identifier: Apache-2.0
"""Requests about one broker: settings, statistics, replication."""

from __future__ import annotations

from sprocketmq.wire.bodies.ha import HandoverStatus, HARuntimeInfo
from sprocketmq.wire.bodies.route import KVTable
from sprocketmq.wire.bodies.stats import BrokerStatsData, TimerMetricsSerializeWrapper
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers.consumers import ViewBrokerStatsDataRequestHeader
from sprocketmq.wire.headers.ha import ExchangeHAInfoHeader, HandoverRequestHeader
from sprocketmq.wire.headers.topics import GetBrokerConfigResponseHeader
from sprocketmq.wire.requests.access import ANY_ACCOUNT, CHANGE_CLUSTER, LOOK_AT_CLUSTER, cluster
from sprocketmq.wire.requests.declaration import BinaryBody, Peer, PropertiesText, Request

UPDATE_BROKER_CONFIG = Request(
    code=RequestCode.UPDATE_BROKER_CONFIG,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    body=PropertiesText,
    changes_tables=True,
)
# The settings contain no secrets, and clients read them (our Spark sink reads when its transactions are first checked).
GET_BROKER_CONFIG = Request(
    code=RequestCode.GET_BROKER_CONFIG,
    served_by=Peer.BROKER,
    access=ANY_ACCOUNT,
    answer_header=GetBrokerConfigResponseHeader,
    answer_body=PropertiesText,
)
GET_BROKER_RUNTIME_INFO = Request(
    code=RequestCode.GET_BROKER_RUNTIME_INFO,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=KVTable,
)
VIEW_BROKER_STATS_DATA = Request(
    code=RequestCode.VIEW_BROKER_STATS_DATA,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    header=ViewBrokerStatsDataRequestHeader,
    answer_body=BrokerStatsData,
)
GET_TIMER_CHECK_POINT = Request(
    code=RequestCode.GET_TIMER_CHECK_POINT,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=BinaryBody,
)
GET_TIMER_METRICS = Request(
    code=RequestCode.GET_TIMER_METRICS,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=TimerMetricsSerializeWrapper,
)
CLEAN_EXPIRED_CONSUMEQUEUE = Request(
    code=RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
)
CLEAN_UNUSED_TOPIC = Request(
    code=RequestCode.CLEAN_UNUSED_TOPIC,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
)
DELETE_EXPIRED_COMMITLOG = Request(
    code=RequestCode.DELETE_EXPIRED_COMMITLOG,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
)
EXCHANGE_BROKER_HA_INFO = Request(
    code=RequestCode.EXCHANGE_BROKER_HA_INFO,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=ExchangeHAInfoHeader,
    answer_header=ExchangeHAInfoHeader,
)
GET_BROKER_HA_STATUS = Request(
    code=RequestCode.GET_BROKER_HA_STATUS,
    served_by=Peer.BROKER,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=HARuntimeInfo,
)
HANDOVER = Request(
    code=RequestCode.HANDOVER,
    served_by=Peer.BROKER,
    access=cluster(CHANGE_CLUSTER),
    header=HandoverRequestHeader,
    answer_body=HandoverStatus,
)
