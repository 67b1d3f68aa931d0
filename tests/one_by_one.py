# SPDX-License-Identifier: Apache-2.0
"""Pull bodies as the Spark source shows them, read record by record with the client's decoder: what its columns are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.core.resource_names import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.record import RecordView, decode_records


def batch_one_by_one(
    schema: pa.Schema, pulls: Sequence[PulledChunk], tags: frozenset[str] = frozenset()
) -> pa.RecordBatch:
    """All wanted messages as one batch.

    Raises:
        ProtocolError: the bytes are not records.
    """
    found = [(message, pull.queue) for pull in pulls for message in _wanted(pull, tags)]
    arrays = [pa.array([_COLUMNS[field.name](*row) for row in found], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _wanted(pull: PulledChunk, tags: frozenset[str]) -> list[MessageExt]:
    messages, body, at = [], bytes(pull.body), 0
    while at < len(body):
        record = RecordView(body, at)
        messages += decode_records(record.raw, pull.queue.broker_name)
        at += record.size
    unfiltered = not tags or pull.queue.topic.startswith(RETRY_PREFIX)
    return [one for one in messages if pull.start <= one.queue_offset < pull.end and (unfiltered or one.tags in tags)]


def _topic(message: MessageExt, queue: MessageQueue) -> str:
    if queue.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        for name in ("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC"):
            if name in message.properties:
                return message.properties[name]
    return queue.topic


def _microseconds(time_ms: int) -> int:
    """Modulo 2**64, as NumPy computes it: the time of a damaged record may be any number."""
    return (time_ms * 1000 + (1 << 63)) % (1 << 64) - (1 << 63)


_COLUMNS: Final[dict[str, Callable[[MessageExt, MessageQueue], Any]]] = {
    "topic": _topic,
    "brokerName": lambda message, queue: queue.broker_name,
    "queueId": lambda message, queue: message.queue_id,
    "queueOffset": lambda message, queue: message.queue_offset,
    "commitLogOffset": lambda message, queue: message.commit_log_offset,
    "messageId": lambda message, queue: message.message_id,
    "keys": lambda message, queue: message.properties.get("KEYS"),
    "tags": lambda message, queue: message.properties.get("TAGS"),
    "properties": lambda message, queue: list(message.properties.items()),
    "body": lambda message, queue: bytes(message.body),
    "bornTimestamp": lambda message, queue: _microseconds(message.born_timestamp_ms),
    "storeTimestamp": lambda message, queue: _microseconds(message.store_timestamp_ms),
    "bornHost": lambda message, queue: message.born_host,
    "storeHost": lambda message, queue: message.store_host,
    "reconsumeTimes": lambda message, queue: message.reconsume_times,
    "sysFlag": lambda message, queue: message.sys_flag,
}
