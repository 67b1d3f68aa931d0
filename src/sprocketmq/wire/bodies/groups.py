# SPDX-License-Identifier: Apache-2.0
"""Consumer groups of a broker: settings (config/subscriptionGroup.json, codes 200, 201, 225; Java: SubscriptionGroupConfig) and filters
(config/consumerFilter.json; Java: ConsumerFilterManager, ConsumerFilterData, BloomFilterData)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.text import fastjson

_USUAL_POLICY: Final = {"type": "CUSTOMIZED"}


class SubscriptionGroupConfig(Body):
    """The settings of one group on one broker.

    Attributes:
        consume_enable: whether the group may pull at all.
        consume_from_min_enable: whether it may begin at the oldest message.
        consume_broadcast_enable: whether its members may broadcast.
        consume_message_orderly: whether it consumes in order (5.x).
        retry_queue_nums: queues of its retry topic on each broker.
        retry_max_times: number of retries before the dead-letter topic, unless the consumer sets a number itself.
        group_retry_policy: the delays of retries (5.x), as in ``{"type": "EXPONENTIAL", "exponentialRetryPolicy": {...}}``; the default
            CUSTOMIZED means the delay levels.
        broker_id: the broker of a set from which it reads; 0 is the master.
        which_broker_when_consume_slowly: the broker from which it reads old messages that are on the disk.
        notify_consumer_ids_changed_enable: whether members are notified when others join or leave.
        group_sys_flag: bits, as the broker's tools set them.
        consume_timeout_minute: how many minutes a consumer that pops may keep a message (5.x).
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
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, int]] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)

    def encode(self) -> bytes:
        if any(group.group_retry_policy != _USUAL_POLICY for group in self.subscription_group_table.values()):
            return super().encode()  # a policy may hold any JSON
        return fastjson.dumps_sorted(self)


class SubscriptionGroupList(Body):
    group_config_list: list[SubscriptionGroupConfig]


class BloomFilterData(Body):
    """The bits for the group in a message's bit map. They are stored but not used: Apache reads a file without them as an empty one."""

    bit_num: int = 0
    bit_pos: list[int] | None = None


class ConsumerFilterData(Body):
    """The filter of one group in one topic, made from version ``client_version`` of its subscription. It is dead since ``dead_time``
    (ms), unless that is before ``born_time``."""

    consumer_group: str
    topic: str
    expression: str | None = None
    expression_type: str | None = None
    born_time: int = 0
    dead_time: int = 0
    client_version: int = 0
    bloom_filter_data: BloomFilterData | None = None


class FilterDataMapByTopic(Body):
    topic: str
    group_filter_data: dict[str, ConsumerFilterData] = {}


class ConsumerFilterWrapper(Body):
    filter_data_by_topic: dict[str, FilterDataMapByTopic] = {}
