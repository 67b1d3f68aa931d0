# SPDX-License-Identifier: Apache-2.0
"""Reserving disk space for the pages of a mapped file before they are written. Java has no counterpart: a full disk ends its
broker.

If the disk is full, writing to a mapped page without disk space kills the process with SIGBUS; an ordinary write only fails. So
zeros are written where a file grows, and then the kernel is asked whether the pages can be written.

A page is made writable together with its whole folio, what the page cache keeps in one piece, 4 KiB to 2 MiB (ext4 since Linux
6.16, XFS since 5.18: iomap_page_mkwrite, block_page_mkwrite). ``MADV_POPULATE_WRITE`` (Linux 5.14) does what a write would do, and
reports the error that the write would die of. Only the two ends of what was written can lie in such a folio. One write makes one
folio, and the disk gets a changed page together with its folio: so pieces are small where a flush finds few changed bytes. A kernel
without preemption copies a folio without a pause (16 us for each page), so a piece is 256 KiB at the most.

This does not help on file systems that write changed data to a new place (btrfs, ZFS): there, every write to an old page needs new
space.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Iterator

PAGE_BYTES = mmap.PAGESIZE
MOST_PIECE_BYTES = 1 << 18
_ZEROS = memoryview(bytes(MOST_PIECE_BYTES))  # never written, so it takes no memory
_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_MADV_POPULATE_WRITE = 23  # since Linux 5.14; the module mmap does not name it
_can_populate = sys.platform.startswith("linux")


def write_all(fd: int, data: bytes | bytearray | memoryview, at: int) -> None:
    """If the disk becomes full, a part is written before the OSError."""
    os.lseek(fd, at, os.SEEK_SET)
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def write_zeros(path: str, begin: int, end: int, piece_bytes: int) -> int:
    """Returns where the zeros end: before ``end`` if the disk had space only for a part. ``piece_bytes``: of one write, at most
    MOST_PIECE_BYTES. Raises OSError (there was no space at all, or the file is gone)."""
    fd = os.open(path, os.O_RDWR | _BINARY)
    at = begin
    try:
        os.lseek(fd, begin, os.SEEK_SET)
        while at < end:
            at += os.write(fd, _ZEROS[: min(piece_bytes, end - at)])
    except OSError as error:
        if at == begin or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
    finally:
        os.close(fd)
    return at


def allow_writes(mapping: mmap.mmap, path: str, begin: int, end: int) -> None:
    """Make sure that the pages of a mapped file can be written. Their content stays. Raises OSError (there is no space for them)."""
    begin -= begin % PAGE_BYTES
    if end <= begin:
        return
    if _can_populate:
        try:
            mapping.madvise(_MADV_POPULATE_WRITE, begin, end - begin)
        except OSError as error:
            if error.errno != errno.EINVAL:  # an older Linux
                # It returns EFAULT where a write would raise SIGBUS, usually because there is no space.
                number = errno.ENOSPC if error.errno == errno.EFAULT else error.errno
                raise OSError(number, os.strerror(number or errno.EIO), path) from error
        else:
            return
    _write_again(path, begin, end)


def allow_writes_at_ends(mapping: mmap.mmap, path: str, begin: int, end: int) -> None:
    if begin < end:
        allow_writes(mapping, path, begin, begin + 1)
        if (end - 1) // PAGE_BYTES != begin // PAGE_BYTES:
            allow_writes(mapping, path, end - 1, end)


def _write_again(path: str, begin: int, end: int) -> None:
    """For systems without ``MADV_POPULATE_WRITE``, whose page cache has no folios larger than a page."""
    fd = os.open(path, os.O_RDWR | _BINARY)
    try:
        end = min(end + -end % PAGE_BYTES, os.fstat(fd).st_size)
        while begin < end:
            os.lseek(fd, begin, os.SEEK_SET)
            content = os.read(fd, min(end - begin, len(_ZEROS)))
            if not content:
                return
            write_all(fd, content, begin)
            begin += len(content)
    finally:
        os.close(fd)


def data_ranges(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """The parts of a sparse file that hold data; the whole file if the system does not report holes."""
    seek_data, seek_hole = getattr(os, "SEEK_DATA", None), getattr(os, "SEEK_HOLE", None)
    if seek_data is None or seek_hole is None:
        yield 0, length
        return
    at = 0
    while at < length:
        try:
            begin = os.lseek(fd, at, seek_data)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only holes from here on
                return
            yield at, length
            return
        at = os.lseek(fd, begin, seek_hole)
        yield begin, at
