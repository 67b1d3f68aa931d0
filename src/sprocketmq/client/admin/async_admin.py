# SPDX-License-Identifier: Apache-2.0
"""AsyncAdmin: every request of this folder in one class."""

from __future__ import annotations

from collections.abc import Mapping

from sprocketmq.client.admin.access import AccessRequests
from sprocketmq.client.admin.brokers import BrokerRequests
from sprocketmq.client.admin.group_members import GroupMemberRequests
from sprocketmq.client.admin.group_observer import GroupObserver
from sprocketmq.client.admin.group_progress import GroupProgressRequests
from sprocketmq.client.admin.groups import GroupRequests
from sprocketmq.client.admin.messages import MessageRequests
from sprocketmq.client.admin.offsets import OffsetRequests
from sprocketmq.client.admin.topic_traffic import TopicTrafficRequests
from sprocketmq.client.admin.topics import TopicRequests
from sprocketmq.client.settings.validators import check_range
from sprocketmq.core.doctor.group_doctor import GroupDiagnosis
from sprocketmq.errors import RequestNotServed
from sprocketmq.wire import bodies


class AsyncAdmin(
    TopicRequests,
    TopicTrafficRequests,
    GroupRequests,
    GroupProgressRequests,
    GroupMemberRequests,
    OffsetRequests,
    MessageRequests,
    BrokerRequests,
    AccessRequests,
):
    """Administrative requests from a running event loop. Connections open when they are needed; ``shutdown`` closes them.

    ::

        async with AsyncAdmin(namesrv_addr="127.0.0.1:9876") as admin:
            await admin.create_topic("flights", queues=8)
            print(await admin.lag("delays"))

    Args:
        options: those of CommonOptions (``help(sprocketmq.CommonOptions)``); ``namespace`` is not added to names.

    Every method takes full names as ``topic`` and ``group``, and topic, broker name and queue id as ``queue``. ``broker`` is a
    broker's name, for its master, or ``host:port``; ``cluster`` means all its masters; by default requests go to all masters.
    ``timestamp_ms`` is in milliseconds since 1970 (0 is the beginning), or a datetime (local time if it has no zone). ``client_id``
    is ``ip@instanceName``; ``offset_message_id`` that of a SendResult or of a received message; ``subject`` is ``User:name``.

    Every method raises RemoteError (the server refused; with code 3 it does not serve this request), NetworkError or RequestTimeout
    (no answer), TopicNotExist or GroupNotExist (no server knows the topic or the group), and ConfigurationError (an argument is
    wrong, or the topic has no such queue; of the class, an option is wrong, and nothing was opened).
    """

    async def export_metadata(
        self, broker: str
    ) -> tuple[dict[str, bodies.TopicConfig], dict[str, bodies.SubscriptionGroupConfig]]:
        """The topics and groups of a broker by name, for ``create_topics`` and ``create_groups`` (mqadmin: exportMetadata)."""
        return await self.topic_configs(broker), await self.group_configs(broker)

    async def diagnose_group(
        self, group: str, *, stuck_after_ms: int = 30_000, watch_ms: int = 2_000
    ) -> GroupDiagnosis:
        """Find out why a group makes no progress: one verdict, its evidence, and what to do; ``not_learned`` lists what could not
        be found out. Changes nothing. ``stuck_after_ms``: from how many milliseconds on a listener call counts as stuck.
        ``watch_ms``: how many milliseconds to watch whether progress changes."""
        check_range("watch_ms", watch_ms, 0, 600_000)
        configs: Mapping[str, bodies.SubscriptionGroupConfig] | RequestNotServed
        try:
            configs = await self.group_config(group)
        except RequestNotServed as error:
            configs = error
        return await GroupObserver(self, group, configs).diagnosis(stuck_after_ms, watch_ms)
