# SPDX-License-Identifier: Apache-2.0
"""Settings of glibc's malloc for processes that allocate large blocks again and again: brokers, and clients that read or write in bulk.

Such a process allocates the same few large blocks repeatedly: bytes from the network, Arrow columns that are being built. By default glibc
returns freed blocks of that size to the kernel at once and asks for new ones, whose pages the kernel must find and clear: 0.1 us a page at
best, and up to 10 us on a virtual machine whose host reclaims unused memory. Decoding for Spark then takes three times as long. With these
thresholds glibc keeps up to ``TRIM_THRESHOLD_BYTES`` of freed memory. Other allocators are left alone.

A client shares its process with its user's program, so it only makes glibc do what it does by itself when a large block is freed: keep
blocks of that size from then on (mallopt(3), M_MMAP_THRESHOLD). asyncio and uvloop read each record of TLS into a new block of 256 KiB and
shrink it to what came. Of such a block the kernel is asked, and to it the block returns, with each record, unless the heap happens to have
room for it: a send over TLS then takes twice its processor time, for the whole life of the process.
"""

from __future__ import annotations

import os
import sys
from typing import Final

__all__ = ["TRIM_THRESHOLD_BYTES", "keep_blocks_of_tls_reads", "raise_malloc_thresholds"]

TRIM_THRESHOLD_BYTES: Final = 64 << 20
# malloc.h; 32 MiB is the largest mmap threshold that glibc accepts on 64-bit systems.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_THRESHOLD_BYTES: Final = 32 << 20
_LARGE_BLOCK_BYTES: Final = 1 << 20  # more than a read of TLS takes, and than a heap usually has free
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


def keep_blocks_of_tls_reads() -> None:
    """Make glibc keep freed blocks of up to 1 MiB, and not more than 2 MiB of them; without effect if the thresholds are set."""
    bytes(_LARGE_BLOCK_BYTES)
