# SPDX-License-Identifier: Apache-2.0
"""The base class of typed headers: structs whose fields are sent as text under Java's field names (Java: CommandCustomHeader).
``command.header(Type)`` ignores unknown fields and raises ProtocolError for a required field that is missing or unreadable. Numbers are
checked against the Java type (Integer, Long), so they always fit into records and store."""

from __future__ import annotations

from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ExtHeader(msgspec.Struct, rename="camel"):
    """Base of the typed headers. Frequent headers override :meth:`to_ext` with explicit code for each field."""

    def to_ext(self) -> dict[str, str]:
        """The ext fields as texts: fields that are None are omitted, booleans are ``true`` and ``false``."""
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
