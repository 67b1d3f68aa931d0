"""Consumer groups of a broker: settings (config/subscriptionGroup.json, codes 200, 201, 225; Java: SubscriptionGroupConfig) and filters
(config/consumerFilter.json; Java: ConsumerFilterManager, ConsumerFilterData, BloomFilterData)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.text import fastjson

__all__ = [
    "BloomFilterData",
    "ConsumerFilterData",
    "ConsumerFilterWrapper",
    "FilterDataMapByTopic",
    "SubscriptionGroupConfig",
    "SubscriptionGroupList",
    "SubscriptionGroupWrapper",
]


_USUAL_POLICY: Final = {"type": "CUSTOMIZED"}


class SubscriptionGroupConfig(Body):
    """One group on one broker.

    Attributes:
        group_name: its name.
        consume_enable: whether the group may pull at all.
        consume_from_min_enable: whether it may begin at the oldest message.
        consume_broadcast_enable: whether its members may broadcast.
        consume_message_orderly: says that it consumes in order (5.x).
        retry_queue_nums: queues of its retry topic on each broker.
        retry_max_times: tries after the first before the dead-letter topic, unless the consumer says a number itself.
        group_retry_policy: how long retries wait (5.x), as in ``{"type": "EXPONENTIAL", "exponentialRetryPolicy": {...}}``; CUSTOMIZED by
            default, the delay levels.
        broker_id: which broker of a set it reads from; 0 is the master.
        which_broker_when_consume_slowly: which one it is sent to when it reads old messages from disk.
        notify_consumer_ids_changed_enable: whether members are told that others came or left.
        group_sys_flag: bits, as the broker's tools set them.
        consume_timeout_minute: minutes that a message may be with a consumer that pops (5.x).
        attributes: attributes of the group (5.x).
    """

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    attributes: dict[str, str] = {}


class SubscriptionGroupWrapper(Body):
    """All groups of a broker."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, int]] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)

    def encode(self) -> bytes:
        if any(group.group_retry_policy != _USUAL_POLICY for group in self.subscription_group_table.values()):
            return super().encode()  # a policy may hold anything
        return fastjson.dumps_sorted(self)


class SubscriptionGroupList(Body):
    """Code 225."""

    group_config_list: list[SubscriptionGroupConfig]


class BloomFilterData(Body):
    """Which bits of a message's bit map stand for the group. Kept, not used: Apache reads a file without them as an empty one."""

    bit_num: int = 0
    bit_pos: list[int] | None = None


class ConsumerFilterData(Body):
    """The filter of one group in one topic. Dead since ``dead_time`` (ms) when that is not before ``born_time``.

    ``client_version``: the version of the subscription it was made from.
    """

    consumer_group: str
    topic: str
    expression: str | None = None
    expression_type: str | None = None
    born_time: int = 0
    dead_time: int = 0
    client_version: int = 0
    bloom_filter_data: BloomFilterData | None = None


class FilterDataMapByTopic(Body):
    """The filters of a topic, by group."""

    topic: str
    group_filter_data: dict[str, ConsumerFilterData] = {}


class ConsumerFilterWrapper(Body):
    """consumerFilter.json: the filters by topic."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic] = {}
