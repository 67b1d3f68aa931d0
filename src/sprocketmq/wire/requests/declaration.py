"""The declaration of a request: see the package."""

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

__all__ = [
    "AnyRequest",
    "BinaryBody",
    "JsonList",
    "JsonObject",
    "MessageBody",
    "Peer",
    "PropertiesText",
    "Records",
    "Request",
]


class Peer(Flag):
    """Who answers a request."""

    NOBODY = 0
    """No program of ours: it is only sent."""
    BROKER = auto()
    NAME_SERVER = auto()
    CLIENT = auto()


class Records(Body):
    """Message records, one behind the other, as the store has them (see ``wire.records.record``). No JSON."""


class MessageBody(Body):
    """The body of one message, or of a batch: bytes of the application. No JSON."""


class PropertiesText(Body):
    """Java's properties, ``key=value`` by line (see ``wire.text.java_properties``). No JSON."""


class JsonList(Body):
    """A JSON array, where the other classes are objects."""


class JsonObject(Body):
    """A JSON object for people to look at."""


class BinaryBody(Body):
    """Numbers at their places. No JSON."""


_UNSET: Final[Any] = None


class Request(Struct, Generic[H, A, B], frozen=True, eq=False, kw_only=True):
    """One request of the protocol.

    Attributes:
        code: its number and its name.
        served_by: who has a handler for it. Start-up refuses one who does not, and one with handlers for anything else.
        access: what its sender needs, in both generations of access control. None: nobody has said, and no server starts with that.
        header: the typed header of the request, None without.
        body: what its body is, None without.
        answer_header: the typed header of a successful answer, None without.
        answer_body: what a successful answer brings as its body, None without.
        oneway: whether official clients send it without waiting for an answer, always or at times.
        changes_tables: whether it changes what a slave copies; a handover refuses it, since the change might be missing there.
    """

    code: RequestCode
    served_by: Peer
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
        """A new request."""
        return request(self.code, header, body, oneway=oneway)

    def answer_header_in(self, answer: Command) -> A:
        """The header of a successful answer. Raises ProtocolError."""
        assert self.answer_header is not None
        return answer.header(self.answer_header)

    def answer_body_in(self, answer: Command) -> B:
        """The body of a successful answer. Raises ProtocolError."""
        assert self.answer_body is not None
        return self.answer_body.decode(answer.body)


AnyRequest = Request[Any, Any, Any]
