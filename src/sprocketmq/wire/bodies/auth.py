# SPDX-License-Identifier: Apache-2.0
"""Users and policies of 5.x (Java: UserInfo, AclInfo)."""

from __future__ import annotations

from sprocketmq.wire.bodies.body import Body


class UserInfo(Body):
    """A user. ``user_type`` is Super or Normal, ``user_status`` enable or disable."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    def __repr__(self) -> str:  # a password must not get into a log
        return f"UserInfo({self.username!r}, {self.user_type}, {self.user_status})"


class PolicyEntryInfo(Body):
    """The actions of a subject on one resource, such as ``Topic:orders*``; ``decision`` is Allow or Deny."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body):
    """Entries of one kind. Custom entries have priority over Default ones."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] | None = None


class AclInfo(Body):
    """All policies of one subject, ``User:name``."""

    subject: str | None = None
    policies: list[PolicyInfo] | None = None
