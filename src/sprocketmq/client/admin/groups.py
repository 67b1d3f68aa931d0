"""Consumer and producer groups by an administrator (mqadmin: updateSubGroup, consumerProgress, consumerConnection, consumerStatus, ...)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sprocketmq.client.admin.session import NO_DATA, PAGE, AdminSession, all_pages
from sprocketmq.client.settings.validators import check_group, check_range, check_topic
from sprocketmq.core.retry.retry_schedule import dlq_topic, retry_topic
from sprocketmq.errors import ConfigurationError, GroupNotExist, RemoteError
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import GroupSettings

__all__ = ["GroupRequests", "GroupSummary", "QueueProgress"]

_CALL_TIMEOUT_MS: Final = 15_000
_RETRY: Final = "%RETRY%"


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far a group is in one queue.

    Attributes:
        broker_offset: one behind the last message.
        consumer_offset: the next to consume; -1 when the group has no progress there.
        last_timestamp_ms: store time of the last consumed message, 0 if unknown.
    """

    broker_offset: int
    consumer_offset: int
    last_timestamp_ms: int = 0

    @property
    def lag(self) -> int:
        """Messages not consumed yet."""
        return max(0, self.broker_offset - max(0, self.consumer_offset))


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One group at a glance.

    Attributes:
        members: client ids online.
        consume_type, message_model: as its members announce them, None while none is online.
        consume_tps: messages per second, in sum over the brokers.
        lag: messages not consumed yet.
    """

    group: str
    members: int
    consume_type: str | None
    message_model: str | None
    consume_tps: float
    lag: int


class GroupRequests(AdminSession):
    """See AsyncAdmin."""

    # -- settings --------------------------------------------------------------------------------------------------------------

    async def create_group(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, **settings: Unpack[GroupSettings]
    ) -> None:
        """Create a consumer group, or change it: what is not given gets its default (mqadmin: updateSubGroup).

        Args:
            group: its name.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.
            settings: those of GroupSettings, such as ``retry_max_times=5`` or ``consume_enable=False``.

        Raises:
            ConfigurationError: there is no such setting.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        try:
            config = bodies.SubscriptionGroupConfig(group_name=check_group(group), **settings)
        except TypeError as error:
            allowed = ", ".join(sorted(set(bodies.SubscriptionGroupConfig.__struct_fields__) - {"group_name"}))
            raise ConfigurationError(f"a group has no such setting: {error}; allowed are {allowed}") from error
        masters = await self._masters(cluster, broker)
        await asyncio.gather(*(self._api.create_group(address, config) for address in masters.values()))

    async def create_groups(
        self,
        configs: Sequence[bodies.SubscriptionGroupConfig],
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create or change many groups at once (mqadmin: updateSubGroupList); a 4.9 broker is told one by one.

        Args:
            configs: their settings, one SubscriptionGroupConfig each.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        for config in configs:
            check_group(config.group_name)
        body = bodies.SubscriptionGroupList(group_config_list=list(configs)).encode()

        async def tell(address: str) -> None:
            try:
                await self._ask(address, requests.topics.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
            except RemoteError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                for config in configs:
                    await self._api.create_group(address, config)

        await asyncio.gather(*map(tell, (await self._masters(cluster, broker)).values()))

    async def delete_group(
        self, group: str, *, remove_offsets: bool = False, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Delete a group, its retry topic and its dead letters (mqadmin: deleteSubGroup).

        Args:
            group: the consumer group.
            remove_offsets: forget its progress, too; else a group of this name goes on where this one was.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.DeleteSubscriptionGroupRequestHeader(
            group_name=check_group(group), clean_offset=remove_offsets, remove_offset=remove_offsets
        )
        topics = (retry_topic(group), dlq_topic(group))
        for address in (await self._masters(cluster, broker)).values():
            await self._ask(address, requests.topics.DELETE_SUBSCRIPTIONGROUP, header)
            for topic in topics:
                await self._api.delete_topic(address, topic)
        if cluster is None and broker is None:
            for topic in topics:
                await self._api.delete_topic_in_namesrv(topic)

    async def groups(self, *, cluster: str | None = None) -> list[str]:
        """Names of all consumer groups that the brokers know, sorted.

        Args:
            cluster: at the brokers of this cluster; default at all.

        Returns:
            Their names.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        found: set[str] = set()
        for address in (await self._masters(cluster, None)).values():
            found.update(await self.group_configs(address))
        return sorted(found)

    async def group_configs(self, broker: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """The settings of all groups of one broker, by name, sorted (mqadmin: part of exportMetadata).

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            By group.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        address = await self._one(broker)

        async def page(first: int, version: str) -> tuple[dict[str, bodies.SubscriptionGroupConfig], str, int]:
            header = headers.GetAllSubscriptionGroupRequestHeader(
                group_seq=first, data_version=version, max_group_num=PAGE
            )
            answer = await self._ask(address, requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
            body = requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG.answer_body_in(answer)
            total = int(answer.ext_fields.get("totalGroupNum") or 0)
            return body.subscription_group_table, body.data_version.encode().decode(), total

        return await all_pages(page)

    async def group_config(self, group: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """The settings of ``group`` on each broker that has it, by broker name (mqadmin: getConsumerConfig).

        Args:
            group: the consumer group.

        Returns:
            By broker name.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_group(group)
        masters = await self._masters(None, None)
        found = {name: (await self.group_configs(address)).get(group) for name, address in masters.items()}
        configs = {name: config for name, config in found.items() if config is not None}
        if not configs:
            raise GroupNotExist(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"no broker knows the consumer group {group!r}; check the spelling, or create it",
            )
        return configs

    async def set_consume_mode(
        self,
        topic: str,
        group: str,
        mode: str,
        *,
        pop_share_queue_num: int = 0,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Let members that ask the broker for their queues read ``topic`` by PULL or POP (mqadmin: setConsumeMode; 5.x).

        Args:
            topic: its name.
            group: the consumer group.
            mode: ``PULL`` or ``POP``.
            pop_share_queue_num: with POP, how many members share a queue beyond its owner; -1 is all of them.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        if mode not in ("PULL", "POP"):
            raise ConfigurationError(f"mode is {mode!r}, 'PULL' or 'POP' is allowed")
        body = bodies.SetMessageRequestModeRequestBody(
            topic=check_topic(topic),
            consumer_group=check_group(group),
            mode=mode,
            pop_share_queue_num=check_range("pop_share_queue_num", pop_share_queue_num, -1, 65_535),
        ).encode()
        for address in (await self._masters(cluster, broker)).values():
            await self._ask(address, requests.consumers.SET_MESSAGE_REQUEST_MODE, body=body)

    async def group_readable(self, group: str, topic: str, readable: bool | None = None) -> dict[str, bool]:
        """Whether ``group`` may read ``topic``, by broker name, after setting it when ``readable`` is given (5.x).

        Args:
            group: the consumer group.
            topic: its name.
            readable: True or False sets it; default nothing is changed.

        Returns:
            By broker name.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.UpdateGroupForbiddenRequestHeader(group=check_group(group), topic=topic, readable=readable)
        answers: dict[str, bool] = {}
        for name, address in (await self._masters_of(topic)).items():
            answer = await self._ask_body(address, requests.topics.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
            answers[name] = answer.readable
        return answers

    # -- progress --------------------------------------------------------------------------------------------------------------

    async def consumer_progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """Progress and lag per queue, in all the group's topics or in one; empty when no broker knows it (mqadmin: consumerProgress -g).

        Args:
            group: the consumer group.
            topic: in this topic; default in all that the group reads.

        Returns:
            By queue.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_group(group)
        return {
            queue: QueueProgress(offsets.broker_offset, offsets.consumer_offset, offsets.last_timestamp)
            for stats in await self._consume_stats(group, topic)
            for queue, offsets in sorted(stats.offset_table.items(), key=lambda pair: pair[0])
        }

    async def _consume_stats(self, group: str, topic: str | None) -> list[bodies.ConsumeStats]:
        header = headers.GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        masters = (await self._masters(None, None)).values()
        answers = await asyncio.gather(
            *(self._ask_if_any(address, requests.offsets.GET_CONSUME_STATS, header) for address in masters)
        )
        return [requests.offsets.GET_CONSUME_STATS.answer_body_in(answer) for answer in answers if answer is not None]

    async def lag(self, group: str, topic: str | None = None) -> int:
        """Messages that ``group`` has not consumed yet, in sum.

        Args:
            group: the consumer group.
            topic: in this topic; default in all that the group reads.

        Returns:
            How many, over all queues.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return sum(progress.lag for progress in (await self.consumer_progress(group, topic)).values())

    async def group_summaries(self) -> list[GroupSummary]:
        """Every group that has a retry topic, at a glance, the furthest behind first (mqadmin: consumerProgress).

        Returns:
            A row for each group.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        topics = await self._api.topic_list()
        rows: list[GroupSummary] = []
        for group in (topic.removeprefix(_RETRY) for topic in topics if topic.startswith(_RETRY)):
            stats = await self._consume_stats(group, None)
            connection = await self.consumer_connection(group)
            lag = sum(
                max(0, offsets.broker_offset - max(0, offsets.consumer_offset))
                for one in stats
                for offsets in one.offset_table.values()
            )
            rows.append(
                GroupSummary(
                    group,
                    len(connection.connection_set) if connection else 0,
                    connection.consume_type if connection else None,
                    connection.message_model if connection else None,
                    sum(one.consume_tps for one in stats),
                    lag,
                )
            )
        return sorted(rows, key=lambda row: (-row.lag, row.group))

    async def broker_consume_stats(self, broker: str, *, only_ordered: bool = False) -> bodies.ConsumeStatsList:
        """The progress of all groups in all topics of one broker (mqadmin: brokerConsumeStats).

        Args:
            broker: which one, by name (its master) or ``host:port``.
            only_ordered: only what is consumed in order.

        Returns:
            Progress by group, topic and queue.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.GetConsumeStatsInBrokerHeader(is_order=only_ordered)
        return await self._ask_body(await self._one(broker), requests.offsets.GET_BROKER_CONSUME_STATS, header)

    async def consume_time_span(self, topic: str, group: str) -> list[bodies.QueueTimeSpan]:
        """Per queue, the store times of the oldest, the newest and the last consumed message, and how late the group is.

        Args:
            topic: its name.
            group: the consumer group.

        Returns:
            A span for each queue.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.QueryConsumeTimeSpanRequestHeader(topic=topic, group=check_group(group))
        spans: list[bodies.QueueTimeSpan] = []
        for address in (await self._masters_of(topic)).values():
            answer = await self._ask_body(address, requests.offsets.QUERY_CONSUME_TIME_SPAN, header)
            spans += answer.consume_time_span_set
        return sorted(spans, key=lambda span: span.message_queue)

    # -- members ---------------------------------------------------------------------------------------------------------------

    async def consumer_connection(self, group: str) -> bodies.ConsumerConnection | None:
        """Members, subscriptions and settings as the first broker that has one online sees them; None when the group is offline
        (mqadmin: consumerConnection).

        Args:
            group: the consumer group.

        Returns:
            What the broker has of the group, or None.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_group(group)
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
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        check_group(group)
        masters = (await self._masters(None, None)).values()
        answers = await asyncio.gather(*(self._api.consumer_ids(address, group) for address in masters))
        return sorted({client_id for answer in answers for client_id in answer})

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
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.QueryTopicsByConsumerRequestHeader(group=check_group(group))
        topics: set[str] = set()
        for address in (await self._masters(None, None)).values():
            answer = await self._ask_body(address, requests.topics.QUERY_TOPICS_BY_CONSUMER, header)
            topics.update(answer.topic_list)
        return sorted(topics)

    async def subscription(self, group: str, topic: str) -> bodies.SubscriptionData | None:
        """What ``group`` subscribes to in ``topic`` now; None when it is offline or does not (5.x).

        Args:
            group: the consumer group.
            topic: its name.

        Returns:
            Its expression and tags, or None.

        Raises:
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
        return None
