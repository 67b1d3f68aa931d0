# SPDX-License-Identifier: Apache-2.0
"""The part of the commit log that counts as being in memory: the newest part, as large as a share of this machine's RAM.

Java: DefaultMessageStore.checkInDiskByCommitOffset, StoreUtil.TOTAL_PHYSICAL_MEMORY_SIZE.
"""

from __future__ import annotations

import os


def memory_span_bytes(ratio: int) -> int:
    """The distance from the log's end within which records are in memory; ``ratio`` is accessMessageInMemoryMaxRatio, percent of RAM."""
    return memory_bytes() * ratio // 100


def memory_bytes() -> int:
    """RAM of this machine; 8 GiB if the system does not report it (Windows)."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 << 30
