# SPDX-License-Identifier: Apache-2.0
"""Which member reads which queue: the six strategies of Apache RocketMQ (Java: AllocateMessageQueueStrategy and its classes).

There is no coordinator. Every member of a group sorts the same queues and the same client ids, runs the same function, and keeps the part
for its own id:

    queues sorted by (topic, broker_name, queue_id)  -+
    client ids sorted by UTF-16 code units            +-> strategy -> my queues
    my own client id                                 -+

The parts of all members are disjoint and together hold every queue (MACHINE_ROOM: of the named rooms; CONFIG: as the user says). The order
of the arguments decides, so callers go through :func:`allocate`. A client that is not in the list gets nothing. With any difference from
Java, queues in a group of Java and Python members would be assigned twice."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol, TypeVar

from msgspec import Struct

from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.message import MessageQueue


class AllocationStrategy(Protocol):
    """A callable ``(group, client_id, queues, client_ids) -> queues``: the classes here, or a function of the user's.

    Both lists are sorted as all members sort them. The result must depend on the arguments alone; otherwise a queue is read twice or by no
    member. The attribute ``name`` is shown in logs and reported to brokers."""

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> Iterable[MessageQueue]: ...


class MachineRoomResolver(Protocol):
    """The machine room of a queue's broker or of a client, not empty. Java: AllocateMachineRoomNearby.MachineRoomResolver."""

    def broker_deploy_in(self, queue: MessageQueue, /) -> str: ...

    def consumer_deploy_in(self, client_id: str, /) -> str: ...


def strategy_name(strategy: AllocationStrategy) -> str:
    """Java's name of a strategy; for a function its own name."""
    return str(getattr(strategy, "name", None) or getattr(strategy, "__name__", None) or type(strategy).__name__)


def java_order(text: str) -> bytes:
    """Sort key of Java's String.compareTo: UTF-16 code units, which differs from code points above U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def queue_order(queue: MessageQueue) -> tuple[bytes, bytes, int]:
    """Sort key of Java's MessageQueue.compareTo."""
    return java_order(queue.topic), java_order(queue.broker_name), queue.queue_id


def allocate(
    strategy: AllocationStrategy, group: str, client_id: str, queues: Iterable[MessageQueue], client_ids: Iterable[str]
) -> list[MessageQueue]:
    """Our queues; empty when there is nothing to share, or the broker does not list us yet. Raises ConfigurationError (the strategy
    returned something else than queues), and what the strategy raises."""
    all_queues = sorted(set(queues), key=queue_order)
    all_ids = sorted(set(client_ids), key=java_order)
    if not all_queues or client_id not in all_ids:
        return []
    mine: object = strategy(group, client_id, all_queues, all_ids)
    if isinstance(mine, str) or not isinstance(mine, Iterable):
        raise ConfigurationError(
            f"the allocation strategy {strategy_name(strategy)} gave {mine!r}, a list of MessageQueue is allowed; return [] for no queue"
        )
    found = list(mine)
    for queue in found:
        if not isinstance(queue, MessageQueue):
            raise ConfigurationError(
                f"the allocation strategy {strategy_name(strategy)} gave {queue!r} among its queues, only MessageQueue is allowed"
            )
    return found


def _index(client_id: str, client_ids: Sequence[str]) -> int:
    return client_ids.index(client_id) if client_id in client_ids else -1


class AllocateAveragely(Struct, frozen=True):
    """AVG, the default: contiguous runs, the first ``Q mod C`` clients get one more. Java: AllocateMessageQueueAveragely."""

    name: ClassVar[str] = "AVG"

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        index = _index(client_id, client_ids)
        if index < 0:
            return []
        size, remainder = divmod(len(queues), len(client_ids))
        start = index * size + min(index, remainder)
        return list(queues[start : start + size + (index < remainder)])


class AllocateAveragelyByCircle(Struct, frozen=True):
    """AVG_BY_CIRCLE: queue i goes to client ``i mod C``. Java: AllocateMessageQueueAveragelyByCircle."""

    name: ClassVar[str] = "AVG_BY_CIRCLE"

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        index = _index(client_id, client_ids)
        return [] if index < 0 else list(queues[index :: len(client_ids)])


class AllocateByConfig(Struct, frozen=True):
    """CONFIG: always the given queues, whatever other members there are. Java: AllocateMessageQueueByConfig."""

    queues: tuple[MessageQueue, ...]
    name: ClassVar[str] = "CONFIG"

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(self.queues)


class AllocateByMachineRoom(Struct, frozen=True):
    """MACHINE_ROOM: shares only queues whose broker is called ``room@name`` with a room in ``rooms``; others are read by no member of this
    group. Java: AllocateMessageQueueByMachineRoom."""

    rooms: frozenset[str]
    name: ClassVar[str] = "MACHINE_ROOM"

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        index = _index(client_id, client_ids)
        if index < 0:
            return []
        ours = [queue for queue in queues if _room(queue.broker_name) in self.rooms]
        size, remainder = divmod(len(ours), len(client_ids))
        result = ours[index * size : index * size + size]
        if index < remainder:
            result.append(ours[size * len(client_ids) + index])
        return result


def _room(broker_name: str) -> str | None:
    room, at, name = broker_name.partition("@")
    # Java splits by "@" and wants exactly two parts; an empty second part is dropped by String.split.
    return room if at and name and "@" not in name else None


class AllocateMachineRoomNearby(Struct, frozen=True):
    """MACHINE_ROOM_NEARBY-x: strategy x within each room; rooms without a consumer are shared by all. Java: AllocateMachineRoomNearby."""

    strategy: AllocationStrategy
    broker_room: Callable[[MessageQueue], str]
    consumer_room: Callable[[str], str]

    @property
    def name(self) -> str:
        """``MACHINE_ROOM_NEARBY-`` and the name of the strategy within a room."""
        return f"MACHINE_ROOM_NEARBY-{strategy_name(self.strategy)}"

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_by_room.setdefault(_known_room(self.broker_room(queue), f"queue {queue}"), []).append(queue)
        ids_by_room: dict[str, list[str]] = {}
        for other in client_ids:
            ids_by_room.setdefault(_known_room(self.consumer_room(other), f"client id {other}"), []).append(other)

        own_room = self.consumer_room(client_id)
        result: list[MessageQueue] = []
        if own := queues_by_room.pop(own_room, None):
            result += self.strategy(group, client_id, own, ids_by_room[own_room])
        for room in sorted(queues_by_room, key=java_order):
            if room not in ids_by_room:
                result += self.strategy(group, client_id, queues_by_room[room], client_ids)
        return result


def _known_room(room: str, what: str) -> str:
    if not room:
        raise ConfigurationError(f"the machine room of {what} is {room!r}; the resolver must name a room for each")
    return room


class AllocateByConsistentHash(Struct, frozen=True):
    """CONSISTENT_HASH: a ring on which a joining client takes queues from few others. ``virtual_node_count``: points per client, the same
    in the whole group; the first 4 bytes of an MD5, big-endian. Java: AllocateMessageQueueConsistentHash, ConsistentHashRouter."""

    virtual_node_count: int = 10
    name: ClassVar[str] = "CONSISTENT_HASH"

    def __post_init__(self) -> None:
        if self.virtual_node_count < 0:
            raise ConfigurationError(f"virtual_node_count is {self.virtual_node_count}, 0 or more is allowed")

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        ring: dict[int, str] = {}
        for other in client_ids:
            for number in range(self.virtual_node_count):
                ring[_ring_hash(f"{other}-{number}")] = (
                    other  # on a collision the later client wins, as in Java's TreeMap
                )
        if client_id not in client_ids or not ring:
            return []
        points = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            at = bisect_left(points, _ring_hash(_java_text(queue)))
            return ring[points[at % len(points)]]

        return [queue for queue in queues if owner(queue) == client_id]


def _java_text(queue: MessageQueue) -> str:
    """MessageQueue.toString(), the key a queue has on the ring."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def _ring_hash(key: str) -> int:
    from hashlib import md5  # imported here because few consumers use this strategy

    return int.from_bytes(md5(key.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()[:4], "big")


AVG = AllocateAveragely()

STRATEGIES: Mapping[str, AllocationStrategy] = {
    strategy_name(strategy): strategy for strategy in (AVG, AllocateAveragelyByCircle(), AllocateByConsistentHash())
}
"""The strategies that need no arguments, by Java's name."""

_NEARBY = "MACHINE_ROOM_NEARBY"
_BY_NAME = (*STRATEGIES, "CONFIG", "MACHINE_ROOM", _NEARBY)


def strategy_by_name(
    name: str,
    *,
    queues: Iterable[MessageQueue] | None = None,
    rooms: Iterable[str] | None = None,
    resolver: MachineRoomResolver | None = None,
    virtual_node_count: int = 10,
) -> AllocationStrategy:
    """The strategy of that name; MACHINE_ROOM_NEARBY works with AVG inside of a room, MACHINE_ROOM_NEARBY-CONSISTENT_HASH with another one.
    ``queues``: what CONFIG always gives. ``rooms``: of MACHINE_ROOM. ``resolver``: what MACHINE_ROOM_NEARBY asks. Raises
    ConfigurationError (no such name, or one whose argument is missing)."""
    outer, _, inner = name.partition("-")
    if name == "CONFIG":
        return AllocateByConfig(tuple(_given(queues, name, "allocate_queues, the list of MessageQueue to read")))
    if name == "MACHINE_ROOM":
        return AllocateByMachineRoom(frozenset(_given(rooms, name, "allocate_rooms, the rooms to read from")))
    if outer == _NEARBY and (not inner or inner in STRATEGIES):
        found = _given(
            resolver, name, "machine_room_resolver, with broker_deploy_in(queue) and consumer_deploy_in(client_id)"
        )
        within = strategy_by_name(inner or "AVG", virtual_node_count=virtual_node_count)
        return AllocateMachineRoomNearby(within, found.broker_deploy_in, found.consumer_deploy_in)
    if name == AllocateByConsistentHash.name:
        return AllocateByConsistentHash(virtual_node_count)
    if name not in STRATEGIES:
        raise ConfigurationError(
            f"allocate_strategy is {name!r}, allowed are {', '.join(_BY_NAME)}, or a function (group, client_id, queues, client_ids)"
        )
    return STRATEGIES[name]


_Argument = TypeVar("_Argument")


def _given(argument: _Argument | None, name: str, what: str) -> _Argument:
    if argument is None:
        raise ConfigurationError(f"the allocation strategy {name} needs an argument: pass {what}")
    return argument
