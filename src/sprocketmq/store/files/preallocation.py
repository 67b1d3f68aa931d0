# SPDX-License-Identifier: Apache-2.0
"""Disk space for the commit log, allocated ahead of the writer on a thread. Java: AllocateMappedFileService.

The first write to a page takes microseconds. So the thread writes the next zeros while the writer fills the present step.

1. The thread writes only after ``file.room``, the writer only before it; the writer changes ``room``, after the write has ended.
2. If the thread fails, nothing changes: the writer then meets the same full disk itself. If no thread can be started, the writer does its
   work at once, never later: it might have passed ``room`` then, and zeros would cover its records.
3. The thread allocates at most as many bytes as the file holds already, so a small store stays small.
4. A piece is about as large as what a flush finds to write, at least a record: the disk gets a piece whole. Steps end at multiples of the
   largest piece, so a piece is one folio.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.files.disk_space import MOST_PIECE_BYTES, write_zeros
from sprocketmq.store.files.mapped_file import MappedFile, StoreFile
from sprocketmq.threads import submit

_STEP_BYTES = 1 << 21
_LEAST_PIECE_BYTES = 1 << 14
_FROM_BYTES = 1 << 16


class Preallocator:
    """Belongs to the thread that writes the log. ``flush_bytes``: how many bytes a flush writes at present."""

    def __init__(self) -> None:
        self.flush_bytes = 0
        self._executor: ThreadPoolExecutor | None = None
        self._pending: tuple[MappedFile, int, Future[int]] | None = None

    def ensure(self, file: StoreFile, at: int, end: int) -> None:
        """Use the space that the thread has reserved, or reserve it now; then start the next step. Raises StoreNotWritable."""
        self._take()
        file.ensure_space(at, end)
        begin = file.room
        if isinstance(file, MappedFile) and _FROM_BYTES <= begin < file.size_bytes:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="sprocketmq-space")
            step_end = begin + min(begin, _STEP_BYTES - begin % _STEP_BYTES, file.size_bytes - begin)
            write = partial(write_zeros, file.path, begin, step_end, self._piece_bytes(end - at))
            self._pending = (file, begin, submit(self._executor, write))

    def flushed(self, size_bytes: int) -> None:
        """Flush thread. One small flush between large ones counts little."""
        self.flush_bytes = max(size_bytes, self.flush_bytes // 2)

    def _piece_bytes(self, record_bytes: int) -> int:
        piece_bytes, wanted = _LEAST_PIECE_BYTES, max(self.flush_bytes, record_bytes)
        while piece_bytes < min(wanted, MOST_PIECE_BYTES):
            piece_bytes *= 2
        return piece_bytes

    def close(self) -> None:
        self._take()
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _take(self) -> None:
        if self._pending is not None:
            (file, begin, written), self._pending = self._pending, None
            with contextlib.suppress(OSError, StoreNotWritable):  # rule 2
                end = written.result()
                if file.room == begin:  # else the file was unmapped or truncated meanwhile
                    file.take_room(begin, end)
