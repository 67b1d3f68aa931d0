# SPDX-License-Identifier: Apache-2.0
"""Typed bodies of requests and responses, one struct for each Java class: ``body.encode()`` writes, ``Type.decode(data)`` reads.
``wire.requests`` declares what they are for. A module is imported at the first use of one of its names
(``sprocketmq.names``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.names import names_of

if TYPE_CHECKING:
    from sprocketmq.wire.bodies.assignment import *
    from sprocketmq.wire.bodies.auth import *
    from sprocketmq.wire.bodies.body import *
    from sprocketmq.wire.bodies.connections import *
    from sprocketmq.wire.bodies.groups import *
    from sprocketmq.wire.bodies.ha import *
    from sprocketmq.wire.bodies.heartbeat import *
    from sprocketmq.wire.bodies.locks import *
    from sprocketmq.wire.bodies.offsets import *
    from sprocketmq.wire.bodies.register_broker import *
    from sprocketmq.wire.bodies.route import *
    from sprocketmq.wire.bodies.running_info import *
    from sprocketmq.wire.bodies.stats import *
    from sprocketmq.wire.bodies.topic_config import *
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "assignment": (
                "MessageQueueAssignment MessageRequestModeSerializeWrapper QueryAssignmentRequestBody "
                "QueryAssignmentResponseBody SetMessageRequestModeRequestBody"
            ),
            "auth": "AclInfo PolicyEntryInfo PolicyInfo UserInfo",
            "body": "Body NamedEnum",
            "connections": (
                "Connection ConsumerConnection GetConsumerListByGroupResponseBody GroupForbidden GroupList "
                "ProducerConnection ProducerInfo ProducerTableInfo QuerySubscriptionResponseBody"
            ),
            "groups": (
                "BloomFilterData ConsumerFilterData ConsumerFilterWrapper FilterDataMapByTopic SubscriptionGroupConfig "
                "SubscriptionGroupList SubscriptionGroupWrapper"
            ),
            "ha": "HAClientRuntimeInfo HAConnectionRuntimeInfo HandoverStatus HARuntimeInfo",
            "heartbeat": (
                "CheckClientConfigRequestBody ConsumeFromWhere ConsumerData ConsumeType HeartbeatData "
                "MessageModel ProducerData SubscriptionData"
            ),
            "locks": "LockBatchRequestBody LockBatchResponseBody UnlockBatchRequestBody",
            "offsets": (
                "ConsumerOffsetSerializeWrapper ConsumerOffsetSnapshot DelayOffsetSerializeWrapper "
                "GetConsumerStatusBody MessageQueueForC OffsetSerializeWrapper QueryCorrectionOffsetBody "
                "ResetOffsetBody ResetOffsetBodyForC"
            ),
            "register_broker": "RegisterBrokerBody RegistrationTopics",
            "route": (
                "BrokerData BrokerMemberGroup ClusterInfo GetBrokerMemberGroupResponseBody GoneBroker KVConfig KVTable QueueData "
                "TopicList TopicRouteData"
            ),
            "running_info": (
                "CONSUMED_SINCE_START FAILED_SINCE_START LAST_FAILURE LAST_FAILURE_TIMESTAMP OLDEST_CALL_TIMESTAMP PAUSED "
                "PROP_CLIENT_VERSION PROP_CONSUME_ORDERLY PROP_CONSUME_TYPE PROP_CONSUMER_START_TIMESTAMP "
                "PROP_NAMESERVER_ADDR PROP_THREADPOOL_CORE_SIZE CMResult ConsumeMessageDirectlyResult "
                "ConsumerRunningInfo ConsumeStatus ProcessQueueInfo"
            ),
            "stats": (
                "BrokerStatsData BrokerStatsItem ConsumeQueueData ConsumeStats ConsumeStatsList OffsetWrapper "
                "QueryConsumeQueueResponseBody QueryConsumeTimeSpanBody QueueTimeSpan TimerMetric TimerMetricsSerializeWrapper "
                "TopicOffset TopicStatsTable"
            ),
            "topic_config": (
                "CreateTopicListRequestBody DataVersion TopicConfig TopicConfigAndMappingSerializeWrapper "
                "TopicConfigSerializeWrapper"
            ),
        },
    )
