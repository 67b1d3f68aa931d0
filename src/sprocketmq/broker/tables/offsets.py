# SPDX-License-Identifier: Apache-2.0
"""The progress of each group in each queue (Java: ConsumerOffsetManager).

1. An offset is the next message to consume. A queue from which nothing was consumed has no entry, which is different from an entry 0.
2. A client may commit a lower offset than before, because a consumer that was reset goes back.
3. ``is_dirty`` is set by each change and cleared by ``content``, so that an idle broker writes no file.
4. A reset offset is committed and pending until the next pull of the queue: queries return it, and commits are ignored, because members
   still work on what they pulled before. Pending resets are not in the file: after a restart members may commit over it.
5. There are at most ``max_offsets`` offsets (and pull offsets), because any client may commit. Existing entries may always be changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from sprocketmq.broker.chunked_work import LongTable
from sprocketmq.wire.bodies import ConsumerOffsetSerializeWrapper, ConsumerOffsetSnapshot, DataVersion

log = logging.getLogger("sprocketmq.broker")


class OffsetTable:
    """Committed offsets, and the pull offset of each group (``pull_offset``, from which tools show messages in flight)."""

    def __init__(self, max_offsets: int = 1_000_000) -> None:
        self.max_offsets = max_offsets
        # "topic@group" as in consumerOffset.json: neither name can hold an "@"
        self._committed: dict[str, dict[int, int]] = {}
        self._count = 0
        # Topics and groups of the keys, so that a query for one of them does not go through all keys.
        self._groups: dict[str, dict[str, None]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        self._pulled: dict[tuple[str, str, int], int] = {}
        # The first pull of queues whose member was told before that there is no progress; -1 until it pulls.
        self._begun: dict[tuple[str, str, int], int] = {}
        # (group, topic, queue id) -> offset, rule 4; nearly always empty, which a pull checks first
        self.resets: dict[tuple[str, str, int], int] = {}
        self.data_version = DataVersion()
        self.is_dirty = False

    def load(self, content: ConsumerOffsetSerializeWrapper) -> None:
        self._committed, self._groups, self._topics = {}, {}, {}
        for key, queues in content.offset_table.items():
            topic, _, group = key.rpartition("@")
            self._queues(topic, group).update(queues)
        self._count = sum(map(len, self._committed.values()))
        if content.data_version is not None:  # 4.9 writes none
            self.data_version = content.data_version

    def long_snapshot(self) -> LongTable:
        """The answer to GET_ALL_CONSUMER_OFFSET: the file's content, and the topics by group."""
        version = msgspec.structs.replace(self.data_version)
        topics = {group: list(topics) for group, topics in self._topics.items()}
        return self._long(ConsumerOffsetSnapshot(data_version=version, group_topic_map=topics))

    def long_content(self, now_ms: int) -> LongTable:
        version = self.content(now_ms).data_version
        assert version is not None
        return self._long(ConsumerOffsetSerializeWrapper(data_version=msgspec.structs.replace(version)))

    def _long(self, empty: ConsumerOffsetSerializeWrapper) -> LongTable:
        return LongTable("offsetTable", self._committed, lambda rows: msgspec.structs.replace(empty, offset_table=rows))

    def content(self, now_ms: int) -> ConsumerOffsetSerializeWrapper:
        self.is_dirty = False
        self.data_version.next_version(now_ms)
        return ConsumerOffsetSerializeWrapper(offset_table=self._committed, data_version=self.data_version)

    def __len__(self) -> int:
        return self._count

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Commit an offset. Returns whether it was accepted (rule 5)."""
        queues = self._committed.get(f"{topic}@{group}")
        before = None if queues is None else queues.get(queue_id)
        if before is None:
            if self._count >= self.max_offsets:
                return False
            self._count += 1
            queues = self._queues(topic, group)
        elif offset < before:
            log.info("group %s went back from %d to %d on %s queue %d", group, before, offset, topic, queue_id)
        if offset != before:
            assert queues is not None
            queues[queue_id] = offset
            self.is_dirty = True
        return True

    def _queues(self, topic: str, group: str) -> dict[int, int]:
        key = f"{topic}@{group}"
        queues = self._committed.get(key)
        if queues is None:
            queues = self._committed[key] = {}
            self._groups.setdefault(topic, {})[group] = None
            self._topics.setdefault(group, {})[topic] = None
        return queues

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The pending reset offset, else the committed one; -1 if there is none."""
        if self.resets and (reset := self.resets.get((group, topic, queue_id))) is not None:
            return reset
        queues = self._committed.get(f"{topic}@{group}")
        return -1 if queues is None else queues.get(queue_id, -1)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move the group: the offset is committed now, and pending until the next pull of the queue (rule 4). Java: assignResetOffset."""
        self.commit(group, topic, queue_id, offset)
        self.resets[group, topic, queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return (group, topic, queue_id) in self.resets

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        return self.resets.pop((group, topic, queue_id), None)

    def note_no_progress(self, group: str, topic: str, queue_id: int) -> None:
        """A member is told that a queue has no progress. If nobody has pulled it, its next pull is where the group begins."""
        key = (group, topic, queue_id)
        if key not in self._pulled and len(self._begun) < self.max_offsets:
            self._begun[key] = -1

    def note_pull(self, group: str, topic: str, queue_id: int, begin: int, end: int) -> None:
        key = (group, topic, queue_id)
        if key not in self._pulled:
            if len(self._pulled) >= self.max_offsets:
                return
            if key in self._begun:
                self._begun[key] = begin
        self._pulled[key] = end

    def begun_at(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group began in a queue without progress; -1 if that was before the broker started."""
        return self._begun.get((group, topic, queue_id), -1)

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """The offset of the group's newest pull; the committed offset if it never pulled."""
        pulled = self._pulled.get((group, topic, queue_id), -1)
        return pulled if pulled >= 0 else self.query(group, topic, queue_id)

    def has_progress(self, group: str, topic: str) -> bool:
        return group in self._groups.get(topic, ())

    def topics_of(self, group: str) -> list[str]:
        return list(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        return list(self._groups.get(topic, ()))

    def offsets_of(self, group: str, topic: str) -> dict[int, int]:
        return dict(self._committed.get(f"{topic}@{group}", {}))

    def clamp(self, end_of: Callable[[str, int], int]) -> list[tuple[str, str, int, int, int]]:
        """Move offsets beyond the end of their queue to that end; returns (group, topic, queue id, before, end) of each."""
        moved = []
        for key, queues in self._committed.items():
            topic, _, group = key.rpartition("@")
            for queue_id, offset in queues.items():
                end = end_of(topic, queue_id)
                if offset > end:
                    moved.append((group, topic, queue_id, offset, end))
        for group, topic, queue_id, _, end in moved:
            self.commit(group, topic, queue_id, end)
        return moved

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give ``target`` the offsets of ``source`` in ``topic``, whatever it has committed. Java: cloneOffset."""
        offsets = self._committed.get(f"{topic}@{source}")
        if offsets is None:
            return
        known = self._committed.get(f"{topic}@{target}", {})
        if self._count + len(offsets) - len(known) > self.max_offsets:
            return
        self._count += len(offsets) - len(known)
        self._queues(topic, target)
        self._committed[f"{topic}@{target}"] = dict(offsets)
        self.is_dirty = True

    def lowest(self, topic: str, without: Iterable[str], first_kept: Callable[[int], int]) -> dict[int, int]:
        """The lowest offset of all groups except ``without``, by queue id; offsets before ``first_kept(queue_id)`` do not count."""
        left_out, found = set(without), dict[int, int]()
        for group in self.groups_of(topic):
            if group in left_out:
                continue
            for queue_id, offset in self._committed[f"{topic}@{group}"].items():
                if offset >= first_kept(queue_id):
                    found[queue_id] = min(offset, found.get(queue_id, offset))
        return found

    def forget_topic(self, topic: str) -> None:
        """Remove the offsets in a deleted topic: a new topic of the same name starts at 0, and so must its groups."""
        for group in self.groups_of(topic):
            self._forget(topic, group)
        self._forget_pulls(1, topic)

    def forget_group(self, group: str) -> None:
        for topic in self.topics_of(group):
            self._forget(topic, group)
        self._forget_pulls(0, group)

    def _forget_pulls(self, place: int, name: str) -> None:
        self._pulled, self._begun, self.resets = (
            {key: offset for key, offset in table.items() if key[place] != name}
            for table in (self._pulled, self._begun, self.resets)
        )

    def _forget(self, topic: str, group: str) -> None:
        self._count -= len(self._committed.pop(f"{topic}@{group}"))
        for table, name, other in ((self._groups, topic, group), (self._topics, group, topic)):
            del table[name][other]
            if not table[name]:
                del table[name]
        self.is_dirty = True
