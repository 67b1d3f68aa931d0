"""Freed memory stays with the process: with brokers, and with who reads or writes in bulk.

They make the same few large blocks again and again: what came from the network, columns in the making. glibc gives blocks of that size
back to the system at once and asks for new ones, whose pages the system has to find and clear again: 0.1 us a page at best, and up to 10 us
on a virtual machine whose host takes back what is not used. Decoding for Spark then takes three times as long. So the allocator is told to
keep up to ``KEPT_BYTES`` of what is freed. Other allocators are left alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

__all__ = ["KEPT_BYTES", "keep_freed_memory"]

KEPT_BYTES: Final = 64 << 20
# malloc.h; 32 MiB is the most that glibc takes on 64 bits.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_UNMAPPED_BYTES: Final = 32 << 20
_told: set[int] = set()


def keep_freed_memory() -> bool:
    """Once in each process; whether the allocator took it."""
    if not sys.platform.startswith("linux"):
        return False
    if os.getpid() not in _told:
        _told.add(os.getpid())
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is None:  # musl
            return False
        return bool(mallopt(_M_MMAP_THRESHOLD, _MOST_UNMAPPED_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
    return True
