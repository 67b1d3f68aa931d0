"""Typed bodies of requests and responses, one struct per Java class: ``body.encode()`` writes, ``Type.decode(data)`` reads."""

from __future__ import annotations

from sprocketmq.wire.bodies.auth import (
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)
from sprocketmq.wire.bodies.body import (
    Body,
    NamedEnum,
)
from sprocketmq.wire.bodies.connections import (
    Connection,
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    GroupList,
    ProducerConnection,
)
from sprocketmq.wire.bodies.group_config import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from sprocketmq.wire.bodies.ha import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from sprocketmq.wire.bodies.heartbeat import (
    CheckClientConfigRequestBody,
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    ExpressionType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from sprocketmq.wire.bodies.locks import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from sprocketmq.wire.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    GetConsumerStatusBody,
    OffsetSerializeWrapper,
    ResetOffsetBody,
)
from sprocketmq.wire.bodies.register_broker import RegisterBrokerBody
from sprocketmq.wire.bodies.route import (
    BrokerData,
    ClusterInfo,
    KVTable,
    QueueData,
    TopicList,
    TopicRouteData,
)
from sprocketmq.wire.bodies.running_info import (
    PROP_CLIENT_VERSION,
    PROP_CONSUME_ORDERLY,
    PROP_CONSUME_TYPE,
    PROP_CONSUMER_START_TIMESTAMP,
    PROP_NAMESERVER_ADDR,
    PROP_THREADPOOL_CORE_SIZE,
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)
from sprocketmq.wire.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from sprocketmq.wire.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
)

__all__ = [
    "PROP_CLIENT_VERSION",
    "PROP_CONSUMER_START_TIMESTAMP",
    "PROP_CONSUME_ORDERLY",
    "PROP_CONSUME_TYPE",
    "PROP_NAMESERVER_ADDR",
    "PROP_THREADPOOL_CORE_SIZE",
    "AclInfo",
    "Body",
    "BrokerData",
    "BrokerStatsData",
    "BrokerStatsItem",
    "CMResult",
    "CheckClientConfigRequestBody",
    "ClusterInfo",
    "Connection",
    "ConsumeFromWhere",
    "ConsumeMessageDirectlyResult",
    "ConsumeStats",
    "ConsumeStatsList",
    "ConsumeStatus",
    "ConsumeType",
    "ConsumerConnection",
    "ConsumerData",
    "ConsumerOffsetSerializeWrapper",
    "ConsumerRunningInfo",
    "DataVersion",
    "DelayOffsetSerializeWrapper",
    "ExpressionType",
    "GetConsumerListByGroupResponseBody",
    "GetConsumerStatusBody",
    "GroupList",
    "HAClientRuntimeInfo",
    "HAConnectionRuntimeInfo",
    "HARuntimeInfo",
    "HeartbeatData",
    "KVTable",
    "LockBatchRequestBody",
    "LockBatchResponseBody",
    "MessageModel",
    "NamedEnum",
    "OffsetSerializeWrapper",
    "OffsetWrapper",
    "PolicyEntryInfo",
    "PolicyInfo",
    "ProcessQueueInfo",
    "ProducerConnection",
    "ProducerData",
    "QueueData",
    "RegisterBrokerBody",
    "ResetOffsetBody",
    "SubscriptionData",
    "SubscriptionGroupConfig",
    "SubscriptionGroupWrapper",
    "TopicConfig",
    "TopicConfigSerializeWrapper",
    "TopicList",
    "TopicOffset",
    "TopicRouteData",
    "TopicStatsTable",
    "UnlockBatchRequestBody",
    "UserInfo",
]
