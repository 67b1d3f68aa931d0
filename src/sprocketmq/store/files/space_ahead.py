"""Space for the log, made before it is needed, by a thread of its own. Java: AllocateMappedFileService, with its warm-up of new files.

``StoreFile.ensure_space`` writes zeros; the first touch of a page costs microseconds, and a step for a thousand messages would hold every
request for milliseconds. So while the writer fills one step, the thread writes the next one:

    |---- records ----|---- room ----|---- being written ahead ----|
                      at             file.room

Laws
1. The thread writes only behind ``file.room``, the writer only before it; ``room`` moves on the writer's thread, when the write is over.
2. What the thread cannot do changes nothing: the writer meets the same full disk itself, and says so.
3. A young file is written ahead by no more than it holds: small stores stay small.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.files.disk_space import write_zeros
from sprocketmq.store.files.mapped_file import MappedFile, StoreFile

__all__ = ["SpaceAhead"]

_STEP_BYTES = 1 << 20
_FROM_BYTES = 1 << 16


class SpaceAhead:
    """Belongs to the thread that writes the log; its own thread begins with the first step."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._pending: tuple[MappedFile, int, Future[int]] | None = None

    def ensure(self, file: StoreFile, at: int, end: int) -> None:
        """As ``file.ensure_space``: from what was written ahead, else at once; then begin with the step behind it.

        Raises:
            StoreNotWritable: the disk is full.
        """
        self._take()
        file.ensure_space(at, end)
        begin = file.room
        if isinstance(file, MappedFile) and _FROM_BYTES <= begin < file.size_bytes:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="sprocketmq-space")
            step = min(begin, _STEP_BYTES, file.size_bytes - begin)
            self._pending = (file, begin, self._executor.submit(write_zeros, file.path, begin, begin + step))

    def close(self) -> None:
        """Let the thread end; before the files are unmapped."""
        self._take()
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _take(self) -> None:
        if self._pending is not None:
            (file, begin, written), self._pending = self._pending, None
            with contextlib.suppress(OSError, StoreNotWritable):  # law 2
                end = written.result()
                if file.room == begin:  # else it was unmapped, or cut, meanwhile
                    file.take_room(begin, end)
