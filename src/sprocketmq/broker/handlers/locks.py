"""Queue locks of orderly consumers: LOCK_BATCH_MQ 41, UNLOCK_BATCH_MQ 42 (often one-way). Java: AdminBrokerProcessor.lockBatchMQ.

Body: clientId, consumerGroup, mqSet. Answer of 41: lockOKMQSet, the queues that the client owns now, for 60 s from the last renewal.

Gaps: ``onlyThisBroker`` and strict mode concern broker groups with replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.net.connection import Connection
from sprocketmq.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS"]


def lock_batch(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    body = LockBatchRequestBody.decode(command.body)
    owned = broker.locks.try_lock_batch(body.consumer_group, body.mq_set, body.client_id, now_ms)
    return response(command, body=LockBatchResponseBody(lock_ok_mq_set=owned).encode())


def unlock_batch(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    body = UnlockBatchRequestBody.decode(command.body)
    broker.locks.unlock_batch(body.consumer_group, body.mq_set, body.client_id)
    return response(command)


HANDLERS = {RequestCode.LOCK_BATCH_MQ: lock_batch, RequestCode.UNLOCK_BATCH_MQ: unlock_batch}
