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
    4. Only a master's topics count, or, for 5.x brokers without a master, those of the slave with the lowest id: a slave's copy may be old.
    5. A registration with an unchanged data version changes nothing that is there; it may bring back a topic that was deleted here.
    6. Two brokers that claim one id: the higher state version has it, the other one is not known (5.x controllers count it up).
    7. The first registration of an id brings more than one topic: with exactly one it is a 5.x broker's news of one topic, sent to a name
       server that has forgotten the others, and is refused until the broker has sent them all.

Acting masters (5.x, ``supportActingMaster``): a group without a master stays readable. Its topics lose their write permission, and routes
show the slave with the lowest id under the master's.

Gaps: static topics, filter servers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from sprocketmq.core.route_table import MASTER_ID
from sprocketmq.wire.bodies import BrokerData, ClusterInfo, DataVersion, QueueData, TopicConfig, TopicRouteData

__all__ = ["BROKER_EXPIRE_MS", "SCAN_INTERVAL_MS", "LiveBroker", "MinIdChange", "NamesrvTable", "Registered"]

# TopicSysFlag and PermName
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
_READ, _WRITE = 4, 2

BROKER_EXPIRE_MS = 120_000
SCAN_INTERVAL_MS = 5_000
"""``scanNotActiveBrokerInterval``."""


class LiveBroker(Struct):
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


class _Broker(Struct):
    cluster: str
    addresses: dict[int, str]
    acting_master: bool = False
    zone: str | None = None


class Registered(Struct, frozen=True):
    """Answer to a registration: for a slave the master's addresses, for a master empty. ``changed``: some route may look different.
    ``lower_id``: the broker name has a lower lowest id now, what 5.x brokers can be told."""

    master_address: str = ""
    ha_server_address: str = ""
    changed: bool = False
    lower_id: MinIdChange | None = None


class MinIdChange(Struct, frozen=True):
    """The broker with the lowest id of its name came or went. ``tell``: addresses of those who must know (5.x: 905)."""

    broker_name: str
    min_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    tell: list[str]


class NamesrvTable:
    """Brokers and topics of a name server. Times in ms.

    Attributes:
        support_acting_master: show a slave as master where a 5.x group has none.
        delete_missing_topics: a master's registration also removes what it does not name (``deleteTopicWithBrokerRegistration``).
        min_id_changes: who lost the broker with its lowest id by leaving, silence or a closed connection; the owner empties it.
    """

    __slots__ = (
        "_brokers",
        "_clusters",
        "_live",
        "_topics",
        "delete_missing_topics",
        "min_id_changes",
        "support_acting_master",
    )

    def __init__(self) -> None:
        self.support_acting_master = self.delete_missing_topics = False
        self.min_id_changes: list[MinIdChange] = []
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
        acting_master: bool | None = None,
        zone: str | None = None,
    ) -> Registered | None:
        """A broker says that it is here, and which topics it has. None: refused (law 7).

        ``acting_master`` is None for a broker before 5.0, else whether it wants acting masters.
        """
        known = self._live.get(address)
        if known is not None and known.broker_name != broker_name:
            self._remove(known)  # law 1: somebody else lived at this address before
            known = None
        broker = self._brokers.get(broker_name)
        held_by = None if broker is None else broker.addresses.get(broker_id)
        rival = self._live[held_by] if held_by is not None and held_by != address else None
        if rival is not None and rival.data_version.state_version > data_version.state_version:  # law 6
            if known is not None:
                self._remove(known)
            return Registered()
        if held_by is None and len(topics) == 1:
            return None
        if broker is None:
            broker = self._brokers[broker_name] = _Broker(cluster, {})
        self._join_cluster(cluster, broker_name, broker)
        broker.acting_master, broker.zone = bool(acting_master), zone
        lowest_before = min(broker.addresses, default=0)
        if known is not None and known.broker_id != broker_id:
            del broker.addresses[known.broker_id]  # law 1: a slave became master, or the other way round
        if rival is not None:
            del self._live[rival.address]
        broker.addresses[broker_id] = address

        changed = held_by != address or known is None or known.data_version != data_version
        is_prime_slave = acting_master is not None and broker_id == min(broker.addresses)
        if broker_id == MASTER_ID or is_prime_slave:  # law 4
            read_only = broker_id != MASTER_ID and broker.acting_master
            self._take_topics(broker_name, topics, changed=changed, read_only=read_only)
        self._live[address] = LiveBroker(
            cluster, broker_name, broker_id, address, ha_address, data_version, now_ms, timeout_ms, owner
        )
        lower = self._min_id_change(broker_name, None, ha_address) if broker_id < lowest_before else None
        if broker_id == MASTER_ID:
            return Registered(changed=changed, lower_id=lower)
        master = broker.addresses.get(MASTER_ID, "")
        live_master = self._live.get(master)
        return Registered(master, live_master.ha_address if live_master else "", changed, lower)

    def _take_topics(
        self, broker_name: str, topics: Mapping[str, TopicConfig], *, changed: bool, read_only: bool
    ) -> None:
        for name, config in topics.items():
            queue_datas = self._topics.setdefault(name, {})
            if changed or broker_name not in queue_datas:  # law 5
                data = queue_datas[broker_name] = _queue_data(broker_name, config)
                if read_only:
                    data.perm &= ~_WRITE
        if self.delete_missing_topics:
            for name in [name for name in self._topics if broker_name in self._topics[name] and name not in topics]:
                self._forget(name, broker_name)

    def _min_id_change(self, broker_name: str, offline: str | None, ha_address: str | None) -> MinIdChange:
        addresses = self._brokers[broker_name].addresses
        lowest = min(addresses)
        # A newcomer knows of itself; when somebody left, or only one is there, all are told.
        tell = [each for number, each in addresses.items() if offline or len(addresses) == 1 or number != lowest]
        return MinIdChange(broker_name, lowest, addresses[lowest], offline, ha_address, tell)

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

    def register_topic(self, topic: str, queue_datas: list[QueueData]) -> bool:
        """REGISTER_TOPIC_IN_NAMESRV (5.x): queues by an administrator's hand. False, and nothing changed: a broker is not known."""
        if not queue_datas or any(data.broker_name not in self._brokers for data in queue_datas):
            return False
        self._topics.setdefault(topic, {}).update({data.broker_name: data for data in queue_datas})
        return True

    def wipe_write_perm(self, broker_name: str) -> int:
        """Nobody shall publish to this broker any more; how many topics it has. Until it registers a change of its topics."""
        datas = self._queues_of(broker_name)
        for data in datas:
            data.perm &= ~_WRITE
        return len(datas)

    def add_write_perm(self, broker_name: str) -> int:
        """Publishing and reading are allowed again, for all topics of this broker; how many it has."""
        datas = self._queues_of(broker_name)
        for data in datas:
            data.perm = _READ | _WRITE
        return len(datas)

    def _queues_of(self, broker_name: str) -> list[QueueData]:
        return [datas[broker_name] for datas in self._topics.values() if broker_name in datas]

    def route(self, topic: str, order_topic_conf: str | None = None) -> TopicRouteData | None:
        """The route of a topic, None when there is none (the answer is TOPIC_NOT_EXIST then). A copy: it may be changed."""
        queue_datas = self._topics.get(topic)
        if not queue_datas:
            return None
        names = [name for name in queue_datas if name in self._brokers]
        if not names:
            return None
        route = TopicRouteData(
            order_topic_conf=order_topic_conf,
            queue_datas=[msgspec.structs.replace(data) for data in queue_datas.values()],
            broker_datas=[_broker_data(name, self._brokers[name]) for name in names],
        )
        if self.support_acting_master:
            for broker in route.broker_datas:
                _let_act(broker, queue_datas[broker.broker_name])
        return route

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
        """A topic once for each broker of the cluster that has it, as Apache lists them."""
        names = sorted(self._clusters.get(cluster, ()))
        return [topic for name in names for topic, datas in self._topics.items() if name in datas]

    def topics_with_flag(self, wanted: int, unwanted: int = 0) -> list[str]:
        """Topics by their system flag: of a unit, or subscribed to by one."""
        first = ((topic, next(iter(datas.values())).topic_sys_flag) for topic, datas in self._topics.items() if datas)
        return [topic for topic, flag in first if flag & wanted and not flag & unwanted]

    def system_topics(self) -> tuple[list[str], str | None]:
        """The topics named like clusters and brokers, and the address of one broker, for asking it for more."""
        names = [name for cluster, brokers in self._clusters.items() for name in (cluster, *sorted(brokers))]
        address = next((address for broker in self._brokers.values() for address in broker.addresses.values()), None)
        return names, address

    def members(self, broker_name: str) -> dict[int, str]:
        """GET_BROKER_MEMBER_GROUP (5.x): addresses by id."""
        broker = self._brokers.get(broker_name)
        return {} if broker is None else dict(broker.addresses)

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

    def _forget(self, topic: str, broker_name: str) -> None:
        queue_datas = self._topics[topic]
        queue_datas.pop(broker_name, None)
        if not queue_datas:
            del self._topics[topic]

    def _remove(self, live: LiveBroker) -> None:
        self._live.pop(live.address, None)
        broker = self._brokers.get(live.broker_name)
        if broker is None:
            return
        lowest_before = min(broker.addresses)
        broker.addresses = {number: address for number, address in broker.addresses.items() if address != live.address}
        if broker.addresses:
            if broker.acting_master:
                if MASTER_ID not in broker.addresses:
                    self.wipe_write_perm(live.broker_name)
                if live.broker_id == lowest_before:
                    self.min_id_changes.append(self._min_id_change(live.broker_name, live.address, None))
            return
        del self._brokers[live.broker_name]
        self._leave_cluster(live.cluster, live.broker_name)
        for topic in [topic for topic, datas in self._topics.items() if live.broker_name in datas]:
            self._forget(topic, live.broker_name)

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
    return BrokerData(
        cluster=broker.cluster,
        broker_name=broker_name,
        broker_addrs=dict(broker.addresses),
        enable_acting_master=broker.acting_master,
        zone_name=broker.zone,
    )


def _let_act(broker: BrokerData, queues: QueueData) -> None:
    """Show the slave with the lowest id as master, if the group has none and its queues cannot be written to."""
    addresses = broker.broker_addrs
    if broker.enable_acting_master and MASTER_ID not in addresses and not queues.perm & _WRITE:
        addresses[MASTER_ID] = addresses.pop(min(addresses))
