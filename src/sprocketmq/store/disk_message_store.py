# SPDX-License-Identifier: Apache-2.0
"""The message store in Apache RocketMQ's directory format: either side opens what the other has written. Java: DefaultMessageStore.

    commitlog/      20-digit files of records                abort        exists while running: the next start is after a crash
    consumequeue/   TOPIC/QUEUE_ID/ 20-digit files           checkpoint   up to where data is known to be on the disk
    index/          files by key, named by their time        lock         held while running
    config/         the broker's JSON files (config_files)   consumequeue_ext/   extensions of queue entries, off by default
    abort.spare     ``abort`` while stopped: a full disk may have no room for a new file, not even an empty one

Left alone if found: batchconsumequeue and RocksDB files of a Java broker.
"""

from __future__ import annotations

import concurrent.futures
import errno
import logging
import os
import stat
import sys
from collections.abc import Collection, Mapping

from sprocketmq.errors import StoreCorrupt, StoreError, StoreNotWritable
from sprocketmq.store.files import mapped_progress
from sprocketmq.store.files.checkpoint import IndexProgress, QueueTotals
from sprocketmq.store.files.disk_space import write_all
from sprocketmq.store.files.lock_file import LockFile
from sprocketmq.store.files.mapped_file import disk_errors, make_directories, not_writable, opened, sync_directory
from sprocketmq.store.message_store import NO_TOPICS, MessageStore
from sprocketmq.store.recovery.losses import Losses, Stop, find_losses, refusal_of
from sprocketmq.store.recovery.recovery import Recovery
from sprocketmq.store.services.flush import CLOSED, Flusher
from sprocketmq.store.store_config import StoreConfig

_FOLDERS = ("consumequeue", "consumequeue_ext", "index", "config", "timerlog")
_MOST_TO_INDEX_AT_CLOSE_BYTES = 1 << 30
_RECORDS_AT_ONCE = 4_096
_log = logging.getLogger("sprocketmq.store")


class DiskMessageStore(MessageStore):
    path: str

    def __init__(self, path: str | os.PathLike[str], config: StoreConfig | None = None) -> None:
        super().__init__(config or StoreConfig(), os.path.abspath(os.fspath(path)))
        self.recovery: Recovery | None = None
        commit_log = self.config.store_path_commit_log or os.path.join(self.path, "commitlog")
        self._folders = [commit_log, *(os.path.join(self.path, name) for name in _FOLDERS)]
        self._lock = LockFile(self.path, self._folders)
        self._abort_path = os.path.join(self.path, "abort")
        self._spare_abort_path = self._abort_path + ".spare"
        self._flusher: Flusher | None = None

    def __repr__(self) -> str:
        return f"DiskMessageStore({self.path!r}, {self.min_physical_offset}..{self.max_physical_offset})"

    def load(self, deleted_topics: Mapping[str, int] = NO_TOPICS, known_topics: Collection[str] | None = None) -> None:
        self._make_writable_directory()
        self._lock.acquire()
        try:
            self._open_files(deleted_topics, known_topics)
        except BaseException:
            self._flusher = None  # its thread does not run: there is nothing to close
            self._release()
            raise
        self.refuse_appends(None)

    def _make_writable_directory(self) -> None:
        for directory in (self.path, *self._folders[:2]):  # created now, so that they can be locked
            _check_access(directory)
            try:
                make_directories(directory)
            except OSError as error:
                raise not_writable(error.filename or directory, error) from error
        # The others are created when they are needed. Those that exist are checked now: another user may have created them.
        for directory in self._folders[2:]:
            _check_access(directory)

    def _open_files(self, deleted_topics: Mapping[str, int], known_topics: Collection[str] | None) -> None:
        checkpoint = self.checkpoint
        try:
            self.load_files()
            losses = find_losses(self, is_ours=self._lock.was_ours)
            stop = losses.stop
            if losses.lost and not self.config.accept_store_loss:
                raise StoreCorrupt(refusal_of(self.path, losses))
            self._load_index(stop)
            # After a crash without the mark: if this start is killed, the next one must again assume that records may be torn.
            self._write_abort(with_mark=stop is not Stop.CRASHED)
            self.commit_log.files.repair()
            if losses.lost:
                self._accept_losses(losses)
            if self._lock.was_javas and checkpoint.queue_totals is not None:
                checkpoint.javas_end = max(checkpoint.javas_end or 0, checkpoint.queue_totals.log_end)
            self.recovery = Recovery(self, losses, deleted_topics, known_topics)
            self.recovery.run()
            for at in self.recovery.walk.damaged_bodies:
                self.record_at(at)
            if not self.commit_log.files.files:
                self.index.delete_all()
        except PermissionError as error:
            raise not_writable(error.filename or self.path, error) from error
        except OSError as error:
            raise StoreCorrupt(
                f"the store {self.path} cannot be read: {error}; check the disk, or restore the directory"
            ) from error
        is_flushed = stop is Stop.CLEAN and not self.recovery.record_count
        flushed_offset = self.commit_log.max_offset if is_flushed else self.recovery.begin
        if checkpoint.log_begin is None or not self._lock.was_ours:
            checkpoint.log_begin = self.commit_log.min_offset
        self._flusher = Flusher(self, flushed_offset)
        self._flusher.flush()
        if self._lock.was_javas:
            # Now that all queues are on the disk, one that is missing later is one that Java has deleted.
            checkpoint.javas_end = self.commit_log.max_offset
            checkpoint.queue_totals = QueueTotals(checkpoint.javas_end, *self.consume_queues.totals())
            checkpoint.save()
        if stop is Stop.CRASHED:
            self._write_abort(with_mark=True)
        self._lock.mark_as_ours()
        self._flusher.start()

    def _accept_losses(self, losses: Losses) -> None:
        """What the checkpoint knew is forgotten first, so that a start after a kill goes on from here."""
        for lost in losses.lost:
            _log.error("%s; the start continues without it (acceptStoreLoss)", lost)
        self.has_lost_messages = True
        self.index.delete_all()
        self.checkpoint.forget()
        self.checkpoint.save()

    def _load_index(self, stop: Stop) -> None:
        checkpoint, index = self.checkpoint, self.index
        clean_stop = stop is Stop.CLEAN
        was_ours = not clean_stop and (checkpoint.is_ours or self._abort_is_ours())
        index.load(clean_stop=clean_stop, durable=(checkpoint.index_mark or IndexProgress("", 0)) if was_ours else None)
        mark = checkpoint.index_mark or IndexProgress("", 0)
        lost = mark.newest_file not in {"", *(file.name for file in index.files)}
        if not was_ours:
            # Headers that Java wrote are trusted only after a sync, because we may crash before our first sync.
            index.sync()
            offset = mark.offset if mark.newest_file == index.newest_name else 0
            checkpoint.index_mark = mark._replace(
                newest_file=index.newest_name, offset=offset, index_count=index.newest_count
            )
            checkpoint.index_numbers = index.numbers
        if self.config.message_index_enable:
            checkpoint.indexed_timestamp = 0 if lost else checkpoint.logics_msg_timestamp
            checkpoint.save()  # before the first entry that the mark does not count

    def _abort_is_ours(self) -> bool:
        """Also if a power cut tore the checkpoint: a Java broker writes only its process id, or nothing."""
        try:
            with open(self._abort_path, "rb") as file:
                return b"\n" in file.read(64)
        except OSError:
            return False

    def _write_abort(self, *, with_mark: bool) -> None:
        with disk_errors(self._abort_path):
            if not os.path.exists(self._abort_path) and os.path.exists(self._spare_abort_path):
                os.replace(self._spare_abort_path, self._abort_path)
        with opened(self._abort_path) as fd:  # not truncated: a full disk might have no space to write it again
            self._write_pid(fd, with_mark=with_mark)
        with disk_errors(self._abort_path):
            sync_directory(self.path)

    @staticmethod
    def _write_pid(fd: int, *, with_mark: bool) -> None:
        """The process id is for people; without the mark of the machine's start, a start assumes that writes are torn. Only that
        the file exists matters, and a start on a full disk must still serve pulls."""
        mark = (mapped_progress.file_mark(fd) or b"").hex() if with_mark else ""
        pid = b"%d\n%s" % (os.getpid(), mark.encode())
        try:
            write_all(fd, pid, 0)
            os.ftruncate(fd, len(pid))
            os.fsync(fd)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    @property
    def flushed_offset(self) -> int:
        return self._flusher.flushed_offset if self._flusher else 0

    def when_durable(self, physical_offset: int) -> concurrent.futures.Future[None]:
        if self._flusher is None:
            raise StoreNotWritable("the store is not open; call load() first")
        return self._flusher.when_durable(physical_offset)

    def flush(self) -> None:
        if self._flusher is not None:
            self._complete_index()
            self._flusher.flush()

    def close(self) -> None:
        flusher, self._flusher = self._flusher, None
        # As the interpreter ends, its threads do not run any more; the next start recovers as after a kill.
        if flusher is None or sys.is_finalizing():
            return
        healthy = self.refusal is self._frozen or self.retention.disk_full
        self.refuse_appends(StoreNotWritable(CLOSED))
        try:
            try:
                self._complete_index()
            finally:  # whatever that raised
                flusher.close()
            # After a failed flush, and with an index that could not be repaired, the next start must recover as after a crash.
            if healthy and not flusher.has_failed and (self.dispatcher.offset >= 0 or not self.index.files):
                self.checkpoint.index_msg_timestamp = self.index.end_timestamp_ms
                self.checkpoint.log_begin = self.commit_log.min_offset
                self.checkpoint.sum_of_queue_begins = self.consume_queues.sum_of_begins()
                totals = self.consume_queues.totals()
                self.checkpoint.queue_totals = QueueTotals(self.commit_log.max_offset, *totals)
                self.checkpoint.save()
                os.replace(self._abort_path, self._spare_abort_path)
        finally:
            self._release()

    def abandon(self) -> None:
        """Let go of the files and save nothing, as the end of the process does: the next start recovers as after a kill."""
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            self.refuse_appends(StoreNotWritable(CLOSED))
            flusher.end()
            self._release()

    def _complete_index(self) -> None:
        """Apache would not index the newest messages. An index that is rebuilt from a long log continues next time."""
        try:
            self.dispatcher.make_ready()
            while 0 < self.undispatched_bytes < _MOST_TO_INDEX_AT_CLOSE_BYTES and self.dispatch(_RECORDS_AT_ONCE):
                pass
        except (StoreError, OSError, ImportError) as error:  # without descriptors a library may fail to load
            _log.error("the index by key stays behind: %s", error)

    def _release(self) -> None:
        self.commit_log.preallocator.close()
        self.unmap()
        self._lock.release()


def _check_access(directory: str) -> None:
    if not os.path.lexists(directory):
        return
    if not os.path.isdir(directory):
        raise not_writable(directory, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
    effective = os.access in os.supports_effective_ids
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=effective):
        mode = stat.S_IMODE(os.stat(directory).st_mode)
        raise StoreNotWritable(
            f"the folder {directory} has mode {mode:o}, and the user who runs the broker needs rwx there; "
            "change its mode or owner (chmod, chown), or choose another directory with --store"
        )
