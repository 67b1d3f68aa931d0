# SPDX-License-Identifier: Apache-2.0
"""Brokers and name servers (mqadmin: clusterList, brokerStatus, updateBrokerConfig, wipeWritePerm, ...)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sprocketmq.client.admin.session import AdminRequests
from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.core.quantities import duration
from sprocketmq.core.resource_names import DEFAULT_TOPIC
from sprocketmq.errors import (
    ConfigurationError,
    NetworkError,
    ProtocolError,
    RemoteError,
    RequestNotServed,
    RequestTimeout,
    SystemBusy,
)
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Buffer
from sprocketmq.wire.text.java_properties import format_properties, parse_properties


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A summary of one broker.

    Attributes:
        broker_id: 0 for the master.
        is_up: False if it does not answer, or answers what cannot be read, or is gone; then all else is empty.
        in_tps, out_tps: messages stored and delivered per second in the last 10 s.
        messages_today_in, messages_today_out: messages stored and delivered since midnight.
        info: see ``broker_runtime_info``.
        rivals: addresses of other brokers that register with this name and id in turn with it; only our name server tells them.
        gone_for_ms: for how many milliseconds it is not registered any more; None if it is. Only our name server remembers a lost
            broker, for a day, and one that took its leave, for an hour.
        has_left: whether it took its leave when it went, as one that is stopped does; None if unknown, or if it is not gone.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    is_up: bool
    version: str
    in_tps: float
    out_tps: float
    messages_today_in: int
    messages_today_out: int
    info: Mapping[str, str]
    rivals: tuple[str, ...] = ()
    gone_for_ms: int | None = None
    has_left: bool | None = None

    @property
    def is_lost(self) -> bool:
        """Whether it went without its leave."""
        return self.has_left is False

    @property
    def absence(self) -> str | None:
        """A clause about a broker that is gone; None if it is not."""
        if self.gone_for_ms is None:
            return None
        how = {True: "took its leave", False: "was lost", None: "was registered last"}[self.has_left]
        number = f" with id {self.broker_id}" if self.broker_id else ""
        return f"{self.broker_name}{number} at {self.address} {how} {duration(self.gone_for_ms)} ago"

    @property
    def rivalry(self) -> str | None:
        """A sentence about the rivals; None if there are none."""
        return rivalry(self.broker_name, self.broker_id, (self.address, *self.rivals)) if self.rivals else None


def gone_brokers(info: bodies.ClusterInfo, cluster: str | None = None) -> list[BrokerStatus]:
    """Those that the name server remembers."""
    return [
        BrokerStatus(
            *(one.cluster, name, broker_id, one.address, False, "", 0.0, 0.0, 0, 0, {}),
            gone_for_ms=max(0, one.gone_for_ms),
            has_left=one.has_left,
        )
        for name, by_id in sorted((info.gone or {}).items())
        for broker_id, one in sorted(by_id.items())
        if cluster in (None, one.cluster)
    ]


def rivalry(broker_name: str, broker_id: int, addresses: Collection[str]) -> str:
    """What is wrong with several brokers of one name and id."""
    return (
        f"{broker_name} with id {broker_id} is registered in turn by {len(addresses)} brokers, at {', '.join(addresses)}: clients use the "
        "one that registered last; give each a brokerName of its own"
    )


class BrokerRequests(AdminRequests):
    """The part of AsyncAdmin about brokers and name servers."""

    # -- status ---------------------------------------------------------------------------------------------------------------

    async def proxy(self) -> str | None:
        """The address of the proxy that is name server and broker here, as at a managed service; None if a name server answers."""
        try:
            await self._cluster.name_servers.cluster_info()
        except RequestNotServed as error:
            return error.address
        return None

    async def cluster_info(self) -> bodies.ClusterInfo:
        """The brokers of each cluster, and their addresses by broker name and id."""
        return await self._cluster.name_servers.cluster_info()

    async def brokers(self, *, cluster: str | None = None) -> list[BrokerStatus]:
        """All registered brokers, masters and slaves, sorted by name and id (mqadmin: clusterList); then those that are gone."""
        info = await self._cluster.name_servers.cluster_info()
        clusters = {name: cluster for cluster, names in info.cluster_addr_table.items() for name in names}
        wanted = [
            (clusters.get(name, ""), name, broker_id, address)
            for name in sorted(self._names(info, cluster))
            for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
        ]

        asked = requests.brokers.GET_BROKER_RUNTIME_INFO

        async def status(cluster: str, name: str, broker_id: int, address: str) -> BrokerStatus:
            try:
                runtime_info = dict((await self._cluster.ask_body(asked, at=address)).table)
            except (NetworkError, RequestTimeout, ProtocolError, SystemBusy):  # what it says of itself is not known
                return BrokerStatus(cluster, name, broker_id, address, False, "", 0.0, 0.0, 0, 0, {})
            return BrokerStatus(
                cluster,
                name,
                broker_id,
                address,
                True,
                runtime_info.get("brokerVersionDesc", ""),
                _first_number(runtime_info.get("putTps")),
                _first_number(runtime_info.get("getTransferedTps") or runtime_info.get("getTransferredTps")),
                _since(runtime_info, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
                _since(runtime_info, "msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
                runtime_info,
            )

        found = await all_ended(status(*one) for one in wanted)
        rivals = info.rivals or {}
        there = [replace(one, rivals=tuple(rivals.get(one.broker_name, {}).get(one.broker_id, ()))) for one in found]
        return there + gone_brokers(info, cluster)

    async def gone_brokers(self) -> list[BrokerStatus]:
        """The brokers that are not registered any more, as our name server remembers them; empty at Apache's (no mqadmin command)."""
        return gone_brokers(await self._cluster.name_servers.cluster_info())

    async def broker_runtime_info(self, broker: str) -> dict[str, str]:
        """The runtime info of a broker, names and values as text (mqadmin: brokerStatus)."""
        asked = requests.brokers.GET_BROKER_RUNTIME_INFO
        return dict((await self._cluster.ask_body(asked, at=await self._one(broker))).table)

    async def broker_stats(self, broker: str, stats_name: str, stats_key: str) -> bodies.BrokerStatsData:
        """A counter of a broker over a minute, an hour and a day, such as ``TOPIC_PUT_NUMS`` of a topic or ``GROUP_GET_NUMS`` of
        ``topic@group``. Raises RemoteError (there is no such count)."""
        header = headers.ViewBrokerStatsDataRequestHeader(stats_name=stats_name, stats_key=stats_key)
        return await self._cluster.ask_body(requests.brokers.VIEW_BROKER_STATS_DATA, header, at=await self._one(broker))

    async def ha_status(self, broker: str) -> bodies.HARuntimeInfo:
        """The replication offsets and rates of a master's slaves, or of a slave (mqadmin: haStatus; 5.x)."""
        return await self._cluster.ask_body(requests.brokers.GET_BROKER_HA_STATUS, at=await self._one(broker))

    async def speaks_5x(self, broker: str) -> bool:
        """Whether a broker knows the requests of RocketMQ 5; it is asked one, because reported versions are not reliable."""
        header = headers.GetTopicConfigRequestHeader(topic=DEFAULT_TOPIC)
        try:
            await self._cluster.ask(requests.topics.GET_TOPIC_CONFIG, header, at=await self._one(broker))
        except RequestNotServed:  # proxies came with RocketMQ 5, and so did the brokers behind them
            return True
        except RemoteError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return False
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
        return True

    # -- settings --------------------------------------------------------------------------------------------------------------

    async def broker_config(self, broker: str) -> dict[str, str]:
        """All settings of a broker by their Apache names (mqadmin: getBrokerConfig)."""
        return _settings((await self._cluster.ask(requests.brokers.GET_BROKER_CONFIG, at=await self._one(broker))).body)

    async def update_broker_config(
        self, settings: Mapping[str, Any], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Change settings of running brokers, slaves too, by their Apache names, such as ``{"maxMessageSize": 4194304}`` (mqadmin:
        updateBrokerConfig). SprocketMQ's refuse unknown settings and those that need a restart; Apache's accept them without an
        error. ``cluster`` or ``broker`` is required, there is no default; ``host:port`` changes that broker without its slaves."""
        if cluster is None and broker is None:
            raise ConfigurationError(
                "neither broker nor cluster is given, one of them is needed: settings differ by broker"
            )
        for address in await self._replicas(cluster, broker):
            await self._cluster.ask(requests.brokers.UPDATE_BROKER_CONFIG, at=address, body=_text(settings))

    # -- upkeep ----------------------------------------------------------------------------------------------------------------

    async def clean_expired_consume_queues(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete consume queue files whose messages are no longer stored (mqadmin: cleanExpiredCQ)."""
        await self._ask_masters(cluster, broker, requests.brokers.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def delete_expired_commit_logs(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete expired files of the commit log now, whatever the brokers' deletion hour is (mqadmin: deleteExpiredCommitLog)."""
        await self._ask_masters(cluster, broker, requests.brokers.DELETE_EXPIRED_COMMITLOG)

    async def clean_unused_topics(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete the consume queue files of topics that no longer exist (mqadmin: cleanUnusedTopic)."""
        await self._ask_masters(cluster, broker, requests.brokers.CLEAN_UNUSED_TOPIC)

    # -- name servers ----------------------------------------------------------------------------------------------------------

    @property
    def name_servers(self) -> list[str]:
        """The addresses of the name servers that this client knows."""
        return parse_addresses(self._options.addresses)

    async def wipe_write_perm(self, broker_name: str) -> dict[str, int]:
        """Stop producers from sending to a broker, until it registers again or until ``add_write_perm`` (mqadmin: wipeWritePerm).
        Returns the number of changed topics by name server."""
        header = headers.WipeWritePermOfBrokerRequestHeader(broker_name=broker_name)
        asked = requests.name_servers.WIPE_WRITE_PERM_OF_BROKER
        answers = await self._ask_name_servers(asked, header)
        return {address: asked.answer_header_in(answer).wipe_topic_count for address, answer in answers.items()}

    async def add_write_perm(self, broker_name: str) -> dict[str, int]:
        """Undo ``wipe_write_perm`` (mqadmin: addWritePerm). Returns the number of changed topics by name server."""
        header = headers.AddWritePermOfBrokerRequestHeader(broker_name=broker_name)
        asked = requests.name_servers.ADD_WRITE_PERM_OF_BROKER
        answers = await self._ask_name_servers(asked, header)
        return {address: asked.answer_header_in(answer).add_topic_count for address, answer in answers.items()}

    async def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Store a value at the name servers (mqadmin: updateKvConfig)."""
        header = headers.PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)
        await self._ask_name_servers(requests.name_servers.PUT_KV_CONFIG, header)

    async def kv_config(self, namespace: str, key: str) -> str | None:
        """A value stored at the name servers; None if there is none."""
        header = headers.GetKVConfigRequestHeader(namespace=namespace, key=key)
        try:
            answer = await self._cluster.ask(requests.name_servers.GET_KV_CONFIG, header)
        except RemoteError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return requests.name_servers.GET_KV_CONFIG.answer_header_in(answer).value

    async def kv_configs(self, namespace: str) -> dict[str, str]:
        """All values of a namespace by key; empty if there are none."""
        header = headers.GetKVListByNamespaceRequestHeader(namespace=namespace)
        try:
            answer = await self._cluster.ask(requests.name_servers.GET_KVLIST_BY_NAMESPACE, header)
        except RemoteError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        return dict(sorted((await answer_body(requests.name_servers.GET_KVLIST_BY_NAMESPACE, answer)).table.items()))

    async def delete_kv_config(self, namespace: str, key: str) -> None:
        """Delete a value stored at the name servers (mqadmin: deleteKvConfig)."""
        header = headers.DeleteKVConfigRequestHeader(namespace=namespace, key=key)
        await self._ask_name_servers(requests.name_servers.DELETE_KV_CONFIG, header)

    async def namesrv_config(self) -> dict[str, dict[str, str]]:
        """The settings of all name servers, by their addresses (mqadmin: getNamesrvConfig)."""
        answers = await self._ask_name_servers(requests.name_servers.GET_NAMESRV_CONFIG)
        return {address: _settings(answer.body) for address, answer in answers.items()}

    async def update_namesrv_config(self, settings: Mapping[str, Any]) -> None:
        """Change settings of all running name servers, such as ``{"orderMessageEnable": True}`` (mqadmin: updateNamesrvConfig)."""
        await self._ask_name_servers(requests.name_servers.UPDATE_NAMESRV_CONFIG, body=_text(settings))


def _settings(body: Buffer) -> dict[str, str]:
    return dict(sorted(parse_properties(bytes(body).decode()).items()))


def _text(settings: Mapping[str, Any]) -> bytes:
    if not settings:
        raise ConfigurationError("no setting is given, at least one is needed, as in {'maxMessageSize': 4194304}")
    return format_properties(
        {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
    ).encode()


def _first_number(text: str | None) -> float:
    """The first number of a text: Java writes the rates of the last 10 s, minute and ten minutes one after the other."""
    try:
        return float((text or "0").split()[0])
    except (ValueError, IndexError):
        return 0.0


def _since(info: Mapping[str, str], now: str, morning: str) -> int:
    try:
        return int(info.get(now, "0")) - int(info.get(morning, "0"))
    except ValueError:
        return 0
