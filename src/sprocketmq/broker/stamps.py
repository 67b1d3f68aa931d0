"""What the broker writes into a message and its answer: its marks, its host, the two ids.

Java: AbstractSendMessageProcessor.buildMsgContext, MessageClientIDSetter, MessageDecoder.createMessageId.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING

from sprocketmq.net.address import packed_address
from sprocketmq.wire.message_id import offset_message_id, unique_key_after, unique_key_prefix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Stamps"]


class Stamps:
    """Made once the broker's address is known, because host and port are part of both ids.

    Attributes: ``host`` (address bytes, port) goes into each record, ``region_id`` and ``trace_on`` into each answer to a send;
    ``message_id_prefix`` begins each offset message id.
    """

    def __init__(self, host: str, port: int, *, cluster_name: str, region_id: str, trace_on: bool) -> None:
        self.host = packed_address((host, port))
        self.region_id, self.trace_on = region_id, "true" if trace_on else "false"
        self._cluster_mark = f"CLUSTER\x01{cluster_name}\x02".encode()
        self._trace_mark = f"MSG_REGION\x01{region_id}\x02TRACE_ON\x01{self.trace_on}\x02".encode()
        self.message_id_prefix = offset_message_id(self.host, 0)[:-16]
        self._unique_key_prefix = unique_key_prefix(self.host[0], os.getpid(), id(self) & 0x7FFFFFFF)
        self._counter = itertools.count()
        self._month_start_ms = self._next_month_ms = 0

    def mark(self, raw: bytes) -> bytes:
        """``raw`` properties with this broker's marks: CLUSTER (a reply needs it), MSG_REGION and TRACE_ON (trace needs them)."""
        if raw and raw[-1] != 2:
            raw += b"\x02"
        # Another property may end in the same letters, so the separator before the name counts.
        if b"\x02CLUSTER\x01" not in raw and not raw.startswith(b"CLUSTER\x01"):
            raw += self._cluster_mark
        if b"\x02TRACE_ON\x01" not in raw and not raw.startswith(b"TRACE_ON\x01"):
            raw += self._trace_mark
        return raw

    def offset_message_id(self, physical_offset: int) -> str:
        """The id that names the copy stored at ``physical_offset``."""
        return f"{self.message_id_prefix}{physical_offset:016X}"

    def offset_message_ids(self, physical_offset: int, step: int, count: int) -> str:
        """The same for ``count`` copies each ``step`` bytes behind the one before, joined by commas."""
        import numpy as np  # who has so many has loaded it

        prefix = bytes.fromhex(self.message_id_prefix)
        size = len(prefix) + 8
        ids = bytearray((prefix + bytes(8)) * count)
        places: NDArray[np.int64] = np.ndarray((count,), ">i8", ids, len(prefix), (size,))
        places[:] = np.arange(physical_offset, physical_offset + step * count, step)
        return ids.hex(",", size).upper()

    def new_unique_key(self, now_ms: int) -> str:
        """A message id for a sender that gave none."""
        if not self._month_start_ms <= now_ms < self._next_month_ms:
            year, month = time.localtime(now_ms / 1000)[:2]
            self._month_start_ms = int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1)) * 1000)
            self._next_month_ms = int(time.mktime((year, month + 1, 1, 0, 0, 0, 0, 0, -1)) * 1000)
        return unique_key_after(self._unique_key_prefix, now_ms, self._month_start_ms, next(self._counter))
