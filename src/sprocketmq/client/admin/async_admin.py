"""AsyncAdmin: every request of this folder in one class."""

from __future__ import annotations

from sprocketmq.client.admin.access import AccessRequests
from sprocketmq.client.admin.group_looks import GroupLookRequests
from sprocketmq.wire import bodies

__all__ = ["AsyncAdmin"]


class AsyncAdmin(GroupLookRequests, AccessRequests):
    """Administrative requests from a running event loop. Connections open as they are needed; close with ``shutdown`` or ``async with``.

    ::

        async with AsyncAdmin(namesrv_addr="127.0.0.1:9876") as admin:
            await admin.create_topic("flights", queues=8)
            print(await admin.lag("delays"))

    Args:
        options: as CommonOptions says (``help(sprocketmq.CommonOptions)``): ``namesrv_addr``, ``mq_client_api_timeout_ms``, ... Names of
            topics and groups are the whole names, whatever ``namespace`` says.

    Raises:
        ConfigurationError: an option is unknown or out of range; nothing was opened.

    In all requests ``broker`` is a broker's name, of which its master is asked, or ``host:port``; ``cluster`` are all masters of a
    cluster; without either all masters are asked.

    Every method raises RemoteError (the server refused; code 3: it is too old to know this request), NetworkError or RequestTimeout
    (no answer), and ConfigurationError for what can never be asked.
    """

    async def export_metadata(
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
        return await self.topic_configs(broker), await self.group_configs(broker)
