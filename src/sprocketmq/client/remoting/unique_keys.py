# SPDX-License-Identifier: Apache-2.0
"""The ids that this process gives to the messages it sends (UNIQ_KEY; Java: MessageClientIDSetter)."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from sprocketmq.net.process import fork
from sprocketmq.wire.records.message_id import unique_key_after, unique_key_prefix

_BLOCK: Final = 256
_LOW_DIGITS: Final = [f"{number:02X}" for number in range(_BLOCK)]


class UniqueKeys:
    """Makes unique keys. One per client instance; a forked child makes keys of its own (``net.process.fork`` calls it, so that no
    key needs a system call). ``client_ip``: address of this machine."""

    def __init__(self, client_ip: str) -> None:
        import ipaddress  # imported with the first client

        self._ip = ipaddress.ip_address(client_ip).packed
        # Java takes the class loader's hash: any number that differs between two makers of ids in one process.
        self._maker = random.getrandbits(32)
        self._counter = itertools.count(random.getrandbits(15))
        self._prefix = unique_key_prefix(self._ip, os.getpid(), self._maker)
        self._month_start_ms = self._next_month_ms = 0
        self._stem, self._stem_ms = "", -1  # what the keys of one millisecond have in common
        fork.register(self)

    def after_fork_in_child(self) -> None:
        """In a forked child: another process id, and another maker, because process ids are reused."""
        self._maker = random.SystemRandom().getrandbits(32)
        self._prefix = unique_key_prefix(self._ip, os.getpid(), self._maker)
        self._stem_ms = -1

    def next(self, now_ms: int) -> str:
        """A new key: 32 upper-case hex digits (56 for IPv6)."""
        if now_ms != self._stem_ms:
            if not self._month_start_ms <= now_ms < self._next_month_ms:
                self._set_month(now_ms)
            self._stem = unique_key_after(self._prefix, now_ms, self._month_start_ms, 0)[:-4]
            self._stem_ms = now_ms
        return "%s%04X" % (self._stem, next(self._counter) & 0xFFFF)  # noqa: UP031 - half the time of an f-string

    def block(self, now_ms: int) -> Iterator[str]:
        """The next keys, up to 256, all with this time, for callers that send many messages at once. Unused ones are lost."""
        first = self.next(now_ms)
        low = int(first[-2:], 16)
        for _ in itertools.islice(self._counter, _BLOCK - 1 - low):  # these numbers are taken now
            pass
        return map(first[:-2].__add__, _LOW_DIGITS[low:])

    def _set_month(self, now_ms: int) -> None:
        now = datetime.fromtimestamp(now_ms / 1000).astimezone()
        start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        year, month = (start.year + 1, 1) if start.month == 12 else (start.year, start.month + 1)
        self._month_start_ms = int(start.astimezone().timestamp() * 1000)
        self._next_month_ms = int(start.replace(year=year, month=month).astimezone().timestamp() * 1000)
