# SPDX-License-Identifier: Apache-2.0
"""The signature of a request to a cluster with access control (Java: AclUtils, AclClientRPCHook; the same in 4.9 and 5.x): HMAC-SHA1, as
Base64, of all ext field *values*, sorted by their keys and without separators, and the body. So signing is the last step of a request."""

from __future__ import annotations

import functools
import hashlib
from binascii import b2a_base64
from collections.abc import Mapping
from typing import Final

import msgspec

from sprocketmq.wire.frames.command import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

# RFC 2104: a key is padded to a block of the hash, and each of the two hashes begins with the block combined with one of these.
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


class Credentials(msgspec.Struct, frozen=True):
    """The keys with which a client signs its requests. Its text never shows the secrets."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(access_key={self.access_key!r})"


def signed_text(ext_fields: Mapping[str, str]) -> str:
    """The signed text of ext fields (without a Signature among them)."""
    # Java sorts by UTF-16 code units, as its strings compare.
    names = sorted(ext_fields)
    if not "".join(names).isascii():
        names.sort(key=lambda name: name.encode("utf-16-be"))
    return "".join([ext_fields[name] for name in names if name != SIGNATURE])


class SigningKey:
    """A prepared secret key: the two hashes of HMAC already contain it, which saves a third of the work for each message."""

    __slots__ = ("_new_inner", "_new_outer")

    def __init__(self, secret_key: str) -> None:
        key = secret_key.encode()
        if len(key) > _BLOCK_BYTES:
            key = hashlib.sha1(key).digest()
        block = key.ljust(_BLOCK_BYTES, b"\0")
        self._new_inner = hashlib.sha1(block.translate(_INNER)).copy
        self._new_outer = hashlib.sha1(block.translate(_OUTER)).copy

    def signature(self, text: str, body: bytes | bytearray | memoryview) -> bytes:
        inner, outer = self._new_inner(), self._new_outer()
        inner.update(text.encode())
        inner.update(body)
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)


@functools.lru_cache(maxsize=16)  # a process signs with few keys, but each of its requests
def signing_key(secret_key: str) -> SigningKey:
    return SigningKey(secret_key)


def sign(ext_fields: Mapping[str, str], body: bytes | bytearray | memoryview, secret_key: str) -> str:
    return signing_key(secret_key).signature(signed_text(ext_fields), body).decode()


def signed_fields(
    ext_fields: Mapping[str, str],
    body: bytes | bytearray | memoryview,
    access_key: str,
    secret_key: str,
    security_token: str | None = None,
) -> dict[str, str]:
    """The ext fields of a request with access key, token (if there is one) and signature added."""
    fields = {**ext_fields, ACCESS_KEY: access_key}
    if security_token is not None:
        fields[SECURITY_TOKEN] = security_token
    fields[SIGNATURE] = sign(fields, body, secret_key)
    return fields
