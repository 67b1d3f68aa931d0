# SPDX-License-Identifier: Apache-2.0
"""Finds the address of a broker's master in a route.

A replica may be behind its master, or have deleted more of the beginning, so a message that it lacks may exist. A 5.x name server
(``supportActingMaster``) shows the replica with the lowest id as number 0 while the group has no master, and takes the permission to write
from its queues (RouteInfoManager.pickupTopicRouteData); GET_BROKER_CLUSTER_INFO always has the real numbers.
"""

from __future__ import annotations

from typing import Final

from sprocketmq.wire.bodies import BrokerData, TopicRouteData

MASTER: Final = 0
_WRITE: Final = 2


def known_master(route: TopicRouteData, broker_name: str) -> str | None:
    """The master of a broker; None if there is none, or if the route may show an acting master instead."""
    broker = _broker(route, broker_name)
    if broker is None or (broker.enable_acting_master and not _may_be_written(route, broker_name)):
        return None
    return broker.broker_addrs.get(MASTER)


def known_replica(route: TopicRouteData, broker_name: str) -> str | None:
    """The replica with the lowest id, or the acting master."""
    broker = _broker(route, broker_name)
    return broker.broker_addrs[min(broker.broker_addrs)] if broker is not None and broker.broker_addrs else None


def _broker(route: TopicRouteData, broker_name: str) -> BrokerData | None:
    return next((broker for broker in route.broker_datas if broker.broker_name == broker_name), None)


def _may_be_written(route: TopicRouteData, broker_name: str) -> bool:
    return any(data.perm & _WRITE for data in route.queue_datas if data.broker_name == broker_name)
