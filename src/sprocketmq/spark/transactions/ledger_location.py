# SPDX-License-Identifier: Apache-2.0
"""On which broker the ledger is (one queue, readable and writable). The other brokers have a placeholder: the same topic without
permission.

A name server forgets the topics of a broker as soon as it stops. Whoever then looks for the ledger would create a second one, and a
batch could be decided twice. As long as a placeholder is there, the ledger is known to exist and to be unreachable. A topic is made a
placeholder only if it is empty, checked after its writes were refused. If two brokers have decisions, everybody refuses the ledger
until they are merged (``ledger_merge``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sprocketmq.client.remoting.api import RemotingApi
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.masters import MASTER, known_master
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, TopicNotExist
from sprocketmq.wire import headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.spark")

PERM_READ: Final = 4
PERM_READ_WRITE: Final = 6
PERM_NONE: Final = 0
_ROUTE_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05
_CONFIG_TIMEOUT_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """The one queue of a ledger, and the address of its broker."""

    queue: MessageQueue
    address: str


async def find_ledger(api: RemotingApi, topic: str, *, create: bool) -> LedgerLocation:
    """The location of the ledger ``topic``. ``create``: create it if there is none, and add placeholders; only when nothing can have
    been decided yet. Raises NetworkError (its broker is unreachable; or there is no ledger, and ``create`` is false),
    ConfigurationError (decisions are on more than one broker)."""
    route = await api.route(topic)
    permissions = {} if route is None else {data.broker_name: data.perm for data in route.queue_datas}
    if not permissions and not create:
        raise NetworkError(
            f"the ledger topic {topic!r} has no route; start its broker, or create it with one queue on one broker if no "
            "write of this query was ever transactional"
        )
    masters: Mapping[str, str] = await masters_of(api) if create else {}
    if not permissions:
        permissions = await _create(api, topic, masters)
    brokers = ledger_brokers(permissions)
    if not brokers:
        raise NetworkError(
            f"the ledger topic {topic!r} lies on a broker that is not registered now, and only a placeholder is on "
            f"{', '.join(sorted(permissions))}; start that broker"
        )
    if len(brokers) > 1:
        brokers = await _choose_broker(
            api, topic, sorted(brokers, key=lambda name: permissions[name] != PERM_READ_WRITE), await masters_of(api)
        )
    if create:
        await _add_placeholders(api, topic, {name: at for name, at in masters.items() if name not in permissions})
    return await _at(api, topic, brokers[0])


def ledger_brokers(permissions: Mapping[str, int]) -> list[str]:
    """The brokers with more than a placeholder, by the permissions of the topic at each."""
    return sorted(name for name, permission in permissions.items() if permission != PERM_NONE)


async def masters_of(api: RemotingApi) -> dict[str, str]:
    """The address of each registered master by broker name."""
    info = await api.cluster_info()
    return {
        name: data.broker_addrs[MASTER] for name, data in info.broker_addr_table.items() if MASTER in data.broker_addrs
    }


async def set_permission(api: RemotingApi, address: str, topic: str, permission: int) -> None:
    """Create the ledger topic at a broker, or change its permission there."""
    header = headers.CreateTopicRequestHeader(
        topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=permission
    )
    await api.create_topic(address, header)


async def broker_settings(api: RemotingApi, address: str) -> dict[str, str]:
    """The settings of the broker at ``address``; empty if this account may not ask."""
    answer = await api.invoke(address, requests.brokers.GET_BROKER_CONFIG.command(), _CONFIG_TIMEOUT_MS)
    if answer.code != ResponseCode.SUCCESS:
        return {}
    lines = bytes(answer.body).decode("utf-8", "replace").splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


async def _at(api: RemotingApi, topic: str, name: str) -> LedgerLocation:
    route = await api.route(topic)
    if route is not None and (address := known_master(route, name)) is not None:
        return LedgerLocation(MessageQueue(topic, name, 0), address)
    raise NetworkError(f"the broker {name!r} of the ledger {topic!r} has no master now")


async def _create(api: RemotingApi, topic: str, masters: Mapping[str, str]) -> dict[str, int]:
    """Create the ledger on the first broker by name, so that drivers that do this at the same moment choose the same, unless a broker
    already has the topic and the name server does not know yet. Returns the permissions by broker."""
    if not masters:
        raise NetworkError("no broker is registered with the name server now; is one running?")
    having = await all_ended(_has(api, at, topic) for at in masters.values())
    if not any(having):
        await set_permission(api, masters[min(masters)], topic, PERM_READ_WRITE)
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


async def _add_placeholders(api: RemotingApi, topic: str, masters: Mapping[str, str]) -> None:
    for name, address in sorted(masters.items()):
        await _add_placeholder(api, topic, name, address)


async def _add_placeholder(api: RemotingApi, topic: str, name: str, address: str) -> None:
    try:
        if not await _has(api, address, topic):
            await _make_placeholder(api, topic, name, address)
    except RemoteError as error:  # only administrators may create topics here
        log.warning(
            "broker %s cannot be told that the ledger %s is elsewhere (%s); create the topic there with one queue and perm 0, or a "
            "second ledger may be made while the first one's broker is away", name, topic, error,
        )  # fmt: skip


async def _make_placeholder(api: RemotingApi, topic: str, name: str, address: str) -> bool:
    """Make the topic at a broker a placeholder, if it is empty; return whether it is. If the caller dies in between, the topic can
    still be read, and is checked again by the next caller."""
    await set_permission(api, address, topic, PERM_READ)
    await asyncio.sleep(_POLL_S)  # a broker dispatches a stored message to the consume queue a moment later
    if await api.max_offset(address, MessageQueue(topic, name, 0)):
        return False
    await set_permission(api, address, topic, PERM_NONE)
    return True


async def _choose_broker(api: RemotingApi, topic: str, brokers: list[str], masters: Mapping[str, str]) -> list[str]:
    """The one of several brokers that has decisions, otherwise the first. Empty ones become placeholders."""
    away = [name for name in brokers if name not in masters]
    if away:
        raise NetworkError(f"the ledger topic {topic!r} is on {', '.join(brokers)}, and {away[0]} has no master now")
    sizes = [await api.max_offset(masters[name], MessageQueue(topic, name, 0)) for name in brokers]
    full = [name for name, size in zip(brokers, sizes, strict=True) if size]
    kept = full or brokers[:1]
    for name in brokers:
        if name not in kept and not await _make_placeholder(api, topic, name, masters[name]):
            kept.append(name)
    if len(kept) > 1:
        raise ConfigurationError(
            f"the ledger topic {topic!r} holds decisions on the brokers {', '.join(kept)}, and it must be on one of them only; delete "
            f"neither: stop the queries that write with it and run 'sprocketmq merge-ledger {topic} --into {kept[0]}', which copies all "
            "decisions there"
        )
    return kept
