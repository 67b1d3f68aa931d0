# SPDX-License-Identifier: Apache-2.0
"""Requests that brokers send to a consumer on behalf of admin tools (Java: ClientRemotingProcessor)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.client.answer_bodies import decoded
from sprocketmq.client.consume.running_info import running_info_of
from sprocketmq.client.listen.listener_call import described_failure
from sprocketmq.client.listener_signals import ListenerSignal
from sprocketmq.client.settings.namespace import unwrap
from sprocketmq.client.settings.values import use_deserializers
from sprocketmq.core.consume.consume_result import ConsumeConcurrentlyStatus
from sprocketmq.core.consume.orderly_turn import ConsumeOrderlyStatus
from sprocketmq.core.resource_names import retry_topic
from sprocketmq.errors import ProtocolError
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Buffer, Command, response
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.record import decode_record

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

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
        if command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            await self._reset(await decoded(command.body, _offsets_of_reset))
            return response(command)
        if command.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            offsets = self._running.offset_store.progress.snapshot()
            topic = command.ext_fields.get("topic")
            table = {queue: offset for queue, offset in offsets.items() if not topic or queue.topic == topic}
            return response(command, body=bodies.GetConsumerStatusBody(message_queue_table=table).encode())
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            header = command.header(headers.GetConsumerRunningInfoRequestHeader)
            info = await running_info_of(self._running, with_stacks=header.jstack_enable)
            return response(command, body=info.encode())
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return response(command, body=(await self._consume_directly(command)).encode())
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request code {command.code} is not served")

    async def _reset(self, offsets: dict[MessageQueue, int]) -> None:
        """Java waits 10 s for running listeners; here a dropped queue takes no late results anyway."""
        for queue, offset in offsets.items():
            await self._running.rebalancer.drop_at(queue, offset)
        await self._running.rebalance()

    async def _consume_directly(self, command: Command) -> bodies.ConsumeMessageDirectlyResult:
        header = command.header(headers.ConsumeMessageDirectlyResultRequestHeader)
        message = decode_record(command.body, broker_name=header.broker_name or "")
        if message.topic == retry_topic(self._running.name):
            message.topic = message.properties.get(props.RETRY_TOPIC) or message.topic
        message.topic = unwrap(self._running.namespace, message.topic)
        use_deserializers(self._running.settings.value_deserializer, [message])
        batch = await self._running.service.consume_directly([message])
        remark: str | None = None
        if isinstance(batch.failure, ListenerSignal):
            outcome, remark = bodies.CMResult.CR_LATER, repr(batch.failure)
        elif batch.failure is not None:
            outcome, remark = bodies.CMResult.CR_THROW_EXCEPTION, described_failure(batch.failure)
        elif batch.returned_none:
            outcome = bodies.CMResult.CR_RETURN_NULL
        else:
            assert batch.status is not None
            outcome = _RESULTS[batch.status]
        return bodies.ConsumeMessageDirectlyResult(
            consume_result=outcome.value,
            order=self._running.service.orderly,
            auto_commit=getattr(batch.context, "auto_commit", True),
            remark=remark,
            spent_time_mills=int(batch.spent_s * 1000),
        )


def _offsets_of_reset(body: Buffer) -> dict[MessageQueue, int]:
    """Queue -> offset. A list where a C++ tool asked the broker: that broker then pushes a list to every member (ResetOffsetBodyForC)."""
    try:
        return dict(bodies.ResetOffsetBody.decode(body).offset_table)
    except ProtocolError:
        rows = bodies.ResetOffsetBodyForC.decode(body).offset_table
        return {MessageQueue(row.topic, row.broker_name, row.queue_id): row.offset for row in rows}
