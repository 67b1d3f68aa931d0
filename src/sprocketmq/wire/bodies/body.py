# SPDX-License-Identifier: Apache-2.0
"""The base class of typed bodies (Java: RemotingSerializable), in fastjson's dialect of JSON; standard JSON is read, too."""

from __future__ import annotations

from enum import Enum
from typing import Self

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.text import fastjson


class Body(msgspec.Struct, rename="camel"):
    """Base of the typed bodies. Names are camelCase on the wire; a field that peers may omit has the default of Java's class."""

    def encode(self) -> bytes:
        """JSON in the dialect of fastjson, in UTF-8."""
        return fastjson.dumps(self)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """The body, with defaults for fields that are missing. Raises ProtocolError: the text is not JSON, or has another shape."""
        return fastjson.decode(data, cls)

    @classmethod
    def of_request(cls, data: bytes | bytearray | memoryview) -> Self:
        """As :meth:`decode`, of a body from a client: a long text must be standard JSON, which is fast to read. Raises ProtocolError,
        also if it is too long."""
        if len(data) > fastjson.MAX_REQUEST_BYTES:
            allowed = fastjson.MAX_REQUEST_BYTES
            raise ProtocolError(
                f"a {cls.__name__} has {len(data)} bytes, {allowed} are allowed; send several smaller requests"
            )
        return fastjson.decode(data, cls, fastjson.MAX_ODD_REQUEST_BYTES)


class NamedEnum(str, Enum):
    """An enum that is sent under Java's name of the value. A member equals that name, so fields that hold one are typed ``str``."""

    def __str__(self) -> str:
        return str(self.value)
