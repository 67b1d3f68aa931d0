# SPDX-License-Identifier: Apache-2.0
"""The extension of consume queues: data that does not fit into their units. Java: ConsumeQueueExt. Off by default, as in Apache.

The unit of the consume queue then has an address instead of its tags code: the position of the extension's unit, less 2^63. Java
reads any value up to -2^31 - 1 as an address; tags codes are 32-bit numbers. A file ends with size -1 where the next unit does not
fit together with 4 bytes of it. We compute the tags code from the record, so losing a part of the extension changes nothing; units
(without a bit map, a cache of SQL92 results) are written only so that an Apache broker finds what it expects.
"""

from __future__ import annotations

import os

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.files.mapped_file import StoreFile
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue
from sprocketmq.store.files.paths import path_below, remove_below
from sprocketmq.wire.layout import Layout

_LAYOUT = Layout(
    ("size", "h"),  # of the whole unit, its bit map included
    ("tags_code", "q"),
    ("store_timestamp_ms", "q"),
    ("bit_map_size", "h"),  # the bit map is behind it
)
_UNIT = _LAYOUT.struct
_SIZE = _LAYOUT.subset("size")
_END_BYTES = 4
_LARGEST_ADDRESS = -(1 << 31) - 1
_LOWEST = -(1 << 63)


def is_extension_address(tags_code: int) -> bool:
    return tags_code <= _LARGEST_ADDRESS


class _Extension:
    def __init__(self, files: MappedFileQueue) -> None:
        self.files = files
        files.load_whole()
        self.end = files.start
        for file in files.files:
            self.end = file.start + _end_of_units(file)

    def put(self, tags_code: int, store_timestamp_ms: int) -> int:
        file = self.files.file_at(self.end)
        if file is not None and self.end + _UNIT.size + _END_BYTES > file.end:
            at = self.end - file.start
            file.ensure_space(at, at + _SIZE.size)
            _SIZE.pack_into(file.view, at, -1)
            file.unmap()
            self.end, file = file.end, None
        if file is None:
            file = self.files.create_file(self.end)
        at = self.end - file.start
        file.ensure_space(at, at + _UNIT.size)
        _UNIT.pack_into(file.view, at, _UNIT.size, tags_code, store_timestamp_ms, 0)
        self.end += _UNIT.size
        return _LOWEST + at + file.start


def _end_of_units(file: StoreFile) -> int:
    at, data = 0, file.data
    while at + _SIZE.size <= len(data):
        (size,) = _SIZE.unpack_from(data, at)
        if size <= 0:
            return at if size == 0 else file.size_bytes
        at += size
    return min(at, file.size_bytes)


class ConsumeQueueExtTable:
    """The extensions of all queues; ``directory=None``: in memory."""

    def __init__(self, directory: str | None, file_size_bytes: int) -> None:
        self._directory, self._file_size_bytes = directory, file_size_bytes
        self._extensions: dict[tuple[str, int], _Extension] = {}

    def put(self, topic: str, queue_id: int, tags_code: int, store_timestamp_ms: int) -> int:
        """Write a unit and return its address; if the disk is full, return the plain ``tags_code``, which works as well."""
        try:
            return self._open(topic, queue_id).put(tags_code, store_timestamp_ms)
        except StoreNotWritable:
            return tags_code

    def _open(self, topic: str, queue_id: int) -> _Extension:
        extension = self._extensions.get((topic, queue_id))
        if extension is None:
            folder = None if self._directory is None else path_below(self._directory, topic, str(queue_id))
            files = MappedFileQueue(folder, self._file_size_bytes, "mappedFileSizeConsumeQueueExt")
            extension = self._extensions[topic, queue_id] = _Extension(files)
        return extension

    def clean(self, topic: str, queue_id: int, min_address: int) -> None:
        """Retention: ``min_address`` is in the first kept unit of the queue."""
        if is_extension_address(min_address) and self.exists(topic, queue_id):
            self._open(topic, queue_id).files.delete_before(min_address - _LOWEST)

    def exists(self, topic: str, queue_id: int) -> bool:
        if (topic, queue_id) in self._extensions:
            return True
        return self._directory is not None and os.path.isdir(path_below(self._directory, topic, str(queue_id)))

    def delete_topic(self, topic: str) -> None:
        for key in [key for key in self._extensions if key[0] == topic]:
            self._extensions.pop(key).files.delete_all()
        if self._directory is not None:
            remove_below(self._directory, topic)

    def unmap(self) -> None:
        for extension in self._extensions.values():
            extension.files.unmap()
