# SPDX-License-Identifier: Apache-2.0
"""Changes of a plain_acl.yml by an administrator (Java: PlainPermissionManager.updateAccessConfig). Each function takes a file's content,
returns the new one and increments its ``dataVersion``. Values that a change does not name stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sprocketmq.core.access.plain_acl import PlainAccount, check_permissions
from sprocketmq.wire.bodies import DataVersion

Content = Mapping[str, Any]


@dataclass(frozen=True)
class AccountChange:
    """The content of UPDATE_AND_CREATE_ACL_CONFIG; None leaves a value as it is."""

    access_key: str
    secret_key: str | None = field(default=None, repr=False)
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: Sequence[str] | None = None
    group_perms: Sequence[str] | None = None


def with_account(content: Content, change: AccountChange, now_ms: int) -> dict[str, Any]:
    """The file with the account created or changed. Raises ConfigurationError (the account would not be a valid one)."""
    check_permissions(change.topic_perms or ())
    check_permissions(change.group_perms or ())
    accounts = [dict(entry) for entry in content.get("accounts") or ()]
    old = next((entry for entry in accounts if str(entry.get("accessKey")) == change.access_key), {})
    new = {
        **old,
        "accessKey": change.access_key,
        **({"secretKey": change.secret_key} if change.secret_key else {}),
        **({} if change.white_remote_address is None else {"whiteRemoteAddress": change.white_remote_address}),
        "admin": change.admin,
        **({"defaultTopicPerm": change.default_topic_perm} if change.default_topic_perm else {}),
        **({"defaultGroupPerm": change.default_group_perm} if change.default_group_perm else {}),
        **({} if change.topic_perms is None else {"topicPerms": list(change.topic_perms)}),
        **({} if change.group_perms is None else {"groupPerms": list(change.group_perms)}),
    }
    PlainAccount.of(new)
    others = [entry for entry in accounts if entry is not old]
    return _next_version({**content, "accounts": [*others, new]}, now_ms)


def without_account(content: Content, access_key: str, now_ms: int) -> dict[str, Any]:
    accounts = [entry for entry in content.get("accounts") or () if str(entry.get("accessKey")) != access_key]
    return _next_version({**content, "accounts": accounts}, now_ms)


def with_white_addresses(content: Content, addresses: Sequence[str], now_ms: int) -> dict[str, Any]:
    return _next_version({**content, "globalWhiteRemoteAddresses": list(addresses)}, now_ms)


def data_version(content: Content) -> DataVersion:
    """The version in the file; zeros if it has none."""
    versions = content.get("dataVersion")
    if not isinstance(versions, list) or not versions or not isinstance(versions[0], Mapping):
        return DataVersion()
    counter, timestamp = versions[0].get("counter"), versions[0].get("timestamp")
    return DataVersion(
        counter=counter if isinstance(counter, int) else 0, timestamp=timestamp if isinstance(timestamp, int) else 0
    )


def _next_version(content: dict[str, Any], now_ms: int) -> dict[str, Any]:
    version = data_version(content)
    version.next_version(now_ms)
    return {**content, "dataVersion": [{"counter": version.counter, "timestamp": version.timestamp}]}
