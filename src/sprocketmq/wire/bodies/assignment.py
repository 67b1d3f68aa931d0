"""Who reads a queue, decided by the broker, and by which kind of request: codes 400, 401 and 402 (Java: QueryAssignmentRequestBody)."""

from __future__ import annotations

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.records.message import MessageQueue

__all__ = [
    "MessageQueueAssignment",
    "MessageRequestModeSerializeWrapper",
    "QueryAssignmentRequestBody",
    "QueryAssignmentResponseBody",
    "SetMessageRequestModeRequestBody",
]


class QueryAssignmentRequestBody(Body):
    """Code 400. ``strategy_name`` is that of an allocation strategy, ``AVG`` and so on."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: str = ""


class MessageQueueAssignment(Body):
    """One queue for the asker, and the mode it is read in: PULL, or POP."""

    message_queue: MessageQueue
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


class QueryAssignmentResponseBody(Body):
    """Answer to code 400. None: the broker cannot tell, keep what you have. Empty: you have nothing."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeRequestBody(Body):
    """Code 401: the mode in which a group reads a topic."""

    topic: str
    consumer_group: str
    mode: str = "PULL"
    pop_share_queue_num: int = 0


class MessageRequestModeSerializeWrapper(Body):
    """Answer to code 402 and config/messageRequestMode.json: modes by topic and group."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}
