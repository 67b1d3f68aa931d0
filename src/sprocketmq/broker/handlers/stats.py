"""What tools ask: GET_BROKER_RUNTIME_INFO 28, GET_CONSUME_STATS 208. Java: AdminBrokerProcessor.

Gaps: numbers of parts that do not exist here (thread pools, page cache, timer wheel) are reported as idle, because mqadmin takes their keys
for granted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.core.retry_schedule import retry_topic
from sprocketmq.net.connection import Connection
from sprocketmq.wire.bodies import ConsumeStats, KVTable, OffsetWrapper
from sprocketmq.wire.codes import ANNOUNCED_VERSION, RequestCode, ResponseCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import GetConsumeStatsRequestHeader
from sprocketmq.wire.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS"]

_IDLE_POOLS = ("send", "pull", "litePull", "query", "ack")


def broker_runtime_info(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    store, counters = broker.store, broker.counters
    table = {
        "brokerVersionDesc": "V4_9_8",
        "brokerVersion": str(ANNOUNCED_VERSION),
        "brokerActive": "true",
        "bootTimestamp": str(broker.start_ms),
        "runtime": f"[ {(now_ms - broker.start_ms) // 1000} seconds ]",
        "startAcceptSendRequestTimeStamp": "0",
        "putTps": counters.put_tps.text(now_ms),
        "getFoundTps": counters.pulled_tps.text(now_ms),
        "getMissTps": "0.0 0.0 0.0",
        "getTotalTps": counters.pulled_tps.text(now_ms),
        "getTransferedTps": counters.pulled_tps.text(now_ms),
        "getTransferredTps": counters.pulled_tps.text(now_ms),
        "msgPutTotalYesterdayMorning": "0",
        "msgPutTotalTodayMorning": "0",
        "msgPutTotalTodayNow": str(counters.put),
        "msgGetTotalYesterdayMorning": "0",
        "msgGetTotalTodayMorning": "0",
        "msgGetTotalTodayNow": str(counters.pulled),
        "commitLogMinOffset": str(store.min_physical_offset),
        "commitLogMaxOffset": str(store.max_physical_offset),
        "dispatchBehindBytes": "0",
        "remainHowManyDataToFlush": f"{store.max_physical_offset - store.flushed_offset} B",
        "remainHowManyDataToCommit": "0 B",
        "pageCacheLockTimeMills": "0",
        "earliestMessageTimeStamp": str(broker.earliest_store_time()),
        "commitLogDiskRatio": "0.0",
        "consumeQueueDiskRatio": "0.0",
        "putMessageEntireTimeMax": "0",
        "getMessageEntireTimeMax": "0",
        "timerReadBehind": "0",
        "timerOffsetBehind": "0",
        "timerCongestNum": "0",
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": "0",
    }
    for pool in _IDLE_POOLS:
        table[f"{pool}ThreadPoolQueueSize"] = "0"
        table[f"{pool}ThreadPoolQueueCapacity"] = "0"
        table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    for level in range(1, broker.schedule.levels.max_level + 1):
        progress = broker.schedule.progress(level)
        table[f"scheduleMessageOffset_{level}"] = f"{progress},{progress + broker.schedule.waiting(level)}"
    return response(command, body=KVTable(table=table).encode())


def consume_stats(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    """Broker and consumer offset of each queue: what ``lag`` is computed from."""
    header = command.header(GetConsumeStatsRequestHeader)
    group = header.consumer_group
    if header.topic:
        topics = [header.topic]
    elif header.topic_list:
        topics = [topic for topic in header.topic_list.split(";") if topic]
    else:
        topics = broker.offsets.topics_of(group)
        consumer = broker.consumers.get(group)
        if consumer is not None:
            topics = list(dict.fromkeys([*topics, *consumer.subscriptions]))
    if not topics and group not in broker.groups:
        remark = f"consumer group {group} does not exist and has no offset on this broker"
        return response(command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    table = {}
    for topic in topics:
        config = broker.topics.get(topic)
        if config is None or (not header.topic and topic != retry_topic(group) and topic.startswith("%RETRY%")):
            continue
        for queue_id in range(config.read_queue_nums):
            table[MessageQueue(topic, broker.config.broker_name, queue_id)] = _offsets(broker, group, topic, queue_id)
    return response(command, body=ConsumeStats(offset_table=table, consume_tps=0.0).encode())


def _offsets(broker: Broker, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    end = broker.store.max_offset(topic, queue_id)
    consumed = max(0, broker.offsets.query(group, topic, queue_id))
    last = broker.store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else 0
    return OffsetWrapper(
        broker_offset=end,
        consumer_offset=consumed,
        pull_offset=max(0, broker.offsets.pull_offset(group, topic, queue_id)),
        last_timestamp=max(0, last),
    )


HANDLERS = {
    RequestCode.GET_BROKER_RUNTIME_INFO: broker_runtime_info,
    RequestCode.GET_CONSUME_STATS: consume_stats,
}
