"""What a request says of its sender, as access control reads it: the access key, and whether a signature was made with a key.

A RawCommand keeps its typed header: the texts that were signed come straight from its raw header, in the order in which they were signed,
without a dictionary. That is so for a JSON header with no fields but the declared ones and those of every request; of all others, and of
ordinary commands, the ext fields are taken.

Law: both ways give the same access key, signature and text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from sprocketmq.wire.frames.acl_signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, SigningKey, signed_text
from sprocketmq.wire.frames.command import SERIALIZE_JSON, Buffer, Command
from sprocketmq.wire.frames.raw_command import RawCommand

__all__ = ["SignedRequest", "signed_request"]

# A client may add this field after signing (Java: MixAll.UNIQUE_MSG_QUERY_FLAG).
_ADDED_AFTER_SIGNING: Final = "_UNIQUE_KEY_QUERY"
# Java: RpcRequestHeader, the base of all headers in 5.x.
_OF_EVERY_REQUEST: Final = ("bname", "lo", "ns", "nsd", "oway")


class SignedRequest(msgspec.Struct, gc=False):
    """One request; :func:`signed_request` makes it. The texts that were signed are its attributes, sorted by their names on the wire.

    An absent text is an empty one: neither adds anything to what is signed.
    """

    access_key: str = msgspec.field(default="", name=ACCESS_KEY)
    security_token: str = msgspec.field(default="", name=SECURITY_TOKEN)

    def is_signed_with(self, key: SigningKey, body: Buffer) -> bool:
        """Whether the request, which has this body, carries the signature that ``key`` makes."""
        texts = astuple(self)
        given: str = texts[-1]
        return given != "" and compare_digest(key.signature("".join(texts[:-1]), body), given.encode())


class _OfFields(SignedRequest, gc=False):
    """A request with any ext fields."""

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
    """What ``command`` says. It keeps its header."""
    if type(command) is RawCommand and command.serialize_type == SERIALIZE_JSON:
        raw, header_type = command.raw_header, type(command.typed_header)
        if raw is not None:
            decode = _decoders.get(header_type) or _new_decoder(header_type)
            try:
                found: SignedRequest = decode(raw).extFields
            except msgspec.MsgspecError:
                pass
            else:
                return found
    fields = command.fields
    return _OfFields(access_key=fields.get(ACCESS_KEY, ""), fields=fields)


_decoders: Final[dict[type[Any], Callable[[bytes], Any]]] = {}  # by the type of the header


def _new_decoder(header_type: type[Any]) -> Callable[[bytes], Any]:
    """What decodes a JSON header whose ``extFields`` are those of ``header_type``, as texts, the signature last.

    Raises MsgspecError when there are others, or no texts.
    """
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
    _decoders[header_type] = decode = msgspec.json.Decoder(header).decode
    return decode
