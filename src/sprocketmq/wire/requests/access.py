# SPDX-License-Identifier: Apache-2.0
"""The rights that a request needs, as its declaration states them: which right on which resource, and where the request names it. A
right is stated for both generations of access control: actions of 5.x, one of which is enough, and a permission of 4.9 (Java:
Permission, Action)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from sprocketmq.wire.frames.command import Command

# Permissions of 4.9 as bits (Java: Permission). ADMIN is our own: the account must be an administrator's.
DENY: Final = 1
ANY: Final = 2
PUB: Final = 4
SUB: Final = 8
ADMIN: Final = 16


class Right(Struct, frozen=True, eq=False):
    """``actions`` of 5.x, one of which is enough, and the ``permission`` of 4.9. There is one object for each right, compared by
    identity: it is a part of the key of cached decisions."""

    actions: frozenset[str]
    permission: int
    or_consumer: bool = False
    """Whether a right to consume any resource is enough, unless this resource is denied by name."""


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
# In 4.9 only administrators have the other rights.
CREATE: Final = _right("Create", ADMIN)
CREATE_OR_UPDATE: Final = _right("Create Update", ADMIN)
UPDATE: Final = _right("Update", ADMIN)
DELETE: Final = _right("Delete", ADMIN)
LOOK_AT_CLUSTER: Final = _right("Get", ADMIN)
CHANGE_CLUSTER: Final = _right("Update", ADMIN)

# ("topic", name) or ("group", name) for each name in a body; None if the body omits it.
Names = Iterable[tuple[str, "str | None"]]


class FieldNeed(Struct, frozen=True):
    """A right on the ``topic`` or ``group`` (``kind``) that a header field names; ``field`` is its name on the wire."""

    kind: str
    field: str
    right: Right
    optional: bool = False
    """Whether the handler accepts a request without the field."""
    separator: str = ""
    """The separator between names, if the field holds several."""


class ReplyNeed(Struct, frozen=True):
    """The right to send a reply of request-reply to the topic in ``field``. The broker's own topic for replies is open to all, as in
    Apache."""

    field: str

    @property
    def kind(self) -> str:
        return "topic"


class BodyNeed(Struct, frozen=True):
    """A right on each topic and group in the body. ``names`` decodes the body, and raises ProtocolError, as the handler does."""

    names: Callable[[bytes], Names]
    right: Right
    optional: bool = False
    """Whether the body may name no topic and no group."""


class RecordNeed(Struct, frozen=True):
    """A right on the topic of the message whose record begins at a commit log offset. If none does, the handler finds none either."""

    offset: Callable[[Command], int]
    right: Right


class ClusterNeed(Struct, frozen=True):
    right: Right


class AddressNeed(Struct, frozen=True):
    """For a name server, which has no accounts: only ``brokerAllowedAddresses`` may change anything; reading is open to all."""

    changes: bool


AccessNeeds = tuple[FieldNeed | ReplyNeed | BodyNeed | RecordNeed | ClusterNeed | AddressNeed, ...]

# An account is enough: the request concerns only its sender's own data, or no data at all.
ANY_ACCOUNT: Final[AccessNeeds] = ()
# For a client, which gets requests only on connections that it has opened itself.
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
