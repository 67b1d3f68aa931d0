"""The members of consumer and producer groups, by an administrator (mqadmin: consumerConnection, consumerStatus, ...)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sprocketmq.client.admin.session import NO_DATA, AdminSession
from sprocketmq.client.settings.validators import check_group
from sprocketmq.errors import RemoteError
from sprocketmq.wire import bodies, headers, requests

if TYPE_CHECKING:
    pass

__all__ = ["GroupMemberRequests"]

_CALL_TIMEOUT_MS: Final = 15_000


class GroupMemberRequests(AdminSession):
    """The part of AsyncAdmin about the members of groups."""

    async def consumer_connection(self, group: str) -> bodies.ConsumerConnection | None:
        """Members, subscriptions and settings as the first broker that has one online sees them; None when the group is offline
        (mqadmin: consumerConnection).

        Args:
            group: the consumer group.

        Returns:
            What the broker has of the group, or None.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        connection = await self._connection(check_group(group))
        if connection is None:
            await self._check_exists(group)
        return connection

    async def _connection(self, group: str) -> bodies.ConsumerConnection | None:
        for address in (await self._masters(None, None)).values():
            try:
                connection = await self._api.consumer_connection(address, group)
            except RemoteError as error:
                if error.code in NO_DATA:
                    continue
                raise
            if connection is not None:
                return connection
        return None

    async def consumer_ids(self, group: str) -> list[str]:
        """Client ids of the members that are online, sorted.

        Args:
            group: the consumer group.

        Returns:
            The client ids.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_group(group)
        masters = (await self._masters(None, None)).values()
        answers = await asyncio.gather(*(self._api.consumer_ids(address, group) for address in masters))
        found = sorted({client_id for answer in answers for client_id in answer})
        if not found:
            await self._check_exists(group)
        return found

    async def running_info(self, group: str, client_id: str, *, jstack: bool = False) -> bodies.ConsumerRunningInfo:
        """What one member says of itself: settings, queues, rates, and the stacks of its threads with ``jstack``
        (mqadmin: consumerStatus -i).

        Args:
            group: the consumer group.
            client_id: of the member, ``ip@instanceName``.
            jstack: with the stacks of its threads.

        Returns:
            As the member answered.

        Raises:
            RemoteError: the member is not online, or a server refused.
            ConfigurationError: an argument is wrong; nothing was asked.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.GetConsumerRunningInfoRequestHeader(
            consumer_group=check_group(group), client_id=client_id, jstack_enable=jstack
        )
        address = await self._broker_that_knows(group, client_id)
        return await self._ask_body(
            address, requests.consumers.GET_CONSUMER_RUNNING_INFO, header, timeout_ms=_CALL_TIMEOUT_MS
        )

    async def running_infos(self, group: str, *, jstack: bool = False) -> dict[str, bodies.ConsumerRunningInfo]:
        """What each member says of itself, by client id (mqadmin: consumerStatus).

        Args:
            group: the consumer group.
            jstack: with the stacks of their threads.

        Returns:
            By client id.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        ids = await self.consumer_ids(group)
        answers = await asyncio.gather(*(self.running_info(group, client_id, jstack=jstack) for client_id in ids))
        return dict(zip(ids, answers, strict=True))

    async def _broker_that_knows(self, group: str, client_id: str) -> str:
        """A member is connected to the brokers of its topics only."""
        masters = list((await self._masters(None, None)).values())
        for address in masters:
            if client_id in await self._api.consumer_ids(address, group):
                return address
        return masters[0]

    async def producer_connection(self, group: str, topic: str) -> list[bodies.Connection]:
        """The producers of ``group`` that are connected to a broker of ``topic`` (mqadmin: producerConnection).

        Args:
            group: the producer group.
            topic: its name.

        Returns:
            A connection for each producer.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.GetProducerConnectionListRequestHeader(producer_group=group)
        found: dict[str, bodies.Connection] = {}
        for address in (await self._masters_of(topic)).values():
            answer = await self._ask_if_any(address, requests.consumers.GET_PRODUCER_CONNECTION_LIST, header)
            if answer is not None:
                connections = requests.consumers.GET_PRODUCER_CONNECTION_LIST.answer_body_in(answer).connection_set
                found.update({connection.client_id: connection for connection in connections})
        return [found[client_id] for client_id in sorted(found)]

    async def producers(self, broker: str) -> dict[str, list[bodies.ProducerInfo]]:
        """All producers that are connected to one broker, by group (mqadmin: producer).

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            By producer group.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        answer = await self._ask_body(await self._one(broker), requests.consumers.GET_ALL_PRODUCER_INFO)
        return dict(sorted(answer.data.items()))

    async def topics_of_group(self, group: str) -> list[str]:
        """The topics in which ``group`` has progress, sorted (5.x).

        Args:
            group: the consumer group.

        Returns:
            Their names.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.QueryTopicsByConsumerRequestHeader(group=check_group(group))
        topics: set[str] = set()
        for address in (await self._masters(None, None)).values():
            answer = await self._ask_body(address, requests.topics.QUERY_TOPICS_BY_CONSUMER, header)
            topics.update(answer.topic_list)
        if not topics:
            await self._check_exists(group)
        return sorted(topics)

    async def subscription(self, group: str, topic: str) -> bodies.SubscriptionData | None:
        """What ``group`` subscribes to in ``topic`` now; None when it is offline or does not (5.x).

        Args:
            group: the consumer group.
            topic: its name.

        Returns:
            Its expression and tags, or None.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.QuerySubscriptionByConsumerRequestHeader(group=check_group(group), topic=topic)
        for address in (await self._masters_of(topic)).values():
            answer = await self._ask_body(address, requests.topics.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
            found = answer.subscription_data
            if found is not None:
                return found
        await self._check_exists(group)
        return None
