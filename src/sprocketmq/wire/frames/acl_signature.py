"""The signature of a request to a cluster with access control (Java: AclUtils, AclClientRPCHook; 4.9 and 5.x alike).

Signed is the text of all ext field *values*, sorted by their keys and without separators, followed by the body: HMAC-SHA1, as Base64. Any
change to ext fields after signing breaks it, so a request is signed last.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["ACCESS_KEY", "SECURITY_TOKEN", "SIGNATURE", "Credentials", "sign", "signed_fields"]

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


class Credentials(msgspec.Struct, frozen=True):
    """What a client signs its requests with. Its text never shows the secrets."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(access_key={self.access_key!r})"


def sign(ext_fields: Mapping[str, str], body: bytes | bytearray | memoryview, secret_key: str) -> str:
    """The signature of a request that has these ext fields (a Signature among them is left out) and this body."""
    # Java sorts by UTF-16 code units, as its strings compare.
    names = sorted(ext_fields)
    if not "".join(names).isascii():
        names.sort(key=lambda name: name.encode("utf-16-be"))
    text = "".join([ext_fields[name] for name in names if name != SIGNATURE])
    return base64.b64encode(hmac.digest(secret_key.encode(), text.encode() + body, "sha1")).decode()


def signed_fields(
    ext_fields: Mapping[str, str],
    body: bytes | bytearray | memoryview,
    access_key: str,
    secret_key: str,
    security_token: str | None = None,
) -> dict[str, str]:
    """The ext fields of a request with access key, token (when there is one) and signature added."""
    fields = {**ext_fields, ACCESS_KEY: access_key}
    if security_token is not None:
        fields[SECURITY_TOKEN] = security_token
    fields[SIGNATURE] = sign(fields, body, secret_key)
    return fields
