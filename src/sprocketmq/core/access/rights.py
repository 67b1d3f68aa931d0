# SPDX-License-Identifier: Apache-2.0
"""The needs of one request: rights on topics, groups and the cluster (see ``wire.requests.access``)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from msgspec import Struct

from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.requests.access import Right

_MOST_REMEMBERED: Final = 4_096
_LONGEST_REMEMBERED: Final = 255  # no topic or group has a longer name


class Need(Struct, frozen=True):
    """One need of a request: ``right`` on the resource ``kind:name``. ``kind`` is Topic, Group or Cluster."""

    kind: str
    name: str
    right: Right

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


# Everything that one request needs, in the order of asking; taking the next one may raise ProtocolError.
Needs = Iterable[Need]


def no_key(command: Command) -> None:
    """A key function for requests whose decisions are not cached."""


def shown(name: str) -> str:
    """A name from a request, cut to a limited length for error messages."""
    return name if len(name) <= 300 else f"{name[:300]}... ({len(name)} characters)"


def remember(allowed: set[Hashable], decision: Hashable, names: Iterable[str]) -> None:
    """Cache a decision about ``names``. The cache is limited and holds no long names, because names come from the network."""
    if max(map(len, names), default=0) > _LONGEST_REMEMBERED:
        return
    if len(allowed) >= _MOST_REMEMBERED:
        allowed.clear()
    allowed.add(decision)
