"""What a name server knows. Java: RouteInfoManager.

    broker --REGISTER_BROKER each 30 s--> register --+-- clusters   cluster name -> broker names
                                                     +-- brokers    broker name  -> {id -> address}
                                                     +-- topics     topic        -> {broker name -> QueueData}
                                                     `-- live       address      -> last seen, data version, connection
           --UNREGISTER_BROKER / connection closed / silent for 120 s--> gone from all four

Laws
    1. One (broker name, id) has one address, and one address has one id per broker name (a slave that becomes master moves).
    2. Every address of ``brokers`` is live, and the other way round.
    3. A route names only brokers that are registered; a topic without any broker left is gone.
    4. Only a master's topics count: a slave's copy may be old.
    5. An unchanged data version changes no topic.

Gaps: acting masters (5.x), static topics, filter servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sprocketmq.core.route_table import MASTER_ID
from sprocketmq.wire.bodies import BrokerData, ClusterInfo, DataVersion, QueueData, TopicConfig, TopicRouteData

__all__ = ["BROKER_EXPIRE_MS", "SCAN_INTERVAL_MS", "LiveBroker", "NamesrvTable", "Registered"]

BROKER_EXPIRE_MS = 120_000
SCAN_INTERVAL_MS = 5_000
"""``scanNotActiveBrokerInterval``."""


@dataclass(slots=True)
class LiveBroker:
    """One registered address. ``owner`` is its connection, ``timeout_ms`` how long it may be silent."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    data_version: DataVersion
    last_update_ms: int
    timeout_ms: int
    owner: object


@dataclass(slots=True)
class _Broker:
    cluster: str
    addresses: dict[int, str]


@dataclass(frozen=True, slots=True)
class Registered:
    """Answer to a registration: for a slave the master's addresses, for a master empty. ``changed``: some route may look different."""

    master_address: str = ""
    ha_server_address: str = ""
    changed: bool = False


class NamesrvTable:
    """Brokers and topics of a name server. Times in ms."""

    __slots__ = ("_brokers", "_clusters", "_live", "_topics")

    def __init__(self) -> None:
        self._clusters: dict[str, set[str]] = {}
        self._brokers: dict[str, _Broker] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._live: dict[str, LiveBroker] = {}

    def register(
        self,
        cluster: str,
        broker_name: str,
        broker_id: int,
        address: str,
        topics: Mapping[str, TopicConfig],
        data_version: DataVersion,
        now_ms: int,
        *,
        ha_address: str = "",
        timeout_ms: int = BROKER_EXPIRE_MS,
        owner: object = None,
    ) -> Registered:
        """A broker says that it is here, and which topics it has."""
        known = self._live.get(address)
        if known is not None and known.broker_name != broker_name:
            self._remove(known)  # law 1: somebody else lived at this address before
            known = None
        broker = self._brokers.get(broker_name)
        if broker is None:
            broker = self._brokers[broker_name] = _Broker(cluster, {})
        self._join_cluster(cluster, broker_name, broker)
        if known is not None and known.broker_id != broker_id:
            del broker.addresses[known.broker_id]  # law 1: a slave became master, or the other way round
        old_address = broker.addresses.get(broker_id)
        if old_address is not None and old_address != address:
            del self._live[old_address]
        broker.addresses[broker_id] = address

        changed = old_address != address or known is None or known.data_version != data_version
        if broker_id == MASTER_ID and changed:
            for name, config in topics.items():
                self._topics.setdefault(name, {})[broker_name] = _queue_data(broker_name, config)
        self._live[address] = LiveBroker(
            cluster, broker_name, broker_id, address, ha_address, data_version, now_ms, timeout_ms, owner
        )
        if broker_id == MASTER_ID:
            return Registered(changed=changed)
        master = broker.addresses.get(MASTER_ID, "")
        live_master = self._live.get(master)
        return Registered(master, live_master.ha_address if live_master else "", changed)

    def unregister(self, cluster: str, broker_name: str, address: str) -> bool:
        """A broker leaves in order; False when it was not known."""
        live = self._live.get(address)
        if live is None or (live.cluster, live.broker_name) != (cluster, broker_name):
            return False
        self._remove(live)
        return True

    def connection_closed(self, owner: object) -> list[LiveBroker]:
        """The connection a broker registered over is gone: so is the broker, until it registers again."""
        gone = [live for live in self._live.values() if live.owner is owner]
        for live in gone:
            self._remove(live)
        return gone

    def expire(self, now_ms: int) -> list[LiveBroker]:
        """Removes brokers silent for longer than their timeout and names them, so that their connections can be closed."""
        gone = [live for live in self._live.values() if live.last_update_ms + live.timeout_ms < now_ms]
        for live in gone:
            self._remove(live)
        return gone

    def touch(self, cluster: str, address: str, now_ms: int) -> DataVersion | None:
        """QUERY_DATA_VERSION: counts as a sign of life; returns the version known, None when the broker is not."""
        live = self._live.get(address)
        if live is None or live.cluster != cluster:
            return None
        live.last_update_ms = now_ms
        return live.data_version

    def delete_topic(self, topic: str, cluster: str | None = None) -> bool:
        """DELETE_TOPIC_IN_NAMESRV: forgets a topic, in one cluster or everywhere."""
        queue_datas = self._topics.get(topic)
        if queue_datas is None:
            return False
        names = list(queue_datas) if cluster is None else [name for name in queue_datas if self._is_in(name, cluster)]
        for name in names:
            del queue_datas[name]
        if not queue_datas:
            del self._topics[topic]
        return bool(names)

    def route(self, topic: str, order_topic_conf: str | None = None) -> TopicRouteData | None:
        """The route of a topic, None when there is none (the answer is TOPIC_NOT_EXIST then). A copy: it may be changed."""
        queue_datas = self._topics.get(topic)
        if not queue_datas:
            return None
        names = [name for name in queue_datas if name in self._brokers]
        if not names:
            return None
        return TopicRouteData(
            order_topic_conf=order_topic_conf,
            queue_datas=[queue_datas[name] for name in queue_datas],
            broker_datas=[_broker_data(name, self._brokers[name]) for name in names],
        )

    def cluster_info(self) -> ClusterInfo:
        """GET_BROKER_CLUSTER_INFO."""
        return ClusterInfo(
            broker_addr_table={name: _broker_data(name, broker) for name, broker in self._brokers.items()},
            cluster_addr_table={cluster: sorted(names) for cluster, names in self._clusters.items()},
        )

    def topics(self) -> list[str]:
        """All topic names."""
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        return [topic for topic, datas in self._topics.items() if any(self._is_in(name, cluster) for name in datas)]

    def live_brokers(self) -> list[LiveBroker]:
        return list(self._live.values())

    def _is_in(self, broker_name: str, cluster: str) -> bool:
        return broker_name in self._clusters.get(cluster, ())

    def _join_cluster(self, cluster: str, broker_name: str, broker: _Broker) -> None:
        if broker.cluster != cluster:
            self._leave_cluster(broker.cluster, broker_name)
            broker.cluster = cluster
            for address in broker.addresses.values():
                self._live[address].cluster = cluster
        self._clusters.setdefault(cluster, set()).add(broker_name)

    def _leave_cluster(self, cluster: str, broker_name: str) -> None:
        names = self._clusters.get(cluster)
        if names is not None:
            names.discard(broker_name)
            if not names:
                del self._clusters[cluster]

    def _remove(self, live: LiveBroker) -> None:
        self._live.pop(live.address, None)
        broker = self._brokers.get(live.broker_name)
        if broker is None:
            return
        broker.addresses = {number: address for number, address in broker.addresses.items() if address != live.address}
        if broker.addresses:
            return
        del self._brokers[live.broker_name]
        self._leave_cluster(live.cluster, live.broker_name)
        for topic in list(self._topics):
            queue_datas = self._topics[topic]
            queue_datas.pop(live.broker_name, None)
            if not queue_datas:
                del self._topics[topic]

    def check_invariants(self) -> None:
        named = [
            (address, name, number, broker.cluster)
            for name, broker in self._brokers.items()
            for number, address in broker.addresses.items()
        ]
        live = [(one.address, one.broker_name, one.broker_id, one.cluster) for one in self._live.values()]
        assert sorted(named) == sorted(live), "brokers and live brokers disagree"
        for name, broker in self._brokers.items():
            assert broker.addresses, "a broker without an address"
            assert len(set(broker.addresses.values())) == len(broker.addresses), "one address under two ids"
            assert name in self._clusters[broker.cluster], "a broker outside of its cluster"
        for cluster, names in self._clusters.items():
            assert names, "an empty cluster stays"
            assert all(self._brokers[name].cluster == cluster for name in names), "a cluster names a stranger"
        for queue_datas in self._topics.values():
            assert queue_datas, "a topic without queues stays"
            assert queue_datas.keys() <= self._brokers.keys(), "a topic on a broker that is gone"


def _queue_data(broker_name: str, config: TopicConfig) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )


def _broker_data(broker_name: str, broker: _Broker) -> BrokerData:
    return BrokerData(cluster=broker.cluster, broker_name=broker_name, broker_addrs=dict(broker.addresses))
