# SPDX-License-Identifier: Apache-2.0
"""What the broker adds to a message and its answer: its marks, its host, the two ids (Java: buildMsgContext, MessageClientIDSetter)."""

from __future__ import annotations

import itertools
import os
import random
import time
from typing import TYPE_CHECKING

from sprocketmq.broker.tables.property_meanings import PropertyMeanings
from sprocketmq.broker.tables.sent_answers import SentAnswers
from sprocketmq.net.address import packed_address
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message_id import offset_message_id, unique_key_after, unique_key_prefix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sprocketmq.broker.settings.config import BrokerConfig


class BrokerIdentity:
    """Made when the broker's address is known: ``host`` (address bytes, port) is in each record and both ids, ``region_id`` and
    ``trace_on`` are in each answer to a send."""

    def __init__(self, config: BrokerConfig, host: str, port: int) -> None:
        self.host = packed_address((host, port))
        self.region_id, self.trace_on = config.region_id, "true" if config.trace_on else "false"
        self._marks = props.encode_properties(
            {
                props.CLUSTER: config.broker_cluster_name,
                props.MSG_REGION: config.region_id,
                props.TRACE_ON: self.trace_on,
            }
        )
        self.message_id_prefix = offset_message_id(self.host, 0)[:-16]
        self.meanings = PropertyMeanings(self._marks.decode())
        self.answers = SentAnswers(self.message_id_prefix, config.region_id, self.trace_on)
        self._unique_key_prefix = unique_key_prefix(self.host[0], os.getpid(), random.getrandbits(31))
        self._counter = itertools.count()
        self._month_start_ms = self._next_month_ms = 0

    def mark(self, raw: bytes) -> bytes:
        """``raw`` properties with this broker's CLUSTER (a reply needs it), MSG_REGION and TRACE_ON, in place of another broker's."""
        if b"CLUSTER\x01" in raw or b"MSG_REGION\x01" in raw or b"TRACE_ON\x01" in raw:
            for name in (props.CLUSTER, props.MSG_REGION, props.TRACE_ON):
                raw = props.remove_property(raw, name)
        if raw and raw[-1] != 2:
            raw += b"\x02"
        return raw + self._marks

    def offset_message_id(self, physical_offset: int) -> str:
        return f"{self.message_id_prefix}{physical_offset:016X}"

    def offset_message_ids(self, physical_offsets: NDArray[np.int64]) -> str:
        import numpy as np

        prefix = bytes.fromhex(self.message_id_prefix)
        size, count = len(prefix) + 8, len(physical_offsets)
        ids = bytearray((prefix + bytes(8)) * count)
        places: NDArray[np.int64] = np.ndarray((count,), ">i8", ids, len(prefix), (size,))
        places[:] = physical_offsets
        return ids.hex(",", size).upper()

    def new_unique_key(self, now_ms: int) -> str:
        if not self._month_start_ms <= now_ms < self._next_month_ms:
            year, month = time.localtime(now_ms / 1000)[:2]
            self._month_start_ms = int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1)) * 1000)
            self._next_month_ms = int(time.mktime((year, month + 1, 1, 0, 0, 0, 0, 0, -1)) * 1000)
        return unique_key_after(self._unique_key_prefix, now_ms, self._month_start_ms, next(self._counter))
