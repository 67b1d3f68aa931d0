# SPDX-License-Identifier: Apache-2.0
"""The running info of a consumer: codes 307 and 309 (Java: ConsumerRunningInfo, ConsumeMessageDirectlyResult)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sprocketmq.wire.bodies.body import Body, NamedEnum
from sprocketmq.wire.bodies.heartbeat import SubscriptionData
from sprocketmq.wire.records.message import MessageQueue

# Keys of ConsumerRunningInfo.properties that tools read.
PROP_NAMESERVER_ADDR: Final = "PROP_NAMESERVER_ADDR"
PROP_THREADPOOL_CORE_SIZE: Final = "PROP_THREADPOOL_CORE_SIZE"
PROP_CONSUME_ORDERLY: Final = "PROP_CONSUMEORDERLY"
PROP_CONSUME_TYPE: Final = "PROP_CONSUME_TYPE"
PROP_CLIENT_VERSION: Final = "PROP_CLIENT_VERSION"
PROP_CONSUMER_START_TIMESTAMP: Final = "PROP_CONSUMER_START_TIMESTAMP"
# Keys of ConsumerRunningInfo.user_consumer_info that our members write.
LAST_FAILURE: Final = "lastListenerFailure"
LAST_FAILURE_TIMESTAMP: Final = "lastListenerFailureTimestamp"
OLDEST_CALL_TIMESTAMP: Final = "oldestListenerCallTimestamp"  # 0: no listener runs
PAUSED: Final = "paused"
CONSUMED_SINCE_START: Final = "messagesConsumedSinceStart"
FAILED_SINCE_START: Final = "messagesFailedSinceStart"


class ProcessQueueInfo(Body):
    """State of one process queue. ``droped`` is the protocol's spelling."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mi_b: int = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class ConsumeStatus(Body):
    """Rates of one topic: times in ms, TPS per second, failed messages of the last hour."""

    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: int = 0


class ConsumerRunningInfo(Body):
    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    mq_pop_table: dict[MessageQueue, Any] = {}
    status_table: dict[str, ConsumeStatus] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None


class CMResult(NamedEnum):
    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body):
    consume_result: str | None = None
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_time_mills: int = 0
