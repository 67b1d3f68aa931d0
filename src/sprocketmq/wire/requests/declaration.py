# SPDX-License-Identifier: Apache-2.0
"""The declaration of a request; see the docstring of the package."""

from __future__ import annotations

from enum import Flag, auto
from typing import TYPE_CHECKING, Any, Final, Generic

from msgspec import Struct

from sprocketmq.wire.bodies import Body
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Buffer, Command, request
from sprocketmq.wire.headers import ExtHeader
from sprocketmq.wire.requests.access import AccessNeeds

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    H = TypeVar("H", bound=ExtHeader, default=ExtHeader)
    A = TypeVar("A", bound=ExtHeader, default=ExtHeader)
    B = TypeVar("B", bound=Body, default=Body)
else:
    from typing import TypeVar

    H, A, B = TypeVar("H"), TypeVar("A"), TypeVar("B")


class Peer(Flag):
    NOBODY = 0
    """None of our programs: the request is only sent."""
    BROKER = auto()
    NAME_SERVER = auto()
    CLIENT = auto()


class Records(Body):
    """Not JSON: message records, one after the other, as in the store (see ``wire.records.record``)."""


class MessageBody(Body):
    """Not JSON: the body of one message, or of a batch, which are bytes of the application."""


class PropertiesText(Body):
    """Not JSON: Java's properties, ``key=value`` in each line (see ``wire.text.java_properties``)."""


class JsonList(Body):
    """A JSON array; the other JSON bodies are objects."""


class JsonObject(Body):
    """A JSON object without a fixed shape, for people to read."""


class BinaryBody(Body):
    """Not JSON: numbers at fixed places."""


_UNSET: Final[Any] = None


class Request(Struct, Generic[H, A, B], frozen=True, eq=False, kw_only=True):
    """One request of the protocol.

    Attributes:
        served_by: the peer with a handler for it. A server does not start without this handler, or with undeclared handlers.
        access: the rights that its sender needs, in both generations of access control. A server does not start if this is None.
        header, body, answer_header, answer_body: their types; the last two are those of a successful answer.
        oneway: whether official clients send it without waiting for an answer, always or sometimes.
        changes_tables: whether it changes a table that slaves copy. A handover refuses it, because the slave might miss the change.
    """

    code: RequestCode
    served_by: Peer = Peer.BROKER
    access: AccessNeeds | None = None
    header: type[H] | None = _UNSET
    body: type[Body] | None = None
    answer_header: type[A] | None = _UNSET
    answer_body: type[B] | None = _UNSET
    oneway: bool = False
    changes_tables: bool = False

    @property
    def name(self) -> str:
        return self.code.name

    def command(self, header: H | None = None, body: Buffer = b"", *, oneway: bool = False) -> Command:
        return request(self.code, header, body, oneway=oneway)

    def answer_header_in(self, answer: Command) -> A:
        assert self.answer_header is not None
        return answer.header(self.answer_header)

    def answer_body_in(self, answer: Command) -> B:
        assert self.answer_body is not None
        return self.answer_body.decode(answer.body)


AnyRequest = Request[Any, Any, Any]
