# SPDX-License-Identifier: Apache-2.0
"""The broker's tables on disk, in Apache's own files and dialect (Java: ConfigManager and its subclasses).

    STORE/config/topics.json, subscriptionGroup.json   after a change, beside the loop, whole: one write has all changes before it
    STORE/config/deletedTopics.json     before topics.json, where it changed
    STORE/config/consumerOffset.json    every 5 s if something was committed, after a round of transaction checks, at the end, and before
                                        the answer to an administrator who moved, cloned or deleted offsets
    STORE/config/delayOffset.json       every 10 s if something was delivered, and at the end

The two files of progress are written after the part of the log to which they refer is on the disk: a power cut may undo progress, but new
messages must not get offsets that a group has passed, and half messages must not lose their copies. A change is acknowledged after its
write. A kill loses at most the last interval of progress, and messages are delivered again; none is skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from sprocketmq.broker.chunked_work import LongTable, encode_in_chunks
from sprocketmq.broker.tables.table_file import UNWRITTEN, TableFile, WhenSaved
from sprocketmq.errors import StoreCorrupt, StoreError, StoreNotWritable
from sprocketmq.net.process.executors import submit_from_loop
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.store.config_files import ConfigFile, forget_tables, missing_tables, never_noted
from sprocketmq.threads import ClaimedWork
from sprocketmq.wire.bodies import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")


class ConfigStore:
    def __init__(self, broker: Broker) -> None:
        self._topics, self._groups, self._offsets = broker.topics, broker.groups, broker.offsets
        self._schedule, self._clock, self._store = broker.schedule, broker.clock, broker.store
        self._root, self._troubles = broker.root, broker.troubles
        root = broker.root

        def file(name: str) -> ConfigFile:
            return ConfigFile(None if root is None else root / "config" / name)

        self._topics_file, self._groups_file = file("topics.json"), file("subscriptionGroup.json")
        self._offsets_file, self._delay_file = file("consumerOffset.json"), file("delayOffset.json")
        self._deleted_file = file("deletedTopics.json")
        self._tables = (
            # Otherwise a topic that is in neither of the two files would get its old records when it is created again.
            TableFile(
                self._topics_file,
                self._topics.long_content,
                (self._deleted_file, self._topics.deleted_content),
                broker.troubles,
            ),
            TableFile(self._groups_file, self._groups.long_content, troubles=broker.troubles),
        )
        # Its thread is started at the first use.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="sprocketmq-offsets")
        self._writing: dict[ConfigFile, ClaimedWork[StoreError | None]] = {}
        self._in_progress: dict[ConfigFile, object] = {}  # progress that waits for the log, or is being written
        self._making = Tasks(log, "the text of a large table")  # made in steps
        self._again: set[ConfigFile] = set()  # progress that has to be written once more after that
        self._next_callbacks: list[WhenSaved] = []  # called when the next write of offsets ends
        self._callbacks: list[WhenSaved] = []  # called when the present one ends

    def check_tables(self, *, accepts_loss: bool) -> None:
        """Tables that were written once must be there. Raises StoreCorrupt (one is gone, and that is not accepted)."""
        if self._root is None:
            return
        for path in never_noted(self._root):
            log.warning(
                "%s is missing, and the store has messages: this broker begins without what may have been in it", path
            )
        missing = missing_tables(self._root)
        if not missing:
            return
        if not accepts_loss:
            raise StoreCorrupt(
                f"{'; '.join(missing.values())}; restore the files, or start once with --accept-store-loss (acceptStoreLoss=true), "
                "which continues without what was in them"
            )
        for what in missing.values():
            log.error("%s; the start continues without it (acceptStoreLoss)", what)
        forget_tables(self._root, missing)

    def load_topics(self) -> Collection[str] | None:
        """Load the topics, and which were deleted, before the store. Returns those of ``topics.json``; None if there is none."""
        deleted = self._deleted_file.load(lambda raw: msgspec.json.decode(raw, type=dict[str, int]))
        if deleted is not None:
            self._topics.load_deletions(deleted)
        topics = self._topics_file.load(TopicConfigSerializeWrapper.decode, key="topicConfigTable")
        if topics is None:
            return None
        self._topics.load(topics)
        return self._topics.table

    def load(self) -> None:
        """Read the other tables. Raises StoreCorrupt (a file and its spare copy are both unreadable)."""
        groups = self._groups_file.load(SubscriptionGroupWrapper.decode, key="subscriptionGroupTable")
        if groups is not None:
            self._groups.load(groups)
        offsets = self._offsets_file.load(ConsumerOffsetSerializeWrapper.decode, key="offsetTable")
        if offsets is not None:
            self._offsets.load(offsets)
        delay = self._delay_file.load(DelayOffsetSerializeWrapper.decode, key="offsetTable")
        if delay is not None:
            self._schedule.load(delay)

    def clamp_progress(self) -> None:
        """After a loss was accepted: groups and delay levels go on at the end of their queues, if their progress is behind it."""
        for group, topic, queue_id, before, end in self._offsets.clamp(self._store.max_offset):
            log.warning(
                "group %s was at offset %d of topic %s, queue %d, which now ends at %d: it continues there",
                group,
                before,
                topic,
                queue_id,
                end,
            )
        self._schedule.clamp()

    def topics_changed(self) -> None:
        """Write ``topics.json`` soon: ten changes at the same time, such as retry topics of a heartbeat, need one write."""
        self._tables[0].changed()

    def groups_changed(self) -> None:
        self._tables[1].changed()

    def when_saved(self, call: WhenSaved, *, offsets: bool = False) -> None:
        """Call a function with None once all changes of topics and groups (and ``offsets``) are on the disk, or with the error; never if
        the broker is closed before."""
        if offsets:
            self._when_offsets_saved(lambda error: self.when_saved(call) if error is None else call(error))
            return
        left, failures = len(self._tables), dict[TableFile, StoreError]()

        def is_saved(table: TableFile, error: StoreError | None) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                failures[table] = error
            if not left:  # of several errors the one of the first table
                call(next((failures[table] for table in self._tables if table in failures), None))

        for table in self._tables:
            table.when_saved(partial(is_saved, table))

    async def saved(self, *, offsets: bool = False) -> StoreError | None:
        """Wait until topics and groups (and ``offsets``) are on the disk as they are now; return the error if any."""
        done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()

        def report(error: StoreError | None) -> None:
            if not done.done():  # else the caller was cancelled
                done.set_result(error)

        self.when_saved(report, offsets=offsets)
        return await done

    def retry(self) -> None:
        for table in self._tables:
            table.retry()

    def _with_text(self, long: LongTable, then: Callable[[bytes], None]) -> None:
        """Call a function with the text: at once if it is short, else when its steps are done; never if the broker stops before."""
        if long.is_short:
            then(long.encode())
            return

        async def make() -> None:
            then(await encode_in_chunks(long))

        self._making.start(make())

    def save_offsets(self) -> None:
        """Write ``consumerOffset.json`` on the thread if something was committed, once the log that it refers to is on the disk."""
        self._save_progress(self._offsets_file)

    def _when_offsets_saved(self, call: WhenSaved) -> None:
        if self._offsets_file.path is None:
            call(None)
        elif self._offsets.is_dirty:
            self._next_callbacks.append(call)
            self.save_offsets()
        elif self._offsets_file in self._in_progress:
            self._callbacks.append(call)
        else:
            call(None)

    def save_delay_offsets(self) -> None:
        """Write ``delayOffset.json`` on the thread if something was delivered, once the copies that it refers to are on the disk."""
        self._schedule.note_log_growth()
        self._save_progress(self._delay_file)

    def _save_progress(self, file: ConfigFile) -> None:
        """Write a file once at a time, because an older text must never follow a newer one. A request meanwhile causes another write."""
        if file.path is None or not self._has_progress(file):
            return
        if file in self._in_progress:
            self._again.add(file)
            return
        loop, turn = asyncio.get_running_loop(), object()
        self._in_progress[file] = turn
        if file is self._offsets_file:
            self._callbacks, self._next_callbacks = self._next_callbacks, []
        durable: Future[None]
        raw = b""

        def in_order(_: Future[Any], call: Callable[[ConfigFile, object], None]) -> None:
            try:
                loop.call_soon_threadsafe(call, file, turn)
            except RuntimeError:  # the loop is closed: the stop has written everything
                log.debug("the log was written to the disk after the broker's loop was closed")

        def write(file: ConfigFile, turn: object) -> None:
            if self._in_progress.get(file) is not turn:  # a stop came before and wrote it
                return
            error = durable.exception()
            if error is not None:
                sentence = "%s is not written, because the messages it refers to are not on the disk: %s"
                self._troubles.failed("progress", sentence, file.path, error, level=logging.ERROR)
                refusal = StoreNotWritable(f"{file.path} is not written: {error}")
                unwritten = self._writing[file] = ClaimedWork[StoreError | None](lambda: refusal)
                unwritten()
                self._progress_saved(file, turn)
                return
            self._save_in_thread(file, raw).add_done_callback(lambda done: in_order(done, self._progress_saved))

        def made(text: bytes) -> None:
            nonlocal durable, raw
            raw, durable = text, self._store.when_durable(self._store.max_physical_offset)
            if durable.done():
                write(file, turn)
            else:
                durable.add_done_callback(lambda done: in_order(done, write))

        if file is self._offsets_file:
            self._with_text(self._offsets.long_content(self._clock.now_ms()), made)
        else:
            made(self._schedule.content().encode())

    def _progress_saved(self, file: ConfigFile, turn: object) -> None:
        if self._in_progress.get(file) is not turn:
            return
        del self._in_progress[file]
        writing = self._writing.get(file)
        error = None if writing is None else writing.outcome.result()
        if error is not None:
            self._set_dirty(file)  # the next round writes it again
        callbacks: list[WhenSaved] = []
        if file is self._offsets_file:
            callbacks, self._callbacks = self._callbacks, []
        if file in self._again:
            self._again.discard(file)
            self._save_progress(file)
        for call in callbacks:
            call(error)

    def _has_progress(self, file: ConfigFile) -> bool:
        return self._offsets.is_dirty if file is self._offsets_file else self._schedule.is_dirty

    def _set_dirty(self, file: ConfigFile) -> None:
        if file is self._offsets_file:
            self._offsets.is_dirty = True
        else:
            self._schedule.is_dirty = True

    def _progress(self, file: ConfigFile) -> bytes:
        if file is self._offsets_file:
            return self._offsets.content(self._clock.now_ms()).encode()
        return self._schedule.content().encode()

    def _save_in_thread(self, file: ConfigFile, raw: bytes) -> Future[StoreError | None]:
        writing = self._writing[file] = submit_from_loop(self._writer, partial(self._save, file, raw))
        return writing.outcome

    def save_all(self) -> None:
        self.topics_changed()
        self.groups_changed()
        self.save_offsets()
        self.save_delay_offsets()

    def close(self, *, save: bool = True) -> None:
        """At the end: block until everything is on the disk (with ``save``), and end the threads."""
        self._making.cancel()
        for table in self._tables:
            table.close()
        for writing in self._writing.values():
            writing()  # unless the thread has begun
        self._writer.shutdown()
        if save:
            self._save_last_progress()

    def _save_last_progress(self) -> None:
        progress = [
            file
            for file in (self._offsets_file, self._delay_file)
            if self._has_progress(file) or file in self._in_progress
        ]
        self._in_progress.clear()
        self._again.clear()
        if any(file.path is not None for file in progress):
            try:
                self._store.when_durable(self._store.max_physical_offset).result()
            except StoreError as error:
                log.error("progress is not written, because the messages it refers to are not on the disk: %s", error)
                return
            for file in progress:
                self._save(file, self._progress(file))

    def _save(self, file: ConfigFile, raw: bytes) -> StoreError | None:
        """Write one file and return the error, if any: a full disk must prevent neither writes of other files nor a stop."""
        try:
            file.save(raw)
        except StoreError as error:
            self._troubles.failed(UNWRITTEN, UNWRITTEN, error, of=file.path or "", level=logging.ERROR)
            return error
        return None
