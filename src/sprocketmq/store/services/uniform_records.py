"""The index keys of uniform records of the log, without decoding each record.

Records of one producer often differ only in numbers, bodies and the values of UNIQ_KEY and KEYS. Then topic, tags and the places of all
values are those of the first record, which two comparisons of bytes prove, and the hashes of all keys are one product of a table with
the powers of 31. Other records are read by ``record_batch``, which gathers column by column and costs three times as much.

Laws
1. ``uniform_keys`` returns None, or the same as ``dispatch.keys_of`` for ``record_batch.read_records`` of the same records, in the order of
   the log and of each record's keys.
2. The records of a run are sound as ``read_records`` understands it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from sprocketmq.store.index.index_files import TAG_TYPE, index_text, indexing_cost
from sprocketmq.store.log.record_batch import HEAD, equal_sizes, hash_rows
from sprocketmq.wire.hashing import index_hash, java_hash
from sprocketmq.wire.records.properties import KEYS, TAGS, UNIQ_KEY
from sprocketmq.wire.records.record_layout import HOSTS_V6, MAGIC_V1, PROPERTIES_LENGTH, RECORD, TOPIC_LENGTH_V1

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["UniformKeys", "uniform_keys"]

_FEWEST_RECORDS: Final = 16
_BODY_AT: Final = HEAD.itemsize
_TRANSACTION_MASK, _ROLLBACK = 0xC, 0xC
_LENGTHS_BYTES: Final = TOPIC_LENGTH_V1.size + PROPERTIES_LENGTH.size
_SIZE: Final = RECORD.subset("size").unpack_from
_UNIQ_KEY, _KEYS, _TAGS = UNIQ_KEY.encode(), KEYS.encode(), TAGS.encode()
_NO_INTS: Final = np.empty(0, np.int64)


class UniformKeys(NamedTuple):
    """The index hash, physical offset and store time of each key of ``record_count`` records that end before position ``end``.

    ``last_store_timestamp`` is that of the last record, also if it has no keys.
    """

    record_count: int
    end: int
    last_store_timestamp: int
    hashes: Ints = _NO_INTS
    physical_offsets: Ints = _NO_INTS
    store_timestamps: Ints = _NO_INTS


def uniform_keys(
    data: memoryview, at: int, end: int, file_start: int, max_records: int, *, tags: bool = True
) -> UniformKeys | None:
    """The keys of the records from position ``at`` on, None if they are too few or not uniform; arguments as in ``read_records``."""
    count = equal_sizes(data, at, end, max_records)
    if count < _FEWEST_RECORDS:
        return None
    heads = np.ndarray((count,), HEAD, data, at, _SIZE(data, at))
    first = heads[0]
    size, sys_flag, body_bytes = int(first["size"]), int(first["sys_flag"]), int(first["body_length"])
    tail_at = _BODY_AT + body_bytes
    if first["magic"] != MAGIC_V1 or sys_flag & HOSTS_V6 or body_bytes < 0 or tail_at + _LENGTHS_BYTES > size:
        return None
    tail = bytes(data[at + tail_at : at + size])
    properties_at = tail[0] + _LENGTHS_BYTES
    length_at = properties_at - PROPERTIES_LENGTH.size
    if len(tail) < properties_at or PROPERTIES_LENGTH.unpack_from(tail, length_at)[0] != len(tail) - properties_at:
        return None
    if indexing_cost(len(tail) - properties_at, tail.count(b" ")) > 1:  # each of them counts as several
        return None
    spans = _spans(tail, properties_at)
    topic_bytes = tail[1:length_at]
    if spans is None or not topic_bytes.isascii():
        return None
    physical_offsets = heads["physical_offset"].astype(np.int64)
    if (
        (heads["magic"] != MAGIC_V1).any()
        or (heads["sys_flag"] != sys_flag).any()
        or (heads["body_length"] != body_bytes).any()
        or (physical_offsets != np.arange(file_start + at, file_start + at + count * size, size)).any()
    ):
        return None
    tails = np.ndarray((count, len(tail)), np.uint8, data, at + tail_at, (size, 1)).copy()
    hashes = _hashes(tails, tail, spans, topic_bytes.decode(), tags)
    if hashes is None:
        return None
    run_end, last_ms = at + count * size, int(heads[-1]["store_timestamp_ms"])
    if not len(hashes) or sys_flag & _TRANSACTION_MASK == _ROLLBACK:
        return UniformKeys(count, run_end, last_ms)
    keys = len(hashes)
    in_order = np.empty((count, keys), np.int64)
    for key, column in enumerate(hashes):
        in_order[:, key] = column
    return UniformKeys(
        count,
        run_end,
        last_ms,
        in_order.ravel(),
        physical_offsets.repeat(keys),
        heads["store_timestamp_ms"].astype(np.int64).repeat(keys),
    )


def _spans(tail: bytes, properties_at: int) -> dict[bytes, tuple[int, int]] | None:
    """The places of the values of the properties; None if the text is invalid. As in ``record_batch.PropertyTemplate``."""
    spans: dict[bytes, tuple[int, int]] = {}
    at = properties_at
    for part in tail[properties_at:].removesuffix(b"\x02").split(b"\x02") if at < len(tail) else ():
        name, separator, value = part.partition(b"\x01")
        if not name or not separator or b"\x01" in value:
            return None
        end = at + len(part)
        if value or name not in spans:
            spans[name] = (end - len(value), end)
        at = end + 1
    return spans


def _hashes(
    tails: NDArray[np.uint8], tail: bytes, spans: dict[bytes, tuple[int, int]], topic: str, tags: bool
) -> list[int | Ints] | None:
    """One column per key; None if the records differ in more than values of UNIQ_KEY and KEYS. Overwrites ``tails``."""
    columns: list[int | Ints] = []
    for name in (_UNIQ_KEY, _KEYS):
        begin, end = spans.get(name, (0, 0))
        if begin == end:
            continue
        values = tails[:, begin:end]
        text = values.tobytes()
        if not text.isascii() or b"\x01" in text or b"\x02" in text or (name == _KEYS and b" " in text):
            return None
        columns.append(_index_hashes(values, topic))
        values[:] = values[0]
    if tails.tobytes() != tail * len(tails):
        return None
    begin, end = spans.get(_TAGS, (0, 0)) if tags else (0, 0)
    if begin < end:
        text = tail[begin:end]
        if not text.isascii():
            return None
        columns.append(index_hash(index_text(topic, text.decode(), TAG_TYPE)))
    return columns


def _index_hashes(values: NDArray[np.uint8], topic: str) -> Ints:
    """``index_hash(index_text(topic, value))`` of each row."""
    before = java_hash(index_text(topic, "")) * pow(31, values.shape[1], 1 << 32) & 0xFFFFFFFF
    signed: Ints = np.abs((hash_rows(values) + np.uint32(before)).view(np.int32).astype(np.int64))
    signed[signed == 0x80000000] = 0
    return signed
