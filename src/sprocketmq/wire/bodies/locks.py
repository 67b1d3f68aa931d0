# SPDX-License-Identifier: Apache-2.0
"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ (Java: LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.records.message import MessageQueue


class LockBatchRequestBody(Body):
    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class LockBatchResponseBody(Body):
    """Body of the answer to LOCK_BATCH_MQ (41): the queues that the client has locked now."""

    lock_ok_mq_set: list[MessageQueue] = msgspec.field(default_factory=list, name="lockOKMQSet")


class UnlockBatchRequestBody(Body):
    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False
