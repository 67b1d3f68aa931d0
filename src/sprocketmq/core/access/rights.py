"""What one request wants to do, once it is known: rights on topics, groups and the cluster (see ``wire.requests.access``)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from sprocketmq.wire.requests.access import Right

__all__ = ["Need", "Needs", "shown"]


class Need(Struct, frozen=True):
    """One thing that a request wants to do: ``right`` on the resource ``kind:name``. ``kind`` is Topic, Group or Cluster."""

    kind: str
    name: str
    right: Right

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


# Everything that one request needs, in the order of asking; taking the next one may raise ProtocolError.
Needs = Iterable[Need]


def shown(name: str) -> str:
    """A name from a request, cut to a limited length for error messages."""
    return name if len(name) <= 300 else f"{name[:300]}... ({len(name)} characters)"
