# SPDX-License-Identifier: Apache-2.0
"""Access control of 4.9: accounts with permissions per topic and group (Java: PlainPermissionManager).

A request is allowed if one of these conditions is true, checked in this order:

1. its address is on a global white list;
2. its access key is an account's, and its address is on that account's own white list;
3. its signature fits the account's secret, and it publishes to the trace topic;
4. its signature fits, it needs no administrator or comes from one, and the permissions allow its actions on each topic and group.

A group is the resource ``%RETRY%group``. A resource without a permission has the account's default, or DENY. An administrator without
listed permissions may use everything. More requests need an administrator than in Apache 4.9 (``request_needs``), where every account can
make itself one. A refusal never names a secret or a signature. Allowed requests are cached until a file changes; refusals never are, and
the signature is checked each time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from sprocketmq.core.access.addresses import AddressPattern
from sprocketmq.core.access.rights import Need, Needs, no_key, remember, shown
from sprocketmq.core.resource_names import RETRY_PREFIX, TRACE_TOPIC
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.frames.acl_signature import SigningKey
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.frames.signed_request import SignedRequest
from sprocketmq.wire.requests.access import ADMIN, ANY, DENY, PUB, SUB

_MIN_KEY_LENGTH: Final = 7  # AclConstants: longer than 6
_PERMISSIONS: Final = {"PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB, "DENY": DENY}


def parse_permission(text: str | None) -> int:
    """PUB, SUB, both joined by ``|``, or DENY; anything else is DENY, as in Apache."""
    return _PERMISSIONS.get((text or "").strip(), DENY)


def check_permissions(entries: Iterable[str]) -> None:
    """Read the ``name=permission`` entries of an administrator. Raises ConfigurationError."""
    for entry in entries:
        name, equals, permission = entry.partition("=")
        if not equals or not name.strip() or permission.strip() not in _PERMISSIONS:
            raise ConfigurationError(f"the permission {entry!r} is given, name=PUB, SUB, PUB|SUB or DENY is allowed")


@dataclass(frozen=True)
class PlainAccount:
    """One account of a file. ``permissions`` holds topics by name and groups by ``%RETRY%name``."""

    access_key: str
    secret_key: str = field(repr=False)
    white_address: AddressPattern
    admin: bool = False
    default_topic: int = DENY
    default_group: int = DENY
    permissions: Mapping[str, int] = field(default_factory=dict)
    allowed: set[Hashable] = field(default_factory=set, repr=False, compare=False)

    @cached_property
    def signing_key(self) -> SigningKey:
        return SigningKey(self.secret_key)

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> PlainAccount:
        """Read one mapping of the file's ``accounts``. Raises ConfigurationError (a key is missing or too short, or a value malformed)."""
        access_key, secret_key = _text(entry.get("accessKey")), _text(entry.get("secretKey"))
        if len(access_key) < _MIN_KEY_LENGTH or len(secret_key) < _MIN_KEY_LENGTH:
            raise ConfigurationError(
                f"the account with accessKey {access_key!r} has a key of less than 7 characters, both keys need 7 or more"
            )
        permissions: dict[str, int] = {}
        for name, prefix in (("groupPerms", RETRY_PREFIX), ("topicPerms", "")):
            for item in _texts(entry.get(name), f"{name} of {access_key}"):
                resource, equals, permission = item.partition("=")
                if not equals or not resource.strip() or "=" in permission:
                    raise ConfigurationError(f"{name} of {access_key} has {item!r}, name=PUB|SUB is allowed")
                permissions[prefix + resource.strip()] = parse_permission(permission)
        return cls(
            access_key,
            secret_key,
            AddressPattern(_text(entry.get("whiteRemoteAddress"))),
            entry.get("admin") is True or _text(entry.get("admin")).lower() == "true",
            parse_permission(_text(entry.get("defaultTopicPerm"))),
            parse_permission(_text(entry.get("defaultGroupPerm"))),
            permissions,
        )

    def allows(self, need: Need) -> bool:
        needed = need.right.permission
        if needed == ADMIN:
            return self.admin
        is_group = need.kind == "Group"
        if not is_group and need.name == TRACE_TOPIC and needed == PUB:
            return True
        named = self.permissions.get(RETRY_PREFIX + need.name if is_group else need.name)
        default = self.default_group if is_group else self.default_topic
        if _allows(default if named is None else named, needed):
            return True
        return need.right.or_consumer and named is None and self._may_consume

    @property
    def _may_consume(self) -> bool:
        return any(
            _allows(permission, SUB)
            for permission in (self.default_topic, self.default_group, *self.permissions.values())
        )


class PlainAcl:
    """The accounts and white lists of all files, by file name; made again when a file changes. An access key in two files counts in the
    first. Raises ConfigurationError, which names the file."""

    def __init__(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        self.accounts: dict[str, PlainAccount] = {}
        self.file_of: dict[str, str] = {}
        self.white_addresses: list[AddressPattern] = []
        for name, content in files.items():
            self._add(name, content)

    def _add(self, name: str, content: Mapping[str, Any]) -> None:
        try:
            self._add_content(name, content)
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}: {error}") from error

    def _add_content(self, name: str, content: Mapping[str, Any]) -> None:
        for text in _texts(content.get("globalWhiteRemoteAddresses"), "globalWhiteRemoteAddresses"):
            self.white_addresses.append(AddressPattern(text))
        for entry in _entries(content.get("accounts")):
            account = PlainAccount.of(entry)
            if account.access_key not in self.accounts:
                self.accounts[account.access_key] = account
                self.file_of[account.access_key] = name

    def refusal(
        self,
        host: str,
        asked: SignedRequest,
        command: Command,
        needs: Callable[[Command], Needs],
        needs_key: Callable[[Command], Hashable | None] = no_key,
    ) -> str | None:
        """Why a request with ``command`` from ``asked`` at ``host`` may not be served; None if it may. ``needs`` is called only if
        they count; with equal ``needs_key`` they are equal (None: not cached). Raises ProtocolError (they cannot be determined)."""
        for pattern in self.white_addresses:
            if pattern.matches(host):
                return None
        access_key = asked.access_key
        if not access_key:
            return (
                "the request carries no access key, and this broker wants one; give the client accessKey and secretKey"
            )
        account = self.accounts.get(access_key)
        if account is None:
            return f"no account has the access key {shown(access_key)}"
        if account.white_address.text and account.white_address.matches(host):
            return None
        if not asked.is_signed_with(account.signing_key, command.body):
            return f"the signature of access key {access_key} does not fit; check the secretKey"
        if account.admin and not account.permissions:
            return None
        key, names = needs_key(command), []
        if key is not None and key in account.allowed:
            return None
        for need in needs(command):
            if not account.allows(need):
                return _lacking(account, need)
            names.append(need.name)
        if key is not None:
            remember(account.allowed, key, names)
        return None


def _lacking(account: PlainAccount, need: Need) -> str:
    if need.right.permission == ADMIN:
        return f"this needs an administrator, access key {account.access_key} is none ({shown(need.key)})"
    verb = {PUB: "publish to", SUB: "subscribe to"}.get(need.right.permission, "look at")
    return f"access key {account.access_key} has no permission to {verb} {need.kind.lower()} {shown(need.name)}"


def _allows(owned: int, needed: int) -> bool:
    if owned & DENY:
        return False
    if needed & ANY:
        return owned & (PUB | SUB) != 0
    return owned & needed != 0


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _texts(value: object, what: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigurationError(f"{what} is {value!r}, a list of texts is allowed")
    return [_text(item) for item in value]


def _entries(value: object) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise ConfigurationError("accounts is no list of mappings; write '- accessKey: ...' for each account")
    return value
