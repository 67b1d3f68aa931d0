"""Progress: config/consumerOffset.json, config/delayOffset.json, a broadcasting client's offsets.json, and codes 220 to 223."""

from __future__ import annotations

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.message import MessageQueue

__all__ = [
    "ConsumerOffsetSerializeWrapper",
    "DelayOffsetSerializeWrapper",
    "GetConsumerStatusBody",
    "OffsetSerializeWrapper",
    "ResetOffsetBody",
]


class ConsumerOffsetSerializeWrapper(Body):
    """``topic@group`` to queue id to offset. 4.9 writes no data version."""

    offset_table: dict[str, dict[int, int]] = {}
    data_version: DataVersion | None = None


class DelayOffsetSerializeWrapper(Body):
    """Delay level to the next offset of its queue. 4.9 writes no data version."""

    offset_table: dict[int, int] = {}
    data_version: DataVersion | None = None


class OffsetSerializeWrapper(Body):
    """A broadcasting consumer's own file."""

    offset_table: dict[MessageQueue, int] = {}


class ResetOffsetBody(Body):
    """Body of code 220 and answer to 222: where each queue is to go on."""

    offset_table: dict[MessageQueue, int] = {}


class GetConsumerStatusBody(Body):
    """Answer to 221 (one client: ``message_queue_table``) and 223 (all clients: ``consumer_table``)."""

    message_queue_table: dict[MessageQueue, int] = {}
    consumer_table: dict[str, dict[MessageQueue, int]] = {}
