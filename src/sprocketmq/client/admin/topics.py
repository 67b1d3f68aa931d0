# SPDX-License-Identifier: Apache-2.0
"""Creating, changing, deleting and querying topics (mqadmin: updateTopic, topicRoute, topicStatus, ...)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sprocketmq.client.admin.session import PAGE, AdminRequests, all_pages, broker_of, is_older_than_5, queue_count
from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.queue_offsets import queue_ends, topic_stats
from sprocketmq.client.settings.validators import check_range, check_topic
from sprocketmq.core.group import allocation
from sprocketmq.core.produce.route_table import subscribe_queues
from sprocketmq.core.resource_names import DEFAULT_TOPIC
from sprocketmq.errors import RemoteError, RequestNotServed, RequestTimeout
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

_POLL_S: Final = 0.02
# NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG
_ORDER: Final = "ORDER_TOPIC_CONFIG"


class TopicRequests(AdminRequests):
    """The part of AsyncAdmin about topics."""

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = 6,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
        wait_ms: int = 5_000,
    ) -> None:
        """Create a topic, or change it, and wait ``wait_ms`` milliseconds until the name server knows it (mqadmin: updateTopic).
        ``queues`` to read and to write on each broker, unless ``read_queues`` or ``write_queues`` is given (default: None).
        ``perm``: 6 read and write, 4 read only, 2 write only. ``attributes``: changes of them (5.x), ``{"+message.type": "FIFO"}``
        or ``{"-message.type": ""}``; default none."""
        header = headers.CreateTopicRequestHeader(
            topic=check_topic(topic),
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=check_range("read_queues", queues if read_queues is None else read_queues, 1, 65_535),
            write_queue_nums=check_range("write_queues", queues if write_queues is None else write_queues, 1, 65_535),
            perm=check_range("perm", perm, 0, 7),
            order=order,
            attributes=_attribute_changes(attributes),
        )
        masters = await self._masters(cluster, broker)
        await all_ended(
            self._cluster.ask(requests.topics.UPDATE_AND_CREATE_TOPIC, header, at=address)
            for address in masters.values()
        )
        await self._wait_for_route(topic, masters, header, wait_ms)

    async def _wait_for_route(
        self, topic: str, masters: Mapping[str, str], header: headers.CreateTopicRequestHeader, wait_ms: int
    ) -> None:
        """Wait until the name server knows a new topic; brokers register it by themselves."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_ms / 1000
        wanted = (header.read_queue_nums, header.write_queue_nums)
        while True:
            route = await self._cluster.name_servers.route(topic)
            if route is not None:
                known = {
                    name
                    for data in route.queue_datas
                    if (data.read_queue_nums, data.write_queue_nums) == wanted
                    for name in (data.broker_name, *_addresses(route, data.broker_name))
                }
                if masters.keys() <= known:
                    return
            if loop.time() > end_s:
                raise RequestTimeout(
                    f"topic {topic!r} was created, but the name server does not show it after {wait_ms} ms",
                    self._cluster.name_servers.chosen,
                    wait_ms,
                )
            await asyncio.sleep(_POLL_S)

    async def create_topics(
        self, configs: Sequence[bodies.TopicConfig], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Create or change many topics at once, without waiting (mqadmin: updateTopicList); one by one at a 4.9 broker."""
        for config in configs:
            check_topic(config.topic_name)
        body = bodies.CreateTopicListRequestBody(topic_config_list=list(configs)).encode()

        async def create_at(address: str) -> None:
            try:
                await self._cluster.ask(requests.topics.UPDATE_AND_CREATE_TOPIC_LIST, at=address, body=body)
            except RemoteError as error:
                if not is_older_than_5(error):
                    raise
                for config in configs:
                    await self._cluster.ask(requests.topics.UPDATE_AND_CREATE_TOPIC, _create_header(config), at=address)

        await all_ended(map(create_at, (await self._masters(cluster, broker)).values()))

    async def set_topic_perm(
        self, topic: str, perm: int, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Set the permission of a topic, and leave its other settings unchanged (mqadmin: updateTopicPerm). ``perm``: 4 to read,
        2 to write, 6 for both, 0 for neither. ``cluster``, ``broker``: default: wherever the topic exists."""
        await self.alter_topic(topic, perm=perm, cluster=cluster, broker=broker)

    async def alter_topic(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> dict[str, bodies.TopicConfig]:
        """Change the given settings of a topic, as of ``create_topic``, on each broker, without waiting for the name server
        (mqadmin's updateTopic replaces all settings). ``read_queues``, ``write_queues``, ``perm``, ``order``, ``attributes``:
        default: unchanged. ``cluster``, ``broker``: default: wherever the topic exists. Returns the new settings by broker name,
        with the ``attributes`` before the change."""
        for name, queues in (("read_queues", read_queues), ("write_queues", write_queues)):
            if queues is not None:
                check_range(name, queues, 1, 65_535)
        if perm is not None:
            check_range("perm", perm, 0, 7)
        masters = await self._masters(cluster, broker) if cluster or broker else await self._masters_of(topic)
        configs = await self._topic_configs_of(topic, masters)
        for name, config in configs.items():
            config.read_queue_nums = config.read_queue_nums if read_queues is None else read_queues
            config.write_queue_nums = config.write_queue_nums if write_queues is None else write_queues
            config.perm = config.perm if perm is None else perm
            config.order = config.order if order is None else order
            await self._cluster.ask(
                requests.topics.UPDATE_AND_CREATE_TOPIC, _create_header(config, attributes), at=masters[name]
            )
        return configs

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic and its messages from all brokers (of ``cluster``) and from the name servers (mqadmin: deleteTopic)."""
        check_topic(topic)
        masters = await self._masters(cluster, None)
        await all_ended(self._delete_topic_at(address, topic) for address in masters.values())
        await self._delete_topic_at_name_servers(topic)
        self._cluster.routes.forget()
        await self.delete_order_conf(topic)

    async def topics(self, *, cluster: str | None = None) -> list[str]:
        """The names of all topics, or of one cluster's, with system topics, sorted (mqadmin: topicList)."""
        if cluster is None:
            return sorted(
                (await self._cluster.ask_body(requests.name_servers.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).topic_list
            )
        header = headers.GetTopicsByClusterRequestHeader(cluster=cluster)
        answer = await self._cluster.ask(requests.name_servers.GET_TOPICS_BY_CLUSTER, header)
        found = sorted((await answer_body(requests.name_servers.GET_TOPICS_BY_CLUSTER, answer)).topic_list)
        if not found:
            # Raises for a cluster that does not exist.
            self._names(await self._cluster.name_servers.cluster_info(), cluster)
        return found

    async def system_topics(self) -> list[str]:
        """The names of the system topics of brokers and name server, sorted."""
        answer = await self._cluster.ask(requests.name_servers.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        found = set((await answer_body(requests.name_servers.GET_SYSTEM_TOPIC_LIST_FROM_NS, answer)).topic_list)
        for address in (await self._masters(None, None)).values():
            mine = await self._cluster.ask_body(requests.topics.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, at=address)
            found.update(mine.topic_list)
        return sorted(found)

    async def route(self, topic: str) -> bodies.TopicRouteData:
        """Which brokers have which queues of ``topic``, and their addresses (mqadmin: topicRoute)."""
        return await self._route(topic)

    async def topic_clusters(self, topic: str) -> list[str]:
        """The clusters that have ``topic``, sorted (mqadmin: topicClusterList)."""
        return sorted({data.cluster for data in (await self._route(topic)).broker_datas if data.cluster})

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of ``topic``, sorted by broker name and queue id."""
        return await self._queues_of(topic)

    async def allocate(
        self, topic: str, client_ids: Iterable[str], *, strategy: allocation.AllocationStrategy | str = "AVG"
    ) -> dict[str, list[MessageQueue]]:
        """Which queues members with these ids would read (mqadmin: allocateMQ); ``strategy`` as ``allocate_strategy``."""
        chosen = allocation.strategy_by_name(strategy) if isinstance(strategy, str) else strategy
        queues, members = await self.queues(topic), sorted(set(client_ids), key=allocation.java_order)
        return {member: allocation.allocate(chosen, "", member, queues, members) for member in members}

    async def topic_stats(self, topic: str, *, broker: str | None = None) -> dict[MessageQueue, bodies.TopicOffset]:
        """By queue: minimum and maximum offset, time of the last message (mqadmin: topicStatus); default: of all brokers."""
        route = await self._route(topic)
        names = {queue.broker_name for queue in subscribe_queues(topic, route)}
        if broker is not None:
            names &= {broker}
        tables = await all_ended(self._topic_stats_at(name, route, topic) for name in names)
        return dict(sorted((entry for table in tables for entry in table.items()), key=lambda pair: pair[0]))

    async def _topic_stats_at(
        self, broker_name: str, route: bodies.TopicRouteData, topic: str
    ) -> Mapping[MessageQueue, bodies.TopicOffset]:
        address = broker_of(route, broker_name)
        try:
            return (await topic_stats(self._cluster, address, topic)).offset_table
        except RequestNotServed:
            pass

        async def ask(queue: MessageQueue) -> bodies.TopicOffset:
            low, high = await queue_ends(self._cluster, queue, at=address)
            last_ms = await self._store_time_ms(address, queue, high - 1)
            return bodies.TopicOffset(max(0, low), max(0, high), max(0, last_ms))

        queues = [MessageQueue(topic, broker_name, number) for number in range(queue_count(route, broker_name))]
        return dict(zip(queues, await all_ended(map(ask, queues)), strict=True))

    async def topic_config(self, topic: str) -> dict[str, bodies.TopicConfig]:
        """The settings of ``topic`` on each broker that has it, by broker name."""
        return await self._topic_configs_of(topic, await self._masters_of(topic))

    async def topic_configs(self, broker: str) -> dict[str, bodies.TopicConfig]:
        """The settings of all topics of one broker, by name, sorted (mqadmin: part of exportMetadata)."""
        address = await self._one(broker)

        async def page(first: int, version: str) -> tuple[dict[str, bodies.TopicConfig], str, int]:
            header = headers.GetAllTopicConfigRequestHeader(topic_seq=first, data_version=version, max_topic_num=PAGE)
            answer = await self._cluster.ask(requests.topics.GET_ALL_TOPIC_CONFIG, header, at=address)
            body = await answer_body(requests.topics.GET_ALL_TOPIC_CONFIG, answer)
            total = int(answer.ext_fields.get("totalTopicNum") or 0)
            return body.topic_config_table, body.data_version.encode().decode(), total

        return await all_pages(page)

    async def _topic_configs_of(self, topic: str, masters: Mapping[str, str]) -> dict[str, bodies.TopicConfig]:
        async def ask(address: str) -> bodies.TopicConfig | None:
            header = headers.GetTopicConfigRequestHeader(topic=topic)
            try:
                answer = await self._cluster.ask(requests.topics.GET_TOPIC_CONFIG, header, at=address)
            except RemoteError as error:
                if is_older_than_5(error):
                    return (await self.topic_configs(address)).get(topic)
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    return None
                raise
            return await answer_body(requests.topics.GET_TOPIC_CONFIG, answer)

        found = await all_ended(map(ask, masters.values()))
        configs = {name: config for name, config in zip(masters, found, strict=True) if config is not None}
        if not configs:
            await self._route(topic)  # raises TopicNotExist
        return configs

    async def order_conf(self, topic: str) -> dict[str, int]:
        """The number of queues to which an ordered topic is sent, by broker name (mqadmin: updateOrderConf -m get)."""
        value = await self._admin.kv_config(_ORDER, check_topic(topic))
        if value is None:
            await self._route(topic)  # raises TopicNotExist
        parts = (part.rpartition(":") for part in (value or "").split(";") if part)
        return {name: int(count) for name, _, count in parts}

    async def set_order_conf(self, topic: str, queues_by_broker: Mapping[str, int]) -> None:
        """Set the number of queues to which an ordered topic is sent, by broker name, also while a broker is down (mqadmin:
        updateOrderConf -m put)."""
        value = ";".join(
            f"{name}:{check_range(f'queues of {name}', count, 1, 65_535)}" for name, count in queues_by_broker.items()
        )
        await self._admin.put_kv_config(_ORDER, check_topic(topic), value)

    async def delete_order_conf(self, topic: str) -> None:
        """Delete the setting of ``set_order_conf``, if there is one (mqadmin: updateOrderConf -m delete)."""
        await self._admin.delete_kv_config(_ORDER, check_topic(topic))


def _addresses(route: bodies.TopicRouteData, broker_name: str) -> list[str]:
    return [
        address
        for data in route.broker_datas
        if data.broker_name == broker_name
        for address in data.broker_addrs.values()
    ]


def _attribute_changes(attributes: Mapping[str, str] | None) -> str | None:
    return ",".join(f"{key}={value}" if value else key for key, value in (attributes or {}).items()) or None


def _create_header(
    config: bodies.TopicConfig, attributes: Mapping[str, str] | None = None
) -> headers.CreateTopicRequestHeader:
    return headers.CreateTopicRequestHeader(
        topic=config.topic_name,
        default_topic=DEFAULT_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=_attribute_changes(attributes),
    )
