# SPDX-License-Identifier: Apache-2.0
"""Bodies of the name server: routes and clusters (Java: TopicRouteData, BrokerData, ClusterInfo, TopicList, KVTable)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.text import fastjson


class QueueData(Body):
    """A topic's queues on one broker. ``perm`` bits: read 4, write 2, inherit 1."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


class BrokerData(Body):
    """One broker name and its addresses by broker id; 0 is the master."""

    cluster: str | None = None
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(Body):
    """Body of the answer to GET_ROUTEINFO_BY_TOPIC (105). ``order_topic_conf`` (``b1:4;b2:4``) overrides the queues for sending."""

    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    order_topic_conf: str | None = None
    filter_server_table: dict[str, list[str]] = {}

    def encode_standard(self) -> bytes:
        """Encode as standard JSON: for a client of version 4.9.4 or later, or one that sets acceptStandardJsonOnly."""
        return fastjson.dumps_standard(self)


class GoneBroker(Body):
    """A broker that was registered. ``has_left``: it took its leave; else its connection broke, or it was silent."""

    cluster: str = ""
    address: str = ""
    gone_for_ms: int = 0
    has_left: bool = False


class ClusterInfo(Body):
    """Body of the answer to GET_BROKER_CLUSTER_INFO (106): brokers by name, broker names by cluster. Only our name server tells
    ``rivals``: by broker name and id the addresses that take turns with the one in ``broker_addr_table``; and ``gone``."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}
    rivals: dict[str, dict[int, list[str]]] | None = None
    gone: dict[str, dict[int, GoneBroker]] | None = None


class TopicList(Body):
    topic_list: list[str] = []
    broker_addr: str | None = None


class KVTable(Body):
    """A table of names and texts: runtime info of a broker (28), and settings of a name server."""

    table: dict[str, str] = msgspec.field(default_factory=dict)


class KVConfig(Body):
    """The file ``kvConfig.json``: texts by key, by namespace (Java: KVConfigSerializeWrapper)."""

    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class BrokerMemberGroup(Body):
    cluster: str | None = None
    broker_name: str | None = None
    broker_addrs: dict[int, str] = {}


class GetBrokerMemberGroupResponseBody(Body):
    broker_member_group: BrokerMemberGroup | None = None
