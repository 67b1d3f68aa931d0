# SPDX-License-Identifier: Apache-2.0
"""Records of waiting messages, and the messages of their copies (Java: messageTimeUp, convert). A step asks the store once for the bytes of
the log and finds its records in them; a body is copied once, from the log into the log."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from sprocketmq.errors import ProtocolError
from sprocketmq.store import MessageStore, StoredMessage
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.checksum import crc32
from sprocketmq.wire.records.record import RecordView, record_parts
from sprocketmq.wire.records.record_layout import BODY_CRC_MASK, PROPERTIES_LENGTH, RECORD, TOPIC_LENGTH_V1

# Of the delivery of delayed and of timer messages, which is done in steps of some 2 ms.
STEP_BYTES: Final = 512 * 1024
FIRST_ENTRIES: Final = 8  # queue entries read at a step's begin; then twice as many each time
RETRY_MS: Final = 1_000
LONGEST_SLEEP_MS: Final = 10_000  # the loop's timers do not notice that the clock was set

# So much of the log, and what came after the last save of progress, is read by a start that looks for delivered copies.
_MOST_UNCOUNTED_BYTES: Final = 64 * 1024 * 1024
# Head, body, raw properties: see ``wire.records.record.record_parts``.
WaitingRecord = tuple[tuple[Any, ...], memoryview, bytes]
_WINDOW_BYTES = 1 << 40  # as much as lies in one file
_NO_VIEW = memoryview(b"")
_SIZE, _BODY_CRC, _PHYSICAL_OFFSET = (RECORD.index[name] for name in ("size", "body_crc", "physical_offset"))
_copied: Final = RECORD.values("flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times")
_LONGEST_TAIL_BYTES: Final = 300
_REDIRECTED: Final = f"\x02{props.REAL_TOPIC}\x01".encode()  # as ``redirect`` leaves it: the last pair but REAL_QID


class WaitingRecords:
    """The records of one step. Its results are views of the log and hold its memory."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._window, self._start = _NO_VIEW, 0

    def get_of(self, topic: bytes, physical_offset: int, size_bytes: int) -> WaitingRecord | None:
        """The record that begins there, if it is one of ``topic`` (shorter than 128 bytes) and of this size."""
        record = self.get(physical_offset)
        if record is None or record[0][_SIZE] != size_bytes:
            return None
        # Its properties and their length come last.
        end = physical_offset - self._start + size_bytes - len(record[2]) - PROPERTIES_LENGTH.size
        begin = end - len(topic) - TOPIC_LENGTH_V1.size
        return record if self._window[begin:end] == TOPIC_LENGTH_V1.pack(len(topic)) + topic else None

    def get(self, physical_offset: int) -> WaitingRecord | None:
        at = physical_offset - self._start
        if not 0 <= at < len(self._window):
            window = self._store.log_data(physical_offset, _WINDOW_BYTES)
            if window is None:
                return None
            self._window, self._start, at = window, physical_offset, 0
        try:
            record = record_parts(self._window, at)
        except ProtocolError:
            return None
        head, body, raw = record
        # A page that never reached the disk leaves zeros. Then the lengths rarely add up, and the text would end in a zero.
        if head[_PHYSICAL_OFFSET] == physical_offset and raw[-1:] != b"\x00":
            # Its copy gets a new checksum, so the damage would be seen nowhere.
            if crc32(body) & BODY_CRC_MASK != head[_BODY_CRC]:
                self._store.damaged_bodies.found(RecordView(self._window, at))
            return record
        return None


def delivered_from(store: MessageStore, topic: str, copies_before: int | None) -> Iterator[RecordView]:
    """The waiting records of ``topic`` with copies in the log from ``copies_before`` on (None: since the first one waited)."""
    if copies_before is None:
        firsts = [
            store.units(topic, queue_id, store.min_offset(topic, queue_id), 1) for queue_id in store.queue_ids(topic)
        ]
        copies_before = min((units[0].physical_offset for units in firsts if units), default=store.max_physical_offset)
    for place in store.copied_from(copies_before):
        record = store.view_at(place)
        if record is not None and record.topic_bytes == topic.encode():
            yield record


def has_grown(store: MessageStore, copies_before: int | None) -> bool:
    """Whether to write progress again although nothing was delivered, so that a start has little to read."""
    return store.max_physical_offset - (copies_before or 0) > _MOST_UNCOUNTED_BYTES


def destination(raw: bytes) -> tuple[str, int]:
    """The topic and queue for which a message waits; an empty topic if it has none. A queue that is not a number is 0."""
    at = raw.rfind(_REDIRECTED)
    if at >= 0 and len(raw) - at <= _LONGEST_TAIL_BYTES:
        topic, queue_id = _cached_destination(raw[at:])  # there are few tails
        if topic and queue_id >= 0:
            return topic, queue_id
    topic, queue_id = _declared_destination(raw)
    return topic, max(queue_id, 0)


def _declared_destination(raw: bytes) -> tuple[str, int]:
    text = props.get_property(raw, props.REAL_QID) or ""
    queue_id = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    return props.get_property(raw, props.REAL_TOPIC) or "", queue_id


_cached_destination = functools.lru_cache(maxsize=1024)(_declared_destination)


def copy_of(record: WaitingRecord, topic: str, queue_id: int, raw: bytes) -> StoredMessage:
    """The message to be stored for ``topic``; its body is a view of the log, and its record names the waiting one."""
    head, body, _ = record
    flag, sys_flag, born_ms, born_ip, born_port, store_ip, store_port, times = _copied(head)
    return StoredMessage(
        topic,
        queue_id,
        body,  # type: ignore[arg-type]  # copied once, into the log
        raw,
        flag,
        sys_flag,
        born_ms,
        (born_ip, born_port),
        (store_ip, store_port),
        times,
        ~head[_PHYSICAL_OFFSET],
        tags_code(props.get_property(raw, props.TAGS)),
    )
