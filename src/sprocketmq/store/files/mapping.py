# SPDX-License-Identifier: Apache-2.0
"""Mapping a file without keeping a file descriptor for it.

Python's ``mmap`` keeps a copy of the descriptor for its ``size`` and ``resize``; from 3.13 on it need not (``trackfd=False``).
Before, on Linux, the file is laid over an anonymous mapping, whose object has no descriptor. A store maps a file for each queue
that is written, so ten thousand queues would otherwise take ten thousand descriptors from the clients.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys

from sprocketmq.core.descriptor_budget import MAPPING_TAKES_ONE

_MAP_FIXED = 0x10  # the same on every architecture of Linux; the module mmap does not name it
_FAILED = ctypes.c_void_p(-1).value


def map_file(fd: int, size_bytes: int, *, read_only: bool = False) -> mmap.mmap:
    """Map the first ``size_bytes``, shared; ``fd`` may be closed afterwards. Raises OSError."""
    access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
    if sys.version_info >= (3, 13) and sys.platform != "win32":  # Windows knows no trackfd
        return mmap.mmap(fd, size_bytes, access=access, trackfd=False)
    if read_only or MAPPING_TAKES_ONE:
        return mmap.mmap(fd, size_bytes, access=access)
    try:
        mapping = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # this system does not overcommit so much memory
        return mmap.mmap(fd, size_bytes, access=access)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    if libc.mmap(address, size_bytes, protection, mmap.MAP_SHARED | _MAP_FIXED, fd, 0) == _FAILED:
        number = ctypes.get_errno()
        mapping.close()
        raise OSError(number, os.strerror(number))
    return mapping
