# SPDX-License-Identifier: Apache-2.0
"""Access control: users and policies of 5.x, accounts of 4.9 (mqadmin: createUser, createAcl, ...)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sprocketmq.client.admin.session import AdminRequests
from sprocketmq.client.answer_bodies import answer_body, decoded
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.frames.command import Buffer
from sprocketmq.wire.text import fastjson


def _users(body: Buffer) -> list[bodies.UserInfo]:
    return fastjson.decode(body, list[bodies.UserInfo])


def _acls(body: Buffer) -> list[bodies.AclInfo]:
    return fastjson.decode(body, list[bodies.AclInfo])


class AccessRequests(AdminRequests):
    """The part of AsyncAdmin about accounts, users and policies."""

    # -- users of 5.x ----------------------------------------------------------------------------------------------------------

    async def create_user(
        self,
        username: str,
        password: str,
        *,
        user_type: str = "Normal",
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create a user (mqadmin: createUser; 5.x): ``Normal``, who needs policies, or ``Super``, who may do everything."""
        info = bodies.UserInfo(username=username, password=password, user_type=_one_of("user_type", user_type, _TYPES))
        await self._ask_masters(
            cluster, broker, requests.accounts.AUTH_CREATE_USER, headers.UserRequestHeader(username=username), info
        )

    async def update_user(
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
        if user_type is not None:
            _one_of("user_type", user_type, _TYPES)
        if user_status is not None:
            _one_of("user_status", user_status, ("enable", "disable"))
        info = bodies.UserInfo(username=username, password=password, user_type=user_type, user_status=user_status)
        await self._ask_masters(
            cluster, broker, requests.accounts.AUTH_UPDATE_USER, headers.UserRequestHeader(username=username), info
        )

    async def delete_user(self, username: str, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete a user (mqadmin: deleteUser; 5.x)."""
        await self._ask_masters(
            cluster, broker, requests.accounts.AUTH_DELETE_USER, headers.UserRequestHeader(username=username)
        )

    async def user(self, broker: str, username: str) -> bodies.UserInfo | None:
        """A user of one broker; None if there is no such user (mqadmin: getUser; 5.x)."""
        header = headers.UserRequestHeader(username=username)
        answer = await self._cluster.ask(requests.accounts.AUTH_GET_USER, header, at=await self._one(broker))
        return await answer_body(requests.accounts.AUTH_GET_USER, answer) if answer.body else None

    async def users(self, broker: str, name_filter: str | None = None) -> list[bodies.UserInfo]:
        """The users of one broker whose name contains ``name_filter``, or (default) all (mqadmin: listUser; 5.x)."""
        header = headers.ListUsersRequestHeader(filter=name_filter)
        answer = await self._cluster.ask(requests.accounts.AUTH_LIST_USER, header, at=await self._one(broker))
        return await decoded(answer.body, _users) if answer.body else []

    async def copy_users(self, source: str, destination: str, usernames: Collection[str] | None = None) -> list[str]:
        """Copy all users (default) or some ``usernames`` to another broker (mqadmin: copyUser; 5.x). Returns their names."""
        copied = []
        for user in await self.users(source):
            name = user.username or ""
            if usernames is not None and name not in usernames:
                continue
            known = await self.user(destination, name)
            asked = requests.accounts.AUTH_CREATE_USER if known is None else requests.accounts.AUTH_UPDATE_USER
            await self._ask_masters(None, destination, asked, headers.UserRequestHeader(username=name), user)
            copied.append(name)
        return copied

    # -- policies of 5.x -------------------------------------------------------------------------------------------------------

    async def create_acl(
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
        info = _acl(subject, resources, actions, decision, source_ips)
        await self._ask_masters(
            cluster, broker, requests.accounts.AUTH_CREATE_ACL, headers.AclSubjectRequestHeader(subject=subject), info
        )

    async def update_acl(
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
        info = _acl(subject, resources, actions, decision, source_ips)
        await self._ask_masters(
            cluster, broker, requests.accounts.AUTH_UPDATE_ACL, headers.AclSubjectRequestHeader(subject=subject), info
        )

    async def delete_acl(
        self, subject: str, resource: str | None = None, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Delete the policy for one ``resource``, or (default) all policies of ``User:name`` (mqadmin: deleteAcl; 5.x)."""
        header = headers.DeleteAclRequestHeader(subject=subject, resource=resource)
        await self._ask_masters(cluster, broker, requests.accounts.AUTH_DELETE_ACL, header)

    async def acl(self, broker: str, subject: str) -> bodies.AclInfo | None:
        """All policies of ``User:name`` at one broker; None if there are none (mqadmin: getAcl; 5.x)."""
        header = headers.AclSubjectRequestHeader(subject=subject)
        answer = await self._cluster.ask(requests.accounts.AUTH_GET_ACL, header, at=await self._one(broker))
        return await answer_body(requests.accounts.AUTH_GET_ACL, answer) if answer.body else None

    async def acls(
        self, broker: str, subject_filter: str | None = None, resource_filter: str | None = None
    ) -> list[bodies.AclInfo]:
        """The policies of one broker whose subject and resource contain ``subject_filter`` and ``resource_filter``, or (default)
        any (mqadmin: listAcl; 5.x)."""
        header = headers.ListAclsRequestHeader(subject_filter=subject_filter, resource_filter=resource_filter)
        answer = await self._cluster.ask(requests.accounts.AUTH_LIST_ACL, header, at=await self._one(broker))
        return await decoded(answer.body, _acls) if answer.body else []

    async def copy_acls(self, source: str, destination: str, subjects: Collection[str] | None = None) -> list[str]:
        """Copy policies from one broker to another, of all ``subjects`` (default) or some (mqadmin: copyAcl; 5.x)."""
        copied = []
        for info in await self.acls(source):
            subject = info.subject or ""
            if subjects is not None and subject not in subjects:
                continue
            known = await self.acl(destination, subject)
            asked = requests.accounts.AUTH_CREATE_ACL if known is None else requests.accounts.AUTH_UPDATE_ACL
            await self._ask_masters(None, destination, asked, headers.AclSubjectRequestHeader(subject=subject), info)
            copied.append(subject)
        return copied

    # -- accounts of 4.9 -------------------------------------------------------------------------------------------------------

    async def update_account(
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
        header = headers.CreateAccessConfigRequestHeader(
            access_key=access_key,
            secret_key=secret_key,
            white_remote_address=white_remote_address,
            default_topic_perm=default_topic_perm,
            default_group_perm=default_group_perm,
            topic_perms=_perms(topic_perms),
            group_perms=_perms(group_perms),
            admin=admin,
        )
        await self._ask_masters(cluster, broker, requests.accounts.UPDATE_AND_CREATE_ACL_CONFIG, header)

    async def delete_account(self, access_key: str, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete an account (mqadmin: deleteAclConfig; 4.9)."""
        header = headers.DeleteAccessConfigRequestHeader(access_key=access_key)
        await self._ask_masters(cluster, broker, requests.accounts.DELETE_ACL_CONFIG, header)

    async def update_global_white_addresses(
        self, addresses: Collection[str], *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Set addresses, or patterns such as ``10.0.0.*``, from which all is allowed (mqadmin: updateGlobalWhiteAddr; 4.9)."""
        header = headers.UpdateGlobalWhiteAddrsConfigRequestHeader(global_white_addrs=",".join(addresses))
        await self._ask_masters(cluster, broker, requests.accounts.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)

    async def account_versions(self, broker: str) -> headers.GetBrokerAclConfigResponseHeader:
        """The versions of a broker's account files (mqadmin: clusterAclConfigVersion; 4.9)."""
        return await self._cluster.ask_header(requests.accounts.GET_BROKER_CLUSTER_ACL_INFO, at=await self._one(broker))


_TYPES = ("Normal", "Super")


def _one_of(name: str, value: str, allowed: Collection[str]) -> str:
    if value not in allowed:
        raise ConfigurationError(f"{name} is {value!r}, one of {', '.join(allowed)} is allowed")
    return value


def _acl(
    subject: str, resources: Collection[str], actions: Collection[str], decision: str, source_ips: Collection[str]
) -> bodies.AclInfo:
    if not subject.startswith("User:"):
        raise ConfigurationError(f"subject is {subject!r}, 'User:' and a user's name is allowed")
    _one_of("decision", decision, ("Allow", "Deny"))
    for what, given in (("resources", resources), ("actions", actions)):
        if isinstance(given, str) or not given:
            raise ConfigurationError(f"{what} is {given!r}, a list with at least one element is allowed")
    entries = [
        bodies.PolicyEntryInfo(
            resource=resource, actions=list(actions), source_ips=list(source_ips) or None, decision=decision
        )
        for resource in resources
    ]
    return bodies.AclInfo(subject=subject, policies=[bodies.PolicyInfo(policy_type="Custom", entries=entries)])


def _perms(perms: Mapping[str, str] | None) -> str | None:
    return None if perms is None else ",".join(f"{name}={perm}" for name, perm in perms.items())
