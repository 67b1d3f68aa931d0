"""The rights that a request needs, as its declaration states them: which rights on what, and where the request names it.

``core.access.need_readers`` reads the names from a request. A right is stated for both generations of access control: actions of 5.x, of
which one is enough, and a permission of 4.9 (Java: Permission, Action).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from sprocketmq.wire.frames.command import Command

__all__ = [
    "ADMIN",
    "ANY",
    "ANY_ACCOUNT",
    "ANY_ADDRESS",
    "CHANGE_CLUSTER",
    "CONSUME",
    "CONSUME_OR_LOOK",
    "CONSUME_OR_UPDATE",
    "CREATE",
    "CREATE_OR_UPDATE",
    "DELETE",
    "DENY",
    "FROM_ITS_BROKER",
    "LOOK",
    "LOOK_AT_CLUSTER",
    "LOOK_AT_GROUP",
    "NAMED_ADDRESS",
    "PUB",
    "PUBLISH",
    "REPLY",
    "SUB",
    "UPDATE",
    "UPDATE_OWN",
    "AccessNeeds",
    "AddressNeed",
    "BodyNeed",
    "ClusterNeed",
    "FieldNeed",
    "Names",
    "RecordNeed",
    "ReplyNeed",
    "Right",
    "cluster",
    "group",
    "groups",
    "in_body",
    "record",
    "reply",
    "topic",
    "topics",
]

# Permissions of 4.9 as bits (Java: Permission). ADMIN is ours: the account must be an administrator's.
DENY: Final = 1
ANY: Final = 2
PUB: Final = 4
SUB: Final = 8
ADMIN: Final = 16


class Right(Struct, frozen=True, eq=False):
    """What may be done to a resource: ``actions`` of 5.x, of which one is enough, and the ``permission`` of 4.9.

    There is one object for each right, compared by identity: decisions are looked up by it.
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

# ("topic", name) or ("group", name) for each name in a body; None where the body leaves it out.
Names = Iterable[tuple[str, "str | None"]]


class FieldNeed(Struct, frozen=True):
    """A right on the ``topic`` or ``group`` (``kind``) that a header field names, by its name on the wire."""

    kind: str
    field: str
    right: Right
    optional: bool = False
    """Whether the handler knows what to do without."""
    separator: str = ""
    """Between names, where the field holds any number of them."""


class ReplyNeed(Struct, frozen=True):
    """A reply of request-reply to the topic in ``field``.

    The broker's own topic for replies is open to whoever consumes, as with Apache.
    """

    field: str

    @property
    def kind(self) -> str:
        return "topic"


class BodyNeed(Struct, frozen=True):
    """A right on each topic and group in the body. ``names`` decodes it as the handler does, and raises ProtocolError as that."""

    names: Callable[[bytes], Names]
    right: Right
    optional: bool = False
    """Whether the body may name nothing."""


class RecordNeed(Struct, frozen=True):
    """A right on the topic of the message whose record begins at a commit log offset.

    Where none begins, the handler finds nothing to do either.
    """

    offset: Callable[[Command], int]
    right: Right


class ClusterNeed(Struct, frozen=True):
    right: Right


class AddressNeed(Struct, frozen=True):
    """For a name server, which has no accounts: ``brokerAllowedAddresses`` says who may change anything; anybody may read."""

    changes: bool


AccessNeeds = tuple[FieldNeed | ReplyNeed | BodyNeed | RecordNeed | ClusterNeed | AddressNeed, ...]

# Nothing but an account: what the request touches is its sender's own, or nobody's.
ANY_ACCOUNT: Final[AccessNeeds] = ()
# Of a client: it takes requests on the connections that it opened itself.
FROM_ITS_BROKER: Final[AccessNeeds] = ()
ANY_ADDRESS: Final[AccessNeeds] = (AddressNeed(changes=False),)
NAMED_ADDRESS: Final[AccessNeeds] = (AddressNeed(changes=True),)


def topic(field: str, right: Right, *, optional: bool = False) -> AccessNeeds:
    return (FieldNeed("topic", field, right, optional),)


def group(field: str, right: Right, *, optional: bool = False) -> AccessNeeds:
    return (FieldNeed("group", field, right, optional),)


def topics(field: str, separator: str, right: Right) -> AccessNeeds:
    return (FieldNeed("topic", field, right, True, separator),)


def groups(field: str, separator: str, right: Right) -> AccessNeeds:
    return (FieldNeed("group", field, right, True, separator),)


def reply(field: str) -> AccessNeeds:
    return (ReplyNeed(field),)


def in_body(names: Callable[[bytes], Names], right: Right, *, optional: bool = False) -> AccessNeeds:
    return (BodyNeed(names, right, optional),)


def record(offset: Callable[[Command], int], right: Right) -> AccessNeeds:
    return (RecordNeed(offset, right),)


def cluster(right: Right) -> AccessNeeds:
    return (ClusterNeed(right),)
