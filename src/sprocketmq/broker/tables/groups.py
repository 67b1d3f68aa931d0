# SPDX-License-Identifier: Apache-2.0
"""The settings of a broker's consumer groups: whether they may consume, how often they retry (Java: SubscriptionGroupManager)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.broker.chunked_work import LongTable
from sprocketmq.broker.security.name_checks import usable
from sprocketmq.core.resource_names import PREDEFINED_GROUPS, SYSTEM_GROUP_PREFIX, group_name_problem
from sprocketmq.wire.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_FORBID_READ: Final = 1 << 2  # PermName.INDEX_PERM_READ


class GroupTable:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.data_version = DataVersion(timestamp=broker.start_ms)
        self.table: dict[str, SubscriptionGroupConfig] = {
            name: SubscriptionGroupConfig(group_name=name) for name in PREDEFINED_GROUPS
        }
        # group -> topic -> removed permission bits, of which only "read" is used; nearly always empty
        self.forbidden: dict[str, dict[str, int]] = {}

    def load(self, content: SubscriptionGroupWrapper) -> None:
        self.table.update(usable("subscriptionGroup.json", content.subscription_group_table))
        self.forbidden.update(usable("subscriptionGroup.json", content.forbidden_table))
        self.data_version = content.data_version

    def content(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            subscription_group_table=self.table, forbidden_table=self.forbidden, data_version=self.data_version
        )

    def long_content(self) -> LongTable:
        empty = SubscriptionGroupWrapper(
            forbidden_table={group: dict(topics) for group, topics in self.forbidden.items()},
            data_version=msgspec.structs.replace(self.data_version),
        )
        return LongTable(
            "subscriptionGroupTable",
            self.table,
            lambda rows: msgspec.structs.replace(empty, subscription_group_table=rows),
        )

    def __contains__(self, group: str) -> bool:
        return group in self.table

    def find(self, group: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """The group; created now if that is allowed, there is room and the name is valid; else None. Java: findSubscriptionGroupConfig."""
        found = self.table.get(group)
        if found is not None:
            return found
        allowed = self._broker.config.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)
        if not allowed or group_name_problem(group) is not None or self.room_problem([group]) is not None:
            return None
        made = SubscriptionGroupConfig(group_name=group)
        self.update(made, now_ms=now_ms)
        return made

    def room_problem(self, names: Collection[str]) -> str | None:
        new = sum(name not in self.table for name in names)
        allowed = self._broker.config.max_subscription_groups
        if new and len(self.table) + new > allowed:
            return (
                f"with {new} more there would be {len(self.table) + new} consumer groups, {allowed} are allowed; "
                "delete some, or raise maxSubscriptionGroups"
            )
        return None

    def update(self, *groups: SubscriptionGroupConfig, now_ms: int) -> None:
        """Several count as one change."""
        self.table.update({group.group_name: group for group in groups})
        self._changed(now_ms)

    def delete(self, group: str, now_ms: int) -> bool:
        """Delete ``group`` and its forbidden topics, which an unknown group may have, too. Returns whether it existed."""
        taken_away, known = self.forbidden.pop(group, None), self.table.pop(group, None)
        if taken_away is not None or known is not None:
            self._changed(now_ms)
        return known is not None

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
        self._broker.groups_changed()
