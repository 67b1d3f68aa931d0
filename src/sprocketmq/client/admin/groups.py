# SPDX-License-Identifier: Apache-2.0
"""Consumer groups and their settings (mqadmin: updateSubGroup, deleteSubGroup, setConsumeMode, ...)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from sprocketmq.client.admin.session import AdminRequests, is_older_than_5, unknown_group
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.settings.validators import check_group, check_range, check_topic
from sprocketmq.core.resource_names import dlq_topic, retry_topic
from sprocketmq.errors import ConfigurationError, RemoteError
from sprocketmq.wire import bodies, headers, requests

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import GroupSettings


class GroupRequests(AdminRequests):
    """The part of AsyncAdmin about groups and their settings."""

    async def create_group(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, **settings: Unpack[GroupSettings]
    ) -> None:
        """Create a consumer group, or replace its settings: GroupSettings, such as ``retry_max_times=5``; others get their
        defaults (mqadmin: updateSubGroup)."""
        config = _config_of(check_group(group), settings)
        asked = requests.topics.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._ask_masters(cluster, broker, asked, body=config)

    async def alter_group(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, **settings: Unpack[GroupSettings]
    ) -> dict[str, bodies.SubscriptionGroupConfig]:
        """Change the given settings of a group, and leave the others unchanged on each broker that has it (mqadmin's
        updateSubGroup replaces all settings). Returns the new settings by broker name."""
        _config_of(check_group(group), settings)  # raises before anything is sent
        masters = await self._masters(cluster, broker)
        found = await self._configs_at(masters, group)
        changed = {name: msgspec.structs.replace(config, **settings) for name, config in found.items()}
        await all_ended(self._create_group_at(masters[name], config) for name, config in changed.items())
        return changed

    async def create_groups(
        self,
        configs: Sequence[bodies.SubscriptionGroupConfig],
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create or change many groups at once (mqadmin: updateSubGroupList). A 4.9 broker gets one request for each group."""
        for config in configs:
            check_group(config.group_name)
        body = bodies.SubscriptionGroupList(group_config_list=list(configs)).encode()

        async def create_at(address: str) -> None:
            try:
                await self._cluster.ask(requests.topics.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, at=address, body=body)
            except RemoteError as error:
                if not is_older_than_5(error):
                    raise
                for config in configs:
                    await self._create_group_at(address, config)

        await all_ended(map(create_at, (await self._masters(cluster, broker)).values()))

    async def _create_group_at(self, address: str, config: bodies.SubscriptionGroupConfig) -> None:
        await self._cluster.ask(requests.topics.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, at=address, body=config.encode())

    async def delete_group(
        self, group: str, *, remove_offsets: bool = False, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Delete a group, its retry topic and its dead letters (mqadmin: deleteSubGroup). ``remove_offsets``: its progress, too;
        otherwise a new group of this name continues from it."""
        header = headers.DeleteSubscriptionGroupRequestHeader(
            group_name=check_group(group), clean_offset=remove_offsets, remove_offset=remove_offsets
        )
        topics = (retry_topic(group), dlq_topic(group))
        for address in (await self._masters(cluster, broker)).values():
            await self._cluster.ask(requests.topics.DELETE_SUBSCRIPTIONGROUP, header, at=address)
            for topic in topics:
                await self._delete_topic_at(address, topic)
        if cluster is None and broker is None:
            for topic in topics:
                await self._delete_topic_at_name_servers(topic)

    async def groups(self, *, cluster: str | None = None) -> list[str]:
        """Names of all consumer groups that the brokers know, sorted."""
        found: set[str] = set()
        for address in (await self._masters(cluster, None)).values():
            found.update(await self.group_configs(address))
        return sorted(found)

    async def group_configs(self, broker: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """The settings of all groups of one broker, by name, sorted (mqadmin: part of exportMetadata)."""
        return await self._groups_at(await self._one(broker))

    async def group_config(self, group: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """The settings of ``group`` on each broker that has it, by broker name (mqadmin: getConsumerConfig)."""
        return await self._configs_at(await self._masters(None, None), check_group(group))

    async def _configs_at(self, masters: Mapping[str, str], group: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        """The settings of ``group`` at those of these brokers that have it. Raises GroupNotExist."""
        known = {name: await self.group_configs(address) for name, address in masters.items()}
        found = {name: configs[group] for name, configs in known.items() if group in configs}
        if not found:
            raise unknown_group(group, {one for configs in known.values() for one in configs})
        return found

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
        """Set whether members that let the broker allocate queues consume ``topic`` by ``PULL`` or ``POP``, where a queue has
        ``pop_share_queue_num`` members besides its owner, -1 for all (mqadmin: setConsumeMode; 5.x)."""
        if mode not in ("PULL", "POP"):
            raise ConfigurationError(f"mode is {mode!r}, 'PULL' or 'POP' is allowed")
        body = bodies.SetMessageRequestModeRequestBody(
            topic=check_topic(topic),
            consumer_group=check_group(group),
            mode=mode,
            pop_share_queue_num=check_range("pop_share_queue_num", pop_share_queue_num, -1, 65_535),
        )
        await self._ask_masters(cluster, broker, requests.consumers.SET_MESSAGE_REQUEST_MODE, body=body)

    async def group_readable(self, group: str, topic: str, readable: bool | None = None) -> dict[str, bool]:
        """Whether ``group`` may consume ``topic``, by broker name; sets it first if ``readable`` is not None (5.x)."""
        header = headers.UpdateGroupForbiddenRequestHeader(group=check_group(group), topic=topic, readable=readable)
        answers: dict[str, bool] = {}
        masters = await self._masters_of(topic)
        await self._check_exists(group)
        for name, address in masters.items():
            answer = await self._cluster.ask_body(requests.topics.UPDATE_AND_GET_GROUP_FORBIDDEN, header, at=address)
            answers[name] = answer.readable
        return answers


def _config_of(group: str, settings: GroupSettings) -> bodies.SubscriptionGroupConfig:
    try:
        return bodies.SubscriptionGroupConfig(group_name=group, **settings)
    except TypeError as error:
        allowed = ", ".join(sorted(set(bodies.SubscriptionGroupConfig.__struct_fields__) - {"group_name"}))
        raise ConfigurationError(f"a group has no such setting: {error}; allowed are {allowed}") from error
