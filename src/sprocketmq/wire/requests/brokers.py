# SPDX-License-Identifier: Apache-2.0
"""Requests about one broker: settings, statistics, replication."""

from __future__ import annotations

from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.requests.access import ANY_ACCOUNT, CHANGE_CLUSTER, LOOK_AT_CLUSTER, cluster
from sprocketmq.wire.requests.declaration import BinaryBody, PropertiesText, Request

UPDATE_BROKER_CONFIG = Request(
    code=RequestCode.UPDATE_BROKER_CONFIG,
    access=cluster(CHANGE_CLUSTER),
    body=PropertiesText,
    changes_tables=True,
)
# The settings contain no secrets, and clients read them (our Spark sink reads when its transactions are first checked).
GET_BROKER_CONFIG = Request(
    code=RequestCode.GET_BROKER_CONFIG,
    access=ANY_ACCOUNT,
    answer_header=headers.GetBrokerConfigResponseHeader,
    answer_body=PropertiesText,
)
GET_BROKER_RUNTIME_INFO = Request(
    code=RequestCode.GET_BROKER_RUNTIME_INFO,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=bodies.KVTable,
)
VIEW_BROKER_STATS_DATA = Request(
    code=RequestCode.VIEW_BROKER_STATS_DATA,
    access=cluster(LOOK_AT_CLUSTER),
    header=headers.ViewBrokerStatsDataRequestHeader,
    answer_body=bodies.BrokerStatsData,
)
GET_TIMER_CHECK_POINT = Request(
    code=RequestCode.GET_TIMER_CHECK_POINT,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=BinaryBody,
)
GET_TIMER_METRICS = Request(
    code=RequestCode.GET_TIMER_METRICS,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=bodies.TimerMetricsSerializeWrapper,
)
CLEAN_EXPIRED_CONSUMEQUEUE = Request(
    code=RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    access=cluster(CHANGE_CLUSTER),
)
CLEAN_UNUSED_TOPIC = Request(
    code=RequestCode.CLEAN_UNUSED_TOPIC,
    access=cluster(CHANGE_CLUSTER),
)
DELETE_EXPIRED_COMMITLOG = Request(
    code=RequestCode.DELETE_EXPIRED_COMMITLOG,
    access=cluster(CHANGE_CLUSTER),
)
EXCHANGE_BROKER_HA_INFO = Request(
    code=RequestCode.EXCHANGE_BROKER_HA_INFO,
    access=cluster(CHANGE_CLUSTER),
    header=headers.ExchangeHAInfoHeader,
    answer_header=headers.ExchangeHAInfoHeader,
)
GET_BROKER_HA_STATUS = Request(
    code=RequestCode.GET_BROKER_HA_STATUS,
    access=cluster(LOOK_AT_CLUSTER),
    answer_body=bodies.HARuntimeInfo,
)
HANDOVER = Request(
    code=RequestCode.HANDOVER,
    access=cluster(CHANGE_CLUSTER),
    header=headers.HandoverRequestHeader,
    answer_body=bodies.HandoverStatus,
)
