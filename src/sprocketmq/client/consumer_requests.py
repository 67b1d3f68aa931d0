"""What brokers ask of a consumer on behalf of admin tools (Java: ClientRemotingProcessor)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.core.consume_result import ConsumeConcurrentlyStatus
from sprocketmq.core.orderly_turn import ConsumeOrderlyStatus
from sprocketmq.core.process_queue import ProcessQueue
from sprocketmq.core.retry_schedule import retry_topic
from sprocketmq.version import __version__
from sprocketmq.wire import bodies, headers
from sprocketmq.wire import properties as props
from sprocketmq.wire.bodies import running_info
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.message import MessageQueue
from sprocketmq.wire.record import decode_record

if TYPE_CHECKING:
    from sprocketmq.client.running_consumer import RunningConsumer

__all__ = ["ConsumerRequests"]

_RESULTS = {
    ConsumeConcurrentlyStatus.CONSUME_SUCCESS: bodies.CMResult.CR_SUCCESS,
    ConsumeConcurrentlyStatus.RECONSUME_LATER: bodies.CMResult.CR_LATER,
    ConsumeOrderlyStatus.SUCCESS: bodies.CMResult.CR_SUCCESS,
    ConsumeOrderlyStatus.COMMIT: bodies.CMResult.CR_COMMIT,
    ConsumeOrderlyStatus.ROLLBACK: bodies.CMResult.CR_ROLLBACK,
    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: bodies.CMResult.CR_LATER,
}


class ConsumerRequests:
    """Serves a running consumer's share of codes 220, 221, 307 and 309."""

    def __init__(self, running: RunningConsumer) -> None:
        self._running = running

    async def serve(self, command: Command) -> Command:
        """The answer. Raises RocketMQError where the request cannot be carried out."""
        if command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            await self._reset(bodies.ResetOffsetBody.decode(command.body).offset_table)
            return response(command)
        if command.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            offsets = self._running.group.offset_store.progress.snapshot()
            topic = command.ext_fields.get("topic")
            table = {queue: offset for queue, offset in offsets.items() if not topic or queue.topic == topic}
            return response(command, body=bodies.GetConsumerStatusBody(message_queue_table=table).encode())
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return response(command, body=self.running_info().encode())
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return response(command, body=(await self._consume_directly(command)).encode())
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request code {command.code} is not served")

    async def _reset(self, offsets: dict[MessageQueue, int]) -> None:
        """Queues go on elsewhere. Java waits 10 s for running listeners; here a dropped queue takes no late results anyway."""
        for queue, offset in offsets.items():
            await self._running.rebalancer.drop_at(queue, offset)
        await self._running.rebalance()

    def running_info(self) -> bodies.ConsumerRunningInfo:
        """GET_CONSUMER_RUNNING_INFO: everything a tool may want to know of this member."""
        running = self._running
        settings, now_ms = running.group.settings, running.group.clock.now_ms()
        properties = {
            running_info.PROP_NAMESERVER_ADDR: running.instance.options.addresses,
            running_info.PROP_CONSUME_TYPE: bodies.ConsumeType.CONSUME_PASSIVELY.value,
            running_info.PROP_CONSUME_ORDERLY: str(running.service.orderly).lower(),
            running_info.PROP_THREADPOOL_CORE_SIZE: str(settings.consume_thread_count),
            running_info.PROP_CONSUMER_START_TIMESTAMP: str(running.started_ms),
            running_info.PROP_CLIENT_VERSION: f"SprocketMQ {__version__}",
            "messageModel": settings.message_model.value,
            "consumeFromWhere": settings.consume_from_where.value,
            "consumeTimeoutMillis": str(settings.consume_timeout_ms),
            "maxReconsumeTimes": str(settings.max_reconsume_times),
            "pullBatchSize": str(settings.pull_batch_size),
        }
        progress = running.group.offset_store.progress
        statistics = running.group.statistics
        return bodies.ConsumerRunningInfo(
            properties=properties,
            subscription_set=list(running.subscriptions.values()),
            mq_table={
                queue: _process_queue_info(process_queue, progress.read(queue))
                for queue, process_queue in running.rebalancer.table.active().items()
            },
            status_table={topic: statistics.status(topic, now_ms) for topic in sorted(running.subscriptions)},
        )

    async def _consume_directly(self, command: Command) -> bodies.ConsumeMessageDirectlyResult:
        header = command.header(headers.ConsumeMessageDirectlyResultRequestHeader)
        message = decode_record(command.body, broker_name=header.broker_name or "")
        if message.topic == retry_topic(self._running.group.name):
            message.topic = message.properties.get(props.RETRY_TOPIC) or message.topic
        started_ms = self._running.group.clock.now_ms()
        batch = await self._running.service.consume_directly([message])
        if batch.failure is not None:
            outcome, remark = bodies.CMResult.CR_THROW_EXCEPTION, f"{type(batch.failure).__name__}: {batch.failure}"
        else:
            assert batch.status is not None
            outcome, remark = _RESULTS[batch.status], ""
        return bodies.ConsumeMessageDirectlyResult(
            consume_result=outcome.value,
            order=self._running.service.orderly,
            auto_commit=getattr(batch.context, "auto_commit", True),
            remark=remark or None,
            spent_time_mills=self._running.group.clock.now_ms() - started_ms,
        )


def _process_queue_info(process_queue: ProcessQueue, commit_offset: int) -> bodies.ProcessQueueInfo:
    return bodies.ProcessQueueInfo(
        commit_offset=commit_offset,
        cached_msg_min_offset=process_queue.min_offset or 0,
        cached_msg_max_offset=process_queue.max_offset or 0,
        cached_msg_count=process_queue.count,
        cached_msg_size_in_mi_b=process_queue.size_bytes // (1024 * 1024),
        transaction_msg_count=process_queue.in_flight_count,
        locked=process_queue.lock.locked,
        try_unlock_times=process_queue.try_unlock_times,
        last_lock_timestamp=process_queue.lock.last_lock_ms,
        droped=process_queue.dropped,
        last_pull_timestamp=process_queue.last_pull_ms,
        last_consume_timestamp=process_queue.last_consume_ms,
    )
