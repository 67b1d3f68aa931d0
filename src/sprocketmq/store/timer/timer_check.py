# SPDX-License-Identifier: Apache-2.0
"""The progress of timer messages: the file ``config/timercheck`` and the answer to GET_TIMER_CHECK_POINT. Java: timer.TimerCheckpoint.

4096 bytes: the fields of ``TimerCheck``, an int64 each, up to ``counter``; our own parts behind them (``copies_before``) and at 2048, see
``mapped_progress``; zero elsewhere. The first two parts are written when log and wheel are on the disk; a slave requests the first from its
master. A Java broker leaves our part as it is, so it counts only beside the check with which it was written.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from sprocketmq.store.files.disk_space import write_all
from sprocketmq.store.files.mapped_file import make_directories, not_writable, sync_directory
from sprocketmq.wire.layout import Layout

__all__ = ["TimerCheck", "load_timer_check", "save_timer_check"]

_FILE_BYTES: Final = 4096


class TimerCheck(msgspec.Struct, gc=False):
    """The fields of the file, in their order."""

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
        """Its bytes, as Java has them."""
        return _FIELDS.pack(*msgspec.structs.astuple(self)[:-1])

    def encode_with_ours(self) -> bytes:
        """Both parts. Without a place ours is one that does not count."""
        ours = _OURS.pack(self.copies_before or 0, self.counter, self.timestamp, _MAGIC)
        return self.encode() + (ours if self.copies_before is not None else bytes(_OURS.size))


_FIELDS: Final = Layout(*((name, "q") for name in TimerCheck.__struct_fields__[:-1])).struct
_MAGIC: Final = b"SPRKCPY1"
_OURS: Final = Layout(("copies_before", "q"), ("counter", "q"), ("timestamp", "q"), ("magic", "8s")).struct


def load_timer_check(path: str | None) -> TimerCheck | None:
    """Read the file; None if there is none."""
    if path is None or not os.path.lexists(path):
        return None
    with open(path, "rb") as file:
        raw = file.read(_FIELDS.size + _OURS.size).ljust(_FIELDS.size + _OURS.size, b"\0")
    check = TimerCheck(*_FIELDS.unpack_from(raw))
    copies_before, *of_check = _OURS.unpack_from(raw, _FIELDS.size)
    if of_check == [check.counter, check.timestamp, _MAGIC]:
        check.copies_before = copies_before
    return check


def save_timer_check(path: str | None, check: TimerCheck, *, is_named: bool = False) -> None:
    """Write and sync in place.

    Args:
        is_named: the names of the file and of its folder are on the disk. The existence of the file does not show that, because live
            progress creates it, too.

    Raises:
        StoreNotWritable: the disk reported an error.
    """
    if path is None:
        return
    try:
        folder = os.path.dirname(path)
        make_directories(folder)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        try:
            write_all(fd, check.encode_with_ours(), 0)
            if os.fstat(fd).st_size < _FILE_BYTES:
                os.ftruncate(fd, _FILE_BYTES)
            os.fsync(fd)
        finally:
            os.close(fd)
        if not is_named:
            sync_directory(folder)
            sync_directory(os.path.dirname(folder))
    except OSError as error:
        raise not_writable(path, error) from error
