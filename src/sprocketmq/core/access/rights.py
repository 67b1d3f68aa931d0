"""What a request needs: rights on topics, groups and the cluster, in the words of both generations of access control (see ``Right``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

__all__ = [
    "ADMIN",
    "ANY",
    "CHANGE_CLUSTER",
    "CONSUME",
    "CONSUME_OR_LOOK",
    "CONSUME_OR_UPDATE",
    "CREATE",
    "CREATE_OR_UPDATE",
    "DELETE",
    "DENY",
    "LOOK",
    "LOOK_AT_CLUSTER",
    "LOOK_AT_GROUP",
    "PUB",
    "PUBLISH",
    "REPLY",
    "SUB",
    "UPDATE",
    "UPDATE_OWN",
    "Need",
    "Needs",
    "Right",
    "shown",
]

# Permissions of 4.9 as bits (Java: Permission). ADMIN is ours: the account must be an administrator's.
DENY: Final = 1
ANY: Final = 2
PUB: Final = 4
SUB: Final = 8
ADMIN: Final = 16


class Right(Struct, frozen=True, eq=False):
    """What may be done to a resource: ``actions`` in the words of 5.x, of which one is enough; ``permission`` in those of 4.9.

    Each is there once, and equal to itself only: decisions are looked up by it.
    """

    actions: frozenset[str]
    permission: int
    or_consumer: bool = False
    """Whether it is enough to be a consumer of anything, unless the resource is denied by name."""


def _right(actions: str, permission: int, *, or_consumer: bool = False) -> Right:
    return Right(frozenset(actions.split()), permission, or_consumer)


PUBLISH: Final = _right("Pub", PUB)
REPLY: Final = _right("Pub", PUB, or_consumer=True)
CONSUME: Final = _right("Sub", SUB)
CONSUME_OR_LOOK: Final = _right("Sub Get", SUB)
CONSUME_OR_UPDATE: Final = _right("Sub Update", SUB)
LOOK: Final = _right("Get", ANY)
LOOK_AT_GROUP: Final = _right("Get", SUB)
UPDATE_OWN: Final = _right("Update", SUB)
# In 4.9 the rest is for administrators.
CREATE: Final = _right("Create", ADMIN)
CREATE_OR_UPDATE: Final = _right("Create Update", ADMIN)
UPDATE: Final = _right("Update", ADMIN)
DELETE: Final = _right("Delete", ADMIN)
LOOK_AT_CLUSTER: Final = _right("Get", ADMIN)
CHANGE_CLUSTER: Final = _right("Update", ADMIN)


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
    """A name from a request, as a refusal repeats it: a peer does not choose how long our sentences are."""
    return name if len(name) <= 300 else f"{name[:300]}... ({len(name)} characters)"
