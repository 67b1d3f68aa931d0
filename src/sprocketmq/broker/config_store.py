"""The broker's tables on disk, in Apache's own files and dialect (Java: ConfigManager and its subclasses).

    STORE/config/topics.json            written after a change, beside the loop
    STORE/config/subscriptionGroup.json the same
    STORE/config/consumerOffset.json    each 5 s if something was committed, and at the end
    STORE/config/delayOffset.json       each 10 s if something was delivered, and at the end

Both of the first two are written whole, as Apache writes them. So one write takes all changes that came while the one before it was under
way, and whoever was told of a change is told after its write (:meth:`ConfigStore.when_saved`): what was acknowledged survives a kill.

A kill loses at most the last interval of the two offset files: consumers and delay levels then go back a little and deliver again, which
at-least-once allows; they never skip. A broker in memory has no files and keeps nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from sprocketmq.errors import StoreError
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.wire.bodies import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)

if TYPE_CHECKING:
    from sprocketmq.broker.groups import GroupTable
    from sprocketmq.broker.offsets import OffsetTable
    from sprocketmq.broker.schedule import Schedule
    from sprocketmq.broker.topics import TopicTable

__all__ = ["ConfigStore"]

log = logging.getLogger("sprocketmq.broker")


class ConfigStore:
    """Loads the four tables at the start and writes them when they changed."""

    def __init__(
        self, root: Path | None, topics: TopicTable, groups: GroupTable, offsets: OffsetTable, schedule: Schedule
    ) -> None:
        self._topics, self._groups, self._offsets, self._schedule = topics, groups, offsets, schedule

        def file(name: str) -> ConfigFile:
            return ConfigFile(None if root is None else root / "config" / name)

        self._topics_file, self._groups_file = file("topics.json"), file("subscriptionGroup.json")
        self._offsets_file, self._delay_file = file("consumerOffset.json"), file("delayOffset.json")
        self._changed: set[ConfigFile] = set()  # of topics and groups: those whose changes no write has begun with
        self._settling: set[ConfigFile] = set()  # those that a write is under way for
        self._waiting: dict[ConfigFile, list[Callable[[], None]]] = {}  # for the write that begins next
        self._told: dict[ConfigFile, list[Callable[[], None]]] = {}  # for the one that is under way
        # Its thread begins with the first use.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="sprocketmq-offsets")
        self._writing: dict[ConfigFile, Future[None]] = {}

    def load(self) -> None:
        """Read what is there; a missing file leaves its table as it is.

        Raises:
            StoreCorrupt: a file and its spare copy are both unreadable.
        """
        topics = self._topics_file.load(TopicConfigSerializeWrapper.decode)
        if topics is not None:
            self._topics.load(topics)
        groups = self._groups_file.load(SubscriptionGroupWrapper.decode)
        if groups is not None:
            self._groups.load(groups)
        offsets = self._offsets_file.load(ConsumerOffsetSerializeWrapper.decode)
        if offsets is not None:
            self._offsets.load(offsets)
        delay = self._delay_file.load(DelayOffsetSerializeWrapper.decode)
        if delay is not None:
            self._schedule.load(delay)

    def topics_changed(self) -> None:
        """Write ``topics.json`` soon: a heartbeat that makes ten retry topics costs one write, and so do ten administrators at once."""
        self._file_changed(self._topics_file)

    def groups_changed(self) -> None:
        """The same for ``subscriptionGroup.json``."""
        self._file_changed(self._groups_file)

    def when_saved(self, call: Callable[[], None]) -> None:
        """Call it once all changes of topics and groups until now are on the disk (or could not be written, which the log says): at once
        when there are none, never when the broker is closed before."""
        files = [file for file in (self._topics_file, self._groups_file) if file in self._changed | self._settling]
        left = len(files)
        if not files:
            call()

        def one_is_saved() -> None:
            nonlocal left
            left -= 1
            if not left:
                call()

        for file in files:
            waiting = self._waiting if file in self._changed else self._told
            waiting.setdefault(file, []).append(one_is_saved)

    def _file_changed(self, file: ConfigFile) -> None:
        if file.path is None:
            return
        if not self._changed and not self._settling:
            asyncio.get_running_loop().call_soon(self._begin_writes)
        self._changed.add(file)

    def _begin_writes(self) -> None:
        """At the end of a turn, or of a write."""
        loop = asyncio.get_running_loop()
        for file in sorted(self._changed - self._settling, key=lambda file: file is self._groups_file):
            self._changed.discard(file)
            self._settling.add(file)
            self._told[file] = self._waiting.pop(file, [])
            table = self._topics if file is self._topics_file else self._groups
            writing = self._save_beside(file, table.content().encode())
            writing.add_done_callback(lambda _, file=file: loop.call_soon_threadsafe(self._write_ended, file))  # type: ignore[misc]

    def _write_ended(self, file: ConfigFile) -> None:
        self._settling.discard(file)
        told = self._told.pop(file)
        if self._changed:
            self._begin_writes()
        for call in told:
            call()

    def save_offsets(self, now_ms: int) -> None:
        """Write ``consumerOffset.json`` if something was committed; on the disk when this returns."""
        self._finish_writing()
        if self._offsets.is_dirty:
            self._save(self._offsets_file, self._offsets.content(now_ms).encode())

    def save_offsets_beside(self, now_ms: int) -> None:
        """The same in a thread: each few seconds a busy disk would hold the loop, and with it every send, for as long as it takes.

        While one file is being written the next round waits for its turn: an older text must never follow a newer one.
        """
        writing = self._writing.get(self._offsets_file)
        if writing is not None and not writing.done():
            return
        if self._offsets.is_dirty and self._offsets_file.path is not None:
            self._save_beside(self._offsets_file, self._offsets.content(now_ms).encode())

    def close(self) -> None:
        """Let the thread end; to be called after the last save."""
        self._finish_writing()
        self._writer.shutdown()

    def _finish_writing(self) -> None:
        for writing in self._writing.values():
            writing.result()
        self._writing.clear()

    def _save_beside(self, file: ConfigFile, raw: bytes) -> Future[None]:
        writing = self._writing[file] = self._writer.submit(self._save, file, raw)
        return writing

    def save_delay_offsets(self) -> None:
        """Write ``delayOffset.json`` if something was delivered, once the copies it speaks of are on the disk; maybe at once."""
        self._finish_writing()
        if self._schedule.is_dirty:
            self._schedule.when_durable(lambda content: self._save(self._delay_file, content))

    def save_delay_offsets_beside(self) -> None:
        """The same in the thread: what is due must not wait for the disk. One thread, so an older text never follows a newer one."""
        if self._schedule.is_dirty and self._delay_file.path is not None:
            self._schedule.when_durable(lambda content: self._save_beside(self._delay_file, content))

    def save_all(self, now_ms: int) -> None:
        """At the start and at the end."""
        self._finish_writing()
        self._changed.clear()
        self._save(self._topics_file, self._topics.content().encode())
        self._save(self._groups_file, self._groups.content().encode())
        self.save_offsets(now_ms)
        self.save_delay_offsets()

    @staticmethod
    def _save(file: ConfigFile, raw: bytes) -> None:
        try:
            file.save(raw)
        except StoreError as error:  # one full disk must not keep the other files from being written, nor stop a stop
            log.error("%s", error)
