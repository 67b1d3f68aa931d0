# SPDX-License-Identifier: Apache-2.0
"""Settings of glibc's malloc for processes that allocate the same few large blocks again and again: bytes from the network, Arrow
columns. By default glibc returns freed blocks of that size to the kernel at once and asks for new ones, whose pages the kernel must
clear: 0.1 us a page at best, up to 10 us on a virtual machine whose host reclaims memory; decoding for Spark takes three times as long.
With these thresholds glibc keeps up to ``TRIM_THRESHOLD_BYTES`` of freed memory."""

from __future__ import annotations

import os
import sys
from typing import Final

TRIM_THRESHOLD_BYTES: Final = 64 << 20
# malloc.h; 32 MiB is the largest mmap threshold that glibc accepts on 64-bit systems.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_THRESHOLD_BYTES: Final = 32 << 20
_processes: set[int] = set()  # processes in which this was done; a forked child does it again


def raise_malloc_thresholds() -> bool:
    """Set the thresholds once in each process. Returns whether the allocator accepted them."""
    if not sys.platform.startswith("linux"):
        return False
    if os.getpid() not in _processes:
        import ctypes  # only who sets the thresholds pays for it

        _processes.add(os.getpid())
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is None:  # musl
            return False
        return bool(
            mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES) and mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
        )
    return True
