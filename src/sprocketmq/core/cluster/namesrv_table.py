# SPDX-License-Identifier: Apache-2.0
"""The brokers and topics of a name server. Java: RouteInfoManager. (Not here: static topics, filter servers.)

    broker --REGISTER_BROKER each 30 s--> add_topics, ... -----+-- clusters   cluster name -> broker names
                                                               +-- brokers    broker name  -> {id -> address}
                                                               +-- topics     topic        -> {broker name -> QueueData}
                                                               `-- live       address      -> last seen, data version, connection
           --UNREGISTER_BROKER / connection closed / silent for 120 s--> gone from all four

Rules
    1. One (broker name, id) has one address, and one address has one id per broker name (a slave that becomes master moves).
    2. Every address of ``brokers`` is live, and the other way round.
    3. A route names only brokers that are registered; a topic without any broker left is gone.
    4. Only a master's topics count, or, for 5.x brokers without a master, those of the slave with the lowest id: a slave's copy may be old.
    5. A registration with an unchanged data version only brings back topics that were deleted here.
    6. If two brokers claim one id, the one with the higher state version has it, and the other is unknown (5.x controllers count it up).
    7. A first registration with exactly one topic is refused: it is a 5.x broker's update, sent to a name server that has lost the others.
    8. There are at most ``max_brokers`` addresses and ``max_topics`` pairs of topic and broker.
    9. A registration may be processed in shares. If a later one of its address has begun, or its broker has left, it adds no more topics.
       Its data version is stored after the last share, so that missing topics come with the next registration.
   10. An address that takes back its id from another one is a rival of that one (two brokers have one name and id) until neither has lost
       the id to the other for 120 s. (A broker that moves to another address does not come back.)
   11. A broker that is lost is remembered for a day, and one that took its leave for an hour, until its name and id, or its address, are
       registered again: the rest of the cluster would look whole.

Acting masters (5.x, ``supportActingMaster``): the topics of a group without a master lose their write permission, and routes show the slave
with the lowest id under the master's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct

from sprocketmq.core.cluster.registration import LiveBroker, MinIdChange, RegistrationResult, TopicRegistration
from sprocketmq.core.produce.route_table import MASTER_ID, PERM_READ_WRITE, PERM_WRITE
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.bodies import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    GoneBroker,
    QueueData,
    TopicConfig,
    TopicRouteData,
)

# TopicSysFlag
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2

BROKER_EXPIRE_MS = 120_000
MAX_BROKERS = 1_000
MAX_TOPICS = 200_000
_MOST_RIVALS = 8  # of one name and id
_LOST_FOR_MS = 86_400_000
_LEFT_FOR_MS = 3_600_000


class _Broker(Struct):
    cluster: str
    addresses: dict[int, str]
    acting_master: bool = False
    zone: str | None = None
    topics: dict[str, None] = {}
    """The keys are the topics of this broker, so that removing it does not search the topics of the others."""


class _Gone(Struct, frozen=True):
    cluster: str
    address: str
    at_ms: int
    has_left: bool


class NamesrvTable:
    """Times in ms. ``delete_missing_topics``: of a master's registration. ``min_id_changes``: lost lowest ids; the owner empties it."""

    __slots__ = (
        "_brokers",
        "_clusters",
        "_displaced",
        "_gone",
        "_live",
        "_rivals",
        "_topic_count",
        "_topics",
        "delete_missing_topics",
        "max_brokers",
        "max_topics",
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
        self.max_brokers, self.max_topics = MAX_BROKERS, MAX_TOPICS
        self._topic_count = 0  # pairs of topic and broker
        self._displaced: dict[tuple[str, int], dict[str, int]] = {}  # broker name and id -> who lost it, and when
        self._rivals: set[tuple[str, int]] = set()  # of which one came back
        self._gone: dict[tuple[str, int], _Gone] = {}  # by broker name and id (rule 11)

    def begin_registration(
        self,
        cluster: str,
        broker_name: str,
        broker_id: int,
        address: str,
        topic_count: int,
        data_version: DataVersion,
        now_ms: int,
        *,
        ha_address: str = "",
        timeout_ms: int = BROKER_EXPIRE_MS,
        owner: object = None,
        acting_master: bool | None = None,
        zone: str | None = None,
    ) -> TopicRegistration | RegistrationResult | None:
        """``add_topics`` and ``finish_registration`` follow. None: refused (rule 7). ``acting_master`` is None for a broker before 5.0,
        else whether it wants acting masters. Raises ConfigurationError (rule 8)."""
        known = self._live.get(address)
        self.check_capacity(broker_name, address, topic_count)
        if known is not None and known.broker_name != broker_name:
            self._remove(known)  # rule 1: another broker had this address before
            known = None
        broker = self._brokers.get(broker_name)
        held_by = None if broker is None else broker.addresses.get(broker_id)
        rival = self._live[held_by] if held_by is not None and held_by != address else None
        if rival is not None and rival.data_version.state_version > data_version.state_version:  # rule 6
            if known is not None:
                self._remove(known)
            return RegistrationResult()
        if held_by is None and topic_count == 1:
            return None
        if broker is None:
            broker = self._brokers[broker_name] = _Broker(cluster, {})
        self._join_cluster(cluster, broker_name, broker)
        broker.acting_master, broker.zone = bool(acting_master), zone
        lowest_before = min(broker.addresses, default=0)
        if known is not None and known.broker_id != broker_id:
            del broker.addresses[known.broker_id]  # rule 1: a slave became master, or the other way round
        new_rival = None
        if rival is not None:
            del self._live[rival.address]
            is_elected = rival.data_version.state_version < data_version.state_version  # by a controller
            if not is_elected and self._displace(broker_name, broker_id, rival.address, address, now_ms):
                new_rival = rival.address
        broker.addresses[broker_id] = address
        self._gone = {
            key: one for key, one in self._gone.items() if key != (broker_name, broker_id) and one.address != address
        }

        changed = held_by != address or known is None or known.data_version != data_version
        is_prime_slave = acting_master is not None and broker_id == min(broker.addresses)
        before = (
            DataVersion(counter=-1, state_version=data_version.state_version) if known is None else known.data_version
        )
        live = self._live[address] = LiveBroker(
            cluster, broker_name, broker_id, address, ha_address, before, now_ms, timeout_ms, owner
        )
        lower = self._min_id_change(broker_name, None, ha_address) if broker_id < lowest_before else None
        if broker_id == MASTER_ID:
            result = RegistrationResult(changed=changed, lower_id=lower)
        else:
            master = broker.addresses.get(MASTER_ID, "")
            live_master = self._live.get(master)
            result = RegistrationResult(master, live_master.ha_address if live_master else "", changed, lower)
        return TopicRegistration(
            result,
            live,
            data_version,
            changed=changed,
            read_only=broker_id != MASTER_ID and broker.acting_master,
            wanted=broker_id == MASTER_ID or is_prime_slave,  # rule 4
            rival=new_rival,
        )

    def _displace(self, broker_name: str, broker_id: int, before: str, address: str, now_ms: int) -> bool:
        """True: the two are rivals, and were not known as such (rule 10)."""
        key = broker_name, broker_id
        if key not in self._displaced and len(self._displaced) >= self.max_brokers:
            return False
        displaced = self._displaced.setdefault(key, {})
        is_back = displaced.pop(address, None) is not None
        if len(displaced) < _MOST_RIVALS:
            displaced[before] = now_ms
        is_new = is_back and key not in self._rivals
        if is_back:
            self._rivals.add(key)
        return is_new

    def forget_old(self, now_ms: int) -> None:
        """Rivals that do not take turns any more, and brokers that are gone for long."""
        self._gone = {
            key: one
            for key, one in self._gone.items()
            if now_ms - one.at_ms <= (_LEFT_FOR_MS if one.has_left else _LOST_FOR_MS)
        }
        for key, displaced in list(self._displaced.items()):
            kept = {address: at_ms for address, at_ms in displaced.items() if now_ms - at_ms <= BROKER_EXPIRE_MS}
            if kept:
                self._displaced[key] = kept
            else:
                del self._displaced[key]
                self._rivals.discard(key)

    def check_capacity(self, broker_name: str, address: str, topic_count: int) -> None:
        """Raises ConfigurationError: there are too many brokers or topics (rule 8)."""
        if address not in self._live and len(self._live) >= self.max_brokers:
            raise ConfigurationError(
                f"this name server knows {len(self._live)} brokers, {self.max_brokers} are allowed; raise maxBrokers if they are yours"
            )
        broker = self._brokers.get(broker_name)
        others = self._topic_count - (0 if broker is None else len(broker.topics))
        if others + topic_count > self.max_topics:
            raise ConfigurationError(
                f"with the {topic_count} topics of this registration there would be {others + topic_count}, "
                f"{self.max_topics} are allowed; delete some, or raise maxTopics"
            )

    def add_topics(self, registration: TopicRegistration, topics: Mapping[str, TopicConfig]) -> bool:
        """Add a share of the topics. False: the registration is outdated, and nothing was done (rule 9)."""
        live, broker_name = registration.live, registration.live.broker_name
        if self._live.get(live.address) is not live:
            return False
        if not registration.wanted:
            return True
        broker = self._brokers[broker_name]
        for name, config in topics.items():
            queue_datas = self._topics.get(name)
            known = queue_datas is not None and broker_name in queue_datas
            if (
                not known and self._topic_count >= self.max_topics
            ):  # split in many registrations: none of them is too large
                continue
            if queue_datas is None:
                queue_datas = self._topics[name] = {}
            if registration.changed or not known:  # rule 5
                self._put(name, broker_name, broker, _queue_data(broker_name, config))
                if registration.read_only:
                    queue_datas[broker_name].perm &= ~PERM_WRITE
        if self.delete_missing_topics:
            registration.named.update(dict.fromkeys(topics))
        return True

    def finish_registration(self, registration: TopicRegistration, *, is_whole: bool = True) -> RegistrationResult:
        """End a registration after the last share. ``is_whole``: these are all topics of the broker, so others are dropped."""
        live = registration.live
        if self._live.get(live.address) is live:
            live.data_version = registration.data_version
            if self.delete_missing_topics and registration.wanted and is_whole:
                for name in [name for name in self._brokers[live.broker_name].topics if name not in registration.named]:
                    self._forget(name, live.broker_name)
        return registration.result

    def _put(self, topic: str, broker_name: str, broker: _Broker, data: QueueData) -> None:
        if topic not in broker.topics:
            broker.topics[topic] = None
            self._topic_count += 1
        self._topics.setdefault(topic, {})[broker_name] = data

    def _min_id_change(self, broker_name: str, offline: str | None, ha_address: str | None) -> MinIdChange:
        addresses = self._brokers[broker_name].addresses
        lowest = min(addresses)
        # A broker that has just registered is not notified of itself. When one left, or there is only one, all are notified.
        notified = [each for number, each in addresses.items() if offline or len(addresses) == 1 or number != lowest]
        return MinIdChange(broker_name, lowest, addresses[lowest], offline, ha_address, notified)

    def unregister(self, cluster: str, broker_name: str, address: str, now_ms: int) -> bool:
        """False: it was not known."""
        live = self._live.get(address)
        if live is None or (live.cluster, live.broker_name) != (cluster, broker_name):
            return False
        self._remove(live)
        self._remember(live, now_ms, has_left=True)
        return True

    def _remember(self, live: LiveBroker, now_ms: int, *, has_left: bool) -> None:
        if len(self._gone) < self.max_brokers:
            gone = _Gone(live.cluster, live.address, now_ms, has_left)
            self._gone[live.broker_name, live.broker_id] = gone

    def connection_closed(self, owner: object, now_ms: int) -> Iterator[LiveBroker]:
        """The connection of a broker was closed: remove the broker until it registers again. Step by step, see ``_removed``."""
        return self._removed(lambda live: live.owner is owner, now_ms)

    def expire(self, now_ms: int) -> Iterator[LiveBroker]:
        """Removes brokers silent for longer than their timeout and names them, so that their connections can be closed. Step by step."""
        return self._removed(lambda live: live.last_update_ms + live.timeout_ms < now_ms, now_ms)

    def _removed(self, is_gone: Callable[[LiveBroker], bool], now_ms: int) -> Iterator[LiveBroker]:
        """Each broker that is gone, removed when it is asked for: it may have 20,000 topics, and one connection may bring many brokers."""
        for live in [live for live in self._live.values() if is_gone(live)]:
            if self._live.get(live.address) is live and is_gone(live):  # it may have come back between two steps
                self._remove(live)
                self._remember(live, now_ms, has_left=False)
                yield live

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
            self._forget(topic, name)
        return bool(names)

    def register_topic(self, topic: str, queue_datas: list[QueueData]) -> bool:
        """Queues set by an administrator (5.x). False: a broker is not known, or there are too many topics; nothing changed."""
        if not queue_datas or any(data.broker_name not in self._brokers for data in queue_datas):
            return False
        if self._topic_count + len(queue_datas) > self.max_topics:
            return False
        for data in queue_datas:
            self._put(topic, data.broker_name, self._brokers[data.broker_name], data)
        return True

    def wipe_write_perm(self, broker_name: str) -> int:
        """Forbid publishing to this broker until it registers changed topics; returns how many topics it has."""
        datas = self._queues_of(broker_name)
        for data in datas:
            data.perm &= ~PERM_WRITE
        return len(datas)

    def add_write_perm(self, broker_name: str) -> int:
        """Publishing and reading are allowed again, for all topics of this broker; how many it has."""
        datas = self._queues_of(broker_name)
        for data in datas:
            data.perm = PERM_READ_WRITE
        return len(datas)

    def _queues_of(self, broker_name: str) -> list[QueueData]:
        broker = self._brokers.get(broker_name)
        return [] if broker is None else [self._topics[topic][broker_name] for topic in broker.topics]

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
                _show_acting_master(broker, queue_datas[broker.broker_name])
        return route

    def cluster_info(self, now_ms: int) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={name: _broker_data(name, broker) for name, broker in self._brokers.items()},
            cluster_addr_table={cluster: sorted(names) for cluster, names in self._clusters.items()},
            rivals=self._told_rivals() or None,
            gone=self._told_gone(now_ms) or None,
        )

    def _told_gone(self, now_ms: int) -> dict[str, dict[int, GoneBroker]]:
        found: dict[str, dict[int, GoneBroker]] = {}
        for (name, broker_id), one in sorted(self._gone.items()):
            gone = GoneBroker(
                cluster=one.cluster, address=one.address, gone_for_ms=now_ms - one.at_ms, has_left=one.has_left
            )
            found.setdefault(name, {})[broker_id] = gone
        return found

    def _told_rivals(self) -> dict[str, dict[int, list[str]]]:
        found: dict[str, dict[int, list[str]]] = {}
        for name, broker_id in sorted(self._rivals):
            found.setdefault(name, {})[broker_id] = sorted(self._displaced[name, broker_id])
        return found

    def topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """A topic once for each broker of the cluster that has it, as Apache lists them."""
        names = sorted(self._clusters.get(cluster, ()))
        return [topic for name in names for topic in self._brokers[name].topics]

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
        """GET_BROKER_MEMBER_GROUP (5.x)."""
        broker = self._brokers.get(broker_name)
        return {} if broker is None else dict(broker.addresses)

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
        if queue_datas.pop(broker_name, None) is not None:
            self._topic_count -= 1
            broker = self._brokers.get(broker_name)
            if broker is not None:
                broker.topics.pop(topic, None)
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
        for topic in broker.topics:
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
        present = {(name, number) for _, name, number, _ in named}
        assert not present & self._gone.keys(), "a broker that is registered counts as gone"
        pairs = sum(len(queue_datas) for queue_datas in self._topics.values())
        assert pairs == self._topic_count == sum(len(broker.topics) for broker in self._brokers.values())


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


def _show_acting_master(broker: BrokerData, queues: QueueData) -> None:
    """Show the slave with the lowest id as master, if the group has none and its queues cannot be written to."""
    addresses = broker.broker_addrs
    if broker.enable_acting_master and MASTER_ID not in addresses and not queues.perm & PERM_WRITE:
        addresses[MASTER_ID] = addresses.pop(min(addresses))
