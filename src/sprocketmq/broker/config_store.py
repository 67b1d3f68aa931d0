"""The broker's tables on disk, in Apache's own files and dialect (Java: ConfigManager and its subclasses).

    STORE/config/topics.json            written after a change, before the change is announced
    STORE/config/subscriptionGroup.json written after a change
    STORE/config/consumerOffset.json    each 5 s if something was committed, and at the end
    STORE/config/delayOffset.json       each 10 s if something was delivered, and at the end

A kill loses at most the last interval of the two offset files: consumers and delay levels then go back a little and deliver again, which
at-least-once allows; they never skip. A broker in memory has no files and keeps nothing.
"""

from __future__ import annotations

import asyncio
import logging
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
        self._topics_dirty = self._groups_dirty = False
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
        """Write ``topics.json`` at the end of this turn of the loop: a heartbeat that makes ten retry topics costs one write."""
        if not self._topics_dirty:
            self._topics_dirty = True
            asyncio.get_running_loop().call_soon(self._save_topics)

    def groups_changed(self) -> None:
        if not self._groups_dirty:
            self._groups_dirty = True
            asyncio.get_running_loop().call_soon(self._save_groups)

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

    def _save_beside(self, file: ConfigFile, raw: bytes) -> None:
        self._writing[file] = self._writer.submit(self._save, file, raw)

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
        self._save_topics()
        self._save_groups()
        self.save_offsets(now_ms)
        self.save_delay_offsets()

    def _save_topics(self) -> None:
        self._topics_dirty = False
        self._save(self._topics_file, self._topics.content().encode())

    def _save_groups(self) -> None:
        self._groups_dirty = False
        self._save(self._groups_file, self._groups.content().encode())

    @staticmethod
    def _save(file: ConfigFile, raw: bytes) -> None:
        try:
            file.save(raw)
        except StoreError as error:  # one full disk must not keep the other files from being written, nor stop a stop
            log.error("%s", error)
