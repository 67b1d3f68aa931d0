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
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.queue_offsets import topic_stats
from sprocketmq.core.produce.route_table import PERM_READ, PERM_READ_WRITE
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, TopicNotExist
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire import headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET

PERM_NONE: Final = 0
_ROUTE_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05
_CONFIG_TIMEOUT_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    queue: MessageQueue
    address: str


async def find_ledger(cluster: Cluster, topic: str, *, create: bool) -> LedgerLocation:
    """``create``: create it if there is none, and add placeholders; only when nothing can have been decided yet. Raises NetworkError (its
    broker is unreachable; or there is no ledger, and ``create`` is false), ConfigurationError (decisions are on more than one broker)."""
    route = await cluster.name_servers.route(topic)
    permissions = {} if route is None else {data.broker_name: data.perm for data in route.queue_datas}
    if not permissions and not create:
        raise NetworkError(
            f"the ledger topic {topic!r} has no route; start its broker, or create it with one queue on one broker if no "
            "write of this query was ever transactional"
        )
    masters: Mapping[str, str] = await cluster.masters() if create else {}
    if not permissions:
        permissions = await _create(cluster, topic, masters)
    brokers = ledger_brokers(permissions)
    if not brokers:
        raise NetworkError(
            f"the ledger topic {topic!r} lies on a broker that is not registered now, and only a placeholder is on "
            f"{', '.join(sorted(permissions))}; start that broker"
        )
    if len(brokers) > 1:
        brokers = await _choose_broker(
            cluster,
            topic,
            sorted(brokers, key=lambda name: permissions[name] != PERM_READ_WRITE),
            await cluster.masters(),
        )
    if create:
        await _add_placeholders(cluster, topic, {name: at for name, at in masters.items() if name not in permissions})
    return LedgerLocation(MessageQueue(topic, brokers[0], 0), await cluster.master(brokers[0], topic))


def ledger_brokers(permissions: Mapping[str, int]) -> list[str]:
    return sorted(name for name, permission in permissions.items() if permission != PERM_NONE)


async def set_permission(cluster: Cluster, address: str, topic: str, permission: int) -> None:
    header = headers.CreateTopicRequestHeader(
        topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=permission
    )
    await cluster.ask(requests.topics.UPDATE_AND_CREATE_TOPIC, header, at=address)


async def broker_settings(cluster: Cluster, address: str) -> dict[str, str]:
    """The settings of the broker at ``address``; empty if this account may not ask."""
    answer = await cluster.invoke(address, requests.brokers.GET_BROKER_CONFIG.command(), _CONFIG_TIMEOUT_MS)
    if answer.code != ResponseCode.SUCCESS:
        return {}
    lines = bytes(answer.body).decode("utf-8", "replace").splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


async def _create(cluster: Cluster, topic: str, masters: Mapping[str, str]) -> dict[str, int]:
    """Create the ledger on the first broker by name, so that drivers that do this at the same moment choose the same, unless a broker
    already has the topic and the name server does not know yet. Returns the permissions by broker."""
    if not masters:
        raise NetworkError("no broker is registered with the name server now; is one running?")
    having = await all_ended(_has(cluster, at, topic) for at in masters.values())
    if not any(having):
        await set_permission(cluster, masters[min(masters)], topic, PERM_READ_WRITE)
    deadline_s = time.monotonic() + _ROUTE_WAIT_S
    while True:
        route = await cluster.name_servers.route(topic)
        if route is not None and route.queue_datas:
            return {data.broker_name: data.perm for data in route.queue_datas}
        if time.monotonic() > deadline_s:
            raise NetworkError(f"the ledger topic {topic!r} was created, and the name server does not know it")
        await asyncio.sleep(_POLL_S)


async def _has(cluster: Cluster, address: str, topic: str) -> bool:
    try:
        await topic_stats(cluster, address, topic)
    except TopicNotExist:
        return False
    return True


async def _add_placeholders(cluster: Cluster, topic: str, masters: Mapping[str, str]) -> None:
    for name, address in sorted(masters.items()):
        await _add_placeholder(cluster, topic, name, address)


async def _add_placeholder(cluster: Cluster, topic: str, name: str, address: str) -> None:
    try:
        if not await _has(cluster, address, topic):
            await _make_placeholder(cluster, topic, name, address)
    except RemoteError as error:  # only administrators may create topics here
        troubles.failed(
            ("placeholder", name),
            "broker %s cannot be told that the ledger %s is elsewhere (%s); create the topic there with one queue and perm 0, or a "
            "second ledger may be made while the first one's broker is away", name, topic, error,
        )  # fmt: skip


async def _make_placeholder(cluster: Cluster, topic: str, name: str, address: str) -> bool:
    """Make the topic at a broker a placeholder, if it is empty; return whether it is. If the caller dies in between, the topic can
    still be read, and is checked again by the next caller."""
    await set_permission(cluster, address, topic, PERM_READ)
    await asyncio.sleep(_POLL_S)  # a broker dispatches a stored message to the consume queue a moment later
    if (await cluster.ask_queue(GET_MAX_OFFSET, MessageQueue(topic, name, 0), at=address)).offset:
        return False
    await set_permission(cluster, address, topic, PERM_NONE)
    return True


async def _choose_broker(cluster: Cluster, topic: str, brokers: list[str], masters: Mapping[str, str]) -> list[str]:
    """The one of several brokers that has decisions, otherwise the first. Empty ones become placeholders."""
    away = [name for name in brokers if name not in masters]
    if away:
        raise NetworkError(f"the ledger topic {topic!r} is on {', '.join(brokers)}, and {away[0]} has no master now")
    sizes = [
        (await cluster.ask_queue(GET_MAX_OFFSET, MessageQueue(topic, name, 0), at=masters[name])).offset
        for name in brokers
    ]
    full = [name for name, size in zip(brokers, sizes, strict=True) if size]
    kept = full or brokers[:1]
    for name in brokers:
        if name not in kept and not await _make_placeholder(cluster, topic, name, masters[name]):
            kept.append(name)
    if len(kept) > 1:
        raise ConfigurationError(
            f"the ledger topic {topic!r} holds decisions on the brokers {', '.join(kept)}, and it must be on one of them only; delete "
            f"neither: stop the queries that write with it and run 'sprocketmq merge-ledger {topic} --into {kept[0]}', which copies all "
            "decisions there"
        )
    return kept
