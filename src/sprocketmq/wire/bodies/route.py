"""What the name server knows: routes and clusters (Java: TopicRouteData, BrokerData, ClusterInfo, TopicList, KVTable)."""

from __future__ import annotations

from typing import Any

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.text import fastjson

__all__ = [
    "BrokerData",
    "BrokerMemberGroup",
    "ClusterInfo",
    "GetBrokerMemberGroupResponseBody",
    "KVConfig",
    "KVTable",
    "QueueData",
    "TopicList",
    "TopicRouteData",
]


class QueueData(Body):
    """A topic's queues on one broker. ``perm`` bits: read 4, write 2, inherit 1."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


class BrokerData(Body):
    """One broker name and the addresses behind it by broker id: 0 is the master."""

    cluster: str | None = None
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(Body):
    """Answer to code 105. ``order_topic_conf`` (``b1:4;b2:4``) overrides the queues that are published to."""

    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    order_topic_conf: str | None = None
    filter_server_table: dict[str, list[str]] = {}

    def encode_standard(self) -> bytes:
        """In standard JSON: for an asker of version 4.9.4 or later, or one that sets acceptStandardJsonOnly."""
        return fastjson.dumps_standard(self)


class ClusterInfo(Body):
    """Answer to code 106: brokers by name, broker names by cluster."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(Body):
    """Answer to code 206 and other lists of topics."""

    topic_list: list[str] = []
    broker_addr: str | None = None


class KVTable(Body):
    """Text by text: broker runtime info (28) and name server settings."""

    table: dict[str, str] = msgspec.field(default_factory=dict)

    def set(self, name: str, value: Any) -> None:
        """Everything in this table travels as text."""
        self.table[name] = str(value)


class KVConfig(Body):
    """``kvConfig.json``: texts by key, by namespace (Java: KVConfigSerializeWrapper)."""

    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class BrokerMemberGroup(Body):
    """The brokers of one name by id."""

    cluster: str | None = None
    broker_name: str | None = None
    broker_addrs: dict[int, str] = {}


class GetBrokerMemberGroupResponseBody(Body):
    """Answer to code 901."""

    broker_member_group: BrokerMemberGroup | None = None
