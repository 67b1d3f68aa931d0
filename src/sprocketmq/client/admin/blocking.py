"""Admin, the blocking face of AsyncAdmin. Written by scripts/admin-face: change the async methods, then run it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sprocketmq.client.admin.async_admin import AsyncAdmin
from sprocketmq.client.admin.brokers import BrokerStatus
from sprocketmq.client.admin.groups import GroupSummary, QueueProgress
from sprocketmq.client.admin.messages import MessageTrack
from sprocketmq.client.admin.topics import TopicTraffic
from sprocketmq.client.face import BlockingFace
from sprocketmq.core.group import allocation
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.net.engine import Engine
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.message import MessageExt, MessageQueue
from sprocketmq.wire.trace import TRACE_TOPIC, TraceRecord

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import CommonOptions, GroupSettings

__all__ = ["Admin"]


class Admin(BlockingFace):
    """AsyncAdmin for callers without an event loop: the same requests, each waits.

    ::

        with Admin(namesrv_addr="127.0.0.1:9876") as admin:
            admin.create_topic("flights", queues=8)
            print(admin.lag("delays"))
    """

    def __init__(self, *, engine: Engine | None = None, **options: Unpack[CommonOptions]) -> None:
        self._async = AsyncAdmin(**options)
        super().__init__(engine)

    def start(self) -> None:
        """Nothing is opened before the first request."""

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
        """As ``AsyncAdmin.create_topic``."""
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
        """As ``AsyncAdmin.create_topics``."""
        self._run(self._async.create_topics(configs, cluster=cluster, broker=broker))

    def set_topic_perm(self, topic: str, perm: int, *, cluster: str | None = None, broker: str | None = None) -> None:
        """As ``AsyncAdmin.set_topic_perm``."""
        self._run(self._async.set_topic_perm(topic, perm, cluster=cluster, broker=broker))

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """As ``AsyncAdmin.delete_topic``."""
        self._run(self._async.delete_topic(topic, cluster=cluster))

    def topics(self, *, cluster: str | None = None) -> list[str]:
        """As ``AsyncAdmin.topics``."""
        return self._run(self._async.topics(cluster=cluster))

    def system_topics(self) -> list[str]:
        """As ``AsyncAdmin.system_topics``."""
        return self._run(self._async.system_topics())

    def route(self, topic: str) -> bodies.TopicRouteData:
        """As ``AsyncAdmin.route``."""
        return self._run(self._async.route(topic))

    def topic_clusters(self, topic: str) -> list[str]:
        """As ``AsyncAdmin.topic_clusters``."""
        return self._run(self._async.topic_clusters(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """As ``AsyncAdmin.queues``."""
        return self._run(self._async.queues(topic))

    def allocate(
        self, topic: str, client_ids: Iterable[str], *, strategy: allocation.AllocationStrategy | str = "AVG"
    ) -> dict[str, list[MessageQueue]]:
        """As ``AsyncAdmin.allocate``."""
        return self._run(self._async.allocate(topic, client_ids, strategy=strategy))

    def topic_stats(self, topic: str) -> dict[MessageQueue, bodies.TopicOffset]:
        """As ``AsyncAdmin.topic_stats``."""
        return self._run(self._async.topic_stats(topic))

    def topic_config(self, topic: str) -> dict[str, bodies.TopicConfig]:
        """As ``AsyncAdmin.topic_config``."""
        return self._run(self._async.topic_config(topic))

    def topic_configs(self, broker: str) -> dict[str, bodies.TopicConfig]:
        """As ``AsyncAdmin.topic_configs``."""
        return self._run(self._async.topic_configs(broker))

    def consumers_of(self, topic: str) -> list[str]:
        """As ``AsyncAdmin.consumers_of``."""
        return self._run(self._async.consumers_of(topic))

    def topic_traffic(self, topic: str) -> list[TopicTraffic]:
        """As ``AsyncAdmin.topic_traffic``."""
        return self._run(self._async.topic_traffic(topic))

    def order_conf(self, topic: str) -> dict[str, int]:
        """As ``AsyncAdmin.order_conf``."""
        return self._run(self._async.order_conf(topic))

    def set_order_conf(self, topic: str, queues_by_broker: Mapping[str, int]) -> None:
        """As ``AsyncAdmin.set_order_conf``."""
        self._run(self._async.set_order_conf(topic, queues_by_broker))

    def delete_order_conf(self, topic: str) -> None:
        """As ``AsyncAdmin.delete_order_conf``."""
        self._run(self._async.delete_order_conf(topic))

    def clean_unused_topics(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """As ``AsyncAdmin.clean_unused_topics``."""
        self._run(self._async.clean_unused_topics(cluster=cluster, broker=broker))

    def create_group(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, **settings: Unpack[GroupSettings]
    ) -> None:
        """As ``AsyncAdmin.create_group``."""
        self._run(self._async.create_group(group, cluster=cluster, broker=broker, **settings))

    def create_groups(
        self,
        configs: Sequence[bodies.SubscriptionGroupConfig],
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """As ``AsyncAdmin.create_groups``."""
        self._run(self._async.create_groups(configs, cluster=cluster, broker=broker))

    def delete_group(
        self, group: str, *, remove_offsets: bool = False, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """As ``AsyncAdmin.delete_group``."""
        self._run(self._async.delete_group(group, remove_offsets=remove_offsets, cluster=cluster, broker=broker))

    def groups(self, *, cluster: str | None = None) -> list[str]:
        """As ``AsyncAdmin.groups``."""
        return self._run(self._async.groups(cluster=cluster))

    def group_configs(self, broker: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """As ``AsyncAdmin.group_configs``."""
        return self._run(self._async.group_configs(broker))

    def group_config(self, group: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """As ``AsyncAdmin.group_config``."""
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
        """As ``AsyncAdmin.set_consume_mode``."""
        self._run(
            self._async.set_consume_mode(
                topic, group, mode, pop_share_queue_num=pop_share_queue_num, cluster=cluster, broker=broker
            )
        )

    def group_readable(self, group: str, topic: str, readable: bool | None = None) -> dict[str, bool]:
        """As ``AsyncAdmin.group_readable``."""
        return self._run(self._async.group_readable(group, topic, readable))

    def consumer_progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """As ``AsyncAdmin.consumer_progress``."""
        return self._run(self._async.consumer_progress(group, topic))

    def lag(self, group: str, topic: str | None = None) -> int:
        """As ``AsyncAdmin.lag``."""
        return self._run(self._async.lag(group, topic))

    def group_summaries(self) -> list[GroupSummary]:
        """As ``AsyncAdmin.group_summaries``."""
        return self._run(self._async.group_summaries())

    def broker_consume_stats(self, broker: str, *, only_ordered: bool = False) -> bodies.ConsumeStatsList:
        """As ``AsyncAdmin.broker_consume_stats``."""
        return self._run(self._async.broker_consume_stats(broker, only_ordered=only_ordered))

    def consume_time_span(self, topic: str, group: str) -> list[bodies.QueueTimeSpan]:
        """As ``AsyncAdmin.consume_time_span``."""
        return self._run(self._async.consume_time_span(topic, group))

    def consumer_connection(self, group: str) -> bodies.ConsumerConnection | None:
        """As ``AsyncAdmin.consumer_connection``."""
        return self._run(self._async.consumer_connection(group))

    def consumer_ids(self, group: str) -> list[str]:
        """As ``AsyncAdmin.consumer_ids``."""
        return self._run(self._async.consumer_ids(group))

    def running_info(self, group: str, client_id: str, *, jstack: bool = False) -> bodies.ConsumerRunningInfo:
        """As ``AsyncAdmin.running_info``."""
        return self._run(self._async.running_info(group, client_id, jstack=jstack))

    def running_infos(self, group: str, *, jstack: bool = False) -> dict[str, bodies.ConsumerRunningInfo]:
        """As ``AsyncAdmin.running_infos``."""
        return self._run(self._async.running_infos(group, jstack=jstack))

    def producer_connection(self, group: str, topic: str) -> list[bodies.Connection]:
        """As ``AsyncAdmin.producer_connection``."""
        return self._run(self._async.producer_connection(group, topic))

    def producers(self, broker: str) -> dict[str, list[bodies.ProducerInfo]]:
        """As ``AsyncAdmin.producers``."""
        return self._run(self._async.producers(broker))

    def topics_of_group(self, group: str) -> list[str]:
        """As ``AsyncAdmin.topics_of_group``."""
        return self._run(self._async.topics_of_group(group))

    def subscription(self, group: str, topic: str) -> bodies.SubscriptionData | None:
        """As ``AsyncAdmin.subscription``."""
        return self._run(self._async.subscription(group, topic))

    def min_offset(self, queue: MessageQueue) -> int:
        """As ``AsyncAdmin.min_offset``."""
        return self._run(self._async.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """As ``AsyncAdmin.max_offset``."""
        return self._run(self._async.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int | datetime, *, last: bool = False) -> int:
        """As ``AsyncAdmin.offset_by_time``."""
        return self._run(self._async.offset_by_time(queue, timestamp_ms, last=last))

    def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """As ``AsyncAdmin.earliest_store_time_ms``."""
        return self._run(self._async.earliest_store_time_ms(queue))

    def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """As ``AsyncAdmin.consumer_offset``."""
        return self._run(self._async.consumer_offset(group, queue))

    def set_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """As ``AsyncAdmin.set_consumer_offset``."""
        self._run(self._async.set_consumer_offset(group, queue, offset))

    def reset_offset_by_time(
        self, group: str, topic: str, timestamp_ms: int | datetime, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """As ``AsyncAdmin.reset_offset_by_time``."""
        return self._run(self._async.reset_offset_by_time(group, topic, timestamp_ms, force=force))

    def skip_accumulated(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """As ``AsyncAdmin.skip_accumulated``."""
        return self._run(self._async.skip_accumulated(group, topic))

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """As ``AsyncAdmin.reset_offset``."""
        self._run(self._async.reset_offset(group, queue, offset))

    def clone_offsets(self, source: str, destination: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """As ``AsyncAdmin.clone_offsets``."""
        return self._run(self._async.clone_offsets(source, destination, topic))

    def consume_status(
        self, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """As ``AsyncAdmin.consume_status``."""
        return self._run(self._async.consume_status(topic, group, client_id))

    def view_message(self, offset_message_id: str) -> MessageExt:
        """As ``AsyncAdmin.view_message``."""
        return self._run(self._async.view_message(offset_message_id))

    @staticmethod
    def decode_message_id(offset_message_id: str) -> tuple[str, int]:
        """As ``AsyncAdmin.decode_message_id``."""
        return AsyncAdmin.decode_message_id(offset_message_id)

    def messages_by_key(
        self, topic: str, key: str, *, max_messages: int = 64, begin_ms: int = 0, end_ms: int = (1 << 63) - 1
    ) -> list[MessageExt]:
        """As ``AsyncAdmin.messages_by_key``."""
        return self._run(
            self._async.messages_by_key(topic, key, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms)
        )

    def messages_by_unique_key(self, topic: str, unique_key: str) -> list[MessageExt]:
        """As ``AsyncAdmin.messages_by_unique_key``."""
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
        """As ``AsyncAdmin.message_trace``."""
        return self._run(
            self._async.message_trace(
                message_id, trace_topic=trace_topic, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    def message_at(self, queue: MessageQueue, offset: int) -> MessageExt | None:
        """As ``AsyncAdmin.message_at``."""
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
        """As ``AsyncAdmin.read_messages``."""
        return self._run(
            self._async.read_messages(
                queue, begin_offset, end_offset=end_offset, max_messages=max_messages, expression=expression
            )
        )

    def message_track(self, message: MessageExt) -> list[MessageTrack]:
        """As ``AsyncAdmin.message_track``."""
        return self._run(self._async.message_track(message))

    def consume_directly(
        self, group: str, client_id: str, message: MessageExt | str
    ) -> bodies.ConsumeMessageDirectlyResult:
        """As ``AsyncAdmin.consume_directly``."""
        return self._run(self._async.consume_directly(group, client_id, message))

    def consume_queue(
        self, queue: MessageQueue, index: int = 0, count: int = 10, group: str | None = None
    ) -> bodies.QueryConsumeQueueResponseBody:
        """As ``AsyncAdmin.consume_queue``."""
        return self._run(self._async.consume_queue(queue, index, count, group))

    def resume_half_message(self, topic: str, offset_message_id: str) -> None:
        """As ``AsyncAdmin.resume_half_message``."""
        self._run(self._async.resume_half_message(topic, offset_message_id))

    def cluster_info(self) -> bodies.ClusterInfo:
        """As ``AsyncAdmin.cluster_info``."""
        return self._run(self._async.cluster_info())

    def brokers(self, *, cluster: str | None = None) -> list[BrokerStatus]:
        """As ``AsyncAdmin.brokers``."""
        return self._run(self._async.brokers(cluster=cluster))

    def broker_runtime_info(self, broker: str) -> dict[str, str]:
        """As ``AsyncAdmin.broker_runtime_info``."""
        return self._run(self._async.broker_runtime_info(broker))

    def broker_stats(self, broker: str, stats_name: str, stats_key: str) -> bodies.BrokerStatsData:
        """As ``AsyncAdmin.broker_stats``."""
        return self._run(self._async.broker_stats(broker, stats_name, stats_key))

    def ha_status(self, broker: str) -> bodies.HARuntimeInfo:
        """As ``AsyncAdmin.ha_status``."""
        return self._run(self._async.ha_status(broker))

    def broker_config(self, broker: str) -> dict[str, str]:
        """As ``AsyncAdmin.broker_config``."""
        return self._run(self._async.broker_config(broker))

    def update_broker_config(
        self, settings: Mapping[str, Any], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """As ``AsyncAdmin.update_broker_config``."""
        self._run(self._async.update_broker_config(settings, cluster=cluster, broker=broker))

    def clean_expired_consume_queues(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """As ``AsyncAdmin.clean_expired_consume_queues``."""
        self._run(self._async.clean_expired_consume_queues(cluster=cluster, broker=broker))

    def delete_expired_commit_logs(self, *, cluster: str | None = None, broker: str | None = None) -> None:
        """As ``AsyncAdmin.delete_expired_commit_logs``."""
        self._run(self._async.delete_expired_commit_logs(cluster=cluster, broker=broker))

    @property
    def name_servers(self) -> list[str]:
        """As ``AsyncAdmin.name_servers``."""
        return self._async.name_servers

    def wipe_write_perm(self, broker_name: str) -> dict[str, int]:
        """As ``AsyncAdmin.wipe_write_perm``."""
        return self._run(self._async.wipe_write_perm(broker_name))

    def add_write_perm(self, broker_name: str) -> dict[str, int]:
        """As ``AsyncAdmin.add_write_perm``."""
        return self._run(self._async.add_write_perm(broker_name))

    def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """As ``AsyncAdmin.put_kv_config``."""
        self._run(self._async.put_kv_config(namespace, key, value))

    def kv_config(self, namespace: str, key: str) -> str | None:
        """As ``AsyncAdmin.kv_config``."""
        return self._run(self._async.kv_config(namespace, key))

    def kv_configs(self, namespace: str) -> dict[str, str]:
        """As ``AsyncAdmin.kv_configs``."""
        return self._run(self._async.kv_configs(namespace))

    def delete_kv_config(self, namespace: str, key: str) -> None:
        """As ``AsyncAdmin.delete_kv_config``."""
        self._run(self._async.delete_kv_config(namespace, key))

    def namesrv_config(self) -> dict[str, dict[str, str]]:
        """As ``AsyncAdmin.namesrv_config``."""
        return self._run(self._async.namesrv_config())

    def update_namesrv_config(self, settings: Mapping[str, Any]) -> None:
        """As ``AsyncAdmin.update_namesrv_config``."""
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
        """As ``AsyncAdmin.create_user``."""
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
        """As ``AsyncAdmin.update_user``."""
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
        """As ``AsyncAdmin.delete_user``."""
        self._run(self._async.delete_user(username, cluster=cluster, broker=broker))

    def user(self, broker: str, username: str) -> bodies.UserInfo | None:
        """As ``AsyncAdmin.user``."""
        return self._run(self._async.user(broker, username))

    def users(self, broker: str, name_filter: str | None = None) -> list[bodies.UserInfo]:
        """As ``AsyncAdmin.users``."""
        return self._run(self._async.users(broker, name_filter))

    def copy_users(self, source: str, destination: str, usernames: Collection[str] | None = None) -> list[str]:
        """As ``AsyncAdmin.copy_users``."""
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
        """As ``AsyncAdmin.create_acl``."""
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
        """As ``AsyncAdmin.update_acl``."""
        self._run(
            self._async.update_acl(
                subject, resources, actions, decision, source_ips=source_ips, cluster=cluster, broker=broker
            )
        )

    def delete_acl(
        self, subject: str, resource: str | None = None, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """As ``AsyncAdmin.delete_acl``."""
        self._run(self._async.delete_acl(subject, resource, cluster=cluster, broker=broker))

    def acl(self, broker: str, subject: str) -> bodies.AclInfo | None:
        """As ``AsyncAdmin.acl``."""
        return self._run(self._async.acl(broker, subject))

    def acls(
        self, broker: str, subject_filter: str | None = None, resource_filter: str | None = None
    ) -> list[bodies.AclInfo]:
        """As ``AsyncAdmin.acls``."""
        return self._run(self._async.acls(broker, subject_filter, resource_filter))

    def copy_acls(self, source: str, destination: str, subjects: Collection[str] | None = None) -> list[str]:
        """As ``AsyncAdmin.copy_acls``."""
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
        """As ``AsyncAdmin.update_account``."""
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
        """As ``AsyncAdmin.delete_account``."""
        self._run(self._async.delete_account(access_key, cluster=cluster, broker=broker))

    def update_global_white_addresses(
        self, addresses: Collection[str], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """As ``AsyncAdmin.update_global_white_addresses``."""
        self._run(self._async.update_global_white_addresses(addresses, cluster=cluster, broker=broker))

    def account_versions(self, broker: str) -> headers.GetBrokerAclConfigResponseHeader:
        """As ``AsyncAdmin.account_versions``."""
        return self._run(self._async.account_versions(broker))

    def export_metadata(
        self, broker: str
    ) -> tuple[dict[str, bodies.TopicConfig], dict[str, bodies.SubscriptionGroupConfig]]:
        """As ``AsyncAdmin.export_metadata``."""
        return self._run(self._async.export_metadata(broker))
