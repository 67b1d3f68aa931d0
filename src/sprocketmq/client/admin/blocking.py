# SPDX-License-Identifier: Apache-2.0
"""Admin, the blocking form of AsyncAdmin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sprocketmq.client.admin.async_admin import AsyncAdmin
from sprocketmq.client.admin.brokers import BrokerStatus
from sprocketmq.client.admin.group_progress import GroupSummary, QueueProgress, WaitingRetries
from sprocketmq.client.admin.messages import MessageTrack
from sprocketmq.client.admin.topic_traffic import TopicSummary, TopicTraffic
from sprocketmq.client.blocking_client import BlockingClient
from sprocketmq.core.doctor.group_doctor import GroupDiagnosis
from sprocketmq.core.group import allocation
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.core.resource_names import TRACE_TOPIC
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.trace import TraceRecord

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import CommonOptions, GroupSettings


class Admin(BlockingClient[AsyncAdmin]):
    """Administrative requests: AsyncAdmin for callers without an event loop. Several threads can use it.

    ::

        with Admin(namesrv_addr="127.0.0.1:9876") as admin:
            admin.create_topic("flights", queues=8)
            print(admin.lag("delays"))

    Args:
        options: those of CommonOptions (``help(sprocketmq.CommonOptions)``); ``namespace`` is not added to names.
        engine: the engine whose thread runs the client; default: one engine for all blocking clients of the process.

    Every method takes full names as ``topic`` and ``group``, and topic, broker name and queue id as ``queue``. ``broker`` is a
    broker's name, for its master, or ``host:port``; ``cluster`` means all its masters; by default requests go to all masters.
    ``timestamp_ms`` is in milliseconds since 1970 (0 is the beginning), or a datetime (local time if it has no zone). ``client_id``
    is ``ip@instanceName``; ``offset_message_id`` that of a SendResult or of a received message; ``subject`` is ``User:name``.

    Every method raises RemoteError (the server refused; with code 3 it does not serve this request), NetworkError or RequestTimeout
    (no answer), TopicNotExist or GroupNotExist (no server knows the topic or the group), and ConfigurationError (an argument is
    wrong, or the topic has no such queue; of the class, an option is wrong, and nothing was opened).
    """

    def __init__(self, *, engine: Engine | None = None, **options: Unpack[CommonOptions]) -> None:
        super().__init__(AsyncAdmin(**options), engine)

    def start(self) -> None:
        """Do nothing: connections open with the first request. It exists for ``with``."""

    def shutdown(self) -> None:
        """Close all connections; a later request opens new ones."""
        self._run_shutdown()

    # Written by `make generate` from here on, from the methods of AsyncAdmin.

    def export_metadata(
        self, broker: str
    ) -> tuple[dict[str, bodies.TopicConfig], dict[str, bodies.SubscriptionGroupConfig]]:
        """The topics and groups of a broker by name, for ``create_topics`` and ``create_groups`` (mqadmin: exportMetadata)."""
        return self._run(self._async.export_metadata(broker))

    def diagnose_group(self, group: str, *, stuck_after_ms: int = 30000, watch_ms: int = 2000) -> GroupDiagnosis:
        """Find out why a group makes no progress: one verdict, its evidence, and what to do; ``not_learned`` lists what could not
        be found out. Changes nothing. ``stuck_after_ms``: from how many milliseconds on a listener call counts as stuck.
        ``watch_ms``: how many milliseconds to watch whether progress changes."""
        return self._run(self._async.diagnose_group(group, stuck_after_ms=stuck_after_ms, watch_ms=watch_ms))

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
        """Create a topic, or change it, and wait ``wait_ms`` milliseconds until the name server knows it (mqadmin: updateTopic).
        ``queues`` to read and to write on each broker, unless ``read_queues`` or ``write_queues`` is given (default: None).
        ``perm``: 6 read and write, 4 read only, 2 write only. ``attributes``: changes of them (5.x), ``{"+message.type": "FIFO"}``
        or ``{"-message.type": ""}``; default none."""
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
        """Create or change many topics at once, without waiting (mqadmin: updateTopicList); one by one at a 4.9 broker."""
        self._run(self._async.create_topics(configs, cluster=cluster, broker=broker))

    def set_topic_perm(self, topic: str, perm: int, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Set the permission of a topic, and leave its other settings unchanged (mqadmin: updateTopicPerm). ``perm``: 4 to read,
        2 to write, 6 for both, 0 for neither. ``cluster``, ``broker``: default: wherever the topic exists."""
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
        """Change the given settings of a topic, as of ``create_topic``, on each broker, without waiting for the name server
        (mqadmin's updateTopic replaces all settings). ``read_queues``, ``write_queues``, ``perm``, ``order``, ``attributes``:
        default: unchanged. ``cluster``, ``broker``: default: wherever the topic exists. Returns the new settings by broker name,
        with the ``attributes`` before the change."""
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
        """Delete a topic and its messages from all brokers (of ``cluster``) and from the name servers (mqadmin: deleteTopic)."""
        self._run(self._async.delete_topic(topic, cluster=cluster))

    def topics(self, *, cluster: str | None = None) -> list[str]:
        """The names of all topics, or of one cluster's, with system topics, sorted (mqadmin: topicList)."""
        return self._run(self._async.topics(cluster=cluster))

    def system_topics(self) -> list[str]:
        """The names of the system topics of brokers and name server, sorted."""
        return self._run(self._async.system_topics())

    def route(self, topic: str) -> bodies.TopicRouteData:
        """Which brokers have which queues of ``topic``, and their addresses (mqadmin: topicRoute)."""
        return self._run(self._async.route(topic))

    def topic_clusters(self, topic: str) -> list[str]:
        """The clusters that have ``topic``, sorted (mqadmin: topicClusterList)."""
        return self._run(self._async.topic_clusters(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of ``topic``, sorted by broker name and queue id."""
        return self._run(self._async.queues(topic))

    def allocate(
        self, topic: str, client_ids: Iterable[str], *, strategy: allocation.AllocationStrategy | str = "AVG"
    ) -> dict[str, list[MessageQueue]]:
        """Which queues members with these ids would read (mqadmin: allocateMQ); ``strategy`` as ``allocate_strategy``."""
        return self._run(self._async.allocate(topic, client_ids, strategy=strategy))

    def topic_stats(self, topic: str, *, broker: str | None = None) -> dict[MessageQueue, bodies.TopicOffset]:
        """By queue: minimum and maximum offset, time of the last message (mqadmin: topicStatus); default: of all brokers."""
        return self._run(self._async.topic_stats(topic, broker=broker))

    def topic_config(self, topic: str) -> dict[str, bodies.TopicConfig]:
        """The settings of ``topic`` on each broker that has it, by broker name."""
        return self._run(self._async.topic_config(topic))

    def topic_configs(self, broker: str) -> dict[str, bodies.TopicConfig]:
        """The settings of all topics of one broker, by name, sorted (mqadmin: part of exportMetadata)."""
        return self._run(self._async.topic_configs(broker))

    def order_conf(self, topic: str) -> dict[str, int]:
        """The number of queues to which an ordered topic is sent, by broker name (mqadmin: updateOrderConf -m get)."""
        return self._run(self._async.order_conf(topic))

    def set_order_conf(self, topic: str, queues_by_broker: Mapping[str, int]) -> None:
        """Set the number of queues to which an ordered topic is sent, by broker name, also while a broker is down (mqadmin:
        updateOrderConf -m put)."""
        self._run(self._async.set_order_conf(topic, queues_by_broker))

    def delete_order_conf(self, topic: str) -> None:
        """Delete the setting of ``set_order_conf``, if there is one (mqadmin: updateOrderConf -m delete)."""
        self._run(self._async.delete_order_conf(topic))

    def topic_summaries(self, *, cluster: str | None = None, with_system_topics: bool = False) -> list[TopicSummary]:
        """A summary of each topic that has queues, sorted by name (mqadmin: topicList, topicStatus). ``cluster``: default: all
        topics that the name server knows. ``with_system_topics``: also system topics, retry topics and dead letter topics."""
        return self._run(self._async.topic_summaries(cluster=cluster, with_system_topics=with_system_topics))

    def consumers_of(self, topic: str) -> list[str]:
        """The groups that have progress in ``topic`` or subscribe to it, sorted."""
        return self._run(self._async.consumers_of(topic))

    def topic_traffic(self, topic: str) -> list[TopicTraffic]:
        """The traffic of ``topic``: a row for each group that consumes it, or one row without a group (mqadmin: statsAll)."""
        return self._run(self._async.topic_traffic(topic))

    def create_group(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, **settings: Unpack[GroupSettings]
    ) -> None:
        """Create a consumer group, or replace its settings: GroupSettings, such as ``retry_max_times=5``; others get their
        defaults (mqadmin: updateSubGroup)."""
        self._run(self._async.create_group(group, cluster=cluster, broker=broker, **settings))

    def alter_group(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, **settings: Unpack[GroupSettings]
    ) -> dict[str, bodies.SubscriptionGroupConfig]:
        """Change the given settings of a group, and leave the others unchanged on each broker that has it (mqadmin's
        updateSubGroup replaces all settings). Returns the new settings by broker name."""
        return self._run(self._async.alter_group(group, cluster=cluster, broker=broker, **settings))

    def create_groups(
        self,
        configs: Sequence[bodies.SubscriptionGroupConfig],
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create or change many groups at once (mqadmin: updateSubGroupList). A 4.9 broker gets one request for each group."""
        self._run(self._async.create_groups(configs, cluster=cluster, broker=broker))

    def delete_group(
        self, group: str, *, remove_offsets: bool = False, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Delete a group, its retry topic and its dead letters (mqadmin: deleteSubGroup). ``remove_offsets``: its progress, too;
        otherwise a new group of this name continues from it."""
        self._run(self._async.delete_group(group, remove_offsets=remove_offsets, cluster=cluster, broker=broker))

    def groups(self, *, cluster: str | None = None) -> list[str]:
        """Names of all consumer groups that the brokers know, sorted."""
        return self._run(self._async.groups(cluster=cluster))

    def group_configs(self, broker: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """The settings of all groups of one broker, by name, sorted (mqadmin: part of exportMetadata)."""
        return self._run(self._async.group_configs(broker))

    def group_config(self, group: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """The settings of ``group`` on each broker that has it, by broker name (mqadmin: getConsumerConfig)."""
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
        """Set whether members that let the broker allocate queues consume ``topic`` by ``PULL`` or ``POP``, where a queue has
        ``pop_share_queue_num`` members besides its owner, -1 for all (mqadmin: setConsumeMode; 5.x)."""
        self._run(
            self._async.set_consume_mode(
                topic, group, mode, pop_share_queue_num=pop_share_queue_num, cluster=cluster, broker=broker
            )
        )

    def group_readable(self, group: str, topic: str, readable: bool | None = None) -> dict[str, bool]:
        """Whether ``group`` may consume ``topic``, by broker name; sets it first if ``readable`` is not None (5.x)."""
        return self._run(self._async.group_readable(group, topic, readable))

    def consumer_progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """Progress and lag by queue, of one ``topic`` or (default) all; empty before it consumes (mqadmin: consumerProgress -g)."""
        return self._run(self._async.consumer_progress(group, topic))

    def lag(self, group: str, topic: str | None = None) -> int:
        """The number of messages that ``group`` has not consumed yet, in one ``topic`` or (default) in all."""
        return self._run(self._async.lag(group, topic))

    def group_summaries(self) -> list[GroupSummary]:
        """A summary of each group, without those of brokers and tools (mqadmin: consumerProgress): first those that have members
        and an unknown lag, then those with the largest lag."""
        return self._run(self._async.group_summaries())

    def waiting_retries(self) -> WaitingRetries:
        """The failed messages that wait for their next try, of all groups (no mqadmin command). They are searched for among the first
        256 messages of each delay level of each broker."""
        return self._run(self._async.waiting_retries())

    def broker_consume_stats(self, broker: str, *, only_ordered: bool = False) -> bodies.ConsumeStatsList:
        """The progress of all groups, or the ordered ones, in all topics of a broker (mqadmin: brokerConsumeStats)."""
        return self._run(self._async.broker_consume_stats(broker, only_ordered=only_ordered))

    def consume_time_span(self, topic: str, group: str) -> list[bodies.QueueTimeSpan]:
        """By queue: the store times of the oldest, newest and last consumed message, and how long the next one has waited."""
        return self._run(self._async.consume_time_span(topic, group))

    def consumer_connection(self, group: str, *, broker: str | None = None) -> bodies.ConsumerConnection | None:
        """Members, subscriptions and settings of a group, from the first broker that has a member online; None if no member is
        online (mqadmin: consumerConnection). ``broker``: default: all, until one has a member online."""
        return self._run(self._async.consumer_connection(group, broker=broker))

    def consumer_ids(self, group: str) -> list[str]:
        """The client ids of the members that are online, sorted."""
        return self._run(self._async.consumer_ids(group))

    def running_info(
        self, group: str, client_id: str, *, jstack: bool = False, broker: str | None = None
    ) -> bodies.ConsumerRunningInfo:
        """The running info of one member: settings, queues, rates, and with ``jstack`` the stacks of its threads (mqadmin:
        consumerStatus -i). ``broker``: the one that asks the member; default: the first that knows it."""
        return self._run(self._async.running_info(group, client_id, jstack=jstack, broker=broker))

    def running_infos(self, group: str, *, jstack: bool = False) -> dict[str, bodies.ConsumerRunningInfo]:
        """The running info of each member, by client id (mqadmin: consumerStatus)."""
        return self._run(self._async.running_infos(group, jstack=jstack))

    def producer_connection(self, group: str, topic: str) -> list[bodies.Connection]:
        """The producers of a producer group that are connected to a broker of ``topic`` (mqadmin: producerConnection)."""
        return self._run(self._async.producer_connection(group, topic))

    def producers(self, broker: str) -> dict[str, list[bodies.ProducerInfo]]:
        """All producers that are connected to one broker, by group (mqadmin: producer)."""
        return self._run(self._async.producers(broker))

    def topics_of_group(self, group: str) -> list[str]:
        """The topics in which ``group`` has progress, sorted (5.x)."""
        return self._run(self._async.topics_of_group(group))

    def subscription(self, group: str, topic: str) -> bodies.SubscriptionData | None:
        """The expression and tags by which ``group`` reads ``topic`` now; None if it is offline or does not subscribe (5.x)."""
        return self._run(self._async.subscription(group, topic))

    def min_offset(self, queue: MessageQueue) -> int:
        """The oldest message that is still there."""
        return self._run(self._async.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The end of a queue: one more than the offset of its newest message."""
        return self._run(self._async.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int | datetime, *, last: bool = False) -> int:
        """The offset of the first message stored at or after a time; the end of the queue if there is none (with 4.9, the newest
        message). ``last``: the last one of several messages of that millisecond instead (5.x)."""
        return self._run(self._async.offset_by_time(queue, timestamp_ms, last=last))

    def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """The store time of the oldest message in milliseconds since 1970; -1 for an empty queue."""
        return self._run(self._async.earliest_store_time_ms(queue))

    def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset of the next message that ``group`` consumes; None if it has no progress there."""
        return self._run(self._async.consumer_offset(group, queue))

    def set_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the offset of the next message that ``group`` consumes. No member may be online, because it would overwrite it (see
        ``reset_offset``); a 5.x broker must know the group."""
        self._run(self._async.set_consumer_offset(group, queue, offset))

    def reset_offset_by_time(
        self, group: str, topic: str, timestamp_ms: int | datetime, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Let ``group`` continue in ``topic`` with the messages stored from a time on. Members may be online (mqadmin:
        resetOffsetByTime). ``force`` False: do not move queues forward (only 4.9; 5.x brokers always move them). Returns the new
        offset by queue."""
        return self._run(self._async.reset_offset_by_time(group, topic, timestamp_ms, force=force))

    def skip_accumulated(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Let ``group`` skip what waits in ``topic`` (mqadmin: skipAccumulatedMessage). Returns the new offset by queue."""
        return self._run(self._async.skip_accumulated(group, topic))

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let ``group`` continue at ``offset`` in one queue (mqadmin: resetOffsetByTime -b -q -o). Raises ConfigurationError (the
        offset is not between the queue's oldest message and its end; or members are online, and the broker is 4.9, which can only
        reset whole topics)."""
        self._run(self._async.reset_offset(group, queue, offset))

    def clone_offsets(self, source: str, destination: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Copy the progress of ``source`` to ``destination``, in one ``topic`` or (default) in all (mqadmin: cloneGroupOffset).
        No member of ``destination`` may be online, and 5.x brokers must know it. Progress in the retry topic is not copied.
        Returns the new offset by queue."""
        return self._run(self._async.clone_offsets(source, destination, topic))

    def consume_status(
        self, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """By client id: the next offset by queue in a member's memory; ``client_id``: default: all (mqadmin: getConsumerStatus)."""
        return self._run(self._async.consume_status(topic, group, client_id))

    def view_message(self, offset_message_id: str) -> MessageExt:
        """The copy with this id, not a ``message_id``: see ``messages_by_unique_key`` (mqadmin: queryMsgById)."""
        return self._run(self._async.view_message(offset_message_id))

    @staticmethod
    def decode_message_id(offset_message_id: str) -> tuple[str, int]:
        """The ``host:port`` and commit log offset in an offset message id; sends no request (mqadmin: DecodeMessageId)."""
        return AsyncAdmin.decode_message_id(offset_message_id)

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
        broker: str | None = None,
    ) -> list[MessageExt]:
        """The newest messages of ``topic`` with this key, stored between two times, oldest first (mqadmin: queryMsgByKey).
        ``begin_ms``, ``end_ms``: in milliseconds since 1970. ``broker``: default: all that have the topic."""
        return self._run(
            self._async.messages_by_key(
                topic, key, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms, broker=broker
            )
        )

    def messages_by_unique_key(self, topic: str, unique_key: str, *, broker: str | None = None) -> list[MessageExt]:
        """The copies with this ``message_id``, several if its send was retried, oldest first (mqadmin: queryMsgByUniqueKey)."""
        return self._run(self._async.messages_by_unique_key(topic, unique_key, broker=broker))

    def message_trace(
        self,
        message_id: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
    ) -> list[TraceRecord]:
        """The trace of the message with this ``message_id``: a record for each send, and for each call of a listener before and
        after it, as clients of any language recorded them in the trace topic, oldest first (mqadmin: queryMsgTraceById). Reads the
        newest ``max_messages`` of it between ``begin_ms`` and ``end_ms``, in milliseconds since 1970."""
        return self._run(
            self._async.message_trace(
                message_id, trace_topic=trace_topic, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    def message_at(self, queue: MessageQueue, offset: int) -> MessageExt | None:
        """The message at an offset of a queue; None if there is none (mqadmin: queryMsgByOffset). ``offset``: the queue offset."""
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
        """Messages of a queue in order, without a group and progress (mqadmin: printMsg, printMsgByQueue, consumeMessage);
        QueueReader reads whole topics faster. ``begin_offset``: default: the oldest message. ``end_offset``: where to stop, before
        it; default: the current end of the queue. ``expression``: tags as ``"a || b"``, or ``sql92("...")``."""
        return self._run(
            self._async.read_messages(
                queue, begin_offset, end_offset=end_offset, max_messages=max_messages, expression=expression
            )
        )

    def read_onward(
        self, positions: Mapping[MessageQueue, int], *, max_messages: int = 32, expression: FilterExpression | str = "*"
    ) -> tuple[list[MessageExt], dict[MessageQueue, int]]:
        """Pull once from each queue at its offset, without a group and progress, to follow a topic (mqadmin: consumeMessage). An
        offset before the oldest message counts as its offset. ``max_messages``: for each queue; brokers return at most 32 by
        default. Returns the messages, in the order in which they were stored, and the positions for the next call: behind these
        messages and behind those that the filter left out."""
        return self._run(self._async.read_onward(positions, max_messages=max_messages, expression=expression))

    def message_track(self, message: MessageExt) -> list[MessageTrack]:
        """Whether each group that consumes its topic has consumed a message (mqadmin: queryMsgById prints it)."""
        return self._run(self._async.message_track(message))

    def consume_directly(
        self, group: str, client_id: str, message: MessageExt | str
    ) -> bodies.ConsumeMessageDirectlyResult:
        """Have one member consume a stored message now, without a change of progress and retries; ``message`` may be an offset
        message id (mqadmin: queryMsgById -g -d). Raises RemoteError (the member is not online, is not a push consumer, or did not
        answer within 10 s)."""
        return self._run(self._async.consume_directly(group, client_id, message))

    def consume_queue(
        self, queue: MessageQueue, index: int = 0, count: int = 10, group: str | None = None
    ) -> bodies.QueryConsumeQueueResponseBody:
        """``count`` entries of a consume queue from ``index`` on: the place of each message in the commit log, and whether it
        passes the filter of ``group`` (default: none), whose subscription is returned, too (mqadmin: queryCq)."""
        return self._run(self._async.consume_queue(queue, index, count, group))

    def resume_half_message(self, topic: str, offset_message_id: str) -> None:
        """Let the broker ask the producers again about a transaction after it has used up its check-backs."""
        self._run(self._async.resume_half_message(topic, offset_message_id))

    def proxy(self) -> str | None:
        """The address of the proxy that is name server and broker here, as at a managed service; None if a name server answers."""
        return self._run(self._async.proxy())

    def cluster_info(self) -> bodies.ClusterInfo:
        """The brokers of each cluster, and their addresses by broker name and id."""
        return self._run(self._async.cluster_info())

    def brokers(self, *, cluster: str | None = None) -> list[BrokerStatus]:
        """All registered brokers, masters and slaves, sorted by name and id (mqadmin: clusterList); then those that are gone."""
        return self._run(self._async.brokers(cluster=cluster))

    def gone_brokers(self) -> list[BrokerStatus]:
        """The brokers that are not registered any more, as our name server remembers them; empty at Apache's (no mqadmin command)."""
        return self._run(self._async.gone_brokers())

    def broker_runtime_info(self, broker: str) -> dict[str, str]:
        """The runtime info of a broker, names and values as text (mqadmin: brokerStatus)."""
        return self._run(self._async.broker_runtime_info(broker))

    def broker_stats(self, broker: str, stats_name: str, stats_key: str) -> bodies.BrokerStatsData:
        """A counter of a broker over a minute, an hour and a day, such as ``TOPIC_PUT_NUMS`` of a topic or ``GROUP_GET_NUMS`` of
        ``topic@group``. Raises RemoteError (there is no such count)."""
        return self._run(self._async.broker_stats(broker, stats_name, stats_key))

    def ha_status(self, broker: str) -> bodies.HARuntimeInfo:
        """The replication offsets and rates of a master's slaves, or of a slave (mqadmin: haStatus; 5.x)."""
        return self._run(self._async.ha_status(broker))

    def speaks_5x(self, broker: str) -> bool:
        """Whether a broker knows the requests of RocketMQ 5; it is asked one, because reported versions are not reliable."""
        return self._run(self._async.speaks_5x(broker))

    def broker_config(self, broker: str) -> dict[str, str]:
        """All settings of a broker by their Apache names (mqadmin: getBrokerConfig)."""
        return self._run(self._async.broker_config(broker))

    def update_broker_config(
        self, settings: Mapping[str, Any], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Change settings of running brokers, slaves too, by their Apache names, such as ``{"maxMessageSize": 4194304}`` (mqadmin:
        updateBrokerConfig). SprocketMQ's refuse unknown settings and those that need a restart; Apache's accept them without an
        error. ``cluster`` or ``broker`` is required, there is no default; ``host:port`` changes that broker without its slaves."""
        self._run(self._async.update_broker_config(settings, cluster=cluster, broker=broker))

    def clean_expired_consume_queues(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete consume queue files whose messages are no longer stored (mqadmin: cleanExpiredCQ)."""
        self._run(self._async.clean_expired_consume_queues(cluster=cluster, broker=broker))

    def delete_expired_commit_logs(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete expired files of the commit log now, whatever the brokers' deletion hour is (mqadmin: deleteExpiredCommitLog)."""
        self._run(self._async.delete_expired_commit_logs(cluster=cluster, broker=broker))

    def clean_unused_topics(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete the consume queue files of topics that no longer exist (mqadmin: cleanUnusedTopic)."""
        self._run(self._async.clean_unused_topics(cluster=cluster, broker=broker))

    @property
    def name_servers(self) -> list[str]:
        """The addresses of the name servers that this client knows."""
        return self._async.name_servers

    def wipe_write_perm(self, broker_name: str) -> dict[str, int]:
        """Stop producers from sending to a broker, until it registers again or until ``add_write_perm`` (mqadmin: wipeWritePerm).
        Returns the number of changed topics by name server."""
        return self._run(self._async.wipe_write_perm(broker_name))

    def add_write_perm(self, broker_name: str) -> dict[str, int]:
        """Undo ``wipe_write_perm`` (mqadmin: addWritePerm). Returns the number of changed topics by name server."""
        return self._run(self._async.add_write_perm(broker_name))

    def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Store a value at the name servers (mqadmin: updateKvConfig)."""
        self._run(self._async.put_kv_config(namespace, key, value))

    def kv_config(self, namespace: str, key: str) -> str | None:
        """A value stored at the name servers; None if there is none."""
        return self._run(self._async.kv_config(namespace, key))

    def kv_configs(self, namespace: str) -> dict[str, str]:
        """All values of a namespace by key; empty if there are none."""
        return self._run(self._async.kv_configs(namespace))

    def delete_kv_config(self, namespace: str, key: str) -> None:
        """Delete a value stored at the name servers (mqadmin: deleteKvConfig)."""
        self._run(self._async.delete_kv_config(namespace, key))

    def namesrv_config(self) -> dict[str, dict[str, str]]:
        """The settings of all name servers, by their addresses (mqadmin: getNamesrvConfig)."""
        return self._run(self._async.namesrv_config())

    def update_namesrv_config(self, settings: Mapping[str, Any]) -> None:
        """Change settings of all running name servers, such as ``{"orderMessageEnable": True}`` (mqadmin: updateNamesrvConfig)."""
        self._run(self._async.update_namesrv_config(settings))

    def create_user(
        self,
        username: str,
        password: str,
        *,
        user_type: str = "Normal",
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create a user (mqadmin: createUser; 5.x): ``Normal``, who needs policies, or ``Super``, who may do everything."""
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
        """Change the given settings of a user (mqadmin: updateUser; 5.x). ``user_type``: ``Normal`` or ``Super``;
        ``user_status``: ``enable`` or ``disable``; ``password``; default: unchanged."""
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
        """Delete a user (mqadmin: deleteUser; 5.x)."""
        self._run(self._async.delete_user(username, cluster=cluster, broker=broker))

    def user(self, broker: str, username: str) -> bodies.UserInfo | None:
        """A user of one broker; None if there is no such user (mqadmin: getUser; 5.x)."""
        return self._run(self._async.user(broker, username))

    def users(self, broker: str, name_filter: str | None = None) -> list[bodies.UserInfo]:
        """The users of one broker whose name contains ``name_filter``, or (default) all (mqadmin: listUser; 5.x)."""
        return self._run(self._async.users(broker, name_filter))

    def copy_users(self, source: str, destination: str, usernames: Collection[str] | None = None) -> list[str]:
        """Copy all users (default) or some ``usernames`` to another broker (mqadmin: copyUser; 5.x). Returns their names."""
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
        """Create policies that allow or deny a user some actions (mqadmin: createAcl; 5.x). ``resources``: ``Topic:flights``,
        ``Group:delays``, ``Topic:orders*``, ... ``actions``: ``Pub``, ``Sub``, ``Create``, ``Update``, ``Delete``, ``Get``,
        ``List`` or ``All``. ``decision``: ``Allow`` or ``Deny``. ``source_ips``: those of the requests; () means any."""
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
        """Replace the policies of a user for these resources, as ``create_acl`` takes them (mqadmin: updateAcl; 5.x)."""
        self._run(
            self._async.update_acl(
                subject, resources, actions, decision, source_ips=source_ips, cluster=cluster, broker=broker
            )
        )

    def delete_acl(
        self, subject: str, resource: str | None = None, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Delete the policy for one ``resource``, or (default) all policies of ``User:name`` (mqadmin: deleteAcl; 5.x)."""
        self._run(self._async.delete_acl(subject, resource, cluster=cluster, broker=broker))

    def acl(self, broker: str, subject: str) -> bodies.AclInfo | None:
        """All policies of ``User:name`` at one broker; None if there are none (mqadmin: getAcl; 5.x)."""
        return self._run(self._async.acl(broker, subject))

    def acls(
        self, broker: str, subject_filter: str | None = None, resource_filter: str | None = None
    ) -> list[bodies.AclInfo]:
        """The policies of one broker whose subject and resource contain ``subject_filter`` and ``resource_filter``, or (default)
        any (mqadmin: listAcl; 5.x)."""
        return self._run(self._async.acls(broker, subject_filter, resource_filter))

    def copy_acls(self, source: str, destination: str, subjects: Collection[str] | None = None) -> list[str]:
        """Copy policies from one broker to another, of all ``subjects`` (default) or some (mqadmin: copyAcl; 5.x)."""
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
        """Create an account or change it (mqadmin: updateAclConfig; 4.9). ``admin`` allows administrative requests; it is not kept
        by default, as the others are (default: unchanged), ``secret_key`` too. ``white_remote_address`` needs no signature.
        ``default_topic_perm``, ``default_group_perm`` are for names not in ``topic_perms``, ``group_perms``: ``DENY``, ``PUB``,
        ``SUB`` or ``PUB|SUB``."""
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
        """Delete an account (mqadmin: deleteAclConfig; 4.9)."""
        self._run(self._async.delete_account(access_key, cluster=cluster, broker=broker))

    def update_global_white_addresses(
        self, addresses: Collection[str], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Set addresses, or patterns such as ``10.0.0.*``, from which all is allowed (mqadmin: updateGlobalWhiteAddr; 4.9)."""
        self._run(self._async.update_global_white_addresses(addresses, cluster=cluster, broker=broker))

    def account_versions(self, broker: str) -> headers.GetBrokerAclConfigResponseHeader:
        """The versions of a broker's account files (mqadmin: clusterAclConfigVersion; 4.9)."""
        return self._run(self._async.account_versions(broker))
