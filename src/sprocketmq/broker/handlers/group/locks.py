# SPDX-License-Identifier: Apache-2.0
"""Queue locks of orderly consumers, for 60 s from the last renewal (Java: AdminBrokerProcessor.lockBatchMQ). Gaps: ``onlyThisBroker`` and
strict mode, which concern broker groups with replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.security.name_checks import lock_problem
from sprocketmq.core.resource_names import MAX_QUEUES
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_HEAD, _TAIL = b'{"lockOKMQSet":[', b"]}"


@serves(requests.consumers.LOCK_BATCH_MQ)
def lock_batch(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    body = LockBatchRequestBody.of_request(command.body)
    problem = _too_many(body.mq_set) or lock_problem(body)
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)

    async def answer() -> Command:
        texts = []
        async for share in in_chunks(body.mq_set):
            now_ms = broker.clock.steady_ms()
            owned = broker.locks.try_lock_batch(body.consumer_group, share, body.client_id, now_ms)
            if owned:
                texts.append(LockBatchResponseBody(lock_ok_mq_set=owned).encode()[len(_HEAD) : -len(_TAIL)])
        return response(command, body=_HEAD + b",".join(texts) + _TAIL)

    return broker.answer_in_chunks(connection, command, answer())


@serves(requests.consumers.UNLOCK_BATCH_MQ)
def unlock_batch(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    body = UnlockBatchRequestBody.of_request(command.body)
    problem = _too_many(body.mq_set)
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)

    async def answer() -> Command:
        async for share in in_chunks(body.mq_set):
            broker.locks.unlock_batch(body.consumer_group, share, body.client_id)
        return response(command)

    return broker.answer_in_chunks(connection, command, answer())


def _too_many(queues: list[MessageQueue]) -> str | None:
    # An orderly consumer requests locks for all its queues of a topic at once, and does not consume queues without a lock.
    if len(queues) <= MAX_QUEUES:
        return None
    return f"the request names {len(queues)} queues, {MAX_QUEUES} are allowed; ask several times"
