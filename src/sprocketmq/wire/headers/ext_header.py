"""The base class of typed headers: structs whose fields are sent as text under Java's field names (Java: CommandCustomHeader).

A header is read with ``command.header(Type)``. Unknown fields are ignored; a missing required field, or one that cannot be read, is a
ProtocolError. Numbers are checked against the Java type (Integer, Long), so they always fit the record and the store.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = ["ExtHeader", "Int32", "Int64"]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ExtHeader(msgspec.Struct, rename="camel"):
    """Base of the typed headers. Hot headers override :meth:`to_ext` with the dict written out."""

    def to_ext(self) -> dict[str, str]:
        """The ext fields: None is left out, booleans are ``true`` and ``false``."""
        ext: dict[str, str] = {}
        for field, name in zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True):
            value = getattr(self, field)
            if value is None:
                continue
            if value is True:
                ext[name] = "true"
            elif value is False:
                ext[name] = "false"
            else:
                ext[name] = str(value)
        return ext
