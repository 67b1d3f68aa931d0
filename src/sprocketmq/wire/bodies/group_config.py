"""Consumer groups of a broker: config/subscriptionGroup.json and codes 200, 201, 225 (Java: SubscriptionGroupConfig)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sprocketmq.wire import fastjson
from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.topic_config import DataVersion

__all__ = ["SubscriptionGroupConfig", "SubscriptionGroupList", "SubscriptionGroupWrapper"]


_USUAL_POLICY: Final = {"type": "CUSTOMIZED"}


class SubscriptionGroupConfig(Body):
    """One group on one broker."""

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
