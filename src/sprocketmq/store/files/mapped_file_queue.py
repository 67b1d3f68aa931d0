# SPDX-License-Identifier: Apache-2.0
"""A sequence of files of equal length that together hold one long byte sequence. Java: MappedFileQueue.

A file's name is the offset of its first byte, 20 digits. The first one may start above 0, but there are no gaps.
"""

from __future__ import annotations

import contextlib
import os
import stat

from sprocketmq.errors import StoreCorrupt, StoreNotWritable
from sprocketmq.store.files.mapped_file import MappedFile, StoreFile, disk_errors


class MappedFileQueue:
    """``files`` in ascending order of ``start``. ``size_key``: the configuration key of ``file_size_bytes``, for error messages.
    ``folders_above``: how many folders above ``directory`` belong to the store, and may have been created for it."""

    __slots__ = (
        "directory",
        "faults",
        "file_size_bytes",
        "files",
        "folders_above",
        "new_files",
        "read_only",
        "size_key",
    )

    def __init__(
        self,
        directory: str | None,
        file_size_bytes: int,
        size_key: str,
        *,
        folders_above: int = 0,
        read_only: bool = False,
    ) -> None:
        self.directory, self.read_only = directory, read_only
        self.file_size_bytes, self.size_key = file_size_bytes, size_key
        self.folders_above = folders_above
        self.files: list[StoreFile] = []
        self.faults: dict[int, str] = {}  # found by ``load``: start of a file, and what is wrong with it
        self.new_files = False  # a file was created since the directory was last synced

    def load(self) -> None:
        """Find the existing files. One that is missing, has another length or is none is in ``faults``; what stands in ``files``
        for it reads as zeros. Nothing is changed until ``repair``. Raises StoreCorrupt (no file has the expected length, or the
        names do not fit it)."""
        if self.directory is None or not os.path.isdir(self.directory):
            return
        size = self.file_size_bytes
        lengths = {int(name): length_of(os.path.join(self.directory, name)) for name in _names(self.directory)}
        self._check_size(lengths)
        self.files, self.faults = [], {}
        starts = sorted(lengths)
        for start in range(starts[0], starts[-1] + 1, size) if starts else ():
            path = os.path.join(self.directory, f"{start:020d}")
            length = lengths.get(start)
            if length == size:
                self.files.append(MappedFile(path, start, size, read_only=self.read_only))
                continue
            if length is None:
                self.faults[start] = f"{path} is missing"
            elif length < 0:
                self.faults[start] = f"{path} is not a readable file"
            else:
                self.faults[start] = f"{path} has {length} bytes where {size} are expected"
            # A short file is read as a copy of what is left.
            part = MappedFile(path, start, size, read_only=True)
            self.files.append(part if length is not None and 0 <= length < size else StoreFile(path, start, size))

    def load_whole(self) -> None:
        """``load``, and ``repair`` of a last file that is short. Raises StoreCorrupt for any other fault."""
        self.load()
        for start, what in self.faults.items():
            if start != self.files[-1].start or not isinstance(self.files[-1], MappedFile):
                raise StoreCorrupt(f"{what}; restore it, or move {self.directory} away")
        self.repair()

    def _check_size(self, lengths: dict[int, int]) -> None:
        """With a wrong setting, unlike with damage, no file has the expected size, or not even the names fit it."""
        size = self.file_size_bytes
        for start, length in lengths.items():
            path = os.path.join(self.directory or "", f"{start:020d}")
            if start % size:
                raise StoreCorrupt(
                    f"{path} does not follow on the file before it in steps of {size} bytes; "
                    f"set {self.size_key} to the size this store was made with, or restore the missing file"
                )
            if length > size or (0 <= length < size and len(lengths) > 1 and size not in lengths.values()):
                raise StoreCorrupt(
                    f"{path} has {length} bytes where {size} are expected; set {self.size_key} to the size this store was made with"
                )

    def repair(self) -> None:
        """Give files that are missing or short their full length, with zeros. Raises StoreNotWritable."""
        for start in self.faults:
            file = self.file_at(start)
            assert file is not None
            file.unmap()
            whole = MappedFile(file.path, start, self.file_size_bytes)
            whole.create()
            self.files[self.files.index(file)] = whole
        self.faults = {}

    @property
    def start(self) -> int:
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        return self.files[-1].end if self.files else 0

    def file_at(self, offset: int) -> StoreFile | None:
        if not self.files:
            return None
        index = (offset - self.files[0].start) // self.file_size_bytes
        return self.files[index] if 0 <= index < len(self.files) else None

    def create_file(self, start: int) -> StoreFile:
        name = f"{start:020d}"
        file: StoreFile
        if self.directory is None:
            file = StoreFile(name, start, self.file_size_bytes)
        else:
            if not self.files:
                with disk_errors(self.directory):
                    os.makedirs(self.directory, exist_ok=True)
            mapped = MappedFile(os.path.join(self.directory, name), start, self.file_size_bytes)
            mapped.create()
            file = mapped
        self.files.append(file)
        self.new_files = True
        return file

    def truncate_to(self, offset: int) -> None:
        """Later files are deleted, and the tail of the file at ``offset`` becomes zero."""
        while len(self.files) > 1 and self.files[-1].start > offset:
            self.files.pop().delete()
            self.new_files = True  # a power cut must not bring the deleted name back
        if self.files:
            last = self.files[-1]
            position = max(0, offset - last.start)
            if position < self.file_size_bytes:
                last.zero_from(position)

    def delete_behind(self, offset: int) -> None:
        """Delete the files that begin behind ``offset``, from the last one on, until the system refuses."""
        with contextlib.suppress(StoreNotWritable):
            while self.files and self.files[-1].start > offset and self.files[-1].delete():
                self.files.pop()
                self.new_files = True  # a power cut must not bring the deleted name back

    def delete_before(self, offset: int) -> None:
        """Delete the files that end before ``offset``, but never the last one, until the system refuses."""
        while len(self.files) > 1 and self.files[1].start <= offset and self.delete_first():
            pass

    def delete_first(self) -> bool:
        if not self.files[0].delete():
            return False
        del self.files[0]
        return True

    def delete_all(self) -> None:
        for file in self.files:
            file.delete()
        self.files = []
        if self.directory is not None and os.path.isdir(self.directory):
            with contextlib.suppress(OSError):  # the folder holds a foreign file, which is not ours to delete
                os.rmdir(self.directory)

    def take_new_directories(self) -> list[str]:
        """Flush thread: the folders to sync because files were created since the last call, from the lowest to the highest."""
        if not self.new_files or self.directory is None:
            return []
        self.new_files = False  # before the sync: a file created from here on sets it again
        folders = [self.directory]
        for _ in range(self.folders_above):
            folders.append(os.path.dirname(folders[-1]))
        return folders

    def unmap(self) -> None:
        for file in self.files:
            file.unmap()


def _names(directory: str) -> list[str]:
    return [name for name in os.listdir(directory) if name.isdigit() and len(name) == 20]


def length_of(path: str) -> int:
    """-1 if it is no file that can be read: a folder, or a link to nothing."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1
