# SPDX-License-Identifier: Apache-2.0
"""Members of consumer groups with their subscriptions, and of producer groups (Java: ConsumerManager, ProducerManager).

A member is a connection: a client that comes back is a new member until its old connection is closed. Members join by heartbeat and leave
by UNREGISTER_CLIENT, by closing the connection, or by 120 s without a heartbeat.

1. Members are notified after each change of members or subscribed topics of a clustering group, before the next request is handled. So
   no member is notified of a change that a later GET_CONSUMER_LIST_BY_GROUP does not show yet.
2. A subscription is replaced only by one with a higher version: heartbeats of one client may overtake each other. When the last member
   with it leaves, the newest of those that stay counts. (Apache keeps that of a member that lived for a moment.)
3. A group without members is removed with its subscriptions. The filters follow, also when a subscription counts again.
4. If a heartbeat of version 2 omits subscriptions that are not known here, its answer says so, so that no group stays without them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from sprocketmq.core.group.subscription import same_subscription, tags_code_matcher
from sprocketmq.net.connection import Connection
from sprocketmq.wire.bodies import ConsumerData, SubscriptionData

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

BROADCASTING = "BROADCASTING"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
MAX_COMPENSATED_SUBSCRIPTIONS = 100_000  # pulls without heartbeats may name any group and topic


class Member(Struct):
    connection: Connection
    client_id: str
    language: str
    version: int
    last_update_ms: int


class ConsumerGroup(Struct):
    """A consumer group with at least one member (Java: ConsumerGroupInfo). ``changes`` counts those of ``subscriptions``."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    members: dict[Connection, Member] = field(default_factory=dict)
    changes: int = 0
    _matches: dict[str, tuple[SubscriptionData, Callable[[int], bool] | None]] = field(default_factory=dict)
    # By topic: the subscriptions of members that differ from the group's.
    _others: dict[str, dict[Connection, SubscriptionData]] = field(default_factory=dict)

    @property
    def client_ids(self) -> list[str]:
        """Client ids, each once, because a client that reconnected must not count twice in a rebalance."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def match(self, topic: str) -> Callable[[int], bool] | None:
        """The check of tags codes for this group, None if all pass; built once per subscription."""
        subscription = self.subscriptions[topic]
        cached = self._matches.get(topic)
        if cached is None or cached[0] is not subscription:
            cached = self._matches[topic] = (subscription, tags_code_matcher(subscription))
        return cached[1]

    def update_subscriptions(self, connection: Connection, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Set the subscriptions in a member's heartbeat. Returns whether the set of topics changed."""
        changed = False
        named: set[str] = set()
        for subscription in subscriptions:
            topic = subscription.topic
            named.add(topic)
            old = self.subscriptions.get(topic)
            if old is None:
                changed = True
            is_newer = old is None or subscription.sub_version > old.sub_version  # rule 2
            if old is None or same_subscription(subscription, old):
                if topic in self._others:
                    self._others[topic].pop(connection, None)
            elif is_newer:
                others = self._others.setdefault(topic, {})
                for member in self.members:
                    others.setdefault(member, old)
                others.pop(connection, None)
            else:
                self._others.setdefault(topic, {})[connection] = subscription
            if is_newer:
                self.subscriptions[topic] = subscription
                self.changes += 1
        for topic in [topic for topic in self.subscriptions if topic not in named]:
            del self.subscriptions[topic]
            self._matches.pop(topic, None)
            self._others.pop(topic, None)
            self.changes += 1
            changed = True
        return changed

    def without(self, connection: Connection) -> list[SubscriptionData]:
        """After a member left: the subscriptions that count again because no other member has the group's (rule 2)."""
        again: list[SubscriptionData] = []
        for topic, others in list(self._others.items()):
            others.pop(connection, None)
            if others and len(others) == len(self.members):
                self.changes += 1
                newest = self.subscriptions[topic] = max(others.values(), key=lambda one: one.sub_version)
                self._others[topic] = others = {
                    member: one for member, one in others.items() if not same_subscription(one, newest)
                }
                again.append(newest)
            if not others:
                del self._others[topic]
        return again


class ConsumerTable:
    """Consumer groups by name, and the groups of each connection, so that closing a connection only needs its own groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.groups: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[Connection, set[str]] = {}
        self._fingerprints: dict[str, int] = {}
        # Subscriptions of pulls, by group and topic: consumers without heartbeats are known only from these.
        self.compensated_subscriptions: dict[tuple[str, str], SubscriptionData] = {}

    def get(self, group: str) -> ConsumerGroup | None:
        return self.groups.get(group)

    def register(self, member: Member, data: ConsumerData, *, without_sub: bool = False, notify: bool = True) -> bool:
        """Register the member of one group in a heartbeat. Returns whether members or topics changed. ``without_sub``: it omits unchanged
        subscriptions (heartbeat v2). ``notify``: False if the group's configuration wants no notices."""
        group = self.groups.get(data.group_name)
        if group is None:
            group = self.groups[data.group_name] = ConsumerGroup(data.group_name)
        group.consume_type = data.consume_type or group.consume_type
        group.message_model = data.message_model or group.message_model
        group.consume_from_where = data.consume_from_where or group.consume_from_where
        changed = member.connection not in group.members
        if changed:
            log.info(
                "%s joined consumer group %s from %s", member.client_id, group.name, member.connection.remote_address
            )
            if member.client_id in group.client_ids:
                self._broker.troubles.failed(
                    "doubled members",
                    "%s has more than one connection as a member of consumer group %s: if these are several clients, each consumes all "
                    "messages of its queues",
                    member.client_id,
                    group.name,
                    of=member.client_id,
                )
        group.members[member.connection] = member
        self._groups_of.setdefault(member.connection, set()).add(group.name)
        if not without_sub:
            changed = group.update_subscriptions(member.connection, data.subscription_data_set) or changed
        if changed and notify:
            self._notify_members(group)
        return changed

    def subscriptions_changed(self, group_name: str, fingerprint: int, *, without_sub: bool) -> bool:
        """Whether a heartbeat of version 2 must be followed by one with subscriptions: its fingerprint (0: version 1) differs from the
        group's last one, as in Java, or nothing is known (rule 4)."""
        last = self._fingerprints.get(group_name)
        self._fingerprints[group_name] = fingerprint
        if last is not None and last != fingerprint:
            return True
        group = self.groups.get(group_name)
        return without_sub and (group is None or not group.subscriptions)

    def groups_with(self, connection: Connection, names: Iterable[str]) -> int:
        """In how many groups the connection would be if it joined ``names``."""
        return len(self._groups_of.get(connection, set()).union(names))

    def subscriptions_beside(self, connection: Connection, names: Collection[str]) -> Iterator[SubscriptionData]:
        for name in self._groups_of.get(connection, ()):
            if name not in names:
                yield from self.groups[name].subscriptions.values()

    def compensate_subscription(self, group: str, topic: str, subscription: SubscriptionData) -> None:
        """Store the subscription in a pull. Java: compensateSubscribeData."""
        if (
            len(self.compensated_subscriptions) < MAX_COMPENSATED_SUBSCRIPTIONS
            or (group, topic) in self.compensated_subscriptions
        ):
            self.compensated_subscriptions[group, topic] = subscription

    def forget_idle(self, now_ms: int, timeout_ms: int) -> None:
        """Drop subscriptions of pulls that are older than ``timeout_ms``. Java: removeExpireConsumerGroupInfo."""
        for key in [
            key for key, known in self.compensated_subscriptions.items() if now_ms - known.sub_version > timeout_ms
        ]:
            del self.compensated_subscriptions[key]

    def unregister(self, connection: Connection, group_name: str, *, notify: bool = True) -> None:
        """Remove the member from one group; does nothing if it is not in it."""
        group = self.groups.get(group_name)
        if group is None or group.members.pop(connection, None) is None:
            return
        log.info("%s left consumer group %s", connection.remote_address, group_name)
        groups = self._groups_of.get(connection, set())
        groups.discard(group_name)
        if not groups:
            self._groups_of.pop(connection, None)
        if not group.members:
            del self.groups[group_name]
            self._fingerprints.pop(group_name, None)
            self._broker.filters.unregister(group_name, self._broker.clock.now_ms())
            return
        for subscription in group.without(connection):
            self._broker.filters.restore(group_name, subscription, self._broker.clock.now_ms())
        if notify:
            self._notify_members(group)

    def _notify_members(self, group: ConsumerGroup) -> None:
        if self._broker.config.notify_consumer_ids_changed_enable and not group.is_broadcasting:
            self._broker.member_notices.notify(group)

    def connection_closed(self, connection: Connection) -> None:
        for group in list(self._groups_of.get(connection, ())):
            self.unregister(connection, group)

    def expired(self, now_ms: int, timeout_ms: int) -> list[Connection]:
        """Connections whose members have sent no heartbeat for longer than ``timeout_ms``."""
        members = (member for group in self.groups.values() for member in group.members.values())
        return _expired(members, now_ms, timeout_ms)

    def check_invariants(self) -> None:
        for name, group in self.groups.items():
            assert group.members, f"group {name} has no member"
            for topic, others in group._others.items():
                assert others.keys() < group.members.keys(), f"no member of {name} has its subscription to {topic}"
            for connection in group.members:
                assert name in self._groups_of[connection], (
                    f"{connection.remote_address} does not know that it is in {name}"
                )
        for connection, names in self._groups_of.items():
            for name in names:
                assert connection in self.groups[name].members, (
                    f"{name} does not know its member {connection.remote_address}"
                )


class ProducerTable:
    """Producer groups: the clients to ask about a half message, and the receivers of replies."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Connection, Member]] = {}
        self._groups_of: dict[Connection, set[str]] = {}
        self._turn = 0

    def groups_with(self, connection: Connection, names: Iterable[str]) -> int:
        """In how many groups the connection would be if it joined ``names``."""
        return len(self._groups_of.get(connection, set()).union(names))

    def register(self, member: Member, group: str) -> None:
        self.groups.setdefault(group, {})[member.connection] = member
        self._groups_of.setdefault(member.connection, set()).add(group)

    def unregister(self, connection: Connection, group: str) -> None:
        members = self.groups.get(group)
        if members is None or members.pop(connection, None) is None:
            return
        if not members:
            del self.groups[group]
        groups = self._groups_of[connection]
        groups.discard(group)
        if not groups:
            del self._groups_of[connection]

    def connection_closed(self, connection: Connection) -> None:
        for group in list(self._groups_of.get(connection, ())):
            self.unregister(connection, group)

    def available(self, group: str, may_know: Callable[[Connection], bool]) -> Connection | None:
        """An open connection of a member, in turns; preferably one that reads. Java: getAvailableChannel. ``may_know``: which members may
        see the message, because any client can claim to belong to a group."""
        members = self.groups.get(group, ())
        open_ones = [connection for connection in members if not connection.is_closed and may_know(connection)]
        open_ones = [connection for connection in open_ones if not connection.is_congested] or open_ones
        if not open_ones:
            return None
        self._turn += 1
        return open_ones[self._turn % len(open_ones)]

    def find(self, client_id: str) -> Connection | None:
        """The open connection of the client that sent the last heartbeat: an older one may be dead without being seen to be closed."""
        found: Member | None = None
        for members in self.groups.values():
            for member in members.values():
                if (
                    member.client_id == client_id
                    and not member.connection.is_closed
                    and (found is None or member.last_update_ms >= found.last_update_ms)
                ):
                    found = member
        return None if found is None else found.connection

    def expired(self, now_ms: int, timeout_ms: int) -> list[Connection]:
        members = (member for group in self.groups.values() for member in group.values())
        return _expired(members, now_ms, timeout_ms)


def _expired(members: Iterable[Member], now_ms: int, timeout_ms: int) -> list[Connection]:
    late = (member.connection for member in members if now_ms - member.last_update_ms > timeout_ms)
    return list(dict.fromkeys(late))  # in the same order in each process
