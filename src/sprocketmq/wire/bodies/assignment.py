# SPDX-License-Identifier: Apache-2.0
"""Assignments of queues by the broker, and the request mode of a group: codes 400, 401 and 402 (Java: QueryAssignmentRequestBody)."""

from __future__ import annotations

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.records.message import MessageQueue


class QueryAssignmentRequestBody(Body):
    """Body of QUERY_ASSIGNMENT (400): let the broker assign queues. ``strategy_name`` names an allocation strategy, such as ``AVG``."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: str = ""


class MessageQueueAssignment(Body):
    """One queue of the consumer, and how it is read: PULL or POP."""

    message_queue: MessageQueue
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


class QueryAssignmentResponseBody(Body):
    """Body of the answer to QUERY_ASSIGNMENT (400). None: the broker cannot assign, so keep the queues. Empty: no queues."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeRequestBody(Body):
    topic: str
    consumer_group: str
    mode: str = "PULL"
    pop_share_queue_num: int = 0


class MessageRequestModeSerializeWrapper(Body):
    """Body of the answer to GET_ALL_MESSAGE_REQUEST_MODE (402), and config/messageRequestMode.json: modes by topic and group."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}
