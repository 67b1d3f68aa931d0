# SPDX-License-Identifier: Apache-2.0
"""The access key and the signature of a request, as access control reads them. A RawCommand keeps its typed header: the signed texts are
read directly from its raw header, in the order in which they were signed. That works for a JSON header that has only the declared fields
and the fields of every request; otherwise the ext fields are read, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import astuple

from sprocketmq.wire.frames.acl_signature import SigningKey, signed_text
from sprocketmq.wire.frames.command import ACCESS_KEY, SECURITY_TOKEN, SERIALIZE_JSON, SIGNATURE, Buffer, Command

# A client may add this field after signing (Java: MixAll.UNIQUE_MSG_QUERY_FLAG).
_ADDED_AFTER_SIGNING: Final = "_UNIQUE_KEY_QUERY"
# Java: RpcRequestHeader, the base of all headers in 5.x.
_OF_EVERY_REQUEST: Final = ("bname", "lo", "ns", "nsd", "oway")


class SignedRequest(msgspec.Struct, gc=False):
    """One request; :func:`signed_request` makes it. Its attributes are the signed texts, sorted by their names on the wire. An absent
    text is an empty one: neither changes the signed text."""

    access_key: str = msgspec.field(default="", name=ACCESS_KEY)
    security_token: str = msgspec.field(default="", name=SECURITY_TOKEN)

    def is_signed_with(self, key: SigningKey, body: Buffer) -> bool:
        texts = astuple(self)
        return compare_digest(key.signature("".join(texts[:-1]), body), texts[-1].encode())


class _OfFields(SignedRequest, gc=False):
    fields: Mapping[str, str] = {}

    def is_signed_with(self, key: SigningKey, body: Buffer) -> bool:
        fields, given = self.fields, self.fields.get(SIGNATURE, "").encode()
        if not given:
            return False
        if compare_digest(key.signature(signed_text(fields), body), given):
            return True
        if _ADDED_AFTER_SIGNING not in fields:
            return False
        signed = {name: value for name, value in fields.items() if name != _ADDED_AFTER_SIGNING}
        return compare_digest(key.signature(signed_text(signed), body), given)


def signed_request(command: Command) -> SignedRequest:
    """Read the access key and the signature of ``command``. The command keeps its header."""
    raw = command.raw_header
    if raw is not None and command.serialize_type == SERIALIZE_JSON:
        header_type = type(command.typed_header)
        decode = _decoders.get(header_type) or _new_decoder(header_type)
        try:
            return decode(raw).extFields
        except (msgspec.MsgspecError, RecursionError):
            pass
    fields = command.fields
    return _OfFields(access_key=fields.get(ACCESS_KEY, ""), fields=fields)


class _Header(Protocol):
    extFields: SignedRequest  # noqa: N815 - wire name


_decoders: Final[dict[type[Any], Callable[[bytes], _Header]]] = {}  # by the type of the header


def _new_decoder(header_type: type[Any]) -> Callable[[bytes], _Header]:
    """Return a decoder of JSON headers whose ``extFields`` are those of ``header_type``, as texts, the signature last. The decoder
    raises MsgspecError for other fields, and for values that are not texts."""
    names = sorted({*header_type.__struct_encode_fields__, *_OF_EVERY_REQUEST})
    assert names[0] > SECURITY_TOKEN > ACCESS_KEY
    texts = [(name, str, msgspec.field(default="")) for name in names]
    signed = msgspec.defstruct(
        "Signed",
        [*texts, ("signature", str, msgspec.field(default="", name=SIGNATURE))],
        bases=(SignedRequest,),
        forbid_unknown_fields=True,
        gc=False,
    )
    header = msgspec.defstruct("Header", [("extFields", signed)], gc=False)
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(header).decode
    _decoders[header_type] = decode
    return decode
