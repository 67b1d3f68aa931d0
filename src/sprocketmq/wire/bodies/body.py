"""What all typed bodies share (Java: RemotingSerializable): ``body.encode()`` writes the dialect, ``Type.decode(data)`` reads both."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.text import fastjson

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Body", "NamedEnum"]


class Body(msgspec.Struct, rename="camel"):
    """Base of the typed bodies: camelCase on the wire, every field with the default of Java's class where a peer may leave it out."""

    def encode(self) -> bytes:
        """The JSON text in the dialect of fastjson: see ``wire.text.fastjson``.

        Returns:
            UTF-8.
        """
        return fastjson.dumps(self)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """The body in ``data``.

        Args:
            data: JSON as fastjson writes it.

        Returns:
            It, with defaults for what a peer left out.

        Raises:
            ProtocolError: it is no JSON, or not of this shape.
        """
        return fastjson.decode(data, cls)

    @classmethod
    def of_request(cls, data: bytes | bytearray | memoryview) -> Self:
        """The body in ``data`` of a request. A long text must be standard JSON, which is fast to read.

        Args:
            data: JSON as fastjson writes it.

        Returns:
            The body, with defaults for fields that are missing.

        Raises:
            ProtocolError: it is too long, not JSON, or has another shape.
        """
        if len(data) > fastjson.MAX_REQUEST_BYTES:
            allowed = fastjson.MAX_REQUEST_BYTES
            raise ProtocolError(
                f"a {cls.__name__} has {len(data)} bytes, {allowed} are allowed; ask several times with less"
            )
        return fastjson.decode(data, cls, fastjson.MAX_ODD_REQUEST_BYTES)


class NamedEnum(str, Enum):
    """An enum that is sent by Java's name for the value. It equals that name, so fields that hold one are typed ``str``."""

    def __str__(self) -> str:
        return str(self.value)
