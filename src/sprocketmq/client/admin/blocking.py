"""Admin, the blocking form of AsyncAdmin. Written by scripts/blocking-faces: change the async methods, then run it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sprocketmq.client.admin.async_admin import AsyncAdmin
from sprocketmq.client.admin.brokers import BrokerStatus
from sprocketmq.client.admin.group_progress import GroupSummary, QueueProgress
from sprocketmq.client.admin.messages import MessageTrack
from sprocketmq.client.admin.topic_traffic import TopicSummary, TopicTraffic
from sprocketmq.client.blocking_client import BlockingClient
from sprocketmq.core.doctor.group_doctor import GroupDiagnosis
from sprocketmq.core.group import allocation
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.trace import TRACE_TOPIC, TraceRecord

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import CommonOptions, GroupSettings

__all__ = ["Admin"]


class Admin(BlockingClient):
    """AsyncAdmin for callers without an event loop: the same requests, each waits. Safe to use from several threads.

    ::

        with Admin(namesrv_addr="127.0.0.1:9876") as admin:
            admin.create_topic("flights", queues=8)
            print(admin.lag("delays"))

    Args:
        options: as CommonOptions says (``help(sprocketmq.CommonOptions)``): ``namesrv_addr``, ``mq_client_api_timeout_ms``, ... Names of
            topics and groups are the whole names, whatever ``namespace`` says.
        engine: whose thread runs the client; default one thread, shared by all blocking clients of the process.

    Raises:
        ConfigurationError: an option is unknown or out of range; nothing was opened.

    In all requests ``broker`` is a broker's name, of which its master is asked, or ``host:port``; ``cluster`` are all masters of a
    cluster; without either all masters are asked.

    Every method raises RemoteError (the server refused; code 3: it is too old to know this request), NetworkError or RequestTimeout
    (no answer), and ConfigurationError for what can never be asked.
    """

    def __init__(self, *, engine: Engine | None = None, **options: Unpack[CommonOptions]) -> None:
        self._async = AsyncAdmin(**options)
        super().__init__(engine)

    def start(self) -> None:
        """Nothing is opened before the first request; here so that ``with`` reads like the other clients."""

    def shutdown(self) -> None:
        """Close all connections; a later request opens new ones."""
        self._run(self._async.shutdown())

    def create_topic(
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
        wait_ms: int = 5000,
    ) -> None:
        """Create a topic, or change it, and wait until the name server knows it (mqadmin: updateTopic).

        Args:
            topic: its name.
            queues: queues per broker, to read and to write.
            read_queues: queues to read, per broker; default ``queues``.
            write_queues: queues to write, per broker; default ``queues``.
            perm: 6 read and write, 4 read only, 2 write only.
            order: mark it as ordered.
            attributes: changes of a 5.x topic's attributes, ``{"+message.type": "FIFO"}`` or ``{"-message.type": ""}``; default none.
            cluster: on the brokers of this cluster; default all brokers.
            broker: on this broker alone; default all of the cluster.
            wait_ms: how many milliseconds to wait for the name server; RequestTimeout after that.

        Raises:
            ConfigurationError: a value is out of range, or no such cluster or broker.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(
            self._async.create_topic(
                topic,
                queues=queues,
                read_queues=read_queues,
                write_queues=write_queues,
                perm=perm,
                order=order,
                attributes=attributes,
                cluster=cluster,
                broker=broker,
                wait_ms=wait_ms,
            )
        )

    def create_topics(
        self, configs: Sequence[bodies.TopicConfig], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Create or change many topics at once (mqadmin: updateTopicList); a 4.9 broker is told one by one.

        Does not wait for the name server.

        Args:
            configs: their settings, one TopicConfig each.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.create_topics(configs, cluster=cluster, broker=broker))

    def set_topic_perm(self, topic: str, perm: int, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Let a topic be read (4), written (2) or both (6), and leave the rest of it as it is (mqadmin: updateTopicPerm).

        Args:
            topic: its name.
            perm: 4 to read, 2 to write, 6 for both, 0 for neither.
            cluster: at all masters of this cluster; default wherever the topic is.
            broker: at this broker alone, by name (its master) or ``host:port``; default wherever the topic is.

        Raises:
            TopicNotExist: none of these brokers has the topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.set_topic_perm(topic, perm, cluster=cluster, broker=broker))

    def alter_topic(
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
        """Change what is given of a topic, and leave the rest of it as it is on each broker (mqadmin: updateTopic changes all of it).

        Does not wait for the name server.

        Args:
            topic: its name.
            read_queues: queues to read, per broker; default they stay.
            write_queues: queues to write, per broker; default they stay.
            perm: 6 read and write, 4 read only, 2 write only, 0 neither; default it stays.
            order: mark it as ordered or not; default it stays.
            attributes: changes of a 5.x topic's attributes, ``{"+message.type": "FIFO"}`` or ``{"-message.type": ""}``; default none.
            cluster: at all masters of this cluster; default wherever the topic is.
            broker: at this broker alone, by name (its master) or ``host:port``; default wherever the topic is.

        Returns:
            Its settings as they were sent, by broker name; ``attributes`` as they were before.

        Raises:
            TopicNotExist: none of these brokers has the topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(
            self._async.alter_topic(
                topic,
                read_queues=read_queues,
                write_queues=write_queues,
                perm=perm,
                order=order,
                attributes=attributes,
                cluster=cluster,
                broker=broker,
            )
        )

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic from all brokers (of ``cluster``) and from the name servers; its messages are gone (mqadmin: deleteTopic).

        Args:
            topic: its name.
            cluster: from the brokers of this cluster; default from all.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.delete_topic(topic, cluster=cluster))

    def topics(self, *, cluster: str | None = None) -> list[str]:
        """All topics the name server knows, or those of one cluster, system topics included, sorted (mqadmin: topicList).

        Args:
            cluster: those of this cluster; default all that the name server knows.

        Returns:
            Their names.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.topics(cluster=cluster))

    def system_topics(self) -> list[str]:
        """The topics that belong to the brokers and the name server, sorted.

        Returns:
            Their names.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.system_topics())

    def route(self, topic: str) -> bodies.TopicRouteData:
        """Which brokers have which queues of ``topic`` (mqadmin: topicRoute).

        Args:
            topic: its name.

        Returns:
            Its brokers with their addresses, and how many queues each has.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.route(topic))

    def topic_clusters(self, topic: str) -> list[str]:
        """The clusters that have ``topic``, sorted (mqadmin: topicClusterList).

        Args:
            topic: its name.

        Returns:
            Their names.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.topic_clusters(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of ``topic``, in order.

        Args:
            topic: its name.

        Returns:
            The queues, by broker and number.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.queues(topic))

    def allocate(
        self, topic: str, client_ids: Iterable[str], *, strategy: allocation.AllocationStrategy | str = "AVG"
    ) -> dict[str, list[MessageQueue]]:
        """Which queues members with these client ids would read (mqadmin: allocateMQ). Nothing is changed.

        Args:
            topic: its name.
            client_ids: of the members.
            strategy: how they share, as a push consumer's ``allocate_strategy``.

        Returns:
            The queues of each member, by client id.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.allocate(topic, client_ids, strategy=strategy))

    def topic_stats(self, topic: str) -> dict[MessageQueue, bodies.TopicOffset]:
        """Min and max offset and time of the last message, per queue (mqadmin: topicStatus).

        Args:
            topic: its name.

        Returns:
            By queue.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.topic_stats(topic))

    def topic_config(self, topic: str) -> dict[str, bodies.TopicConfig]:
        """The settings of ``topic`` on each broker that has it, by broker name.

        Args:
            topic: its name.

        Returns:
            By broker name.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.topic_config(topic))

    def topic_configs(self, broker: str) -> dict[str, bodies.TopicConfig]:
        """The settings of all topics of one broker, by name, sorted (mqadmin: part of exportMetadata).

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            By topic.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.topic_configs(broker))

    def order_conf(self, topic: str) -> dict[str, int]:
        """The queues that an ordered topic is sent to, by broker name; empty when none are set (mqadmin: updateOrderConf -m get).

        Args:
            topic: its name.

        Returns:
            How many queues, by broker name.

        Raises:
            TopicNotExist: there is no such topic, and nothing is set for it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.order_conf(topic))

    def set_order_conf(self, topic: str, queues_by_broker: Mapping[str, int]) -> None:
        """Send an ordered topic to so many queues of these brokers, also while one is down (mqadmin: updateOrderConf -m put).

        Args:
            topic: its name.
            queues_by_broker: how many queues, by broker name.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.set_order_conf(topic, queues_by_broker))

    def delete_order_conf(self, topic: str) -> None:
        """Forget ``set_order_conf`` (mqadmin: updateOrderConf -m delete). Harmless when there is none.

        Args:
            topic: its name.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.delete_order_conf(topic))

    def topic_summaries(self, *, cluster: str | None = None, with_system_topics: bool = False) -> list[TopicSummary]:
        """Every topic at a glance: its queues and how many messages the brokers hold, sorted by name (mqadmin: topicList, topicStatus).

        Args:
            cluster: those of this cluster; default all that the name server knows.
            with_system_topics: also those of brokers and name servers, retry topics and dead letters.

        Returns:
            A row for each topic that has queues.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.topic_summaries(cluster=cluster, with_system_topics=with_system_topics))

    def consumers_of(self, topic: str) -> list[str]:
        """The groups that have progress in ``topic`` or subscribe to it, sorted.

        Args:
            topic: its name.

        Returns:
            Their names.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.consumers_of(topic))

    def topic_traffic(self, topic: str) -> list[TopicTraffic]:
        """What goes in and out, one row per group that reads ``topic``, or one without a group (mqadmin: statsAll).

        Args:
            topic: its name.

        Returns:
            A row for each group.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.topic_traffic(topic))

    def create_group(
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
        self._run(self._async.create_group(group, cluster=cluster, broker=broker, **settings))

    def alter_group(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, **settings: Unpack[GroupSettings]
    ) -> dict[str, bodies.SubscriptionGroupConfig]:
        """Change what is given of a group, and leave the rest of it as it is on each broker that has it (mqadmin: updateSubGroup changes
        all of it).

        Args:
            group: its name.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.
            settings: those of GroupSettings, such as ``retry_max_times=5`` or ``consume_enable=False``.

        Returns:
            Its settings as they are now, by broker name.

        Raises:
            GroupNotExist: none of these brokers knows the group.
            ConfigurationError: there is no such setting.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.alter_group(group, cluster=cluster, broker=broker, **settings))

    def create_groups(
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
        self._run(self._async.create_groups(configs, cluster=cluster, broker=broker))

    def delete_group(
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
        self._run(self._async.delete_group(group, remove_offsets=remove_offsets, cluster=cluster, broker=broker))

    def groups(self, *, cluster: str | None = None) -> list[str]:
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
        return self._run(self._async.groups(cluster=cluster))

    def group_configs(self, broker: str) -> dict[str, bodies.SubscriptionGroupConfig]:
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
        return self._run(self._async.group_configs(broker))

    def group_config(self, group: str) -> dict[str, bodies.SubscriptionGroupConfig]:
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
        return self._run(self._async.group_config(group))

    def set_consume_mode(
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
        self._run(
            self._async.set_consume_mode(
                topic, group, mode, pop_share_queue_num=pop_share_queue_num, cluster=cluster, broker=broker
            )
        )

    def group_readable(self, group: str, topic: str, readable: bool | None = None) -> dict[str, bool]:
        """Whether ``group`` may read ``topic``, by broker name, after setting it when ``readable`` is given (5.x).

        Args:
            group: the consumer group.
            topic: its name.
            readable: True or False sets it; default nothing is changed.

        Returns:
            By broker name.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.group_readable(group, topic, readable))

    def consumer_progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """Progress and lag per queue, in all the group's topics or in one; empty before the group has begun (mqadmin: consumerProgress -g).

        Args:
            group: the consumer group.
            topic: in this topic; default in all that the group reads.

        Returns:
            By queue.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.consumer_progress(group, topic))

    def lag(self, group: str, topic: str | None = None) -> int:
        """Messages that ``group`` has not consumed yet, in sum.

        Args:
            group: the consumer group.
            topic: in this topic; default in all that the group reads.

        Returns:
            How many, over all queues.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.lag(group, topic))

    def group_summaries(self) -> list[GroupSummary]:
        """Every group that has a retry topic, at a glance, the furthest behind first (mqadmin: consumerProgress).

        Returns:
            A row for each group.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.group_summaries())

    def broker_consume_stats(self, broker: str, *, only_ordered: bool = False) -> bodies.ConsumeStatsList:
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
        return self._run(self._async.broker_consume_stats(broker, only_ordered=only_ordered))

    def consume_time_span(self, topic: str, group: str) -> list[bodies.QueueTimeSpan]:
        """Per queue, the store times of the oldest, the newest and the last consumed message, and how late the group is.

        Args:
            topic: its name.
            group: the consumer group.

        Returns:
            A span for each queue.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.consume_time_span(topic, group))

    def consumer_connection(self, group: str) -> bodies.ConsumerConnection | None:
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
        return self._run(self._async.consumer_connection(group))

    def consumer_ids(self, group: str) -> list[str]:
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
        return self._run(self._async.consumer_ids(group))

    def running_info(self, group: str, client_id: str, *, jstack: bool = False) -> bodies.ConsumerRunningInfo:
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
        return self._run(self._async.running_info(group, client_id, jstack=jstack))

    def running_infos(self, group: str, *, jstack: bool = False) -> dict[str, bodies.ConsumerRunningInfo]:
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
        return self._run(self._async.running_infos(group, jstack=jstack))

    def producer_connection(self, group: str, topic: str) -> list[bodies.Connection]:
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
        return self._run(self._async.producer_connection(group, topic))

    def producers(self, broker: str) -> dict[str, list[bodies.ProducerInfo]]:
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
        return self._run(self._async.producers(broker))

    def topics_of_group(self, group: str) -> list[str]:
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
        return self._run(self._async.topics_of_group(group))

    def subscription(self, group: str, topic: str) -> bodies.SubscriptionData | None:
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
        return self._run(self._async.subscription(group, topic))

    def min_offset(self, queue: MessageQueue) -> int:
        """The oldest message that is still there.

        Args:
            queue: of which topic, broker and number.

        Returns:
            Its offset.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """One behind the newest message.

        Args:
            queue: of which topic, broker and number.

        Returns:
            The offset.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int | datetime, *, last: bool = False) -> int:
        """The first message stored at or after a time; when there is none, one behind the newest (a 4.9 broker: the newest).

        Args:
            queue: of which topic, broker and number.
            timestamp_ms: milliseconds since 1970, 0 for the beginning, or a datetime (without a zone it is local time).
            last: of several messages of that very millisecond the last one (5.x).

        Returns:
            The offset.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.offset_by_time(queue, timestamp_ms, last=last))

    def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """When the oldest message was stored, -1 for an empty queue.

        Args:
            queue: of which topic, broker and number.

        Returns:
            Milliseconds since 1970, or -1.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.earliest_store_time_ms(queue))

    def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The next offset ``group`` will consume; None when it has no progress there.

        Args:
            group: the consumer group.
            queue: of which topic, broker and number.

        Returns:
            The offset, or None.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.consumer_offset(group, queue))

    def set_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the progress of ``group``; its members must be down, or they overwrite it with theirs: see ``reset_offset``.

        Args:
            group: the consumer group.
            queue: of which topic, broker and number.
            offset: the next one to consume.

        Raises:
            GroupNotExist, TopicNotExist: a 5.x broker does not know it; see ``create_group`` (4.9 takes any).
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.set_consumer_offset(group, queue, offset))

    def reset_offset_by_time(
        self, group: str, topic: str, timestamp_ms: int | datetime, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Let ``group`` go on in ``topic`` with what was stored from a time on, whether members are online or not
        (mqadmin: resetOffsetByTime).

        Args:
            group: the consumer group.
            topic: its name.
            timestamp_ms: milliseconds since 1970, 0 for the beginning, or a datetime (without a zone it is local time).
            force: False moves no queue forward (4.9; a 5.x broker always moves).

        Returns:
            Where each queue goes on.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            RemoteError: a broker refused.
            ConfigurationError: an argument is wrong; nothing was asked.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.reset_offset_by_time(group, topic, timestamp_ms, force=force))

    def skip_accumulated(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Let ``group`` forget what waits in ``topic`` and go on with what comes (mqadmin: skipAccumulatedMessage).

        Args:
            group: the consumer group.
            topic: its name.

        Returns:
            Where each queue goes on.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.skip_accumulated(group, topic))

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let ``group`` go on at ``offset`` in one queue (mqadmin: resetOffsetByTime -b -q -o).

        Args:
            group: the consumer group.
            queue: of which topic, broker and number.
            offset: the next one to consume.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: members are online and the broker is 4.9, which can only move whole topics: stop them first.
            RemoteError: the offset is not between the queue's oldest message and its end (5.x).
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.reset_offset(group, queue, offset))

    def clone_offsets(self, source: str, destination: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Let ``destination`` begin where ``source`` is, in one topic or in all (mqadmin: cloneGroupOffset).

        Members of ``destination`` must be down, and a 5.x broker must know it: see ``create_group``. The retry topic of ``source`` is not
        taken along.

        Args:
            source: the group whose progress is taken.
            destination: the group that gets it.
            topic: in this topic; default in all topics of ``source``.

        Returns:
            Where each queue begins.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.clone_offsets(source, destination, topic))

    def consume_status(
        self, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """The progress in memory of each member that is online, or of one, by client id (mqadmin: getConsumerStatus).

        Args:
            topic: its name.
            group: the consumer group.
            client_id: of one member; default all that are online.

        Returns:
            The next offset of each queue, by client id.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.consume_status(topic, group, client_id))

    def view_message(self, offset_message_id: str) -> MessageExt:
        """The stored copy that ``offset_message_id`` names (mqadmin: queryMsgById).

        Args:
            offset_message_id: of the stored copy: ``offset_message_id`` of a send's result, or of a received message.

        Returns:
            The message as it is stored.

        Raises:
            ConfigurationError: it is no offset message id; a unique key (``message_id``) is for ``messages_by_unique_key``.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.view_message(offset_message_id))

    @staticmethod
    def decode_message_id(offset_message_id: str) -> tuple[str, int]:
        """``(host:port of the broker, commit log offset)`` that an offset message id names; asks nobody (mqadmin: DecodeMessageId).

        Args:
            offset_message_id: of the stored copy: ``offset_message_id`` of a send's result, or of a received message.

        Returns:
            Address and offset.

        Raises:
            ConfigurationError: it is no offset message id.
        """
        return AsyncAdmin.decode_message_id(offset_message_id)

    def messages_by_key(
        self, topic: str, key: str, *, max_messages: int = 64, begin_ms: int = 0, end_ms: int = (1 << 63) - 1
    ) -> list[MessageExt]:
        """Messages of ``topic`` with this key, stored between two times, by the brokers' index, oldest first (mqadmin: queryMsgByKey).

        Args:
            topic: its name.
            key: one of the message's ``keys``.
            max_messages: at most so many, the newest.
            begin_ms: stored at this time or later, milliseconds since 1970.
            end_ms: stored at this time or before, milliseconds since 1970.

        Returns:
            The messages.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(
            self._async.messages_by_key(topic, key, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms)
        )

    def messages_by_unique_key(self, topic: str, unique_key: str) -> list[MessageExt]:
        """The stored copies of the message with this ``message_id``, oldest first: more than one after a send that was tried again
        (mqadmin: queryMsgByUniqueKey).

        Args:
            topic: its name.
            unique_key: the ``message_id``.

        Returns:
            The copies.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.messages_by_unique_key(topic, unique_key))

    def message_trace(
        self,
        message_id: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
    ) -> list[TraceRecord]:
        """Who sent and who consumed a message, by what clients of any language told the trace topic, oldest first
        (mqadmin: queryMsgTraceById).

        Args:
            message_id: that of the message (not of a stored copy).
            trace_topic: where the clients' traces go.
            max_messages: look at so many trace messages, the newest.
            begin_ms: stored at this time or later, milliseconds since 1970.
            end_ms: stored at this time or before, milliseconds since 1970.

        Returns:
            One record for each send, and for each call of a listener before and after it.

        Raises:
            TopicNotExist: nobody has traced anything there yet.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(
            self._async.message_trace(
                message_id, trace_topic=trace_topic, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    def message_at(self, queue: MessageQueue, offset: int) -> MessageExt | None:
        """The message at one place of a queue; None when there is none (mqadmin: queryMsgByOffset).

        Args:
            queue: of which topic, broker and number.
            offset: its place in the queue.

        Returns:
            The message, or None.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.message_at(queue, offset))

    def read_messages(
        self,
        queue: MessageQueue,
        begin_offset: int | None = None,
        *,
        end_offset: int | None = None,
        max_messages: int = 32,
        expression: FilterExpression | str = "*",
    ) -> list[MessageExt]:
        """Messages of a queue in order, without a group and without progress (mqadmin: printMsg, printMsgByQueue, consumeMessage).

        For whole topics use QueueReader, which is made for speed.

        Args:
            queue: of which topic, broker and number.
            begin_offset: default the oldest message.
            end_offset: read up to here, exclusive; default the end as it is now.
            max_messages: at most so many.
            expression: tags as ``"a || b"``, or ``sql92("...")``.

        Returns:
            The messages.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong, or the topic has no such queue.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(
            self._async.read_messages(
                queue, begin_offset, end_offset=end_offset, max_messages=max_messages, expression=expression
            )
        )

    def read_onward(
        self, positions: Mapping[MessageQueue, int], *, max_messages: int = 32, expression: FilterExpression | str = "*"
    ) -> tuple[list[MessageExt], dict[MessageQueue, int]]:
        """One pull at each of these queues at once, without a group and without progress, to follow a topic (mqadmin:
        consumeMessage).

        Args:
            positions: where to read on, by queue; what lies before the oldest message begins there.
            max_messages: at most so many of each queue; a broker gives 32 in one pull by default.
            expression: tags as ``"a || b"``, or ``sql92("...")``.

        Returns:
            The messages that are there, in the order in which they were stored, and where to read on: behind them, and behind what the
            filter left out.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.read_onward(positions, max_messages=max_messages, expression=expression))

    def message_track(self, message: MessageExt) -> list[MessageTrack]:
        """What became of a message in each group that reads its topic (mqadmin: queryMsgById prints it).

        Args:
            message: as a lookup returned it.

        Returns:
            A row for each group.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.message_track(message))

    def consume_directly(
        self, group: str, client_id: str, message: MessageExt | str
    ) -> bodies.ConsumeMessageDirectlyResult:
        """Let one member run its listener on a stored message, now; progress and retries stay as they are
        (mqadmin: queryMsgById -g -d).

        Args:
            group: the consumer group.
            client_id: of the member, ``ip@instanceName``.
            message: as a lookup returned it, or its offset message id.

        Returns:
            What the listener made of it, and how long that took.

        Raises:
            RemoteError: the member is not online, is no push consumer, or did not answer within 10 s.
            ConfigurationError: an argument is wrong; nothing was asked.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.consume_directly(group, client_id, message))

    def consume_queue(
        self, queue: MessageQueue, index: int = 0, count: int = 10, group: str | None = None
    ) -> bodies.QueryConsumeQueueResponseBody:
        """Entries of the index that a queue is: where each message is in the commit log, and whether it passes the filter of ``group``
        (mqadmin: queryCq).

        Args:
            queue: of which topic, broker and number.
            index: the offset to begin at.
            count: how many entries.
            group: whose filter is tried; default none.

        Returns:
            The entries, and what the group subscribes to.

        Raises:
            GroupNotExist, TopicNotExist: no broker knows it.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.consume_queue(queue, index, count, group))

    def resume_half_message(self, topic: str, offset_message_id: str) -> None:
        """Have the producers asked again about a transaction whose checks are used up.

        Args:
            topic: where it was sent.
            offset_message_id: of the half message.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.resume_half_message(topic, offset_message_id))

    def cluster_info(self) -> bodies.ClusterInfo:
        """Clusters, their brokers and the addresses of these.

        Returns:
            Addresses by broker name and id, and broker names by cluster.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.cluster_info())

    def brokers(self, *, cluster: str | None = None) -> list[BrokerStatus]:
        """Every broker that is registered, masters and slaves, sorted by name and id (mqadmin: clusterList).

        Args:
            cluster: of this cluster; default of all.

        Returns:
            A row for each.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.brokers(cluster=cluster))

    def broker_runtime_info(self, broker: str) -> dict[str, str]:
        """A broker's own numbers, as text by text (mqadmin: brokerStatus).

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            By name, as the broker calls them.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.broker_runtime_info(broker))

    def broker_stats(self, broker: str, stats_name: str, stats_key: str) -> bodies.BrokerStatsData:
        """One counter of a broker over a minute, an hour and a day, such as ``TOPIC_PUT_NUMS`` of a topic or ``GROUP_GET_NUMS`` of
        ``topic@group``.

        Args:
            broker: which one, by name (its master) or ``host:port``.
            stats_name: which counter.
            stats_key: of what: a topic, or ``topic@group``.

        Returns:
            Sums and rates over a minute, an hour and a day.

        Raises:
            RemoteError: nothing was counted, or a server refused.
            ConfigurationError: an argument is wrong; nothing was asked.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.broker_stats(broker, stats_name, stats_key))

    def ha_status(self, broker: str) -> bodies.HARuntimeInfo:
        """How far a master's slaves are, or how far a slave is (mqadmin: haStatus; 5.x).

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            Offsets and rates, per slave.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.ha_status(broker))

    def speaks_5x(self, broker: str) -> bool:
        """Whether a broker knows the requests of RocketMQ 5, found by asking something harmless that 4.9 does not know: what a broker
        calls itself is no promise.

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            True where it does.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.speaks_5x(broker))

    def broker_config(self, broker: str) -> dict[str, str]:
        """All settings of a broker, as Apache names them (mqadmin: getBrokerConfig).

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            By name.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.broker_config(broker))

    def update_broker_config(
        self, settings: Mapping[str, Any], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Change settings of running brokers, of slaves too (mqadmin: updateBrokerConfig). One of ``cluster`` and ``broker`` is needed.

        Args:
            settings: as Apache names them, ``{"maxMessageSize": 4194304, "autoCreateTopicEnable": False}``.
            cluster: at all brokers of this cluster, slaves too; default none.
            broker: at this one and its slaves, by name, or at one ``host:port`` alone; default none.

        Raises:
            RemoteError: our brokers refuse unknown settings and those that need a restart; Apache's take them and say nothing.
            ConfigurationError: an argument is wrong; nothing was asked.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.update_broker_config(settings, cluster=cluster, broker=broker))

    def clean_expired_consume_queues(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete queue files of messages that are gone (mqadmin: cleanExpiredCQ).

        Args:
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.clean_expired_consume_queues(cluster=cluster, broker=broker))

    def delete_expired_commit_logs(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete log files that are older than the brokers keep them, at whatever hour it is (mqadmin: deleteExpiredCommitLog).

        Args:
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.delete_expired_commit_logs(cluster=cluster, broker=broker))

    def clean_unused_topics(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete the queue files of topics that are gone (mqadmin: cleanUnusedTopic).

        Args:
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.clean_unused_topics(cluster=cluster, broker=broker))

    @property
    def name_servers(self) -> list[str]:
        """The addresses of the name servers that this client knows."""
        return self._async.name_servers

    def wipe_write_perm(self, broker_name: str) -> dict[str, int]:
        """Let nobody send to a broker any more, until it registers anew or ``add_write_perm`` (mqadmin: wipeWritePerm).

        Args:
            broker_name: its name.

        Returns:
            How many topics changed, by name server.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.wipe_write_perm(broker_name))

    def add_write_perm(self, broker_name: str) -> dict[str, int]:
        """Undo ``wipe_write_perm`` (mqadmin: addWritePerm).

        Args:
            broker_name: its name.

        Returns:
            How many topics changed, by name server.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.add_write_perm(broker_name))

    def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Keep a text at the name servers (mqadmin: updateKvConfig).

        Args:
            namespace: where it is kept.
            key: its name there.
            value: the text.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.put_kv_config(namespace, key, value))

    def kv_config(self, namespace: str, key: str) -> str | None:
        """A text kept at the name servers; None when there is none.

        Args:
            namespace: where it is kept.
            key: its name there.

        Returns:
            The text, or None.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.kv_config(namespace, key))

    def kv_configs(self, namespace: str) -> dict[str, str]:
        """All texts of a namespace, by key; empty when there are none.

        Args:
            namespace: where they are kept.

        Returns:
            The texts.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.kv_configs(namespace))

    def delete_kv_config(self, namespace: str, key: str) -> None:
        """Forget a text kept at the name servers (mqadmin: deleteKvConfig).

        Args:
            namespace: where it is kept.
            key: its name there.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.delete_kv_config(namespace, key))

    def namesrv_config(self) -> dict[str, dict[str, str]]:
        """All settings, by name server (mqadmin: getNamesrvConfig).

        Returns:
            Settings by name, by the server's address.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.namesrv_config())

    def update_namesrv_config(self, settings: Mapping[str, Any]) -> None:
        """Change settings of all name servers while they run (mqadmin: updateNamesrvConfig).

        Args:
            settings: as Apache names them, ``{"orderMessageEnable": True}``.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.update_namesrv_config(settings))

    def diagnose_group(self, group: str, *, stuck_after_ms: int = 30000, watch_ms: int = 2000) -> GroupDiagnosis:
        """Why a group does not move: one verdict, the evidence, and what to do. Changes nothing.

        Args:
            group: the consumer group.
            stuck_after_ms: milliseconds after which a listener that finishes nothing counts as stuck.
            watch_ms: how many milliseconds to look for movement.

        Returns:
            The verdict; what could not be learned is said as that.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.diagnose_group(group, stuck_after_ms=stuck_after_ms, watch_ms=watch_ms))

    def create_user(
        self,
        username: str,
        password: str,
        *,
        user_type: str = "Normal",
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create a user (mqadmin: createUser; 5.x).

        Args:
            username: its name.
            password: its password.
            user_type: ``Normal``, who may do what policies allow, or ``Super``, who may do all.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.create_user(username, password, user_type=user_type, cluster=cluster, broker=broker))

    def update_user(
        self,
        username: str,
        *,
        password: str | None = None,
        user_type: str | None = None,
        user_status: str | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Change what is given of a user (mqadmin: updateUser; 5.x).

        Args:
            username: its name.
            password: the new one; default it stays.
            user_type: ``Normal`` or ``Super``; default it stays.
            user_status: ``enable`` or ``disable``; default it stays.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(
            self._async.update_user(
                username,
                password=password,
                user_type=user_type,
                user_status=user_status,
                cluster=cluster,
                broker=broker,
            )
        )

    def delete_user(self, username: str, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete a user (mqadmin: deleteUser; 5.x).

        Args:
            username: its name.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.delete_user(username, cluster=cluster, broker=broker))

    def user(self, broker: str, username: str) -> bodies.UserInfo | None:
        """A user as one broker knows it, None when it does not (mqadmin: getUser; 5.x).

        Args:
            broker: which one, by name (its master) or ``host:port``.
            username: its name.

        Returns:
            The user, or None.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.user(broker, username))

    def users(self, broker: str, name_filter: str | None = None) -> list[bodies.UserInfo]:
        """The users of one broker whose name contains ``name_filter`` (mqadmin: listUser; 5.x).

        Args:
            broker: which one, by name (its master) or ``host:port``.
            name_filter: a part of the names; default all users.

        Returns:
            The users.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.users(broker, name_filter))

    def copy_users(self, source: str, destination: str, usernames: Collection[str] | None = None) -> list[str]:
        """Create or update users of one broker at another, all or some (mqadmin: copyUser; 5.x).

        Args:
            source: the broker to copy from, by name or ``host:port``.
            destination: the broker to copy to, by name or ``host:port``.
            usernames: whom; default all.

        Returns:
            Their names.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.copy_users(source, destination, usernames))

    def create_acl(
        self,
        subject: str,
        resources: Collection[str],
        actions: Collection[str],
        decision: str = "Allow",
        *,
        source_ips: Collection[str] = (),
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Allow or deny a user something (mqadmin: createAcl; 5.x).

        Args:
            subject: ``User:name``.
            resources: ``Topic:flights``, ``Group:delays``, ``Topic:orders*``, ...
            actions: ``Pub``, ``Sub``, ``Create``, ``Update``, ``Delete``, ``Get``, ``List`` or ``All``.
            decision: ``Allow`` or ``Deny``.
            source_ips: addresses this is limited to; () is any.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(
            self._async.create_acl(
                subject, resources, actions, decision, source_ips=source_ips, cluster=cluster, broker=broker
            )
        )

    def update_acl(
        self,
        subject: str,
        resources: Collection[str],
        actions: Collection[str],
        decision: str = "Allow",
        *,
        source_ips: Collection[str] = (),
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Change what a user may do to these resources (mqadmin: updateAcl; 5.x).

        Args:
            subject: ``User:name``.
            resources: ``Topic:flights``, ``Group:delays``, ``Topic:orders*``, ...
            actions: ``Pub``, ``Sub``, ``Create``, ``Update``, ``Delete``, ``Get``, ``List`` or ``All``.
            decision: ``Allow`` or ``Deny``.
            source_ips: addresses this is limited to; () is any.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(
            self._async.update_acl(
                subject, resources, actions, decision, source_ips=source_ips, cluster=cluster, broker=broker
            )
        )

    def delete_acl(
        self, subject: str, resource: str | None = None, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Delete what is said about one resource, or all policies of ``User:name`` (mqadmin: deleteAcl; 5.x).

        Args:
            subject: ``User:name``.
            resource: such as ``Topic:flights``; default all that is said about the user.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.delete_acl(subject, resource, cluster=cluster, broker=broker))

    def acl(self, broker: str, subject: str) -> bodies.AclInfo | None:
        """All policies of ``User:name`` at one broker, None when there are none (mqadmin: getAcl; 5.x).

        Args:
            broker: which one, by name (its master) or ``host:port``.
            subject: ``User:name``.

        Returns:
            The policies, or None.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.acl(broker, subject))

    def acls(
        self, broker: str, subject_filter: str | None = None, resource_filter: str | None = None
    ) -> list[bodies.AclInfo]:
        """The policies of one broker whose subject and resource contain the filters (mqadmin: listAcl; 5.x).

        Args:
            broker: which one, by name (its master) or ``host:port``.
            subject_filter: a part of the subjects; default any.
            resource_filter: a part of the resources; default any.

        Returns:
            The policies, by subject.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.acls(broker, subject_filter, resource_filter))

    def copy_acls(self, source: str, destination: str, subjects: Collection[str] | None = None) -> list[str]:
        """Create or update policies of one broker at another, of all subjects or some (mqadmin: copyAcl; 5.x).

        Args:
            source: the broker to copy from, by name or ``host:port``.
            destination: the broker to copy to, by name or ``host:port``.
            subjects: whose, ``User:name``; default all.

        Returns:
            The subjects.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.copy_acls(source, destination, subjects))

    def update_account(
        self,
        access_key: str,
        secret_key: str | None = None,
        *,
        admin: bool = False,
        white_remote_address: str | None = None,
        default_topic_perm: str | None = None,
        default_group_perm: str | None = None,
        topic_perms: Mapping[str, str] | None = None,
        group_perms: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create an account or change it (mqadmin: updateAclConfig; 4.9). What is not given stays; ``admin`` becomes False.

        Args:
            access_key: its name.
            secret_key: what it signs with; default it stays.
            admin: whether it may administer.
            white_remote_address: from where it needs no signature; default it stays.
            default_topic_perm: ``DENY``, ``PUB``, ``SUB`` or ``PUB|SUB`` for topics that are not named; default it stays.
            default_group_perm: ``DENY``, ``PUB``, ``SUB`` or ``PUB|SUB`` for groups that are not named; default it stays.
            topic_perms: ``DENY``, ``PUB``, ``SUB`` or ``PUB|SUB``, by topic; default they stay.
            group_perms: ``DENY``, ``PUB``, ``SUB`` or ``PUB|SUB``, by group; default they stay.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(
            self._async.update_account(
                access_key,
                secret_key,
                admin=admin,
                white_remote_address=white_remote_address,
                default_topic_perm=default_topic_perm,
                default_group_perm=default_group_perm,
                topic_perms=topic_perms,
                group_perms=group_perms,
                cluster=cluster,
                broker=broker,
            )
        )

    def delete_account(self, access_key: str, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete an account (mqadmin: deleteAclConfig; 4.9).

        Args:
            access_key: its name.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.delete_account(access_key, cluster=cluster, broker=broker))

    def update_global_white_addresses(
        self, addresses: Collection[str], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """From where anybody may do anything (mqadmin: updateGlobalWhiteAddr; 4.9).

        Args:
            addresses: addresses, or patterns such as ``10.0.0.*``.
            cluster: at all masters of this cluster; default all masters.
            broker: at this broker alone, by name (its master) or ``host:port``; default all masters.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        self._run(self._async.update_global_white_addresses(addresses, cluster=cluster, broker=broker))

    def account_versions(self, broker: str) -> headers.GetBrokerAclConfigResponseHeader:
        """Which state of its accounts a broker has (mqadmin: clusterAclConfigVersion; 4.9).

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            The state of each file of accounts.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.account_versions(broker))

    def export_metadata(
        self, broker: str
    ) -> tuple[dict[str, bodies.TopicConfig], dict[str, bodies.SubscriptionGroupConfig]]:
        """Topics and groups of a broker, as ``create_topics`` and ``create_groups`` take elsewhere (mqadmin: exportMetadata).

        Args:
            broker: which one, by name (its master) or ``host:port``.

        Returns:
            Topics and groups, by name.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        return self._run(self._async.export_metadata(broker))
