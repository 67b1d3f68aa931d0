"""Progress: config/consumerOffset.json, config/delayOffset.json, a broadcasting client's offsets.json, and codes 220 to 223."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.text import fastjson

__all__ = [
    "ConsumerOffsetSerializeWrapper",
    "ConsumerOffsetSnapshot",
    "DelayOffsetSerializeWrapper",
    "GetConsumerStatusBody",
    "MessageQueueForC",
    "OffsetSerializeWrapper",
    "QueryCorrectionOffsetBody",
    "ResetOffsetBody",
    "ResetOffsetBodyForC",
]


class ConsumerOffsetSerializeWrapper(Body):
    """``topic@group`` to queue id to offset. 4.9 writes no data version."""

    offset_table: dict[str, dict[int, int]] = {}
    data_version: DataVersion | None = None

    def encode(self) -> bytes:
        """What any body writes, ten times as fast: there may be a million offsets, and they are written each 5 s."""
        rows = []
        for key, queues in sorted(self.offset_table.items()):
            pairs = ",".join([f"{queue_id}:{offset}" for queue_id, offset in sorted(queues.items())])
            rows.append(b"%b:{%b}" % (msgspec.json.encode(key), pairs.encode()))
        version = b"" if self.data_version is None else b'"dataVersion":%b,' % fastjson.dumps(self.data_version)
        return b'{%b%b"offsetTable":{%b}}' % (version, self._between(), b",".join(rows))

    def _between(self) -> bytes:
        """Further fields, by name between the two."""
        return b""


class ConsumerOffsetSnapshot(ConsumerOffsetSerializeWrapper):
    """Answer to code 43: the same, and the topics by group, which Java's JSON writer makes out of a getter."""

    group_topic_map: dict[str, list[str]] = {}

    def _between(self) -> bytes:
        return b'"groupTopicMap":%b,' % msgspec.json.encode(self.group_topic_map, order="sorted")


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


class MessageQueueForC(Body):
    """A queue and its offset side by side, for clients whose JSON reader takes no objects as keys."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int


class ResetOffsetBodyForC(Body):
    """Body of code 220 when the one who asked for the reset is a C++ client."""

    offset_table: list[MessageQueueForC] = []


class QueryCorrectionOffsetBody(Body):
    """Answer to code 308: offsets by queue id."""

    correction_offsets: dict[int, int] = {}


class GetConsumerStatusBody(Body):
    """Answer to 221 (one client: ``message_queue_table``) and 223 (all clients: ``consumer_table``)."""

    message_queue_table: dict[MessageQueue, int] = {}
    consumer_table: dict[str, dict[MessageQueue, int]] = {}
