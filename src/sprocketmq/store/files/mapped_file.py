# SPDX-License-Identifier: Apache-2.0
"""One fixed-length file of the store, mapped or in memory. Java: logfile.DefaultMappedFile.

A file has its full length (Apache refuses to start otherwise) but takes only the space that was written: it is sparse. Zeros are
written ahead of the writer, in steps (``disk_space``; for the log mostly by ``preallocation``), so that a full disk is
StoreNotWritable before a byte of a message is written. It is also the cheapest way to get new pages: a page fault in a hole makes
Linux read ahead up to megabytes of zeros. On tmpfs even reading a hole takes space, so the search for the end of the data reads
``data``, which ends where the hole begins.

Returned views stay valid: the memory is freed with the last view. Nothing here keeps a file descriptor; the flush thread opens the
path again, so a deleted file can never be mixed up with another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Iterator

from sprocketmq.errors import StoreError, StoreNotWritable
from sprocketmq.store.files.disk_space import (
    MOST_PIECE_BYTES,
    PAGE_BYTES,
    allow_writes,
    allow_writes_at_ends,
    data_ranges,
    write_zeros,
)
from sprocketmq.store.files.mapping import map_file

# On fresh memory a page costs 16 us, during which the loop waits. So a step takes a quarter of a millisecond.
_SPACE_STEP_BYTES = 1 << 16
_FIRST_STEP_BYTES = 4096
_RELEASE_BYTES = 1 << 18  # with one call, which keeps the interpreter lock, for some 10 us
_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_NO_DESCRIPTORS = "the process has no more file descriptors; raise the limit (ulimit -n)"
_ON_LINUX = sys.platform.startswith("linux")
# bytearray() of a large size would touch every page; an anonymous mapping takes no memory until it is written.
_BYTEARRAY_MAX_BYTES = 1 << 20


def not_writable(path: str, error: OSError) -> StoreNotWritable:
    what = {
        errno.ENOSPC: "the disk is full; free some space",
        errno.EDQUOT: "the disk quota is used up; free some space",
        errno.EACCES: "this user may not write there; change the owner or choose another directory with --store",
        errno.EPERM: "this user may not write there; change the owner or choose another directory with --store",
        errno.EROFS: "the file system is read-only; choose another directory with --store",
        errno.ENOTDIR: "a part of the path is a file; choose another directory with --store",
        errno.EMFILE: _NO_DESCRIPTORS,
        errno.ENFILE: _NO_DESCRIPTORS,
    }.get(error.errno or 0, f"{error.strerror or error}; choose another directory with --store")
    return StoreNotWritable(f"the store cannot write {path}: {what}")


@contextlib.contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Turns each OSError into the StoreNotWritable that names ``path``."""
    try:
        yield
    except OSError as error:
        raise not_writable(path, error) from error


@contextlib.contextmanager
def opened(path: str, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    """A file's descriptor; with the default it is created. Each OSError, also of the caller, becomes StoreNotWritable."""
    with disk_errors(path):
        fd = os.open(path, flags | _BINARY, 0o644)
        try:
            yield fd
        finally:
            os.close(fd)


def create_sparse(path: str, size_bytes: int) -> None:
    with opened(path) as fd:
        os.ftruncate(fd, size_bytes)


def sync_path(path: str) -> None:
    """Takes milliseconds, so the flush thread calls it. A deleted file needs no sync."""
    try:
        fd = os.open(path, os.O_RDWR | _BINARY)
    except FileNotFoundError:
        return
    try:
        if _ON_LINUX:
            # Writes dirty pages of shared mappings too, without the interpreter lock; mmap.flush() would hold it.
            os.fdatasync(fd)
        else:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: str) -> None:
    """Make a new or renamed entry durable; a no-op where directories cannot be opened (Windows)."""
    if os.name == "nt":
        return
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directories(path: str) -> None:
    """Create a folder and those above it, and sync each name: a synced file in a folder whose own name was never synced may be gone
    after a power cut. Raises OSError."""
    missing, folder = [], os.path.abspath(path)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    os.makedirs(path, exist_ok=True)
    for made in reversed(missing):
        above = os.path.dirname(made)
        if os.access(above, os.R_OK):
            sync_directory(above)
        else:  # a user may create folders in a folder that the user may not open (mode -wx)
            sync_file_system(made)


def sync_file_system(path: str) -> bool:
    """Write everything on the file system of ``path`` to the disk; False if the system cannot do that in one call (not Linux)."""
    if not _ON_LINUX:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        return False
    fd = os.open(path, os.O_RDONLY)
    try:
        if libc.syncfs(fd) != 0:  # ctypes lets other threads run meanwhile
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(fd)
    return True


class StoreFile:
    """A file in memory: the base of ``MappedFile``. ``start``: offset of its first byte in the whole sequence; ``room``: the
    position up to which space is reserved, beyond which a writer calls ``ensure_space`` first."""

    __slots__ = ("_readable", "_view", "path", "room", "size_bytes", "start")

    def __init__(self, path: str, start: int, size_bytes: int) -> None:
        self.path, self.start, self.size_bytes, self.room = path, start, size_bytes, size_bytes
        self._view: memoryview | None = None
        self._readable: memoryview | None = None

    @property
    def end(self) -> int:
        return self.start + self.size_bytes

    @property
    def view(self) -> memoryview:
        if self._view is None:
            self._view = memoryview(self._mapping())
        return self._view

    @property
    def readable(self) -> memoryview:
        if self._readable is None:
            self._readable = self.view.toreadonly()
        return self._readable

    @property
    def mapped(self) -> bool:
        return True

    @property
    def data(self) -> memoryview:
        """``readable`` up to the hole at the end of the file."""
        return self.readable

    def _mapping(self) -> mmap.mmap | bytearray:
        return bytearray(self.size_bytes) if self.size_bytes <= _BYTEARRAY_MAX_BYTES else mmap.mmap(-1, self.size_bytes)

    def read(self, at: int, length: int) -> bytes:
        """A copy, without mapping a file that is not mapped."""
        return bytes(self.view[at : at + length])

    def ensure_space(self, at: int, end: int) -> None:
        """Everything from ``at`` on may be overwritten with zeros. Raises StoreNotWritable."""

    def overwrite(self, at: int, content: bytes) -> None:
        """Overwrite existing bytes, before ``room`` or in an old file that may be sparse. Raises StoreNotWritable."""
        self.view[at : at + len(content)] = content

    def zero_from(self, at: int) -> None:
        """Only while recovering: no views may be in use."""
        self.view[at:] = bytes(self.size_bytes - at)

    def sync(self) -> None:
        pass

    def release_pages(self, begin: int, end: int) -> None:
        """Before a sync, on the flush thread: nobody writes between these positions any more."""

    def unmap(self) -> None:
        pass

    def delete(self) -> bool:
        """False if the system refuses for now (Windows, while a view is in use). Raises StoreNotWritable."""
        return True


class MappedFile(StoreFile):
    """A file on disk. The constructor only sets its path; ``create`` creates it, ``view`` maps it. With ``read_only`` nothing is
    created or written."""

    __slots__ = ("_data_end", "_map", "read_only")

    def __init__(self, path: str, start: int, size_bytes: int, *, read_only: bool = False) -> None:
        super().__init__(path, start, size_bytes)
        self.room = 0
        self._map: mmap.mmap | None = None
        self._data_end: int | None = None
        self.read_only = read_only

    def create(self) -> None:
        create_sparse(self.path, self.size_bytes)

    @property
    def data(self) -> memoryview:
        if self._data_end is None:
            fd = self._open_to_read()
            try:
                self._data_end = max((end for _, end in data_ranges(fd, self.size_bytes)), default=0)
            finally:
                os.close(fd)
        return self.readable[: max(self._data_end, self.room)]

    @property
    def mapped(self) -> bool:
        return self._view is not None

    def _open_map(self) -> mmap.mmap:
        with opened(self.path, os.O_RDONLY if self.read_only else os.O_RDWR) as fd:
            if self.read_only and os.fstat(fd).st_size < self.size_bytes:
                self._map = self._copy_in_full_size(fd)
            else:
                self._map = map_file(fd, self.size_bytes, read_only=self.read_only)
        return self._map

    def _copy_in_full_size(self, fd: int) -> mmap.mmap:
        """A start would extend a file that a crash left short; a read-only check must not."""
        copy = mmap.mmap(-1, self.size_bytes)
        with memoryview(copy) as view, open(fd, "rb", closefd=False) as file:
            file.readinto(view)  # stops at the file's end
        return copy

    def read(self, at: int, length: int) -> bytes:
        if self._view is not None:
            return bytes(self._view[at : at + length])
        fd = self._open_to_read()
        try:
            if hasattr(os, "pread"):
                data = os.pread(fd, length, at)
            else:  # Windows
                os.lseek(fd, at, os.SEEK_SET)
                data = os.read(fd, length)
        finally:
            os.close(fd)
        return data.ljust(length, b"\0") if self.read_only else data

    def _open_to_read(self) -> int:
        try:
            return os.open(self.path, os.O_RDONLY | _BINARY)
        except OSError as error:
            what = _NO_DESCRIPTORS if error.errno in (errno.EMFILE, errno.ENFILE) else error.strerror
            raise StoreError(f"the store cannot read {self.path}: {what}") from error

    def ensure_space(self, at: int, end: int) -> None:
        if end <= self.room:
            return
        begin = max(at, self.room)
        # Grow in doubling steps, so that ten thousand nearly empty queues do not take ten thousand large pieces of the disk.
        room = max(end, min(begin * 2, begin + _SPACE_STEP_BYTES), _FIRST_STEP_BYTES)
        now, room = (min(place + -place % PAGE_BYTES, self.size_bytes) for place in (end, room))
        with disk_errors(self.path):
            written = write_zeros(self.path, begin, now, MOST_PIECE_BYTES)
            # The spare part page by page: a flush finds a queue with a few new entries, and there may be thousands of such queues.
            if written == now < room:
                written = write_zeros(self.path, now, room, PAGE_BYTES)
        self.take_room(begin, written)
        if self.room < end:
            raise not_writable(self.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def take_room(self, begin: int, end: int) -> None:
        """Move ``room`` to ``end``, after zeros were written from ``begin`` to there. Raises StoreNotWritable: the pages have no
        space nevertheless (``disk_space`` explains this)."""
        with disk_errors(self.path):
            allow_writes_at_ends(self._mapping(), self.path, begin, end)
        self.room = end

    def overwrite(self, at: int, content: bytes) -> None:
        with disk_errors(self.path):
            allow_writes(self._mapping(), self.path, at, at + len(content))
        super().overwrite(at, content)

    def _mapping(self) -> mmap.mmap:
        return self._map if self._map is not None else self._open_map()

    def zero_from(self, at: int) -> None:
        # Truncating the file and extending it again gives zeros that take no space, however long the tail is.
        self.unmap()
        with disk_errors(self.path):
            os.truncate(self.path, at)
            os.truncate(self.path, self.size_bytes)

    def sync(self) -> None:
        mapping = self._map
        if not _ON_LINUX and mapping is not None:
            mapping.flush()  # holds the interpreter lock, but only Linux promises that fdatasync covers mapped pages
        sync_path(self.path)

    def release_pages(self, begin: int, end: int) -> None:
        # They leave the mapping, not the page cache: nothing is lost of a file's shared mapping, and a reader finds them there again. A
        # sync protects each changed page of a mapping against writing and stops the other processors for each one. Here it is once for
        # all pages of a call.
        mapping = self._map
        if not _ON_LINUX or mapping is None:
            return
        begin, end = begin - begin % PAGE_BYTES, end - end % PAGE_BYTES  # the last page is still being written
        # The owner may have closed the mapping, and locked memory cannot be released. The sync is right in both cases, only slower.
        with contextlib.suppress(ValueError, OSError):
            for at in range(begin, end, _RELEASE_BYTES):
                mapping.madvise(mmap.MADV_DONTNEED, at, min(_RELEASE_BYTES, end - at))

    def unmap(self) -> None:
        view, readable, mapping = self._view, self._readable, self._map
        self._view = self._readable = self._map = None
        # Space that was reserved for this mapping does not count for the next one: its pages may come back in larger folios.
        self.room, self._data_end = 0, None
        if readable is not None:
            readable.release()
        if view is not None:
            view.release()
        if mapping is not None:
            with contextlib.suppress(BufferError):  # a reader still holds a slice: the mapping goes with its last view
                mapping.close()

    def delete(self) -> bool:
        self.unmap()
        with disk_errors(self.path), contextlib.suppress(FileNotFoundError):
            try:
                os.unlink(self.path)
            except PermissionError:  # Windows keeps a mapped file; the next retention round tries again
                if os.name != "nt":
                    raise
                return False
        return True
