# SPDX-License-Identifier: Apache-2.0
"""Converts rows into the elements of batches by columns, without a Python object for each row (the elements: ``wire.records.batch``).

The result is that of ``row_messages`` and ``wire.records.batch``, byte for byte except for the unique keys. For rows with a queue, a
sharding key or a delay, several topics, values that are blank or contain separators, or keys of several words ``element_rows`` returns
None, and the rows are made one by one, with their error messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocketmq.client.settings.validators import check_sendable_topic
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.columns.byte_columns import Array, binary, is_utf8
from sprocketmq.spark.send.row_messages import LEFT_OUT, MOST_PROPERTIES_BYTES, SEND_COLUMNS
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import ELEMENT
from sprocketmq.wire.records.record_layout import PROPERTIES_LENGTH, PROPERTIES_LENGTH_TYPE

_HEAD: Final = np.dtype(ELEMENT.columns())
_LENGTH_BYTES: Final = PROPERTIES_LENGTH.size
_UNUSUAL: Final = frozenset(SEND_COLUMNS) - {"body", "topic", "tags", "keys", "properties", "brokerName"}
_MOST_NAMES: Final = 256  # of properties in one batch of rows: beyond, columns by name no longer pay
_MOST_BYTES: Final = 1 << 30  # of bodies in one batch of rows: Arrow counts with 32 bits
_FIRST_PRINTABLE: Final = 0x21
_LAST_PRINTABLE: Final = 0x7E


class _NotByColumns(Exception):
    """These rows must be made one by one."""


class Elements(NamedTuple):
    """Rows as elements of one topic: element ``n`` is ``data[offsets[n]:offsets[n + 1]]``."""

    topic: str
    offsets: Any
    data: memoryview

    def parts(self, most_bytes: int, most_rows: int) -> Iterator[memoryview]:
        """The elements as bodies of batches within both limits. An element that is larger than the limit is a body of its own."""
        offsets, at, count = self.offsets, 0, len(self.offsets) - 1
        while at < count:
            upto = int(np.searchsorted(offsets, offsets[at] + most_bytes, side="right")) - 1
            upto = max(at + 1, min(upto, at + most_rows, count))
            yield self.data[int(offsets[at]) : int(offsets[upto])]
            at = upto


def element_rows(
    batch: pa.RecordBatch, topic: str | None, unique_keys: list[str], marks: Mapping[str, str | range], most_bytes: int
) -> Elements | None:
    """The rows of ``batch`` as elements; None if they must be made one by one. ``topic``: of all rows; None: the column names it.
    ``marks``: further properties: the same text for all rows, or a number for each. ``most_bytes``: the longest body."""
    try:
        return _elements(batch, topic, unique_keys, marks, most_bytes)
    except (_NotByColumns, UnicodeDecodeError):
        return None


def _elements(
    batch: pa.RecordBatch, topic: str | None, unique_keys: list[str], marks: Mapping[str, str | range], most_bytes: int
) -> Elements:
    columns = {name: batch.column(name) for name in batch.schema.names if name in SEND_COLUMNS}
    if any(columns[name].null_count < batch.num_rows for name in _UNUSUAL & columns.keys()):
        raise _NotByColumns
    to = _only_topic(topic, columns.get("topic"))
    body = columns["body"].cast(pa.binary())
    body_sizes = pc.binary_length(body).to_numpy(zero_copy_only=False)
    if (
        body.null_count
        or not len(body)
        or body_sizes.min() == 0
        or body_sizes.max() > most_bytes
        or body_sizes.sum() > _MOST_BYTES
    ):
        raise _NotByColumns
    text = _properties_text(columns, unique_keys, marks)
    text_sizes = pc.binary_length(text).to_numpy(zero_copy_only=False)
    if text_sizes.max() > MOST_PROPERTIES_BYTES:
        raise _NotByColumns
    heads = np.zeros(len(body), _HEAD)
    heads["size"] = ELEMENT.size + _LENGTH_BYTES + body_sizes + text_sizes
    heads["body_length"] = body_sizes
    lengths = text_sizes.astype(PROPERTIES_LENGTH_TYPE)
    joined = pc.binary_join_element_wise(_fixed(heads, ELEMENT.size), body, _fixed(lengths, _LENGTH_BYTES), text, b"")
    offsets = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1]
    return Elements(to, offsets, memoryview(joined.buffers()[2]))


def _only_topic(topic: str | None, column: Array) -> str:
    if topic:
        return topic
    names = [] if column is None else pc.unique(column).to_pylist()
    if len(names) != 1 or not names[0]:
        raise _NotByColumns
    try:
        check_sendable_topic(names[0])
    except ConfigurationError:
        raise _NotByColumns from None
    return str(names[0])


def _fixed(numbers: Any, width: int) -> Array:
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(width)
    return binary(offsets, numbers)


# -- properties ----------------------------------------------------------------------------------------------------------------------


def _properties_text(columns: Mapping[str, Array], unique_keys: list[str], marks: Mapping[str, str | range]) -> Array:
    """The properties in the order in which ``Message`` and the sink write them: those of the map, then TAGS, KEYS, marks, UNIQ_KEY."""
    parts = []
    if "properties" in columns:
        parts.append(_of_map(columns["properties"]))
    if "tags" in columns:
        parts += _optional(props.TAGS, _checked_values(columns["tags"]))
    if "keys" in columns:
        parts += _optional(props.KEYS, _single_keys(columns["keys"]))
    for name, value in marks.items():
        numbers = pa.array(value).cast(pa.string()) if isinstance(value, range) else value
        parts += [f"{name}\x01", numbers, "\x02"]
    parts += [f"{props.UNIQ_KEY}\x01", pa.array(unique_keys, pa.string()), "\x02"]
    return pc.binary_join_element_wise(*map(_as_binary, _joined(parts)), b"")


def _joined(parts: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def _as_binary(part: Any) -> Any:
    return pa.scalar(part.encode(), pa.binary()) if isinstance(part, str) else part.cast(pa.binary())


def _optional(name: str, values: Array) -> list[Any]:
    """A property that rows may lack: null and empty values leave it out."""
    if not values.null_count and (not len(values) or pc.min(pc.binary_length(values)).as_py()):
        return [f"{name}\x01", values, "\x02"]
    filled = pc.fill_null(values, "")
    pairs = pc.binary_join_element_wise(f"{name}\x01", filled, "\x02", "")
    return [pc.if_else(pc.equal(filled, ""), "", pairs)]


def _checked_values(values: Array) -> Array:
    if values.type != pa.string():
        raise _NotByColumns
    content = _content(values)
    if len(content) and content.min() <= 2 and ((content == 1) | (content == 2)).any():
        raise _NotByColumns
    if not is_utf8(values.cast(pa.binary())):
        raise _NotByColumns
    if pc.any(pc.utf8_is_space(values)).as_py() or _has_odd_blank(values, content):
        raise _NotByColumns
    return values


def _has_odd_blank(values: Array, content: Any) -> bool:
    """Whether a value may consist of control characters that only Python counts as white space: then its first character is one."""
    if not len(content) or content.min() >= _FIRST_PRINTABLE:
        return False
    return bool(pc.any(pc.match_substring_regex(values, r"^[\x00-\x1f ]")).as_py())


def _single_keys(values: Array) -> Array:
    """Keys that are one printable ASCII word each, or missing."""
    if values.type != pa.string():
        raise _NotByColumns
    content = _content(values)
    if len(content) and (content.min() < _FIRST_PRINTABLE or content.max() > _LAST_PRINTABLE):
        raise _NotByColumns
    return values


def _content(values: Array) -> Any:
    if not len(values) or values.buffers()[2] is None:
        return np.empty(0, np.uint8)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]


def _of_map(maps: Array) -> Array:
    count = len(maps)
    offsets = np.frombuffer(maps.buffers()[1], np.int32)[maps.offset : maps.offset + count + 1]
    names, values = maps.keys, maps.items
    if maps.null_count or maps.offset or offsets[0] or offsets[-1] != len(names) or names.type != pa.string():
        raise _NotByColumns
    encoded = names.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    if (
        names.null_count
        or len(known) > _MOST_NAMES
        or any(not name or "\x01" in name or "\x02" in name for name in known)
    ):
        raise _NotByColumns
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    keep = _sent_pairs(values, codes, known)
    if keep is not None:
        offsets = np.concatenate([[0], np.cumsum(keep)])[offsets]  # as many pairs as are kept before each row
        codes, values = codes[keep], values.filter(pa.array(keep))
    rows = np.repeat(np.arange(count), np.diff(offsets))
    seen = np.zeros(count * max(1, len(known)), bool)
    seen[rows * len(known) + codes] = True
    if np.count_nonzero(seen) != len(codes):  # a name twice: the last one counts
        raise _NotByColumns
    begun = pa.array([f"{name}\x01" for name in known], pa.string()).take(pa.array(codes))
    texts = pc.binary_join_element_wise(begun, _checked_values(values), "\x02", "")
    if not len(texts):
        return pa.array([""] * count, pa.string())
    ends = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1]
    return binary(np.ascontiguousarray(ends[offsets], np.int32), texts.buffers()[2])


def _sent_pairs(values: Array, codes: Any, known: list[str]) -> Any:
    """Which pairs are sent: not RocketMQ's own, not those without a value. None for all."""
    keep = np.ones(len(codes), bool)
    left_out = [code for code, name in enumerate(known) if name in LEFT_OUT]
    if left_out:
        keep &= ~np.isin(codes, left_out)
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    keep &= lengths > 0
    return None if keep.all() else keep
