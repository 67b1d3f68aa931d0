# SPDX-License-Identifier: Apache-2.0
"""The progress of timer messages: the file ``config/timercheck`` and the answer to GET_TIMER_CHECK_POINT. Java:
timer.TimerCheckpoint.

4096 bytes: the fields of ``TimerCheck`` up to ``counter``, an int64 each; the same once more with ``copies_before`` and a checksum;
at 2048 ``mapped_progress``. The first two parts are written when log and wheel are on the disk. A Java broker leaves ours as it is,
so it counts only beside equal fields, or beside some in which one bit has flipped since.
"""

from __future__ import annotations

import logging
import os
import zlib
from typing import Final

import msgspec

from sprocketmq.store.files.disk_space import write_all
from sprocketmq.store.files.mapped_file import disk_errors, make_directories, opened, sync_directory
from sprocketmq.wire.layout import Layout

_FILE_BYTES: Final = 4096


class TimerCheck(msgspec.Struct, gc=False):
    """In the order of the file."""

    last_read_time_ms: int = 0  # all slots before it are delivered
    last_timer_log_flush_pos: int = 0  # the timer log is on the disk up to here
    last_timer_queue_offset: int = 0  # of rmq_sys_wheel_timer: all before are in the log and the wheel
    master_timer_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0
    # The progress counts all delivered copies before this physical offset of the log. None: it is unknown, as beside a Java broker.
    copies_before: int | None = None

    def encode(self) -> bytes:
        return _FIELDS.pack(*msgspec.structs.astuple(self)[:-1])

    def encode_with_ours(self) -> bytes:
        fields = self.encode()
        ours = _MAGIC + fields + _COPIES.pack(-1 if self.copies_before is None else self.copies_before)
        return fields + ours + _CHECKSUM.pack(zlib.crc32(ours))


_FIELDS: Final = Layout(*((name, "q") for name in TimerCheck.__struct_fields__[:-1])).struct
_MAGIC: Final = b"SPRKCPY2"
_COPIES: Final = Layout(("copies_before", "q")).struct
_CHECKSUM: Final = Layout(("crc", "I")).struct
_OURS_BYTES: Final = len(_MAGIC) + _FIELDS.size + _COPIES.size
_log = logging.getLogger("sprocketmq.store")


def load_timer_check(path: str | None) -> TimerCheck | None:
    """None if there is no file."""
    if path is None or not os.path.lexists(path):
        return None
    with open(path, "rb") as file:
        raw = file.read(_FILE_BYTES).ljust(_FILE_BYTES, b"\0")
    fields, ours = raw[: _FIELDS.size], raw[_FIELDS.size :][:_OURS_BYTES]
    copy = ours[len(_MAGIC) : -_COPIES.size]
    (checksum,) = _CHECKSUM.unpack_from(raw, _FIELDS.size + _OURS_BYTES)
    if not ours.startswith(_MAGIC) or checksum != zlib.crc32(ours):
        return TimerCheck(*_FIELDS.unpack(fields))
    differing_bits = (int.from_bytes(fields, "big") ^ int.from_bytes(copy, "big")).bit_count()
    if differing_bits > 1:  # Java writes a new counter and a new time
        return TimerCheck(*_FIELDS.unpack(fields))
    if differing_bits:
        _log.error("a bit has flipped in %s; the copy that follows it is used", path)
    (copies_before,) = _COPIES.unpack_from(ours, len(ours) - _COPIES.size)
    check = TimerCheck(*_FIELDS.unpack(copy))
    check.copies_before = None if copies_before < 0 else copies_before
    return check


def save_timer_check(path: str | None, check: TimerCheck, *, is_named: bool = False) -> None:
    """Write and sync in place. ``is_named``: the names of the file and of its folder are on the disk, which its existence does not
    show: live progress creates it, too. Raises StoreNotWritable."""
    if path is None:
        return
    folder = os.path.dirname(path)
    with disk_errors(path):
        make_directories(folder)
    with opened(path) as fd:
        write_all(fd, check.encode_with_ours(), 0)
        if os.fstat(fd).st_size < _FILE_BYTES:
            os.ftruncate(fd, _FILE_BYTES)
        os.fsync(fd)
    if not is_named:
        with disk_errors(path):
            sync_directory(folder)
            sync_directory(os.path.dirname(folder))
