# SPDX-License-Identifier: Apache-2.0
"""The topics of one broker (Java: TopicConfigManager): created by an administrator, by a send that names a default topic which may be
inherited (TBW102), or by the broker itself for retry and dead letter. A change increments the data version, is written and registered."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.broker.chunked_work import LongTable
from sprocketmq.broker.security.name_checks import usable
from sprocketmq.core.produce.route_table import PERM_INHERIT, PERM_READ_WRITE
from sprocketmq.core.resource_names import (
    DEFAULT_TOPIC,
    HALF_TOPIC,
    NOT_ALLOWED_SEND_TOPICS,
    OFFSET_MOVED_EVENT,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    UNDELIVERABLE_TOPIC,
    is_retry_topic,
    reply_topic,
)
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.wire.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

SEND_FORBIDDEN: Final = NOT_ALLOWED_SEND_TOPICS | {UNDELIVERABLE_TOPIC}
# Waiting messages are not delivered to these: they would wait there again, or be in a topic to which no client may send.
DELIVERY_FORBIDDEN: Final = SEND_FORBIDDEN | {TIMER_TOPIC}
_SCHEDULE_QUEUES: Final = 18


class TopicTable:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.data_version = DataVersion(timestamp=broker.start_ms)
        self.table: dict[str, TopicConfig] = {}
        self.deleted: dict[str, int] = {}
        self._has_deletions_on_disk = False
        self._create_system_topics()

    def load(self, content: TopicConfigSerializeWrapper) -> None:
        """A system topic keeps its saved settings."""
        self.table.update(usable("topics.json", content.topic_config_table))
        self.data_version = content.data_version

    def content(self) -> TopicConfigSerializeWrapper:
        return TopicConfigSerializeWrapper(topic_config_table=self.table, data_version=self.data_version)

    def long_content(self) -> LongTable:
        """:meth:`content`, as it is when its steps come to each topic."""
        empty = TopicConfigSerializeWrapper(data_version=msgspec.structs.replace(self.data_version))
        return LongTable(
            "topicConfigTable", self.table, lambda rows: msgspec.structs.replace(empty, topic_config_table=rows)
        )

    def get(self, topic: str) -> TopicConfig | None:
        return self.table.get(topic)

    def is_system(self, topic: str) -> bool:
        own = (self._broker.config.broker_name, self._broker.config.broker_cluster_name, self.reply_topic)
        return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX) or topic in own

    @property
    def reply_topic(self) -> str:
        return reply_topic(self._broker.config.broker_cluster_name)

    def create_in_send(self, topic: str, default_topic: str, queue_nums: int, now_ms: int) -> TopicConfig | None:
        """Create a topic for a send, with the settings of ``default_topic``; None if that may not be inherited, or there are too many. A
        retry topic is created anyway, with one queue. Java: createTopicInSendMessageMethod."""
        if len(self.table) >= self._broker.config.max_topics:
            return None
        model = self.table.get(default_topic)
        allowed = model is not None and model.perm & PERM_INHERIT
        if default_topic == DEFAULT_TOPIC and not self._broker.config.auto_create_topic_enable:
            allowed = False
        if model is not None and allowed:
            queues = min(queue_nums, model.write_queue_nums)
            if queues > 0:  # Apache makes a topic of 0 queues, which every later send is refused for
                return self._add(topic, queues, model.perm & ~PERM_INHERIT, now_ms)
        if is_retry_topic(topic):
            return self.create_if_absent(topic, 1, now_ms)
        return None

    def deleted_content(self) -> bytes | None:
        """``deletedTopics.json``: the log's end at each deletion (ours). None: no such file, and nothing to write; an existing one is
        written also when it becomes empty."""
        return msgspec.json.encode(self.deleted) if self._has_deletions_on_disk else None

    def load_deletions(self, deleted: dict[str, int]) -> None:
        self.deleted, self._has_deletions_on_disk = deleted, True

    def forget_deletions(self, log_begin: int, log_end: int) -> None:
        """Forget deletions of topics of which the log has no record any more. If a power cut moved the log's end before a deletion, that
        deletion's end moves with it: new records are not from before it."""
        ends = {topic: min(end, log_end) for topic, end in self.deleted.items()}
        ends = {topic: end for topic, end in ends.items() if end > log_begin}
        if ends != self.deleted:
            self.deleted = ends
            self._broker.topics_changed()

    def adopt(self, queues: Iterable[tuple[str, int]], now_ms: int) -> None:
        """Add topics that have messages but no configuration, after a kill between the two, or if files were copied by hand."""
        missing: dict[str, int] = {}
        for topic, queue_id in queues:
            if topic not in self.table:
                missing[topic] = max(missing.get(topic, 0), queue_id + 1)
        for topic, queue_nums in missing.items():
            log.warning("topic %s has messages but no configuration: it gets %d queues", topic, queue_nums)
            self.create_if_absent(topic, queue_nums, now_ms)

    def create_if_absent(
        self, topic: str, queue_nums: int, now_ms: int, *, order: bool = False, sys_flag: int = 0
    ) -> TopicConfig:
        """The broker's own topics: retry and dead letter, readable and writable. Java: createTopicInSendMessageBackMethod."""
        found = self.table.get(topic)
        if found is None:
            return self._add(topic, queue_nums, PERM_READ_WRITE, now_ms, order=order, sys_flag=sys_flag)
        return found

    def room_problem(self, names: Collection[str]) -> str | None:
        new = sum(name not in self.table for name in names)
        if new and len(self.table) + new > self._broker.config.max_topics:
            allowed = self._broker.config.max_topics
            return f"with {new} more there would be {len(self.table) + new} topics, {allowed} are allowed; delete some, or raise maxTopics"
        return None

    def update(self, *topics: TopicConfig, now_ms: int) -> None:
        """Create or replace topics for an administrator; several count as one change."""
        for topic in topics:
            self._note_javas_deletion(topic.topic_name)
            self.table[topic.topic_name] = topic
        self._changed(now_ms)

    def announce(self, now_ms: int) -> None:
        """Note that the broker's own permission has changed, which is a part of registrations."""
        self._changed(now_ms)

    def system_topics(self) -> list[str]:
        """The broker's own topics, whether they exist or not (GET_SYSTEM_TOPIC_LIST_FROM_BROKER)."""
        own = {self._broker.config.broker_name, self._broker.config.broker_cluster_name, self.reply_topic}
        started = {topic for topic in self.table if topic.startswith(SYSTEM_TOPIC_PREFIX)}
        return sorted(SYSTEM_TOPICS | own | started)

    def mark_ordered(self, topics: Collection[str], now_ms: int) -> None:
        """Set which topics have an order configuration at name servers; others stay as they are. Java: updateOrderTopicConfig."""
        known = [topic for topic in map(self.table.get, topics) if topic is not None and not topic.order]
        for topic in known:
            self.table[topic.topic_name] = msgspec.structs.replace(topic, order=True)
        if known:
            self._changed(now_ms)

    def delete(self, topic: str, now_ms: int, log_end: int = 0) -> None:
        """Delete ``topic``, which may only have queues; all of its messages are before ``log_end`` in the log."""
        self.table.pop(topic, None)
        self.deleted[topic], self._has_deletions_on_disk = log_end, True
        self._changed(now_ms)

    def _add(
        self, topic: str, queue_nums: int, perm: int, now_ms: int, *, order: bool = False, sys_flag: int = 0
    ) -> TopicConfig:
        self._note_javas_deletion(topic)
        added = self.table[topic] = _topic(topic, queue_nums, perm, order=order, sys_flag=sys_flag)
        self._changed(now_ms)
        return added

    def _note_javas_deletion(self, topic: str) -> None:
        """Before a topic is created. A Java broker may have deleted one of its name, without a note: its messages must not come back. A
        queue of the new one may be there, of a send that a kill cut off. No record begins one byte before the end, and a deletion
        before the end does not keep a start from counting queues."""
        store = self._broker.store
        end = store.checkpoint.javas_end or 0
        if end <= store.min_physical_offset or topic in self.table:
            return
        firsts = [
            store.units(topic, queue_id, store.min_offset(topic, queue_id), 1) for queue_id in store.queue_ids(topic)
        ]
        if all(first and first[0].physical_offset >= end for first in firsts):
            self.deleted[topic], self._has_deletions_on_disk = max(end - 1, self.deleted.get(topic, 0)), True

    def _changed(self, now_ms: int) -> None:
        self.data_version.next_version(now_ms)
        self._broker.topics_changed()

    def _create_system_topics(self) -> None:
        """The topics of Java's TopicConfigManager.init whose mechanism exists here; more than one, because a 5.x name server refuses a
        first registration with one."""
        config, both = self._broker.config, PERM_READ_WRITE
        own = [
            _topic(SELF_TEST_TOPIC, 1, both),
            _topic("BenchmarkTest", 1024, both),
            _topic(config.broker_cluster_name, 16, PERM_INHERIT | (both if config.cluster_topic_enable else 0)),
            _topic(config.broker_name, 1, PERM_INHERIT | (both if config.broker_topic_enable else 0)),
            _topic(OFFSET_MOVED_EVENT, 1, both),
            _topic(SCHEDULE_TOPIC, _SCHEDULE_QUEUES, both),
            _topic(self.reply_topic, 1, both),
            _topic(HALF_TOPIC, 1, both),
            _topic(OP_TOPIC, 1, both),
        ]
        if config.auto_create_topic_enable:
            own.append(_topic(DEFAULT_TOPIC, config.default_topic_queue_nums, PERM_INHERIT | both))
        if config.timer_wheel_enable:
            own.append(_topic(TIMER_TOPIC, 1, both))
        if config.trace_topic_enable:
            own.append(_topic(config.msg_trace_topic_name, 1, both))
        self.table.update({topic.topic_name: topic for topic in own})


def _topic(name: str, queues: int, perm: int, *, order: bool = False, sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        order=order,
        topic_sys_flag=sys_flag,
    )
