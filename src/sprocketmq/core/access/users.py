# SPDX-License-Identifier: Apache-2.0
"""Users of 5.x and their rights (Java: AuthenticationMetadataManagerImpl, AuthorizationMetadataManagerImpl, UserAuthorizationHandler).

A Super user may do everything, a disabled one nothing. A policy cannot be created without its user and is deleted with it. A change is
applied completely or refused. A decision to allow is cached until anything changes, for a few thousand names of ordinary length; a
refusal never is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from sprocketmq.core.access.policies import POLICY_TYPES, Acl, PolicyEntry, Resource, named
from sprocketmq.core.access.rights import Needs, no_key, remember, shown
from sprocketmq.core.resource_names import MAX_TEXT_LENGTH
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from sprocketmq.wire.frames.acl_signature import SigningKey
from sprocketmq.wire.frames.command import Buffer, Command
from sprocketmq.wire.frames.signed_request import SignedRequest

_USER_TYPES: Final = {"super": "Super", "normal": "Normal"}
_USER_STATUSES: Final = {"enable": "enable", "disable": "disable"}
_SUBJECT: Final = "User:"


@dataclass(frozen=True)
class User:
    username: str
    password: str = field(repr=False)
    user_type: str = "Normal"
    user_status: str = "enable"

    @cached_property
    def signing_key(self) -> SigningKey:
        return SigningKey(self.password)

    @property
    def is_super(self) -> bool:
        return self.user_type == "Super"

    def info(self) -> UserInfo:
        return UserInfo(self.username, self.password, self.user_type, self.user_status)


def subject_name(subject: str | None) -> str:
    """The user of a subject ``User:name``. Raises ConfigurationError (it is not of this form)."""
    text = (subject or "").strip()
    if text[: len(_SUBJECT)].lower() != _SUBJECT.lower() or not text[len(_SUBJECT) :].strip():
        raise ConfigurationError(f"the subject is {subject!r}, User:name is allowed")
    return text[len(_SUBJECT) :]


class UserTable:
    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self._allowed: set[Hashable] = set()

    # -- deciding --------------------------------------------------------------------------------------------------------------

    def not_authentic(self, asked: SignedRequest, body: Buffer) -> str | None:
        """Why a request with this sender and body is not authentic; None if it is."""
        username = asked.access_key
        if not username:
            return "the request names no user, and this broker wants one; give the client access key and secret key"
        user = self._users.get(username)
        if user is None:
            return f"user {shown(username)} does not exist"
        if user.user_status == "disable":
            return f"user {username} is disabled"
        if not asked.is_signed_with(user.signing_key, body):
            return f"the signature of user {username} does not fit; check the password"
        return None

    def not_authorized(
        self,
        username: str,
        host: str,
        command: Command,
        needs: Callable[[Command], Needs],
        needs_key: Callable[[Command], Hashable | None] = no_key,
    ) -> str | None:
        """Why this user may not do all that ``command`` needs from ``host``; None if it may. For the rest see ``PlainAcl.refusal``."""
        user = self._users.get(username)
        if user is None:
            return f"user {shown(username)} does not exist"
        if user.is_super:
            return None
        allowed, of_request, names = self._allowed, needs_key(command), []
        if of_request is not None and (username, host, of_request) in allowed:
            return None
        for need in needs(command):
            names.append(need.name)
            if (username, host, need) in allowed:
                continue
            reason = (self._acls.get(username) or Acl()).refusal(need, host)
            if reason is not None:
                verbs = " or ".join(sorted(need.right.actions))
                return f"user {username} has no permission to {verbs} {shown(need.key)} from {host}: {reason}"
            remember(allowed, (username, host, need), (need.name,))
        if of_request is not None:
            remember(allowed, (username, host, of_request), names)
        return None

    # -- users -----------------------------------------------------------------------------------------------------------------

    def user(self, username: str) -> User | None:
        return self._users.get(username)

    def users(self, name_filter: str | None = None) -> list[User]:
        return [user for name, user in sorted(self._users.items()) if not name_filter or name_filter in name]

    def create_user(self, info: UserInfo) -> None:
        """Raises ConfigurationError: the user exists, or a value is not allowed."""
        if not info.username or not info.username.strip() or not info.password or not info.password.strip():
            raise ConfigurationError("a user needs a username and a password that are not blank")
        _check_lengths(info)
        if info.username in self._users:
            raise ConfigurationError(f"user {info.username} exists already")
        self._users[info.username] = User(
            info.username,
            info.password,
            named(_USER_TYPES, info.user_type or "Normal", "the user type"),
            named(_USER_STATUSES, info.user_status or "enable", "the user status"),
        )
        self._allowed.clear()

    def update_user(self, info: UserInfo) -> None:
        """Change the values in ``info``. Raises ConfigurationError: no such user, or a value is not allowed."""
        user = self._users.get(info.username or "")
        if user is None:
            raise ConfigurationError(f"user {info.username} does not exist")
        _check_lengths(info)
        if info.password and info.password.strip():
            user = replace(user, password=info.password)
        if info.user_type:
            user = replace(user, user_type=named(_USER_TYPES, info.user_type, "the user type"))
        if info.user_status:
            user = replace(user, user_status=named(_USER_STATUSES, info.user_status, "the user status"))
        self._users[user.username] = user
        self._allowed.clear()

    def delete_user(self, username: str) -> None:
        """Delete the user and its policies; does nothing if there is none."""
        self._users.pop(username, None)
        self._acls.pop(username, None)
        self._allowed.clear()

    # -- policies ----------------------------------------------------------------------------------------------------------------

    def update_acl(self, username: str, policies: Sequence[PolicyInfo]) -> None:
        """Replaces entries of the same resource (in Apache creating is updating, too). Raises ConfigurationError."""
        if username not in self._users:
            raise ConfigurationError(f"user {username} does not exist; create it first")
        if not policies or not all(policy.entries for policy in policies):
            raise ConfigurationError("the policies are empty; name at least one resource with actions and a decision")
        checked = [
            (
                named(POLICY_TYPES, policy.policy_type or "Custom", "the policy type"),
                [PolicyEntry.of(e.resource, e.actions, e.source_ips, e.decision) for e in policy.entries or ()],
            )
            for policy in policies
        ]
        acl = self._acls.setdefault(username, Acl())
        for policy_type, entries in checked:
            acl.update(policy_type, entries)
        self._allowed.clear()

    def delete_acl(self, username: str, policy_type: str | None, resource: str | None) -> None:
        """Remove one entry, or all policies if no resource is given. Raises ConfigurationError (no such user or policies)."""
        acl = self._known_acl(username)
        if resource:
            acl.delete(named(POLICY_TYPES, policy_type or "Custom", "the policy type"), Resource.parse(resource))
        if not resource or not acl.policies:
            del self._acls[username]
        self._allowed.clear()

    def _known_acl(self, username: str) -> Acl:
        if username not in self._users:
            raise ConfigurationError(f"user {username} does not exist")
        acl = self._acls.get(username)
        if acl is None:
            raise ConfigurationError(f"user {username} has no policies")
        return acl

    def acl(self, username: str) -> AclInfo | None:
        """A user's policies; None if it has none. Raises ConfigurationError: no such user."""
        if username not in self._users:
            raise ConfigurationError(f"user {username} does not exist")
        acl = self._acls.get(username)
        return None if acl is None else _info(username, acl, None)

    def acls(self, subject_filter: str | None = None, resource_filter: str | None = None) -> list[AclInfo]:
        """Policies whose subject and resources contain the filters, by subject."""
        found = [
            _info(name, acl, resource_filter)
            for name, acl in sorted(self._acls.items())
            if not subject_filter or subject_filter in _SUBJECT + name
        ]
        return [info for info in found if info.policies]

    # -- keeping -----------------------------------------------------------------------------------------------------------------

    def load(self, users: Sequence[UserInfo], acls: Sequence[AclInfo]) -> None:
        """Raises ConfigurationError: a policy without its user, or a value that is not allowed."""
        self.__init__()  # type: ignore[misc]
        for user in users:
            self.create_user(user)
        for acl in acls:
            self.update_acl(subject_name(acl.subject), acl.policies or [])

    def check_invariants(self) -> None:
        assert self._acls.keys() <= self._users.keys(), "policies without a user"
        for acl in self._acls.values():
            assert acl.policies, "an empty set of policies is kept"
            for entries in acl.policies.values():
                resources = [entry.resource for entry in entries]
                assert entries, "an empty policy is kept"
                assert len(resources) == len(set(resources)), "two entries of one resource"


def _check_lengths(info: UserInfo) -> None:
    for what, text in (("username", info.username), ("password", info.password)):
        if text and len(text) > MAX_TEXT_LENGTH:
            raise ConfigurationError(
                f"the {what} is {len(text)} characters long, at most {MAX_TEXT_LENGTH} are allowed"
            )


def _info(username: str, acl: Acl, resource_filter: str | None) -> AclInfo:
    policies = []
    for policy_type, entries in acl.policies.items():
        infos = [
            PolicyEntryInfo(entry.resource.key, list(entry.actions), list(entry.source_ips) or None, entry.decision)
            for entry in entries
            if not resource_filter or resource_filter in entry.resource.key
        ]
        if infos:
            policies.append(PolicyInfo(policy_type, infos))
    return AclInfo(_SUBJECT + username, policies)
