# SPDX-License-Identifier: Apache-2.0
"""Where groups are in topics: their progress, or where their members began whose first message is not done.

Java counts from a queue's end where a group has no progress (ConsumerLagCalculator.getConsumerLagStats), so a group that hangs on its first
message has no lag there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.wire.bodies import ConsumeFromWhere

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


def topics_not_begun(broker: Broker, group: str) -> Iterator[str]:
    """Topics with messages that online members of a group read, and in which it has no progress; without those of which only the members
    know where they began."""
    online = broker.consumers.get(group)
    if online is None or online.is_broadcasting:  # who broadcasts keeps its progress itself
        return
    for topic in list(online.subscriptions):
        is_known = broker.topics.get(topic) is not None and broker.store.queue_ids(topic)
        if is_known and not broker.offsets.has_progress(group, topic) and are_positions_known(broker, group, topic):
            yield topic


def are_positions_known(broker: Broker, group: str, topic: str) -> bool:
    return broker.offsets.has_progress(group, topic) or all(
        position(broker, group, topic, queue_id) >= 0 for queue_id in broker.store.queue_ids(topic)
    )


def position(broker: Broker, group: str, topic: str, queue_id: int) -> int:
    """The next offset that a group consumes in a queue; without progress where its members begin (Java: RebalancePushImpl), -1 if they
    began before the broker started, 0 if none of them reads the topic."""
    offsets = broker.offsets
    committed = offsets.query(group, topic, queue_id)
    online = broker.consumers.get(group)
    if committed >= 0 or online is None or topic not in online.subscriptions or offsets.has_progress(group, topic):
        return max(0, committed)
    first = broker.store.min_offset(topic, queue_id)
    if (
        is_retry_topic(topic)
        or online.consume_from_where == ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET.value
        or has_first_message(broker, topic, queue_id)
    ):
        return first
    # From the newest message or a time on: only the first pull shows where that was.
    begun = offsets.begun_at(group, topic, queue_id)
    return max(first, begun) if begun >= 0 or first == broker.store.max_offset(topic, queue_id) else -1


def has_first_message(broker: Broker, topic: str, queue_id: int) -> bool:
    """Java's checkInMemByConsumeOffset: whether the message at offset 0 is in the newest part of the log (40 % of RAM)."""
    store = broker.store
    if store.min_offset(topic, queue_id) > 0:
        return False
    first = store.units(topic, queue_id, 0, 1)
    return (
        bool(first)
        and not first[0].queue_offset
        and store.max_physical_offset - first[0].physical_offset <= broker.memory_span_bytes
    )
