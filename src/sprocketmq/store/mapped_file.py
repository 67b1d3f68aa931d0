"""One fixed-length file of the store, mapped into memory, and its twin that lives in memory alone. Java: logfile.DefaultMappedFile.

A file always has its full length on disk (Apache refuses to start otherwise) but takes only the space that was written: it is sparse.
Writing to a sparse mapping when the disk is full kills the process with SIGBUS, so zeros are written ahead of the writer, in steps, by an
ordinary write (``ensure_space``; for the log mostly by ``space_ahead``): a full disk becomes StoreNotWritable before a byte of a message is
touched. It is also the cheapest way to bring new pages in: a page fault in a hole makes Linux read ahead up to megabytes of nothing (3 ms
for a queue's first entry).

Views handed out stay valid for ever: unmapping only drops our own reference, the memory goes when the last view does. Nothing here
keeps a file descriptor of its own; the flush thread opens the path anew, so a deleted file can never be mixed up with another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import sys

from sprocketmq.errors import StoreNotWritable

__all__ = [
    "MappedFile",
    "MemoryFile",
    "StoreFile",
    "create_sparse",
    "not_writable",
    "sync_directory",
    "sync_file_system",
    "sync_path",
    "write_zeros",
]

# On fresh memory a page costs 16 us, and the loop waits meanwhile: steps of a quarter of a millisecond.
_SPACE_STEP_BYTES = 1 << 16
_FIRST_STEP_BYTES = 4096
_ZEROS = memoryview(bytes(1 << 20))  # never written, so it takes no memory
_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_ON_LINUX = sys.platform.startswith("linux")
# bytearray() of a large size would touch every page; an anonymous mapping is free until written.
_BYTEARRAY_MAX_BYTES = 1 << 20


def not_writable(path: str, error: OSError) -> StoreNotWritable:
    """The one sentence for a file or directory that the operating system does not let us write."""
    what = {
        errno.ENOSPC: "the disk is full; free some space",
        errno.EDQUOT: "the disk quota is used up; free some space",
        errno.EACCES: "this user may not write there; change the owner or choose another directory with --store",
        errno.EPERM: "this user may not write there; change the owner or choose another directory with --store",
        errno.EROFS: "the file system is read-only; choose another directory with --store",
        errno.ENOTDIR: "a part of the path is a file; choose another directory with --store",
        errno.EMFILE: "the process has no more file descriptors; raise the limit (ulimit -n)",
    }.get(error.errno or 0, f"{error.strerror or error}; choose another directory with --store")
    return StoreNotWritable(f"the store cannot write {path}: {what}")


def create_sparse(path: str, size_bytes: int) -> None:
    """Make a file, or bring one, to its full length without taking the disk for it.

    Raises:
        StoreNotWritable: no space or no permission.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o644)
        try:
            os.ftruncate(fd, size_bytes)
        finally:
            os.close(fd)
    except OSError as error:
        raise not_writable(path, error) from error


def write_zeros(path: str, begin: int, end: int) -> int:
    """Make sure of the space between two positions of an existing file; where it ends: before ``end`` when the disk had room for a part.

    Raises:
        StoreNotWritable: the disk is full, or the file is gone.
    """
    length = end - begin
    try:
        fd = os.open(path, os.O_RDWR | _BINARY)
        try:
            os.lseek(fd, begin, os.SEEK_SET)
            return begin + os.write(fd, _ZEROS[:length] if length <= len(_ZEROS) else bytes(length))
        finally:
            os.close(fd)
    except OSError as error:
        raise not_writable(path, error) from error


def sync_path(path: str) -> None:
    """Bring a file's data to the disk. Takes milliseconds: for the flush thread. A file that was deleted meanwhile needs no sync."""
    try:
        fd = os.open(path, os.O_RDWR | _BINARY)
    except FileNotFoundError:
        return
    try:
        if _ON_LINUX:
            os.fdatasync(
                fd
            )  # writes dirty pages of shared mappings too, without the interpreter lock; mmap.flush() would hold it
        else:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: str) -> None:
    """Make a new or renamed entry of a directory durable; a no-op where directories cannot be opened (Windows)."""
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


def sync_file_system(path: str) -> bool:
    """Bring everything on the file system of ``path`` to the disk, in one call; False where that cannot be asked for (not Linux)."""
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
    """What both kinds share: ``start`` (offset of the first byte in the whole queue of files), ``size_bytes``, ``room``.

    ``room`` is the position up to which space is reserved; a writer calls ``ensure_space`` before it goes beyond.
    """

    __slots__ = ("path", "room", "size_bytes", "start")

    def __init__(self, path: str, start: int, size_bytes: int) -> None:
        self.path, self.start, self.size_bytes, self.room = path, start, size_bytes, 0

    @property
    def view(self) -> memoryview:
        """The whole file, writable; maps it at first use."""
        raise NotImplementedError

    @property
    def readable(self) -> memoryview:
        """The same, read-only: what slices for readers are taken from."""
        raise NotImplementedError

    @property
    def mapped(self) -> bool:
        raise NotImplementedError

    def read(self, at: int, length: int) -> bytes:
        """A copy of ``length`` bytes, without mapping a file that is not mapped."""
        raise NotImplementedError

    def ensure_space(self, at: int, end: int) -> None:
        """Make sure of the space between the positions ``at`` and ``end``. Nothing of value may lie at or behind ``at``: zeros go there.

        Raises:
            StoreNotWritable: the disk is full.
        """
        raise NotImplementedError

    def zero_from(self, at: int) -> None:
        """Forget everything from position ``at`` on: those bytes become zero. Only while recovering: views must not be in use."""
        raise NotImplementedError

    def sync(self) -> None:
        """Bring the data to the disk; called on the flush thread."""
        raise NotImplementedError

    def unmap(self) -> None:
        raise NotImplementedError

    def delete(self) -> bool:
        """Remove the file; False when the system keeps it for now (Windows, while a view is in use)."""
        raise NotImplementedError


class MemoryFile(StoreFile):
    """The twin without a disk."""

    __slots__ = ("_readable", "_view")

    def __init__(self, path: str, start: int, size_bytes: int) -> None:
        super().__init__(path, start, size_bytes)
        small = size_bytes <= _BYTEARRAY_MAX_BYTES
        self._view = memoryview(bytearray(size_bytes) if small else mmap.mmap(-1, size_bytes))
        self._readable = self._view.toreadonly()
        self.room = size_bytes

    @property
    def view(self) -> memoryview:
        return self._view

    @property
    def readable(self) -> memoryview:
        return self._readable

    @property
    def mapped(self) -> bool:
        return True

    def read(self, at: int, length: int) -> bytes:
        return bytes(self._view[at : at + length])

    def ensure_space(self, at: int, end: int) -> None:
        pass

    def zero_from(self, at: int) -> None:
        self._view[at:] = bytes(self.size_bytes - at)

    def sync(self) -> None:
        pass

    def unmap(self) -> None:
        pass

    def delete(self) -> bool:
        return True


class MappedFile(StoreFile):
    """A file on disk. The constructor only names it; ``create`` makes it, ``open_existing`` checks it, ``view`` maps it.

    ``read_only`` maps for looking only (store check): nothing is created, extended or written.
    """

    __slots__ = ("_map", "_readable", "_view", "read_only")

    def __init__(self, path: str, start: int, size_bytes: int, *, read_only: bool = False) -> None:
        super().__init__(path, start, size_bytes)
        self._map: mmap.mmap | None = None
        self._view: memoryview | None = None
        self._readable: memoryview | None = None
        self.read_only = read_only

    def create(self) -> None:
        """Make the file in its full, sparse length."""
        create_sparse(self.path, self.size_bytes)

    @property
    def view(self) -> memoryview:
        if self._view is None:
            self._view = memoryview(self._open_map())
        return self._view

    @property
    def readable(self) -> memoryview:
        if self._readable is None:
            self._readable = self.view.toreadonly()
        return self._readable

    @property
    def mapped(self) -> bool:
        return self._view is not None

    def _open_map(self) -> mmap.mmap:
        try:
            fd = os.open(self.path, (os.O_RDONLY if self.read_only else os.O_RDWR) | _BINARY)
            try:
                if self.read_only and os.fstat(fd).st_size < self.size_bytes:
                    self._map = self._copy_in_full_size(fd)
                else:
                    access = mmap.ACCESS_READ if self.read_only else mmap.ACCESS_WRITE
                    self._map = mmap.mmap(fd, self.size_bytes, access=access)
            finally:
                os.close(fd)
        except OSError as error:
            raise not_writable(self.path, error) from error
        return self._map

    def _copy_in_full_size(self, fd: int) -> mmap.mmap:
        """What a crash left short and a start would extend with zeros: who only looks sees it as extended, and leaves it as it is."""
        copy = mmap.mmap(-1, self.size_bytes)
        with memoryview(copy) as view, open(fd, "rb", closefd=False) as file:
            file.readinto(view)  # stops at the file's end
        return copy

    def read(self, at: int, length: int) -> bytes:
        if self._view is not None:
            return bytes(self._view[at : at + length])
        fd = os.open(self.path, os.O_RDONLY | _BINARY)
        try:
            os.lseek(fd, at, os.SEEK_SET)
            data = os.read(fd, length)
        finally:
            os.close(fd)
        return data.ljust(length, b"\0") if self.read_only else data

    def ensure_space(self, at: int, end: int) -> None:
        if end <= self.room:
            return
        begin = max(at, self.room)
        # Grow in doubling steps: ten thousand nearly empty queues must not take ten thousand large pieces of the disk.
        room = min(max(end, min(begin * 2, begin + _SPACE_STEP_BYTES), _FIRST_STEP_BYTES), self.size_bytes)
        self.room = write_zeros(self.path, begin, room)
        if self.room < end:
            raise not_writable(self.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def zero_from(self, at: int) -> None:
        # Cutting the file and extending it again gives zeros that take no space, however long the tail is.
        self.unmap()
        try:
            os.truncate(self.path, at)
            os.truncate(self.path, self.size_bytes)
        except OSError as error:
            raise not_writable(self.path, error) from error
        self.room = min(self.room, at)

    def sync(self) -> None:
        mapping = self._map
        if not _ON_LINUX and mapping is not None:
            mapping.flush()  # holds the interpreter lock, but only Linux promises that fdatasync covers mapped pages
        sync_path(self.path)

    def unmap(self) -> None:
        view, readable, mapping = self._view, self._readable, self._map
        self._view = self._readable = self._map = None
        if view is not None and mapping is not None:
            if readable is not None:
                readable.release()
            view.release()
            with contextlib.suppress(BufferError):  # a reader still holds a slice: the mapping goes with its last view
                mapping.close()

    def delete(self) -> bool:
        self.unmap()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return True
        except PermissionError:  # Windows keeps a mapped file; the next retention round tries again
            return False
        return True
