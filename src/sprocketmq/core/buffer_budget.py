# SPDX-License-Identifier: Apache-2.0
"""How many bytes all connections together buffer for their peers, and which connections are closed when that is too much.

A holder is a connection. It keeps bytes *in* (incomplete frames, requests that wait or are worked on) and *out* (what the peer has not
read). Netty bounds the second kind for one connection (ChannelConfig.setWriteBufferWaterMark); here the sum has a limit.

The victims are as few as possible, those with the largest bytes x seconds: a peer that keeps a little for minutes is closed before one
that sends a large message now. The seconds count from when the holder last kept less than before: its peer reads and writes."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")


class _Share:
    """What one holder keeps. Not a dataclass: an import of the client does not load that module (test_import_cost.py)."""

    __slots__ = ("in_bytes", "number", "out_bytes", "since_s")

    def __init__(self, since_s: float, number: int) -> None:
        self.in_bytes = self.out_bytes = 0
        self.since_s = since_s
        self.number = number  # the order of arrival, which decides between equals

    @property
    def bytes(self) -> int:
        return self.in_bytes + self.out_bytes


class BufferBudget(Generic[K]):
    __slots__ = ("_number", "_shares", "in_bytes", "limit_bytes", "out_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.in_bytes = self.out_bytes = 0
        self._shares: dict[K, _Share] = {}
        self._number = 0

    @property
    def total_bytes(self) -> int:
        return self.in_bytes + self.out_bytes

    @property
    def is_over(self) -> bool:
        return self.in_bytes + self.out_bytes > self.limit_bytes

    @property
    def holders(self) -> list[K]:
        return list(self._shares)

    def note(self, holder: K, in_bytes: int, out_bytes: int, now_s: float) -> None:
        share = self._shares.get(holder)
        if share is None:
            if not (in_bytes or out_bytes):
                return
            self._number += 1
            share = self._shares[holder] = _Share(now_s, self._number)
        elif not (in_bytes or out_bytes):
            self.discard(holder)
            return
        elif in_bytes < share.in_bytes or out_bytes < share.out_bytes:
            share.since_s = now_s
        self.in_bytes += in_bytes - share.in_bytes
        self.out_bytes += out_bytes - share.out_bytes
        share.in_bytes, share.out_bytes = in_bytes, out_bytes

    def discard(self, holder: K) -> None:
        """The holder is gone, or keeps nothing."""
        share = self._shares.pop(holder, None)
        if share is not None:
            self.in_bytes -= share.in_bytes
            self.out_bytes -= share.out_bytes

    def bytes_of(self, holder: K) -> int:
        share = self._shares.get(holder)
        return 0 if share is None else share.bytes

    def victims(self, now_s: float) -> list[K]:
        """The holders to close so that the rest is within the limit; they count until they are discarded."""
        excess_bytes = self.total_bytes - self.limit_bytes
        if excess_bytes <= 0:
            return []

        def weight(item: tuple[K, _Share]) -> tuple[float, int]:
            share = item[1]
            # One second more, so that a holder that began just now counts by its bytes.
            return share.bytes * (1.0 + max(0.0, now_s - share.since_s)), -share.number

        chosen: list[K] = []
        for holder, share in sorted(self._shares.items(), key=weight, reverse=True):
            if excess_bytes <= 0:
                break
            chosen.append(holder)
            excess_bytes -= share.bytes
        return chosen
