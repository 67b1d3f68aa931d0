# SPDX-License-Identifier: Apache-2.0
"""The members of consumer and producer groups (mqadmin: consumerConnection, consumerStatus, ...)."""

from __future__ import annotations

from typing import Final

from sprocketmq.client.admin.session import AdminRequests
from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.group_members import consumer_connection, consumer_ids
from sprocketmq.client.settings.validators import check_group
from sprocketmq.errors import RequestNotServed
from sprocketmq.wire import bodies, headers, requests

_CALL_TIMEOUT_MS: Final = 15_000


class GroupMemberRequests(AdminRequests):
    """The part of AsyncAdmin about the members of groups."""

    async def consumer_connection(self, group: str, *, broker: str | None = None) -> bodies.ConsumerConnection | None:
        """Members, subscriptions and settings of a group, from the first broker that has a member online; None if no member is
        online (mqadmin: consumerConnection). ``broker``: default: all, until one has a member online."""
        connection = await self._connection(check_group(group), broker)
        if connection is None and broker is None:
            await self._check_exists(group)
        return connection

    async def consumer_ids(self, group: str) -> list[str]:
        """The client ids of the members that are online, sorted."""
        check_group(group)
        servers = await self._servers_of_members()
        answers = await all_ended(consumer_ids(self._cluster, address, group) for address in servers)
        found = sorted({client_id for answer in answers for client_id in answer})
        if not found:
            await self._check_exists(group)
        return found

    async def running_info(
        self, group: str, client_id: str, *, jstack: bool = False, broker: str | None = None
    ) -> bodies.ConsumerRunningInfo:
        """The running info of one member: settings, queues, rates, and with ``jstack`` the stacks of its threads (mqadmin:
        consumerStatus -i). ``broker``: the one that asks the member; default: the first that knows it."""
        header = headers.GetConsumerRunningInfoRequestHeader(
            consumer_group=check_group(group), client_id=client_id, jstack_enable=jstack
        )
        address = await (self._one(broker) if broker is not None else self._broker_that_knows(group, client_id))
        return await self._cluster.ask_body(
            requests.consumers.GET_CONSUMER_RUNNING_INFO, header, at=address, timeout_ms=_CALL_TIMEOUT_MS
        )

    async def running_infos(self, group: str, *, jstack: bool = False) -> dict[str, bodies.ConsumerRunningInfo]:
        """The running info of each member, by client id (mqadmin: consumerStatus)."""
        ids = await self.consumer_ids(group)
        answers = await all_ended(self.running_info(group, client_id, jstack=jstack) for client_id in ids)
        return dict(zip(ids, answers, strict=True))

    async def _broker_that_knows(self, group: str, client_id: str) -> str:
        """The broker to which a member is connected. Members connect only to the brokers of their topics."""
        servers = await self._servers_of_members()
        for address in servers:
            if client_id in await consumer_ids(self._cluster, address, group):
                return address
        return servers[0]

    async def producer_connection(self, group: str, topic: str) -> list[bodies.Connection]:
        """The producers of a producer group that are connected to a broker of ``topic`` (mqadmin: producerConnection)."""
        header = headers.GetProducerConnectionListRequestHeader(producer_group=group)
        found: dict[str, bodies.Connection] = {}
        for address in (await self._masters_of(topic)).values():
            answer = await self._ask_if_any(requests.consumers.GET_PRODUCER_CONNECTION_LIST, header, at=address)
            if answer is not None:
                connections = (
                    await answer_body(requests.consumers.GET_PRODUCER_CONNECTION_LIST, answer)
                ).connection_set
                found.update({connection.client_id: connection for connection in connections})
        return [found[client_id] for client_id in sorted(found)]

    async def producers(self, broker: str) -> dict[str, list[bodies.ProducerInfo]]:
        """All producers that are connected to one broker, by group (mqadmin: producer)."""
        answer = await self._cluster.ask_body(requests.consumers.GET_ALL_PRODUCER_INFO, at=await self._one(broker))
        return dict(sorted(answer.data.items()))

    async def topics_of_group(self, group: str) -> list[str]:
        """The topics in which ``group`` has progress, sorted (5.x)."""
        header = headers.QueryTopicsByConsumerRequestHeader(group=check_group(group))
        topics: set[str] = set()
        for address in (await self._masters(None, None)).values():
            answer = await self._cluster.ask_body(requests.topics.QUERY_TOPICS_BY_CONSUMER, header, at=address)
            topics.update(answer.topic_list)
        if not topics:
            await self._check_exists(group)
        return sorted(topics)

    async def subscription(self, group: str, topic: str) -> bodies.SubscriptionData | None:
        """The expression and tags by which ``group`` reads ``topic`` now; None if it is offline or does not subscribe (5.x)."""
        header = headers.QuerySubscriptionByConsumerRequestHeader(group=check_group(group), topic=topic)
        for address in (await self._masters_of(topic)).values():
            try:
                answer = await self._cluster.ask_body(
                    requests.topics.QUERY_SUBSCRIPTION_BY_CONSUMER, header, at=address
                )
                found = answer.subscription_data
            except RequestNotServed:
                connection = await consumer_connection(self._cluster, address, group)
                found = connection.subscription_table.get(topic) if connection is not None else None
            if found is not None:
                return found
        await self._check_exists(group)
        return None
