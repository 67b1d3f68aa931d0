# SPDX-License-Identifier: Apache-2.0
"""Policies of 5.x: resources, actions, source addresses, allow or deny (Java: PolicyEntry, AclAuthorizationHandler).

    resource    *              everything            Topic:*         all topics
                Topic:orders   one topic             Topic:orders*   topics with this prefix     also Group:, Cluster:, Namespace:
    actions     Pub Sub Create Update Delete Get List, or All of them
    source      addresses and CIDR blocks (10.0.0.0/8); none means anywhere

The most specific entry that matches decides: a named kind before ``*``, a name before a prefix, a long prefix before a short one. Default
entries count only when no Custom entry matches. Nothing matches: refused. A subject has one entry of each kind for a resource."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from sprocketmq.core.access.rights import Need
from sprocketmq.errors import ConfigurationError

# By lower case name, as Java compares them.
ACTIONS: Final = {name.lower(): name for name in ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")}
_KINDS: Final = {name.lower(): name for name in ("Cluster", "Namespace", "Topic", "Group")}
DECISIONS: Final = {"allow": "Allow", "deny": "Deny"}
POLICY_TYPES: Final = {"custom": "Custom", "default": "Default"}

_LITERAL: Final = 0
_PREFIXED: Final = 1
_ANY: Final = 2
_EVERYTHING: Final = 3  # the pattern "*", whatever the kind


def named(table: dict[str, str], text: str | None, what: str) -> str:
    """``text`` in the spelling of the table. Raises ConfigurationError (it is not in the table)."""
    found = table.get((text or "").strip().lower())
    if found is None:
        raise ConfigurationError(f"{what} is {text!r}, {', '.join(table.values())} are allowed")
    return found


class Resource(Struct, frozen=True):
    """The resource of a policy: ``kind`` is Topic, Group, Cluster, Namespace, or empty for everything."""

    kind: str
    name: str
    pattern: int = _LITERAL

    @classmethod
    def parse(cls, key: str | None) -> Resource:
        """From ``Topic:orders``, ``Topic:orders*``, ``Topic:*`` or ``*``. Raises ConfigurationError (none of these)."""
        text = (key or "").strip()
        if text == "*":
            return cls("", "", _EVERYTHING)
        kind, colon, name = text.partition(":")
        if not colon or not name or kind.lower() not in _KINDS or "*" in name[:-1]:
            raise ConfigurationError(
                f"the resource is {key!r}, Topic:name, Topic:prefix* or Topic:* are allowed, also with Group, Cluster and Namespace, or *"
            )
        if name == "*":
            return cls(_KINDS[kind.lower()], "", _ANY)
        if name.endswith("*"):
            return cls(_KINDS[kind.lower()], name[:-1], _PREFIXED)
        return cls(_KINDS[kind.lower()], name)

    @property
    def key(self) -> str:
        if self.pattern == _EVERYTHING:
            return "*"
        return f"{self.kind}:{self.name}{'*' if self.pattern != _LITERAL else ''}"

    def matches(self, kind: str, name: str) -> bool:
        if self.pattern == _EVERYTHING:
            return True
        if self.kind != kind:
            return False
        if self.pattern == _LITERAL:
            return self.name == name
        return self.pattern == _ANY or name.startswith(self.name)

    @property
    def rank(self) -> tuple[int, int]:
        """Lower is more specific."""
        return self.pattern, -len(self.name) if self.pattern == _PREFIXED else 0


class PolicyEntry(Struct, frozen=True):
    resource: Resource
    actions: tuple[str, ...]
    source_ips: tuple[str, ...]
    decision: str

    @classmethod
    def of(
        cls, resource: str | None, actions: Sequence[str] | None, source_ips: Sequence[str] | None, decision: str | None
    ) -> PolicyEntry:
        """Make a checked entry in Apache's spelling. Raises ConfigurationError: a value is not allowed; the error names it."""
        if not actions:
            raise ConfigurationError(
                f"the entry of {resource} has no actions, one or more of {', '.join(ACTIONS.values())} are allowed"
            )
        for source in source_ips or ():
            if _network(source) is None:
                raise ConfigurationError(
                    f"the source is {source!r}, an address or a block such as 10.0.0.0/8 is allowed"
                )
        return cls(
            Resource.parse(resource),
            tuple(named(ACTIONS, action, "the action") for action in actions),
            tuple(source_ips or ()),
            named(DECISIONS, decision, "the decision"),
        )

    def matches(self, need: Need, host: str) -> bool:
        return self.resource.matches(need.kind, need.name) and self.acts(need.right.actions, host)

    def acts(self, actions: frozenset[str], host: str) -> bool:
        """Whether the entry is for one of ``actions`` from ``host``, without looking at the resource."""
        return ("All" in self.actions or not actions.isdisjoint(self.actions)) and (
            not self.source_ips or any(_contains(source, host) for source in self.source_ips)
        )


class Acl(Struct):
    """The policies of one subject: the entries of each kind (Custom, Default), in the order in which they were added."""

    policies: dict[str, list[PolicyEntry]] = field(default_factory=dict)

    def update(self, policy_type: str, entries: Sequence[PolicyEntry]) -> None:
        """Add entries; an entry replaces an existing one with the same resource."""
        known = self.policies.setdefault(policy_type, [])
        for entry in entries:
            for place, old in enumerate(known):
                if old.resource == entry.resource:
                    known[place] = entry
                    break
            else:
                known.append(entry)

    def delete(self, policy_type: str, resource: Resource) -> None:
        """Also removes a policy that has no more entries."""
        left = [entry for entry in self.policies.get(policy_type, ()) if entry.resource != resource]
        if left:
            self.policies[policy_type] = left
        else:
            self.policies.pop(policy_type, None)

    def refusal(self, need: Need, host: str) -> str | None:
        best = self._deciding(need, host)
        if best is not None:
            return None if best.decision == "Allow" else f"the policy of {best.resource.key} denies it"
        if need.right.or_consumer and self._may_consume(host):
            return None
        return "no policy allows it"

    def _deciding(self, need: Need, host: str) -> PolicyEntry | None:
        for policy_type in POLICY_TYPES.values():
            matching = [entry for entry in self.policies.get(policy_type, ()) if entry.matches(need, host)]
            if matching:
                return min(matching, key=lambda entry: entry.resource.rank)
        return None

    def _may_consume(self, host: str) -> bool:
        return any(
            entry.decision == "Allow" and entry.acts(frozenset(("Sub",)), host)
            for entries in self.policies.values()
            for entry in entries
        )


@lru_cache(maxsize=4096)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _contains(source: str, host: str) -> bool:
    network = _network(source)
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if address.version == 6 and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return network is not None and address in network
