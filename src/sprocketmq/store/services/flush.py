# SPDX-License-Identifier: Apache-2.0
"""Flushing written bytes to the disk, on a thread. Java: GroupCommitService, FlushRealTimeService, FlushConsumeQueueService.

All callers that wait when the thread starts a round share one fdatasync. The thread reads the end of the log *before* it syncs, and
never touches a mapping, only paths, so the owner loop appends in the meantime. A failed fdatasync is final: the kernel may have
dropped the pages, and a second call would report success for lost data. A file that could not be opened for want of descriptors is
tried again.

1. A waiter is answered once: when ``flushed_offset`` has reached its place, when the state becomes failed, or at the end of ``close``,
   however the last flush ends. Who asks in the states failed and closed is answered at once.
2. The thread ends only by ``close`` or with the state failed. That has one error, the first, whose cause is what happened.
3. In the state failed no sync of the log begins, neither on the thread nor by ``flush``: it would report success (see above).
4. Whatever the callback of a waiter raises is logged. It does not keep the other waiters from their answers.

A sync takes milliseconds however little it writes, so the queues are synced in rounds. A round notes the indexed end of the log and
the queues with new entries, syncs some of them each second, and moves the checkpoint to the noted place after the last one. With
more than 1,024 written queues, one sync of the whole file system every ten seconds replaces the round. A late sync loses nothing:
recovery rebuilds entries from the log. The index by key is synced once a minute and when the store is closed.
"""

from __future__ import annotations

import concurrent.futures
import errno
import heapq
import itertools
import logging
import threading
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sprocketmq.errors import StoreNotWritable
from sprocketmq.store.files.checkpoint import QueueTotals
from sprocketmq.store.files.mapped_file import not_writable, sync_directory
from sprocketmq.store.queue.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    from sprocketmq.store.message_store import MessageStore

log = logging.getLogger("sprocketmq.store")

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_QUEUES_AT_ONCE = 64
_MANY_QUEUES = 1_024
_MANY_INTERVAL_S = 10.0
_INDEX_INTERVAL_S = 60.0
CLOSED: Final = "the store is closed; start the broker again"


@dataclass
class _Round:
    """Queues to sync before the checkpoint may say ``durable_offset`` and ``queue_totals``."""

    durable_offset: int
    store_timestamp_ms: int
    queue_totals: QueueTotals | None
    queues: list[ConsumeQueue]


Waiter = tuple[int, int, "concurrent.futures.Future[None]"]


class Flusher:
    """The flush thread of one disk store. ``flushed_offset``: up to there everything is known to be on the disk."""

    def __init__(self, store: MessageStore, flushed_offset: int) -> None:
        config = store.config
        self._store = store
        self._log, self._queues, self._checkpoint = store.commit_log, store.consume_queues, store.checkpoint
        self._round: _Round | None = None
        self._log_interval_s = config.flush_interval_commit_log_ms / 1000
        self._queue_interval_s = config.flush_interval_consume_queue_ms / 1000
        self._condition = threading.Condition()
        self._syncing = threading.Lock()
        self._waiters: list[Waiter] = []
        self._numbers = itertools.count()
        self._closed = False
        self._failure: StoreNotWritable | None = None
        self._thread: threading.Thread | None = None
        self.flushed_offset = flushed_offset

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def start(self) -> None:
        thread = threading.Thread(target=self._main, name="sprocketmq-flush", daemon=True)
        thread.start()
        self._thread = thread  # a thread that could not be started cannot be joined

    def when_durable(self, physical_offset: int) -> concurrent.futures.Future[None]:
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._condition:
            if self._failure is not None:
                future.set_exception(self._failure)
            elif physical_offset <= self.flushed_offset:
                future.set_result(None)
            elif self._closed:
                future.set_exception(StoreNotWritable(CLOSED))
            else:
                heapq.heappush(self._waiters, (physical_offset, next(self._numbers), future))
                self._condition.notify()
        return future

    def flush(self) -> None:
        """Flush everything now, on the calling thread. Raises StoreNotWritable (the disk reported an error, now or before)."""
        try:
            self._sync_log()
            self._sync_queues()
            self._sync_index()
        except StoreNotWritable as error:
            self._fail(error)
            raise

    def close(self) -> None:
        """Stop the thread after a last flush. Raises StoreNotWritable: that flush failed, or one that the thread was in. If the
        state was failed before, the caller knows."""
        with self._condition:
            had_failed = self._failure is not None
            self._closed = True
            self._condition.notify()
        try:
            if self._thread is not None:
                self._thread.join()
                self._thread = None
            if not had_failed:
                self.flush()
        finally:  # also of those who wait for more than was ever written
            self._fail_waiters(StoreNotWritable(CLOSED))

    def end(self) -> None:
        """Stop the thread; what it has not flushed stays as it is."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _main(self) -> None:
        try:
            self._flush_in_rounds()
        except BaseException as error:
            failure = error
            if not isinstance(failure, StoreNotWritable):
                what = traceback.format_exception_only(error)[-1].strip()  # also of an error whose text raises
                failure = StoreNotWritable(
                    f"flushing to the disk ended with {what}; see the log, and start the broker again"
                )
                failure.__cause__ = error
            self._fail(failure)
            log.error("the store takes no more messages: %s", failure, exc_info=error)

    def _flush_in_rounds(self) -> None:
        queues_due_s = time.monotonic() + self._queue_interval_s
        index_due_s = many_due_s = time.monotonic() + _INDEX_INTERVAL_S
        while True:
            with self._condition:
                if not self._waiters and not self._closed:
                    self._condition.wait(min(self._log_interval_s, self._queue_interval_s))
                if self._closed or self._failure is not None:
                    return
            try:
                self._sync_log()
                now_s = time.monotonic()
                if now_s >= queues_due_s:
                    if self._round is None and len(self._queues.dirty()) > _MANY_QUEUES:
                        if now_s >= many_due_s:
                            self._sync_queues()
                            many_due_s = time.monotonic() + _MANY_INTERVAL_S
                    else:
                        self._sync_some_queues()
                    queues_due_s = time.monotonic() + self._queue_interval_s
                if now_s >= index_due_s:
                    self._sync_index()
                    index_due_s = time.monotonic() + _INDEX_INTERVAL_S
            except StoreNotWritable as error:
                cause = error.__cause__
                if not isinstance(cause, OSError) or cause.errno not in _NO_DESCRIPTORS:
                    raise
                sentence = "%s; it is tried again every %g s"
                self._store.troubles.failed("flush", sentence, error, self._log_interval_s, level=logging.ERROR)
                with self._condition:
                    if not self._closed:
                        self._condition.wait(self._log_interval_s)

    def _sync_log(self) -> None:
        with self._syncing:
            if self._failure is not None:  # perhaps just now, while this thread waited for its turn
                raise self._failure.with_traceback(None)
            store_timestamp_ms = self._log.last_store_timestamp_ms  # read before the end: may be early, never late
            end = self._log.max_offset
            if end > self.flushed_offset:
                files = self._log.files
                try:
                    for directory in files.take_new_directories():
                        sync_directory(directory)
                    for file in list(files.files):
                        if file.end > self.flushed_offset and file.start <= end:
                            file.release_pages(
                                max(self.flushed_offset - file.start, 0), min(end - file.start, file.size_bytes)
                            )
                            file.sync()
                except OSError as error:
                    files.new_files = True  # their names may not be on the disk yet
                    raise self._failed(files.directory or "", error) from error
                self._log.preallocator.flushed(end - self.flushed_offset)
                self._checkpoint.physic_msg_timestamp = store_timestamp_ms
                with self._condition:
                    self.flushed_offset = end
        self._release_waiters()

    def _release_waiters(self) -> None:
        ready: list[concurrent.futures.Future[None]] = []
        with self._condition:
            while self._waiters and self._waiters[0][0] <= self.flushed_offset:
                ready.append(heapq.heappop(self._waiters)[2])
        for future in ready:
            _answer(future, None)

    def _sync_queues(self) -> None:
        self._round = None
        self._sync_some_queues(None)

    def _sync_some_queues(self, at_once: int | None = _QUEUES_AT_ONCE) -> None:
        """One step of a round; the last step moves the checkpoint. Its place is read first: it must not include a record whose
        entry the owner loop is about to write."""
        current = self._round
        if current is None:
            indexed_offset, store_timestamp_ms = self._log.indexed_offset, self._log.last_store_timestamp_ms
            totals = self._queues.totals()  # first: every entry that is counted points before the end
            queue_totals = QueueTotals(self._log.max_offset, *totals)
            dirty = self._queues.dirty()  # also without an append: entries that the start found or rebuilt
            unchanged = (
                indexed_offset in (-1, self._checkpoint.durable_offset)
                and queue_totals == self._checkpoint.queue_totals
            )
            if not dirty and unchanged:
                return
            current = _Round(indexed_offset, store_timestamp_ms, queue_totals, dirty)
        self._sync_log()
        with self._syncing:
            try:
                self._queues.sync(current.queues[:at_once])
            except OSError as error:
                raise self._failed(self._queues.directory or "", error) from error
            del current.queues[:at_once]
            self._round = current if current.queues else None
            if self._round is None and current.durable_offset >= 0:
                self._checkpoint.logics_msg_timestamp = current.store_timestamp_ms
                self._checkpoint.durable_offset = current.durable_offset
                self._checkpoint.queue_totals = current.queue_totals
                self._checkpoint.save()

    def _sync_index(self) -> None:
        dispatcher, index = self._store.dispatcher, self._store.index
        progress = dispatcher.progress or self._checkpoint.index_mark
        # A repair changes the index without progress, and the start after a clean stop takes it for whole.
        if progress is None or (progress == self._checkpoint.index_mark and not dispatcher.has_changes):
            return
        self._sync_log()
        with self._syncing:
            try:
                index.sync()
            except OSError as error:
                raise self._failed("the folder index", error) from error
            self._checkpoint.index_mark, self._checkpoint.index_numbers = progress, index.numbers
            self._checkpoint.indexed_timestamp = progress.store_timestamp_ms
            self._checkpoint.save()

    def _failed(self, what: str, error: OSError) -> StoreNotWritable:
        """Enter the state failed while the lock of the syncs is held, so that the thread that waits for it begins none (rule 3)."""
        failure = not_writable(what, error)
        if error.errno not in _NO_DESCRIPTORS:
            with self._condition:
                self._failure = self._failure or failure
        return failure

    def _fail(self, error: StoreNotWritable) -> None:
        with self._condition:
            error = self._failure = self._failure or error
        self._store.refuse_appends(error)
        self._fail_waiters(error)

    def _fail_waiters(self, error: StoreNotWritable) -> None:
        with self._condition:
            waiters, self._waiters = self._waiters, []
        for _, _, future in waiters:
            _answer(future, error)


def _answer(future: concurrent.futures.Future[None], error: StoreNotWritable | None) -> None:
    """Callbacks run now; the base class logs only those of their errors that are Exceptions."""
    try:
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    except BaseException:
        log.exception("a callback of when_durable failed")
