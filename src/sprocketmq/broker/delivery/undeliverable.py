# SPDX-License-Identifier: Apache-2.0
"""Waiting messages that can never be delivered are set aside, so that the messages after them are delivered.

A message is refused for good if its topic's name is invalid, its topic was deleted, or its properties or record are too long: it is
stored in queue 0 of rmq_sys_UNDELIVERABLE, with UNDELIVERABLE_REASON if it fits. A temporary refusal (no space, a failed disk) is tried
again. If only the files of one topic cannot be created, its messages wait a minute and are set aside after that. Such messages come from
an older version, an Apache broker, or other settings. (Apache drops such a timer message, retries such a delayed one forever, and stores
one for a deleted topic in a queue that nobody can read.)
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sprocketmq.broker.delivery.waiting_records import destination
from sprocketmq.broker.tables.topics import DELIVERY_FORBIDDEN
from sprocketmq.core.resource_names import UNDELIVERABLE_TOPIC
from sprocketmq.errors import ConfigurationError, StoreNotWritable
from sprocketmq.store import AppendResult, StoredMessage
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

REASON: Final = "UNDELIVERABLE_REASON"
_HELD_MS: Final = 60_000  # long enough to repair the cause, short enough for the messages behind
# Errors of one path. No space, no descriptors and a failing disk concern all queues; then the store refuses the set-aside, too.
_OF_ONE_PATH: Final = {
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
# Properties that the broker adds to a waiting message. Without these it is as it was stored, and fits.
_ADDED: Final = (
    props.TIMER_ENQUEUE_MS,
    props.TIMER_DEQUEUE_MS,
    props.TIMER_ROLL_TIMES,
    props.TRANSACTION_CHECK_TIMES,
    props.TRAN_PREPARED_QUEUE_OFFSET,
)


class Undeliverable:
    """``deliver``, ``wait_on`` and ``put`` raise StoreNotWritable: nothing was written, try again later."""

    def __init__(self, broker: Broker) -> None:
        self._broker, self._clock, self._store, self._topics = broker, broker.clock, broker.store, broker.topics
        # Queues whose files cannot be created: since when, by the steady clock, and their end at that time.
        self._refused_since: dict[tuple[str, int], tuple[int, int]] = {}
        self.counts: Counter[str] = Counter()  # topic that the message was for -> how many, since the start

    def deliver(self, message: StoredMessage, now_ms: int) -> None:
        """Store a due message in its real topic, or set it aside; also if it would only wait again, without end."""
        if message.topic in DELIVERY_FORBIDDEN:
            self._set_aside(message, f"{message.topic} is a topic of the broker's own", now_ms)
        elif self._is_deleted(message.topic):
            # Its queue would exist again, and the next start would treat it as a topic whose configuration was lost.
            self._set_aside(message, f"topic {message.topic} was deleted", now_ms)
        elif self.put(message, now_ms) is not None and self._topics.get(message.topic) is None:
            # A send created the topic and was acknowledged, and a kill came before ``topics.json`` was written.
            self._topics.adopt([(message.topic, message.queue_id)], now_ms)

    def wait_on(self, message: StoredMessage, now_ms: int) -> None:
        """Set aside if its topic was deleted: a deletion is remembered only as long as the log has the records from before."""
        topic, queue_id = destination(message.properties)
        if self._is_deleted(topic):
            self._set_aside(replace(message, topic=topic, queue_id=queue_id), f"topic {topic} was deleted", now_ms)
        else:
            self.put(message, now_ms)

    def _is_deleted(self, topic: str) -> bool:
        return topic in self._topics.deleted and self._topics.get(topic) is None

    def put(self, message: StoredMessage, now_ms: int) -> AppendResult | None:
        """Store a message to wait again or to be consumed. None: it was refused for good and is set aside."""
        try:
            place = self._broker.put(message, now_ms, is_new=False)
        except (ConfigurationError, StoreNotWritable) as error:
            if isinstance(error, StoreNotWritable) and not self._is_held_long(message, error):
                raise
            self._set_aside(message, str(error), now_ms)
            return None
        if self._refused_since:
            self._refused_since.pop((message.topic, message.queue_id), None)
        return place

    def _is_held_long(self, message: StoredMessage, error: StoreNotWritable) -> bool:
        if not (isinstance(error.__cause__, OSError) and error.__cause__.errno in _OF_ONE_PATH):
            return False
        if message.topic in DELIVERY_FORBIDDEN:
            return False  # it does not block other topics, and a message that is set aside is given up
        queue, now_ms = (message.topic, message.queue_id), self._clock.steady_ms()
        end = self._store.max_offset(*queue)
        since_ms, end_then = self._refused_since.get(queue, (now_ms, -1))
        if end != end_then:  # refused for the first time, or the queue has stored a message since
            since_ms = now_ms
        self._refused_since[queue] = since_ms, end
        return now_ms - since_ms >= _HELD_MS

    def _set_aside(self, message: StoredMessage, reason: str, now_ms: int) -> None:
        raw, topic = message.properties, message.topic
        for name in _ADDED:
            if len(raw) > props.MAX_PROPERTIES_BYTES:
                raw = props.remove_property(raw, name)
        if props.get_property(raw, props.REAL_TOPIC) is None:  # a committed message does not have it
            raw = props.set_property(raw, props.REAL_TOPIC, topic)
        with_reason = props.set_property(raw, REASON, reason[:200].replace("\x01", " ").replace("\x02", " "))
        if len(with_reason) <= props.MAX_PROPERTIES_BYTES:
            raw = with_reason
        self._topics.create_if_absent(UNDELIVERABLE_TOPIC, 1, now_ms)
        aside = replace(message, topic=UNDELIVERABLE_TOPIC, queue_id=0, properties=raw)
        key = props.get_property(raw, props.UNIQ_KEY)
        try:
            place = self._broker.put(aside, now_ms, is_new=False)
        except ConfigurationError as error:  # its record does not fit into a file of this log
            sentence = "the waiting message %r for topic %r is dropped: %s; to set it aside: %s"
            self._broker.troubles.failed("dropped", sentence, key, topic, reason, error, of=topic, level=logging.ERROR)
        else:
            self._broker.troubles.failed(
                "set aside",
                "the waiting message %r for topic %r cannot be delivered and is set aside in %s at offset %d: %s",
                key,
                topic,
                UNDELIVERABLE_TOPIC,
                place.queue_offset,
                reason,
                of=topic,
                level=logging.ERROR,
            )
        self.counts[topic] += 1
