# SPDX-License-Identifier: Apache-2.0
"""What a store is given, and what it answers."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sprocketmq.wire.records.batch_elements import BatchElements


class ReadStatus(enum.Enum):
    """Outcome of a read. Java: GetMessageStatus, the same names.

    Three of Java's do not occur: OFFSET_FOUND_NULL (a store whose queue misses a file is not opened), MESSAGE_WAS_REMOVING (log and
    queues are cleaned in one step) and NO_MATCHED_LOGIC_QUEUE (Java creates the queue, too).
    """

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"  # the filter removed all, or the limit was reached: go on at next_offset
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"  # beyond the end: next_offset = max_offset
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"  # exactly at the end: nothing new yet, the pull may be parked
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"  # before the first kept message: next_offset = min_offset
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"  # nothing was ever written to that queue: next_offset = 0


class StoredMessage(msgspec.Struct, gc=False):
    """A message for ``append``: all parts of the record except its place and its store time.

    ``properties`` are the raw wire bytes, hosts are (4 or 16 address bytes, port); the store sets the bits of ``sys_flag`` for
    IPv6. ``prepared_transaction_offset`` is, of a committed message, the physical offset of its half message; of the copy of a
    message that waited for its time the bitwise complement of that one's (Java: 0). ``tags_code`` goes into the queue entry:
    ``tags_code(TAGS)``, or the delivery time of a delayed message.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: tuple[bytes, int] = (b"\x7f\x00\x00\x01", 0)
    store_host: tuple[bytes, int] = (b"\x7f\x00\x00\x01", 10911)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tags_code: int = 0


class StoredBatch(msgspec.Struct, gc=False):
    """``elements`` (bodies, properties, flags) and a tags code for each; other fields as in ``StoredMessage``."""

    topic: str
    queue_id: int
    elements: BatchElements
    tags_codes: list[int]
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: tuple[bytes, int] = (b"\x7f\x00\x00\x01", 0)
    store_host: tuple[bytes, int] = (b"\x7f\x00\x00\x01", 10911)
    reconsume_times: int = 0


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message was stored. ``when_durable`` takes ``physical_offset + size``."""

    physical_offset: int
    queue_offset: int
    store_timestamp: int
    size: int


class BatchAppendResult(AppendResult, frozen=True, gc=False):
    """Both offsets are the first message's, ``size`` is that of all together."""

    physical_offsets: NDArray[np.int64]


class ReadResult(msgspec.Struct, gc=False):
    """``chunks`` are views of whole records, in order. They hold the memory of a deleted file: do not keep them."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    chunks: list[memoryview] = []
    bytes: int = 0
    count: int = 0


class IndexHits(msgspec.Struct):
    """Places of the records with a key, ascending; and store time and place of the newest record in the index."""

    physical_offsets: list[int] = []
    last_update_timestamp: int = 0
    last_update_physical_offset: int = 0


class Unit(msgspec.Struct, frozen=True, gc=False):
    """One consume queue entry; ``tags_code`` is the delivery time in SCHEDULE_TOPIC_XXXX."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
