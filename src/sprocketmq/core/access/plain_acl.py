"""Access control in 4.9's form: accounts with permissions per topic and group (Java: PlainPermissionManager).

A request passes when one of these holds, looked at in this order:

1. its address is on a global white list;
2. its access key is an account's, and its address is on that account's own white list;
3. its signature fits the account's secret, and it publishes to the trace topic;
4. its signature fits, an administrator's code comes from an administrator, and each topic and group that it touches allows what it does.

A group is the resource ``%RETRY%group``. Without a permission of its own a resource has the account's default; a default that is not given
is DENY. An administrator who has no permissions listed may touch everything. Unlike Apache 4.9, a non-administrator may not use the codes
that change or show accounts (50, 51, 53, 54): there, every account can make itself an administrator.

Laws
1. What is refused is told with the name of the resource or account, never with a secret or a signature.
2. A decision depends on nothing but the tables, so it is remembered per (account, code, resources) for as long as the tables live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sprocketmq.core.access.addresses import AddressPattern
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.codes import RequestCode

__all__ = ["ANY", "DENY", "PUB", "SUB", "Needs", "PlainAccount", "PlainAcl", "check_permissions", "parse_permission"]

DENY: Final = 1
ANY: Final = 2
PUB: Final = 4
SUB: Final = 8

# What a request touches: (topic or %RETRY%group, PUB or SUB), in the order of asking.
Needs = tuple[tuple[str, int], ...]

RETRY_PREFIX: Final = "%RETRY%"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
_MIN_KEY_LENGTH: Final = 7  # AclConstants: longer than 6
_MAX_REMEMBERED: Final = 10_000
_PERMISSIONS: Final = {"PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB, "DENY": DENY}
_ADMIN_CODES: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        # Not on Apache's list, see the head of this file; nor are the plural forms of 17 and 200, which 4.9 does not have.
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.HANDOVER,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.DELETE_ACL_CONFIG,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
        *range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1),
    }
)


def parse_permission(text: str | None) -> int:
    """PUB, SUB, both joined by ``|``, or DENY; anything else is DENY, as in Apache."""
    return _PERMISSIONS.get((text or "").strip(), DENY)


def check_permissions(entries: Iterable[str]) -> None:
    """``name=permission`` entries as an administrator sends them.

    Raises:
        ConfigurationError: an entry is not of that form, or its permission is unknown.
    """
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

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> PlainAccount:
        """The account in one mapping of the file's ``accounts``.

        Raises:
            ConfigurationError: a key is missing or too short, or a value is malformed.
        """
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


class PlainAcl:
    """The accounts and white lists of all files as they are now; made anew when a file changes.

    Args:
        files: file name to its content as read from YAML. An access key in two files counts in the first.

    Raises:
        ConfigurationError: naming the file and what is wrong in it.
    """

    def __init__(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        self.accounts: dict[str, PlainAccount] = {}
        self.file_of: dict[str, str] = {}
        self.white_addresses: list[AddressPattern] = []
        self._remembered: dict[tuple[str, int, Needs], str | None] = {}
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
        access_key: str | None,
        signed_with: Callable[[str], bool],
        code: int,
        needs: Callable[[], Needs],
    ) -> str | None:
        """Why this request may not be served, None when it may.

        Args:
            host: the peer's address without port.
            access_key: as given, None when absent.
            signed_with: whether the request's signature was made with a secret.
            code: the request code.
            needs: what the request touches; asked for only when it counts.
        """
        if any(pattern.matches(host) for pattern in self.white_addresses):
            return None
        if not access_key:
            return (
                "the request carries no access key, and this broker wants one; give the client accessKey and secretKey"
            )
        account = self.accounts.get(access_key)
        if account is None:
            return f"no account has the access key {access_key}"
        if account.white_address.matches(host):
            return None
        if not signed_with(account.secret_key):
            return f"the signature of access key {access_key} does not fit; check the secretKey"
        return self._lacking(account, code, needs())

    def _lacking(self, account: PlainAccount, code: int, needs: Needs) -> str | None:
        key = (account.access_key, code, needs)
        try:
            return self._remembered[key]
        except KeyError:
            pass
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        reason = self._remembered[key] = _lacking(account, code, needs)
        return reason


def _lacking(account: PlainAccount, code: int, needs: Needs) -> str | None:
    if (TRACE_TOPIC, PUB) in needs:
        return None
    if code in _ADMIN_CODES and not account.admin:
        return f"request code {code} needs an administrator, access key {account.access_key} is none"
    if account.admin and not account.permissions:
        return None
    for resource, needed in needs:
        is_group = resource.startswith(RETRY_PREFIX)
        default = account.default_group if is_group else account.default_topic
        if not _allows(account.permissions.get(resource, default), needed):
            name = f"group {resource[len(RETRY_PREFIX) :]}" if is_group else f"topic {resource}"
            verb = "publish to" if needed == PUB else "subscribe to"
            return f"access key {account.access_key} has no permission to {verb} {name}"
    return None


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
