"""The short way into a pull: PULL_MESSAGE of a JSON client, its header read in one step.

    frame --> typed header (one decode, no dict) --> handlers.pull, as on the long way --> answer

Law: what goes this way is answered as on the long way; a header that cannot be read at once is left to it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from sprocketmq.broker.handlers.pull import answer_pull
from sprocketmq.net.connection import Connection
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.command import Command, encode_command
from sprocketmq.wire.headers import PullMessageRequestHeader

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["PlainPulls"]

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_WORD = struct.Struct(">i").unpack_from


class _Head(msgspec.Struct):
    code: int
    extFields: PullMessageRequestHeader  # noqa: N815 - wire name
    flag: _Int32 = 0
    language: str = "JAVA"
    opaque: _Int32 = 0
    remark: str = ""
    version: _Int32 = 0


_decode = msgspec.json.Decoder(_Head, strict=False).decode


class PlainPulls:
    """``pull`` is the short way; ``now_ms`` is set before each read."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.now_ms = 0

    def pull(self, connection: Connection, view: memoryview, at: int, stop: int) -> bytes | None:
        (header_bytes,) = _WORD(view, at)  # above 24 bits: no JSON
        if not 0 < header_bytes <= stop - at - 4:
            return None
        try:
            head = _decode(view[at + 4 : at + 4 + header_bytes])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if head.code != _PULL or head.flag:
            return None
        command = Command(_PULL, head.opaque, 0, head.version, head.language)
        answer = answer_pull(self._broker, connection, command, head.extFields, self.now_ms, may_park=True)
        return b"" if answer is None else encode_command(answer)
