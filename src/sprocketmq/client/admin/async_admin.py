"""AsyncAdmin: every request of this folder in one class."""

from __future__ import annotations

from sprocketmq.client.admin.access import AccessRequests
from sprocketmq.client.admin.brokers import BrokerRequests
from sprocketmq.client.admin.messages import MessageRequests
from sprocketmq.wire import bodies

__all__ = ["AsyncAdmin"]


class AsyncAdmin(MessageRequests, BrokerRequests, AccessRequests):
    """Administrative requests from a running event loop. Connections open as they are needed; close with ``shutdown`` or ``async with``.

    Args:
        options: those of ``ClientOptions`` (``namesrv_addr``, ``mq_client_api_timeout_ms``, ...). Names of topics and groups are the whole
            names, whatever ``namespace`` says.

    In all requests ``broker`` is a broker's name, of which its master is asked, or ``host:port``; ``cluster`` are all masters of a
    cluster; without either all masters are asked.

    Every method raises RemoteError (the server refused; code 3: it is too old to know this request), NetworkError or RequestTimeout
    (no answer), and ConfigurationError for what can never be asked.
    """

    async def export_metadata(
        self, broker: str
    ) -> tuple[dict[str, bodies.TopicConfig], dict[str, bodies.SubscriptionGroupConfig]]:
        """Topics and groups of a broker, as ``create_topics`` and ``create_groups`` take elsewhere (mqadmin: exportMetadata)."""
        return await self.topic_configs(broker), await self.group_configs(broker)
