"""The consumer groups a broker knows: whether they may consume, how often they retry (Java: SubscriptionGroupManager)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sprocketmq.broker.config import BrokerConfig
from sprocketmq.wire.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper

__all__ = ["GroupTable", "group_name_problem"]

# MixAll: groups that exist on every broker, auto-creation or not. The ONS ones may broadcast as every group may by default.
PREDEFINED: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
MAX_GROUP_LENGTH: Final = 255  # 5.x stops at 120, 4.9 clients may use 255
_FORBID_READ: Final = 1 << 2  # PermName.INDEX_PERM_READ
_VALID: Final = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch


def group_name_problem(group: str) -> str | None:
    """Why ``group`` is no group name, as one sentence; None when it is one."""
    if not group:
        return "the consumer group is blank, 1 to 255 characters of % | a-z A-Z 0-9 _ - are allowed"
    if len(group) > MAX_GROUP_LENGTH:
        return f"the consumer group is {len(group)} characters long, at most {MAX_GROUP_LENGTH} are allowed"
    if _VALID(group) is None:
        return f"the consumer group {group!r} has a character that is not allowed, use % | a-z A-Z 0-9 _ -"
    return None


class GroupTable:
    """Groups by name. ``on_change()`` is called after each change that must be written down."""

    def __init__(self, config: BrokerConfig, now_ms: int) -> None:
        self._config = config
        self.data_version = DataVersion(timestamp=now_ms)
        self.on_change: Callable[[], None] = lambda: None
        self.table: dict[str, SubscriptionGroupConfig] = {
            name: SubscriptionGroupConfig(group_name=name) for name in PREDEFINED
        }
        # group -> topic -> permission bits taken away, of which only "read" is used; empty nearly always
        self.forbidden: dict[str, dict[str, int]] = {}

    def load(self, content: SubscriptionGroupWrapper) -> None:
        """Take over what ``subscriptionGroup.json`` holds."""
        self.table.update(content.subscription_group_table)
        self.forbidden.update(content.forbidden_table)
        self.data_version = content.data_version

    def content(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            subscription_group_table=self.table, forbidden_table=self.forbidden, data_version=self.data_version
        )

    def __contains__(self, group: str) -> bool:
        return group in self.table

    def find(self, group: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """The group, made now where that is allowed and the name is one; else None. Java: findSubscriptionGroupConfig."""
        found = self.table.get(group)
        if found is not None:
            return found
        allowed = self._config.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)
        if not allowed or group_name_problem(group) is not None:
            return None
        made = SubscriptionGroupConfig(group_name=group)
        self.update(made, now_ms=now_ms)
        return made

    def update(self, *groups: SubscriptionGroupConfig, now_ms: int) -> None:
        """Create or replace; several count as one change."""
        self.table.update({group.group_name: group for group in groups})
        self._changed(now_ms)

    def delete(self, group: str, now_ms: int) -> bool:
        """Forget ``group`` and what it may not read; whether it was there."""
        self.forbidden.pop(group, None)
        if self.table.pop(group, None) is None:
            return False
        self._changed(now_ms)
        return True

    def may_read(self, group: str, topic: str) -> bool:
        """Whether no administrator has taken ``topic`` away from ``group``. Java: getForbidden."""
        return not self.forbidden.get(group, {}).get(topic, 0) & _FORBID_READ

    def set_readable(self, group: str, topic: str, readable: bool, now_ms: int) -> None:
        """Give ``topic`` back to ``group``, or take it away. Java: updateForbidden."""
        topics = self.forbidden.setdefault(group, {})
        bits = topics.get(topic, 0)
        bits = bits & ~_FORBID_READ if readable else bits | _FORBID_READ
        if bits:
            topics[topic] = bits
        else:
            topics.pop(topic, None)
        if not topics:
            del self.forbidden[group]
        self._changed(now_ms)

    def _changed(self, now_ms: int) -> None:
        self.data_version.next_version(now_ms)
        self.on_change()
