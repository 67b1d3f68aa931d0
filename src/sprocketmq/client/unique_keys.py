"""The ids that this process gives to the messages it sends (UNIQ_KEY; Java: MessageClientIDSetter)."""

from __future__ import annotations

import ipaddress
import itertools
import os
import random
from datetime import datetime

from sprocketmq.wire.message_id import unique_key_after, unique_key_prefix

__all__ = ["UniqueKeys"]


class UniqueKeys:
    """Makes unique keys. One per client instance; safe after a fork, because the process id is looked at each time.

    Args:
        client_ip: address of this machine.
    """

    def __init__(self, client_ip: str) -> None:
        self._ip = ipaddress.ip_address(client_ip).packed
        # Java takes the class loader's hash: any number that tells two makers of ids in one process apart.
        self._maker = random.getrandbits(32)
        self._counter = itertools.count(random.getrandbits(15))
        self._pid = 0
        self._prefix = ""
        self._month_start_ms = self._next_month_ms = 0

    def next(self, now_ms: int) -> str:
        """A new key: 32 upper-case hex digits (56 for IPv6)."""
        if os.getpid() != self._pid:
            if self._pid:
                self._maker = random.SystemRandom().getrandbits(32)
            self._pid = os.getpid()
            self._prefix = unique_key_prefix(self._ip, self._pid, self._maker)
        if not self._month_start_ms <= now_ms < self._next_month_ms:
            self._set_month(now_ms)
        return unique_key_after(self._prefix, now_ms, self._month_start_ms, next(self._counter))

    def _set_month(self, now_ms: int) -> None:
        now = datetime.fromtimestamp(now_ms / 1000).astimezone()
        start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        year, month = (start.year + 1, 1) if start.month == 12 else (start.year, start.month + 1)
        self._month_start_ms = int(start.astimezone().timestamp() * 1000)
        self._next_month_ms = int(start.replace(year=year, month=month).astimezone().timestamp() * 1000)
