"""How far each group has consumed each queue (Java: ConsumerOffsetManager).

Laws
1. An offset is the next message to consume, so "nothing consumed" and 0 are told apart by the entry being there or not.
2. What a client commits counts, also when it is lower than before: a consumer that was reset goes back.
3. ``is_dirty`` is set by each change and cleared by ``content``, so that an idle broker writes no file.
4. A reset offset is both committed and pending. While it is pending, it is what a query answers, and what the group commits is ignored:
   its members still work on what they pulled before. The next pull of the queue takes it, and the group is where it was put.
   Pending resets are not in the file: after a restart the committed half of them counts, and members commit over it as over any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from sprocketmq.wire.bodies import ConsumerOffsetSerializeWrapper, ConsumerOffsetSnapshot, DataVersion

__all__ = ["OffsetTable"]

log = logging.getLogger("sprocketmq.broker")


class OffsetTable:
    """Committed offsets, and next to them how far each group has asked (``pull_offset``, what a tool shows as in flight)."""

    def __init__(self) -> None:
        # "topic@group" as in consumerOffset.json: neither name can hold an "@"
        self._committed: dict[str, dict[int, int]] = {}
        self._pulled: dict[tuple[str, str, int], int] = {}
        # (group, topic, queue id) -> offset, law 4; empty nearly always, which is all that a pull looks at
        self.resets: dict[tuple[str, str, int], int] = {}
        self.data_version = DataVersion()
        self.is_dirty = False

    def load(self, content: ConsumerOffsetSerializeWrapper) -> None:
        """Take over what ``consumerOffset.json`` holds."""
        self._committed = content.offset_table
        if content.data_version is not None:  # 4.9 writes none
            self.data_version = content.data_version

    def snapshot(self) -> ConsumerOffsetSnapshot:
        """What GET_ALL_CONSUMER_OFFSET answers: the file's content, and the topics by group."""
        topics: dict[str, list[str]] = {}
        for key in self._committed:
            topic, _, group = key.rpartition("@")
            topics.setdefault(group, []).append(topic)
        return ConsumerOffsetSnapshot(
            offset_table=self._committed, data_version=self.data_version, group_topic_map=topics
        )

    def content(self, now_ms: int) -> ConsumerOffsetSerializeWrapper:
        self.is_dirty = False
        self.data_version.next_version(now_ms)
        return ConsumerOffsetSerializeWrapper(offset_table=self._committed, data_version=self.data_version)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        queues = self._committed.get(f"{topic}@{group}")
        if queues is None:
            queues = self._committed[f"{topic}@{group}"] = {}
        before = queues.get(queue_id)
        if before is not None and offset < before:
            log.info("group %s went back from %d to %d on %s queue %d", group, before, offset, topic, queue_id)
        if offset != before:
            queues[queue_id] = offset
            self.is_dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The pending reset offset, else the committed one, -1 when there is none."""
        if self.resets and (reset := self.resets.get((group, topic, queue_id))) is not None:
            return reset
        queues = self._committed.get(f"{topic}@{group}")
        return -1 if queues is None else queues.get(queue_id, -1)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move the group: committed now, and pending until its next pull of the queue (law 4). Java: assignResetOffset."""
        self.commit(group, topic, queue_id, offset)
        self.resets[group, topic, queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return (group, topic, queue_id) in self.resets

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The pending offset, which is pending no longer."""
        return self.resets.pop((group, topic, queue_id), None)

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._pulled[group, topic, queue_id] = offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group's newest pull began; the committed offset when it never pulled."""
        pulled = self._pulled.get((group, topic, queue_id), -1)
        return pulled if pulled >= 0 else self.query(group, topic, queue_id)

    def topics_of(self, group: str) -> list[str]:
        """Topics that the group has an offset for."""
        return [topic for topic, _, owner in (key.rpartition("@") for key in self._committed) if owner == group]

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have an offset for the topic."""
        return [group for name, _, group in (key.rpartition("@") for key in self._committed) if name == topic]

    def offsets_of(self, group: str, topic: str) -> dict[int, int]:
        """Committed offsets by queue id; empty when the group has none for the topic."""
        return dict(self._committed.get(f"{topic}@{group}", {}))

    def clone(self, source: str, target: str, topic: str) -> None:
        """``target`` stands where ``source`` stands in ``topic``, whatever it had committed. Java: cloneOffset."""
        offsets = self._committed.get(f"{topic}@{source}")
        if offsets is not None:
            self._committed[f"{topic}@{target}"] = dict(offsets)
            self.is_dirty = True

    def lowest(self, topic: str, without: Iterable[str], first_kept: Callable[[int], int]) -> dict[int, int]:
        """By queue id, the lowest offset of all groups but ``without``; offsets before ``first_kept(queue_id)`` do not count."""
        left_out, found = set(without), dict[int, int]()
        for group in self.groups_of(topic):
            if group in left_out:
                continue
            for queue_id, offset in self._committed[f"{topic}@{group}"].items():
                if offset >= first_kept(queue_id):
                    found[queue_id] = min(offset, found.get(queue_id, offset))
        return found

    def forget_topic(self, topic: str) -> None:
        """A deleted topic: a new one of the same name starts at 0, and so must its groups."""
        self._forget([key for key in self._committed if key.rpartition("@")[0] == topic])
        self._pulled = {key: offset for key, offset in self._pulled.items() if key[1] != topic}
        self.resets = {key: offset for key, offset in self.resets.items() if key[1] != topic}

    def forget_group(self, group: str) -> None:
        self._forget([key for key in self._committed if key.rpartition("@")[2] == group])
        self._pulled = {key: offset for key, offset in self._pulled.items() if key[0] != group}
        self.resets = {key: offset for key, offset in self.resets.items() if key[0] != group}

    def _forget(self, keys: list[str]) -> None:
        for key in keys:
            del self._committed[key]
            self.is_dirty = True
