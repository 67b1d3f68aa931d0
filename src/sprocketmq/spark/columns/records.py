# SPDX-License-Identifier: Apache-2.0
"""The records of some pull bodies as arrays: their fixed fields, and where the body and the properties of each are.

Fixed fields (``wire.records.record_layout``) come out of one strided gather: a NumPy structured type laid over every byte position, indexed
by the starts of the records. Records with IPv6 hosts are gathered again with their own layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.errors import ProtocolError
from sprocketmq.spark.columns.byte_columns import Bytes, Items, Mask, Numbers, Rows, gathered
from sprocketmq.spark.columns.record_starts import record_starts
from sprocketmq.wire.records import sys_flag as flags
from sprocketmq.wire.records.record_layout import (
    HOSTS_V6,
    LAYOUTS,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH,
    PROPERTIES_LENGTH_TYPE,
    RECORD,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    V6_SHIFT,
)

# Hosts as one number each: few differ.
HEAD: Final = np.dtype(RECORD.columns(born_host=">u8", store_host=">u8"))
_HEAD_BYTES: Final = RECORD.size
# Heads, slices and properties are gathered by reads that may go a little beyond the last record: heads the farthest.
SPARE: Final = b"\0" * LAYOUTS[-1].size
_V6_HEADS: Final = {number: np.dtype(layout.columns()) for number, layout in enumerate(LAYOUTS) if number}
# Host -> the bit of sysFlag that says that it is an IPv6 one.
HOST_BITS: Final = {"born_host": flags.BORNHOST_V6, "store_host": flags.STOREHOSTADDRESS_V6}


class Records:
    """Records of one batch, or the messages that they hold. Their bodies and properties are (start, size) in ``data``. ``head``: the
    fixed fields; an IPv4 host is a number here. ``hosts_v6``: by name, the hosts of all records as they are stored, if one of that name
    is an IPv6 one. ``pull_numbers``: of each record, which of ``pulls`` it came with."""

    __slots__ = (
        "body_sizes",
        "body_starts",
        "data",
        "head",
        "hosts_v6",
        "property_sizes",
        "property_starts",
        "pull_numbers",
        "pulls",
    )

    def __init__(
        self, data: Bytes, starts: Numbers, pull_numbers: NDArray[np.int32], pulls: Sequence[PulledChunk]
    ) -> None:
        self.data, self.pull_numbers, self.pulls = data, pull_numbers, pulls
        # Gathered as opaque bytes: NumPy copies a structured item field by field, twenty times slower.
        self.head = gathered(data, starts, _HEAD_BYTES).reshape(-1).view(HEAD)
        self.hosts_v6: dict[str, Items] = {}
        self.body_starts = starts + _HEAD_BYTES
        magic, layouts = self.head["magic"], self.head["sys_flag"] & HOSTS_V6
        is_v2: Mask = magic != MAGIC_V1
        has_v2 = is_v2.any()
        if has_v2 and (magic[is_v2] != MAGIC_V2).any():
            raise ProtocolError("a record has neither of the magic numbers of records")
        if layouts.any():
            self._gather_v6(starts, layouts >> V6_SHIFT)
        self.body_sizes = self.head["body_length"].astype(np.int64)
        ends = starts + self.head["size"]
        topic_length_bytes: Numbers | int = TOPIC_LENGTH_V1.size
        if has_v2:
            topic_length_bytes = np.where(is_v2, TOPIC_LENGTH_V2.size, topic_length_bytes)
        self._find_properties(ends, is_v2 if has_v2 else None, topic_length_bytes)

    def _gather_v6(self, starts: Numbers, layouts: NDArray[np.integer]) -> None:
        for number, kind in _V6_HEADS.items():
            of_kind = np.flatnonzero(layouts == number)
            if not len(of_kind):
                continue
            # Of all, NumPy copies without looking at each number.
            rows: Rows = slice(None) if len(of_kind) == len(starts) else of_kind
            own = gathered(self.data, starts[rows], kind.itemsize).reshape(-1).view(kind)
            self.body_starts[rows] += kind.itemsize - _HEAD_BYTES
            for name in HEAD.names or ():
                if name not in HOST_BITS:
                    self.head[name][rows] = own[name]
                elif own[name].dtype.itemsize == HEAD[name].itemsize:
                    self.head[name][rows] = np.ascontiguousarray(own[name]).view(HEAD[name])
                else:
                    hosts = self.hosts_v6.setdefault(name, np.zeros(len(starts), own[name].dtype))
                    hosts[rows] = own[name]

    def _find_properties(self, ends: Numbers, is_v2: Mask | None, topic_length_bytes: Numbers | int) -> None:
        """Topic and properties follow the body. A length that lies would make the gathers read outside of the record, or of the buffer."""
        data, sizes = self.data, self.body_sizes
        behind_body = topic_length_bytes + PROPERTIES_LENGTH.size
        if ((sizes < 0) | (sizes > ends - self.body_starts - behind_body)).any():
            raise ProtocolError("a record's body length exceeds its total size")
        topic_at = self.body_starts + sizes
        topic_sizes: NDArray[np.integer] = data[topic_at]
        if is_v2 is not None:
            topic_sizes = np.where(is_v2, topic_sizes.astype(np.int64) << 8 | data[topic_at + 1], topic_sizes)
        properties_at = topic_at + topic_length_bytes + topic_sizes
        if (properties_at + PROPERTIES_LENGTH.size > ends).any():
            raise ProtocolError("a record's topic length exceeds its total size")
        # Of properties that would begin behind each byte.
        lengths = np.ndarray((len(data) - PROPERTIES_LENGTH.size + 1,), PROPERTIES_LENGTH_TYPE, data, strides=(1,))
        self.property_starts = properties_at + PROPERTIES_LENGTH.size
        self.property_sizes = lengths[properties_at].astype(np.int64)
        if (self.property_starts + self.property_sizes != ends).any():
            raise ProtocolError("a record's field sizes do not sum to its total size")

    def __len__(self) -> int:
        return len(self.head)

    def taken(self, rows: Numbers | Mask) -> Records:
        own = Records.__new__(Records)
        own.data, own.pulls = self.data, self.pulls
        own.head = self.head.view(f"V{_HEAD_BYTES}")[rows].view(HEAD)
        own.hosts_v6 = {name: hosts[rows] for name, hosts in self.hosts_v6.items()}
        own.pull_numbers = self.pull_numbers[rows]
        own.body_starts, own.body_sizes = self.body_starts[rows], self.body_sizes[rows]
        own.property_starts, own.property_sizes = self.property_starts[rows], self.property_sizes[rows]
        return own

    def wanted(self, or_wrapped: bool = False) -> Records:
        """Those in the range that was asked for. ``or_wrapped``: also batches in one record, whose messages have offsets of their own."""
        offsets, sys_flags = self.head["queue_offset"], self.head["sys_flag"]
        first = np.array([pull.start for pull in self.pulls], np.int64)[self.pull_numbers]
        upto = np.array([pull.end for pull in self.pulls], np.int64)[self.pull_numbers]
        wanted: Mask = (offsets >= first) & (offsets < upto)
        if wanted.all():
            return self
        return self.taken(wanted | (sys_flags & flags.WRAPPED == flags.WRAPPED) if or_wrapped else wanted)


def located(pulls: Sequence[PulledChunk]) -> Records:
    """All records of ``pulls``, in order. Raises ProtocolError (the bytes are not records)."""
    raw = b"".join([*(pull.body for pull in pulls), SPARE])
    data = np.frombuffer(raw, np.uint8)
    starts, counts = record_starts(data, pulls)
    return Records(data, starts, np.repeat(np.arange(len(pulls), dtype=np.int32), counts), pulls)
