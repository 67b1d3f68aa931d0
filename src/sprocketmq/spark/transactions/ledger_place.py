"""Where the ledger lies: on one broker, its home, which every other broker of the cluster knows not to be itself.

    home:    the topic with one queue, readable and writable          elsewhere: the same topic without any permission, a place holder

A name server forgets what a broker has as soon as it stops. Whoever then asks for the ledger hears that there is none, and would make a
second one elsewhere: decisions would be in two places, and a batch could be decided twice. Place holders are what the other brokers
remember in its stead: as long as one of them is there, a ledger whose home is away is known to be away.

Laws (tests/inproc/spark/test_ledger_place.py)
1. A ledger is made only where no broker that is there has the topic, be it as a place holder.
2. No decision is hidden: a home becomes a place holder only when it holds nothing, and it is looked at after its writes were refused.
3. Two homes with decisions are refused by everybody until they are merged (``ledger_merge``); nothing is deleted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sprocketmq.client.remoting.api import RemotingApi
from sprocketmq.client.remoting.masters import MASTER, known_master
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, TopicNotExist
from sprocketmq.wire import headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

__all__ = [
    "NOTHING",
    "READ",
    "READ_WRITE",
    "Place",
    "find_place",
    "homes_of",
    "masters_of",
    "set_permission",
    "volatile_settings",
]

log = logging.getLogger("sprocketmq.spark")

READ: Final = 4
READ_WRITE: Final = 6
NOTHING: Final = 0
_ROUTE_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05
_CONFIG_TIMEOUT_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Place:
    """The one queue of a ledger, and where its broker is now."""

    queue: MessageQueue
    address: str


async def find_place(api: RemotingApi, topic: str, *, create: bool) -> Place:
    """Where the ledger ``topic`` is.

    Args:
        create: make it when there is none, and see that every broker knows where it is; only for who knows that nothing can have been
            decided yet.

    Raises:
        NetworkError: its broker is away; or there is no ledger, and ``create`` is false.
        ConfigurationError: decisions are on more than one broker.
    """
    route = await api.route(topic)
    permissions = {} if route is None else {data.broker_name: data.perm for data in route.queue_datas}
    if not permissions and not create:
        raise NetworkError(
            f"the ledger topic {topic!r} has no route; start its broker, or create it with one queue on one broker if no "
            "write of this query was ever transactional"
        )
    masters: Mapping[str, str] = await masters_of(api) if create else {}
    if not permissions:
        permissions = await _made(api, topic, masters)
    homes = homes_of(permissions)
    if not homes:
        raise NetworkError(
            f"the ledger topic {topic!r} lies on a broker that is not registered now, and {', '.join(sorted(permissions))} only keep its "
            "place; start that broker"
        )
    if len(homes) > 1:
        homes = await _one_of(
            api, topic, sorted(homes, key=lambda name: permissions[name] != READ_WRITE), await masters_of(api)
        )
    if create:
        await _hold_places(api, topic, {name: at for name, at in masters.items() if name not in permissions})
    return await _at(api, topic, homes[0])


def homes_of(permissions: Mapping[str, int]) -> list[str]:
    """The brokers that do not only keep the place, by the permissions of the topic at each."""
    return sorted(name for name, permission in permissions.items() if permission != NOTHING)


async def masters_of(api: RemotingApi) -> dict[str, str]:
    """Address by name of every broker whose master is there."""
    info = await api.cluster_info()
    return {
        name: data.broker_addrs[MASTER] for name, data in info.broker_addr_table.items() if MASTER in data.broker_addrs
    }


async def set_permission(api: RemotingApi, address: str, topic: str, permission: int) -> None:
    """Make the ledger topic at a broker, or give it another permission there."""
    header = headers.CreateTopicRequestHeader(
        topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=permission
    )
    await api.create_topic(address, header)


async def volatile_settings(api: RemotingApi, address: str) -> str | None:
    """By which settings the broker may lose what it has acknowledged, as ``name=value``; None when there are none, or it does not say."""
    answer = await api.invoke(address, requests.brokers.GET_BROKER_CONFIG.command(), _CONFIG_TIMEOUT_MS)
    if answer.code != ResponseCode.SUCCESS:
        return None
    lines = bytes(answer.body).decode("utf-8", "replace").splitlines()
    settings = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    is_async = settings.get("flushDiskType") == "ASYNC_FLUSH"
    return "flushDiskType=ASYNC_FLUSH" if is_async else None


async def _at(api: RemotingApi, topic: str, name: str) -> Place:
    route = await api.route(topic)
    if route is not None and (address := known_master(route, name)) is not None:
        return Place(MessageQueue(topic, name, 0), address)
    raise NetworkError(f"the broker {name!r} of the ledger {topic!r} has no master now")


async def _made(api: RemotingApi, topic: str, masters: Mapping[str, str]) -> dict[str, int]:
    """The permissions by broker after the ledger was made: on the first broker by name, so that whoever else makes it at the same moment
    chooses the same one; unless a broker has the topic and the name server does not know yet (law 1)."""
    if not masters:
        raise NetworkError("no broker is registered with the name server now; is one running?")
    having = await asyncio.gather(*(_has(api, at, topic) for at in masters.values()))
    if not any(having):
        await set_permission(api, masters[min(masters)], topic, READ_WRITE)
    deadline_s = time.monotonic() + _ROUTE_WAIT_S
    while True:
        route = await api.route(topic)
        if route is not None and route.queue_datas:
            return {data.broker_name: data.perm for data in route.queue_datas}
        if time.monotonic() > deadline_s:
            raise NetworkError(f"the ledger topic {topic!r} was created, and the name server does not know it")
        await asyncio.sleep(_POLL_S)


async def _has(api: RemotingApi, address: str, topic: str) -> bool:
    try:
        await api.topic_stats(address, topic)
    except TopicNotExist:
        return False
    return True


async def _hold_places(api: RemotingApi, topic: str, masters: Mapping[str, str]) -> None:
    for name, address in sorted(masters.items()):
        await _hold_place(api, topic, name, address)


async def _hold_place(api: RemotingApi, topic: str, name: str, address: str) -> None:
    try:
        if not await _has(api, address, topic):
            await _only_hold_place(api, topic, name, address)
    except RemoteError as error:  # topics are made by an administrator here
        log.warning(
            "broker %s cannot be told that the ledger %s is elsewhere (%s); create the topic there with one queue and perm 0, or a "
            "second ledger may be made while the first one's broker is away", name, topic, error,
        )  # fmt: skip


async def _only_hold_place(api: RemotingApi, topic: str, name: str, address: str) -> bool:
    """Law 2. Whether the broker holds nothing. Who dies before it has looked leaves a home that can be read, and is looked at again."""
    await set_permission(api, address, topic, READ)
    await asyncio.sleep(_POLL_S)  # a broker enters what it has stored into the queue a moment later
    if await api.max_offset(address, MessageQueue(topic, name, 0)):
        return False
    await set_permission(api, address, topic, NOTHING)
    return True


async def _one_of(api: RemotingApi, topic: str, homes: list[str], masters: Mapping[str, str]) -> list[str]:
    """The one of several homes that has decisions, else the first; those without any hold its place from now on."""
    away = [name for name in homes if name not in masters]
    if away:
        raise NetworkError(
            f"the ledger topic {topic!r} is on {', '.join(homes)}, and {away[0]} has no master to be asked now"
        )
    sizes = [await api.max_offset(masters[name], MessageQueue(topic, name, 0)) for name in homes]
    full = [name for name, size in zip(homes, sizes, strict=True) if size]
    kept = full or homes[:1]
    for name in homes:
        if name not in kept and not await _only_hold_place(api, topic, name, masters[name]):
            kept.append(name)
    if len(kept) > 1:
        raise ConfigurationError(
            f"the ledger topic {topic!r} holds decisions on the brokers {', '.join(kept)}, and it must be on one of them only; delete "
            f"neither: stop the queries that write with it and run 'sprocketmq merge-ledger {topic} --into {kept[0]}', which copies all "
            "decisions there"
        )
    return kept
