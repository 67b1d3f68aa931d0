# SPDX-License-Identifier: Apache-2.0
"""Progress: config/consumerOffset.json, config/delayOffset.json, a broadcasting client's offsets.json, and codes 220 to 223."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.text import fastjson


class ConsumerOffsetSerializeWrapper(Body):
    """Offsets by queue id, by ``topic@group``. 4.9 writes no data version."""

    offset_table: dict[str, dict[int, int]] = {}
    data_version: DataVersion | None = None

    def encode(self) -> bytes:
        """Encode like any body, but ten times as fast: there may be a million offsets, which are written every 5 s."""
        rows = []
        for key, queues in sorted(self.offset_table.items()):
            pairs = ",".join([f"{queue_id}:{offset}" for queue_id, offset in sorted(queues.items())])
            rows.append(b"%b:{%b}" % (msgspec.json.encode(key), pairs.encode()))
        version = b"" if self.data_version is None else b'"dataVersion":%b,' % fastjson.dumps(self.data_version)
        return b'{%b%b"offsetTable":{%b}}' % (version, self._between(), b",".join(rows))

    def _between(self) -> bytes:
        """Further fields, whose names are between the two in alphabetical order."""
        return b""


class ConsumerOffsetSnapshot(ConsumerOffsetSerializeWrapper):
    """The same with the topics of each group, which Java's JSON writer adds because of a getter."""

    group_topic_map: dict[str, list[str]] = {}

    def _between(self) -> bytes:
        return b'"groupTopicMap":%b,' % msgspec.json.encode(self.group_topic_map, order="sorted")


class DelayOffsetSerializeWrapper(Body):
    """The next offset in the queue of each delay level. 4.9 writes no data version. Only we write ``copies_before``: the offsets count
    all delivered copies whose records are before this physical offset of the log."""

    offset_table: dict[int, int] = {}
    data_version: DataVersion | None = None
    copies_before: int | None = None


class OffsetSerializeWrapper(Body):
    """The offset file of a broadcasting consumer."""

    offset_table: dict[MessageQueue, int] = {}


class ResetOffsetBody(Body):
    """Body of RESET_CONSUMER_CLIENT_OFFSET (220) and of the answer to INVOKE_BROKER_TO_RESET_OFFSET (222): the new offset of each queue."""

    offset_table: dict[MessageQueue, int] = {}


class MessageQueueForC(Body):
    """A queue and its offset in one object, for clients whose JSON reader accepts no objects as keys."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int


class ResetOffsetBodyForC(Body):
    """Body of RESET_CONSUMER_CLIENT_OFFSET (220) if a C++ client requested the reset."""

    offset_table: list[MessageQueueForC] = []


class QueryCorrectionOffsetBody(Body):
    correction_offsets: dict[int, int] = {}


class GetConsumerStatusBody(Body):
    """``message_queue_table``: of one client (221). ``consumer_table``: of all clients (223)."""

    message_queue_table: dict[MessageQueue, int] = {}
    consumer_table: dict[str, dict[MessageQueue, int]] = {}
