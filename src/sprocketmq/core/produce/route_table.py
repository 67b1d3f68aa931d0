# SPDX-License-Identifier: Apache-2.0
"""Where a topic's queues are, as a client sees it. Java: MQClientInstance.topicRouteTable, brokerAddrTable, TopicPublishInfo.

    name server --TopicRouteData--> update(topic, route) --> publish queues     writable, on brokers that have a master
                                          |              --> subscribe queues   readable (a master is not needed to read)
                                          `------------> broker name -> {broker id -> address},  id 0 is the master

Rules
    1. Queues come in the order broker name, queue id: producers that hash a sharding key depend on it.
    2. An address is known as long as some route names it; a broker no route names is offline and gets no heartbeat.
    3. ``update`` is False when nothing a user of the table can see has changed.
    4. A route with more queues than a broker may have is refused (``checked_route``) before it is used: a name server accepts any number
       of queues from whoever registers, and here each queue becomes an object.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sprocketmq.core.group.allocation import java_order
from sprocketmq.core.resource_names import MAX_QUEUES
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.bodies import BrokerData, QueueData, TopicRouteData
from sprocketmq.wire.records.message import MessageQueue

MASTER_ID = 0
_MOST_DIGITS = 9  # int() is slow with thousands of digits
# PermName
PERM_READ = 4
PERM_WRITE = 2
PERM_READ_WRITE = PERM_READ | PERM_WRITE
PERM_INHERIT = 1
MAX_QUEUES_OF_A_ROUTE = 4 * MAX_QUEUES
"""The limit of queues of a topic on all brokers. Each queue is an object of some hundred bytes, and takes time in each rebalance."""


def is_readable(perm: int) -> bool:
    return perm & PERM_READ != 0


def is_writeable(perm: int) -> bool:
    return perm & PERM_WRITE != 0


def _ordered(queue_datas: Iterable[QueueData]) -> list[QueueData]:
    return sorted(queue_datas, key=lambda data: java_order(data.broker_name))


def checked_route(topic: str, route: TopicRouteData) -> TopicRouteData:
    """``route``, as it came from a name server. Raises ProtocolError (it has more queues than are allowed)."""
    reading = writing = 0
    for data in route.queue_datas:
        for number in (data.read_queue_nums, data.write_queue_nums):
            if not 0 <= number <= MAX_QUEUES:
                raise ProtocolError(
                    f"the route of topic {topic} gives broker {data.broker_name} {number} queues, 0 to {MAX_QUEUES} are allowed; "
                    "look at what is registered at the name server"
                )
        reading, writing = reading + data.read_queue_nums, writing + data.write_queue_nums
    if max(reading, writing) > MAX_QUEUES_OF_A_ROUTE:
        raise ProtocolError(
            f"the route of topic {topic} has {max(reading, writing)} queues, {MAX_QUEUES_OF_A_ROUTE} are allowed; "
            "look at what is registered at the name server"
        )
    return route


def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues to send to, in Java's order. Java: topicRouteData2TopicPublishInfo. ``order_topic_conf`` ("broker-a:4;broker-b:4")
    replaces them for a topic with fixed order."""
    if route.order_topic_conf:
        queues: list[MessageQueue] = []
        for part in route.order_topic_conf.split(";"):
            name, _, count = part.partition(":")
            if not count.isdecimal() or len(count) > _MOST_DIGITS or int(count) > MAX_QUEUES_OF_A_ROUTE - len(queues):
                raise ConfigurationError(
                    f"the order configuration of topic {topic} is {route.order_topic_conf[:200]!r}, it must read "
                    f"'broker-a:4;broker-b:4', with at most {MAX_QUEUES_OF_A_ROUTE} queues"
                )
            queues += [MessageQueue(topic, name, number) for number in range(int(count))]
        return queues
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in _ordered(route.queue_datas)
        if is_writeable(data.perm) and data.broker_name in masters
        for number in range(data.write_queue_nums)
    ]


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues to read. Java: topicRouteData2TopicSubscribeInfo."""
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in _ordered(route.queue_datas)
        if is_readable(data.perm)
        for number in range(data.read_queue_nums)
    ]


def route_for_new_topic(default_route: TopicRouteData, default_topic_queue_nums: int = 4) -> TopicRouteData:
    """The route to send a topic by that does not exist yet: the default topic's, with few queues."""
    return msgspec.structs.replace(
        default_route,
        queue_datas=[
            msgspec.structs.replace(
                data,
                read_queue_nums=min(default_topic_queue_nums, data.read_queue_nums),
                write_queue_nums=min(default_topic_queue_nums, data.read_queue_nums),
            )
            for data in default_route.queue_datas
        ],
    )


def is_changed(old: TopicRouteData | None, new: TopicRouteData) -> bool:
    """Whether two routes differ apart from the order of their parts. Java: TopicRouteData.topicRouteDataChanged."""
    if old is None:
        return True

    def key(data: QueueData | BrokerData) -> bytes:
        return java_order(data.broker_name)

    return (
        old.order_topic_conf != new.order_topic_conf
        or sorted(old.queue_datas, key=key) != sorted(new.queue_datas, key=key)
        or sorted(old.broker_datas, key=key) != sorted(new.broker_datas, key=key)
    )


class BrokerAddress(msgspec.Struct, frozen=True):
    """``address`` is ``host:port``; a slave takes no commits and no sends."""

    address: str
    broker_id: int

    @property
    def is_slave(self) -> bool:
        return self.broker_id != MASTER_ID


def find_broker(route: TopicRouteData, broker_name: str) -> BrokerAddress | None:
    """A broker's master, or its replica with the lowest number. A replica that acts as master is a replica: a 5.x name server
    (``supportActingMaster``) shows it as number 0 while there is no master, and takes the permission to write from its queues
    (RouteInfoManager.pickupTopicRouteData)."""
    for broker in route.broker_datas:
        if broker.broker_name == broker_name and broker.broker_addrs:
            number = min(broker.broker_addrs)
            may_be_written = any(
                is_writeable(data.perm) for data in route.queue_datas if data.broker_name == broker_name
            )
            acts = number == MASTER_ID and broker.enable_acting_master and not may_be_written
            return BrokerAddress(broker.broker_addrs[number], 1 if acts else number)
    return None


class RouteTable:
    """Routes of all topics a client instance knows, and the broker addresses in them."""

    __slots__ = ("_brokers", "_publish", "_routes", "_subscribe")

    def __init__(self) -> None:
        self._routes: dict[str, TopicRouteData] = {}
        self._publish: dict[str, list[MessageQueue]] = {}
        self._subscribe: dict[str, list[MessageQueue]] = {}
        self._brokers: dict[str, dict[int, str]] = {}

    def update(self, topic: str, route: TopicRouteData) -> bool:
        """Take a route from the name server; whether it differs from the one known."""
        known = self._routes.get(topic)
        if not is_changed(known, route):
            return False
        # Before any change, because they may raise.
        publish, subscribe = publish_queues(topic, route), subscribe_queues(topic, route)
        self._routes[topic] = route
        self._publish[topic], self._subscribe[topic] = publish, subscribe
        if known is None:  # no address can be lost, so the brokers need not be collected again from all topics
            self._add_brokers(self._brokers, route)
        else:
            self._collect_brokers(last=topic)
        return True

    def route(self, topic: str) -> TopicRouteData | None:
        return self._routes.get(topic)

    def topics(self) -> list[str]:
        return list(self._routes)

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Empty when there is no route or no broker that takes messages. Not to be changed by the caller."""
        return self._publish.get(topic, [])

    def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Empty when there is no route. Not to be changed by the caller."""
        return self._subscribe.get(topic, [])

    def master_address(self, broker_name: str) -> str | None:
        """None when the broker has no master now."""
        return self._brokers.get(broker_name, {}).get(MASTER_ID)

    def broker_address(self, broker_name: str, broker_id: int) -> BrokerAddress | None:
        """Where to read (Java: findBrokerAddressInSubscribe). A missing slave is replaced by the next id, then by any."""
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        if broker_id in addresses:
            return BrokerAddress(addresses[broker_id], broker_id)
        if broker_id != MASTER_ID and broker_id + 1 in addresses:
            return BrokerAddress(addresses[broker_id + 1], broker_id + 1)
        first = min(addresses)
        return BrokerAddress(addresses[first], first)

    def any_address(self, topic: str, choice: int = 0) -> str | None:
        """Some broker of the topic, for requests that any of them can answer. ``choice``: the driver's random choice."""
        route = self._routes.get(topic)
        datas = [data for data in route.broker_datas if data.broker_addrs] if route else []
        if not datas:
            return None
        addresses = datas[choice % len(datas)].broker_addrs
        return addresses[MASTER_ID if MASTER_ID in addresses else min(addresses)]

    def brokers(self) -> dict[str, dict[int, str]]:
        """Broker name -> id -> address, of all routes."""
        return {name: dict(addresses) for name, addresses in self._brokers.copy().items()}  # any thread may ask

    def _collect_brokers(self, last: str | None = None) -> None:
        # Routes of several topics may disagree for a moment while a broker moves; the newest answer wins.
        names = [topic for topic in self._routes if topic != last]
        if last is not None:
            names.append(last)
        brokers: dict[str, dict[int, str]] = {}
        for topic in names:
            self._add_brokers(brokers, self._routes[topic])
        self._brokers = brokers

    @staticmethod
    def _add_brokers(brokers: dict[str, dict[int, str]], route: TopicRouteData) -> None:
        for data in route.broker_datas:
            brokers[data.broker_name] = dict(data.broker_addrs)
