"""Whether a consumer group exists (mqadmin: by the route of its retry topic).

Brokers answer questions about a group that does not exist as those about one that has nothing: no progress, no members, a lag of 0. So an
answer without anything is looked at once more, and a misspelt name is told.
"""

from __future__ import annotations

from sprocketmq.client.admin.session import PAGE, AdminSession, all_pages
from sprocketmq.core.retry.retry_schedule import dlq_topic, retry_topic
from sprocketmq.errors import GroupNotExist, NetworkError, RemoteError, RequestTimeout
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode

__all__ = ["KnownGroups", "unknown_group"]


class KnownGroups(AdminSession):
    """The part of requests about groups that knows which of them exist."""

    async def _groups_at(self, address: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """The settings of all groups of one broker, by name, sorted."""

        async def page(first: int, version: str) -> tuple[dict[str, bodies.SubscriptionGroupConfig], str, int]:
            header = headers.GetAllSubscriptionGroupRequestHeader(
                group_seq=first, data_version=version, max_group_num=PAGE
            )
            answer = await self._ask(address, requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
            body = requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG.answer_body_in(answer)
            total = int(answer.ext_fields.get("totalGroupNum") or 0)
            return body.subscription_group_table, body.data_version.encode().decode(), total

        return await all_pages(page)

    async def _check_exists(self, group: str) -> None:
        """Check that a broker knows ``group``. GET_SUBSCRIPTIONGROUP_CONFIG is not asked: a broker creates the group that it names.

        Raises:
            GroupNotExist: none does. Nothing is said where a broker may not be asked for its groups.
            NetworkError, RequestTimeout: a broker did not answer, and no other one knows it.
        """
        for topic in (retry_topic(group), dlq_topic(group)):
            if await self._api.route(topic) is not None:
                return
        unanswered: NetworkError | RequestTimeout | None = None
        for address in (await self._masters(None, None)).values():
            try:
                if group in await self._groups_at(address):
                    return
            except RemoteError:  # an account that may read, and not look at all groups
                return
            except (NetworkError, RequestTimeout) as error:
                unanswered = error
        raise unanswered or unknown_group(group)


def unknown_group(group: str) -> GroupNotExist:
    """The error for a group that no broker knows."""
    return GroupNotExist(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"no broker knows the consumer group {group!r}; check the spelling, or create it",
    )
