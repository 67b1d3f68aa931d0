# SPDX-License-Identifier: Apache-2.0
"""Administration of a cluster: AsyncAdmin, and Admin, its blocking form (Java: DefaultMQAdminExt; docs/guides/admin.md lists the mqadmin
command of each request).

    topics    groups    offsets    messages    brokers (and name servers)    access      one file for each noun
        `--------`---------`----------`-----------`-------------------------'
                          session: connections, addresses
"""

from __future__ import annotations

from sprocketmq.client.admin.async_admin import AsyncAdmin
from sprocketmq.client.admin.blocking import Admin
from sprocketmq.client.admin.brokers import BrokerStatus
from sprocketmq.client.admin.group_progress import GroupSummary, QueueProgress, WaitingRetries
from sprocketmq.client.admin.messages import MessageTrack, TrackType
from sprocketmq.client.admin.topic_traffic import TopicTraffic

__all__ = [
    "Admin",
    "AsyncAdmin",
    "BrokerStatus",
    "GroupSummary",
    "MessageTrack",
    "QueueProgress",
    "TopicTraffic",
    "TrackType",
    "WaitingRetries",
]
