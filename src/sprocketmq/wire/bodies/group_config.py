"""Consumer groups of a broker: config/subscriptionGroup.json and codes 200, 201, 225 (Java: SubscriptionGroupConfig)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.text import fastjson

__all__ = ["SubscriptionGroupConfig", "SubscriptionGroupList", "SubscriptionGroupWrapper"]


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
