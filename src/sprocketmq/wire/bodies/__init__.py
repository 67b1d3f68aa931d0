# SPDX-License-Identifier: Apache-2.0
"""Typed bodies of requests and responses, one struct for each Java class: ``body.encode()`` writes, ``Type.decode(data)`` reads.
``wire.requests`` declares what they are for. A module is imported at the first use of one of its names
(``sprocketmq.names``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.names import names_of

if TYPE_CHECKING:
    from sprocketmq.wire.bodies.assignment import MessageQueueAssignment as MessageQueueAssignment
    from sprocketmq.wire.bodies.assignment import (
        MessageRequestModeSerializeWrapper as MessageRequestModeSerializeWrapper,
    )
    from sprocketmq.wire.bodies.assignment import QueryAssignmentRequestBody as QueryAssignmentRequestBody
    from sprocketmq.wire.bodies.assignment import QueryAssignmentResponseBody as QueryAssignmentResponseBody
    from sprocketmq.wire.bodies.assignment import SetMessageRequestModeRequestBody as SetMessageRequestModeRequestBody
    from sprocketmq.wire.bodies.auth import AclInfo as AclInfo
    from sprocketmq.wire.bodies.auth import PolicyEntryInfo as PolicyEntryInfo
    from sprocketmq.wire.bodies.auth import PolicyInfo as PolicyInfo
    from sprocketmq.wire.bodies.auth import UserInfo as UserInfo
    from sprocketmq.wire.bodies.body import Body as Body
    from sprocketmq.wire.bodies.body import NamedEnum as NamedEnum
    from sprocketmq.wire.bodies.connections import Connection as Connection
    from sprocketmq.wire.bodies.connections import ConsumerConnection as ConsumerConnection
    from sprocketmq.wire.bodies.connections import (
        GetConsumerListByGroupResponseBody as GetConsumerListByGroupResponseBody,
    )
    from sprocketmq.wire.bodies.connections import GroupForbidden as GroupForbidden
    from sprocketmq.wire.bodies.connections import GroupList as GroupList
    from sprocketmq.wire.bodies.connections import ProducerConnection as ProducerConnection
    from sprocketmq.wire.bodies.connections import ProducerInfo as ProducerInfo
    from sprocketmq.wire.bodies.connections import ProducerTableInfo as ProducerTableInfo
    from sprocketmq.wire.bodies.connections import QuerySubscriptionResponseBody as QuerySubscriptionResponseBody
    from sprocketmq.wire.bodies.groups import BloomFilterData as BloomFilterData
    from sprocketmq.wire.bodies.groups import ConsumerFilterData as ConsumerFilterData
    from sprocketmq.wire.bodies.groups import ConsumerFilterWrapper as ConsumerFilterWrapper
    from sprocketmq.wire.bodies.groups import FilterDataMapByTopic as FilterDataMapByTopic
    from sprocketmq.wire.bodies.groups import SubscriptionGroupConfig as SubscriptionGroupConfig
    from sprocketmq.wire.bodies.groups import SubscriptionGroupList as SubscriptionGroupList
    from sprocketmq.wire.bodies.groups import SubscriptionGroupWrapper as SubscriptionGroupWrapper
    from sprocketmq.wire.bodies.ha import HAClientRuntimeInfo as HAClientRuntimeInfo
    from sprocketmq.wire.bodies.ha import HAConnectionRuntimeInfo as HAConnectionRuntimeInfo
    from sprocketmq.wire.bodies.ha import HandoverStatus as HandoverStatus
    from sprocketmq.wire.bodies.ha import HARuntimeInfo as HARuntimeInfo
    from sprocketmq.wire.bodies.heartbeat import CheckClientConfigRequestBody as CheckClientConfigRequestBody
    from sprocketmq.wire.bodies.heartbeat import ConsumeFromWhere as ConsumeFromWhere
    from sprocketmq.wire.bodies.heartbeat import ConsumerData as ConsumerData
    from sprocketmq.wire.bodies.heartbeat import ConsumeType as ConsumeType
    from sprocketmq.wire.bodies.heartbeat import HeartbeatData as HeartbeatData
    from sprocketmq.wire.bodies.heartbeat import MessageModel as MessageModel
    from sprocketmq.wire.bodies.heartbeat import ProducerData as ProducerData
    from sprocketmq.wire.bodies.heartbeat import SubscriptionData as SubscriptionData
    from sprocketmq.wire.bodies.locks import LockBatchRequestBody as LockBatchRequestBody
    from sprocketmq.wire.bodies.locks import LockBatchResponseBody as LockBatchResponseBody
    from sprocketmq.wire.bodies.locks import UnlockBatchRequestBody as UnlockBatchRequestBody
    from sprocketmq.wire.bodies.offsets import ConsumerOffsetSerializeWrapper as ConsumerOffsetSerializeWrapper
    from sprocketmq.wire.bodies.offsets import ConsumerOffsetSnapshot as ConsumerOffsetSnapshot
    from sprocketmq.wire.bodies.offsets import DelayOffsetSerializeWrapper as DelayOffsetSerializeWrapper
    from sprocketmq.wire.bodies.offsets import GetConsumerStatusBody as GetConsumerStatusBody
    from sprocketmq.wire.bodies.offsets import MessageQueueForC as MessageQueueForC
    from sprocketmq.wire.bodies.offsets import OffsetSerializeWrapper as OffsetSerializeWrapper
    from sprocketmq.wire.bodies.offsets import QueryCorrectionOffsetBody as QueryCorrectionOffsetBody
    from sprocketmq.wire.bodies.offsets import ResetOffsetBody as ResetOffsetBody
    from sprocketmq.wire.bodies.offsets import ResetOffsetBodyForC as ResetOffsetBodyForC
    from sprocketmq.wire.bodies.register_broker import RegisterBrokerBody as RegisterBrokerBody
    from sprocketmq.wire.bodies.register_broker import RegistrationTopics as RegistrationTopics
    from sprocketmq.wire.bodies.route import BrokerData as BrokerData
    from sprocketmq.wire.bodies.route import BrokerMemberGroup as BrokerMemberGroup
    from sprocketmq.wire.bodies.route import ClusterInfo as ClusterInfo
    from sprocketmq.wire.bodies.route import GetBrokerMemberGroupResponseBody as GetBrokerMemberGroupResponseBody
    from sprocketmq.wire.bodies.route import KVConfig as KVConfig
    from sprocketmq.wire.bodies.route import KVTable as KVTable
    from sprocketmq.wire.bodies.route import QueueData as QueueData
    from sprocketmq.wire.bodies.route import TopicList as TopicList
    from sprocketmq.wire.bodies.route import TopicRouteData as TopicRouteData
    from sprocketmq.wire.bodies.running_info import LAST_FAILURE as LAST_FAILURE
    from sprocketmq.wire.bodies.running_info import LAST_FAILURE_TIMESTAMP as LAST_FAILURE_TIMESTAMP
    from sprocketmq.wire.bodies.running_info import OLDEST_CALL_TIMESTAMP as OLDEST_CALL_TIMESTAMP
    from sprocketmq.wire.bodies.running_info import PAUSED as PAUSED
    from sprocketmq.wire.bodies.running_info import PROP_CLIENT_VERSION as PROP_CLIENT_VERSION
    from sprocketmq.wire.bodies.running_info import PROP_CONSUME_ORDERLY as PROP_CONSUME_ORDERLY
    from sprocketmq.wire.bodies.running_info import PROP_CONSUME_TYPE as PROP_CONSUME_TYPE
    from sprocketmq.wire.bodies.running_info import PROP_CONSUMER_START_TIMESTAMP as PROP_CONSUMER_START_TIMESTAMP
    from sprocketmq.wire.bodies.running_info import PROP_NAMESERVER_ADDR as PROP_NAMESERVER_ADDR
    from sprocketmq.wire.bodies.running_info import PROP_THREADPOOL_CORE_SIZE as PROP_THREADPOOL_CORE_SIZE
    from sprocketmq.wire.bodies.running_info import CMResult as CMResult
    from sprocketmq.wire.bodies.running_info import ConsumeMessageDirectlyResult as ConsumeMessageDirectlyResult
    from sprocketmq.wire.bodies.running_info import ConsumerRunningInfo as ConsumerRunningInfo
    from sprocketmq.wire.bodies.running_info import ConsumeStatus as ConsumeStatus
    from sprocketmq.wire.bodies.running_info import ProcessQueueInfo as ProcessQueueInfo
    from sprocketmq.wire.bodies.stats import BrokerStatsData as BrokerStatsData
    from sprocketmq.wire.bodies.stats import BrokerStatsItem as BrokerStatsItem
    from sprocketmq.wire.bodies.stats import ConsumeQueueData as ConsumeQueueData
    from sprocketmq.wire.bodies.stats import ConsumeStats as ConsumeStats
    from sprocketmq.wire.bodies.stats import ConsumeStatsList as ConsumeStatsList
    from sprocketmq.wire.bodies.stats import OffsetWrapper as OffsetWrapper
    from sprocketmq.wire.bodies.stats import QueryConsumeQueueResponseBody as QueryConsumeQueueResponseBody
    from sprocketmq.wire.bodies.stats import QueryConsumeTimeSpanBody as QueryConsumeTimeSpanBody
    from sprocketmq.wire.bodies.stats import QueueTimeSpan as QueueTimeSpan
    from sprocketmq.wire.bodies.stats import TimerMetric as TimerMetric
    from sprocketmq.wire.bodies.stats import TimerMetricsSerializeWrapper as TimerMetricsSerializeWrapper
    from sprocketmq.wire.bodies.stats import TopicOffset as TopicOffset
    from sprocketmq.wire.bodies.stats import TopicStatsTable as TopicStatsTable
    from sprocketmq.wire.bodies.topic_config import CreateTopicListRequestBody as CreateTopicListRequestBody
    from sprocketmq.wire.bodies.topic_config import DataVersion as DataVersion
    from sprocketmq.wire.bodies.topic_config import TopicConfig as TopicConfig
    from sprocketmq.wire.bodies.topic_config import (
        TopicConfigAndMappingSerializeWrapper as TopicConfigAndMappingSerializeWrapper,
    )
    from sprocketmq.wire.bodies.topic_config import TopicConfigSerializeWrapper as TopicConfigSerializeWrapper
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
                "BrokerData BrokerMemberGroup ClusterInfo GetBrokerMemberGroupResponseBody KVConfig KVTable QueueData "
                "TopicList TopicRouteData"
            ),
            "running_info": (
                "LAST_FAILURE LAST_FAILURE_TIMESTAMP OLDEST_CALL_TIMESTAMP PAUSED "
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
