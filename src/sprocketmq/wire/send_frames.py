# SPDX-License-Identifier: Apache-2.0
"""The two frames of a send, written and read without a Command between (Java: RemotingCommand of SEND_MESSAGE_V2 and its answer). All but
six values of the request, or seven with a signature, stay the same from message to message of one queue, and are written once.

1. A template's frame is, byte for byte, what ``encode_command`` makes of the same header with the same added fields and signature.
2. An answer is read here as ``decode_command`` and ``Command.header`` read it, or not at all: after None, call them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from sprocketmq.wire.codes import ANNOUNCED_VERSION
from sprocketmq.wire.frames.command import SIGNATURE
from sprocketmq.wire.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader

if TYPE_CHECKING:
    from sprocketmq.wire.frames.acl_signature import Credentials

STORED_ANSWER_BEGINS: Final = b'0,"e'
"""The four bytes behind ``{"code":`` of an answer with code 0 and fields; other answers that begin with them differ in their fields."""

_encode: Final = msgspec.json.Encoder().encode
_pack_lengths: Final = struct.Struct(">ii").pack
_header_length: Final = struct.Struct(">I").unpack_from


# The fields that differ from send to send, and how each is written between the others.
_VARYING: Final = {"f": '"%d"', "g": '"%d"', "h": '"%d"', "i": "%b", SIGNATURE: '"%b"'}
_NOTHING: Final[Mapping[str, str]] = {}


class SendTemplate:
    """The request of messages to one queue. ``code``: SEND_MESSAGE_V2, SEND_BATCH_MESSAGE or SEND_REPLY_MESSAGE_V2. ``header``: of any
    such message, not of a retry topic; only what stays the same is read of it. ``added``: further fields of each request, as those of a
    namespace of version 2."""

    __slots__ = ("_key", "_signed", "_text", "credentials")

    def __init__(
        self,
        code: int,
        header: SendMessageRequestHeaderV2,
        added: Mapping[str, str] = _NOTHING,
        credentials: Credentials | None = None,
    ) -> None:
        self.credentials = credentials
        fields = {**header.to_ext(), **added}
        if credentials is not None:
            from sprocketmq.wire.frames.acl_signature import signed_fields, signed_text, signing_key

            fields = signed_fields(
                fields, b"", credentials.access_key, credentials.secret_key, credentials.security_token
            )
            # The order of the signed values is that of the names, so it is the same for each message.
            marked = {name: value.replace("%", "%%") for name, value in fields.items()}
            self._signed = signed_text({**marked, "f": "%d", "g": "%d", "h": "%d", "i": "%s"})
            self._key = signing_key(credentials.secret_key)
        written = [
            b'"%b":%b' % (name.encode(), _VARYING[name].encode()) if name in _VARYING else _pair(name, value)
            for name, value in fields.items()
        ]
        self._text = (
            b'{"code":%d,"extFields":{' % code
            + b",".join(written)
            + b'},"flag":0,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":'
            + b"%d}" % ANNOUNCED_VERSION
        )

    def frame(
        self, opaque: int, sys_flag: int, born_timestamp_ms: int, flag: int, properties_text: str, body: bytes
    ) -> bytes:
        properties = _encode(properties_text)
        if self.credentials is None:
            header = self._text % (sys_flag, born_timestamp_ms, flag, properties, opaque)
        else:
            signature = self._key.signature(self._signed % (sys_flag, born_timestamp_ms, flag, properties_text), body)
            header = self._text % (sys_flag, born_timestamp_ms, flag, properties, signature, opaque)
        size = len(header)
        return _pack_lengths(4 + size + len(body), size) + header + body


def _pair(name: str, value: str) -> bytes:
    return b'"%b":%b' % (name.encode(), _encode(value).replace(b"%", b"%%"))


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class StoredAnswer(msgspec.Struct):
    """The answer to a send that was stored without any error: ``code`` is 0. ``extFields``: its header."""

    code: _Int32
    extFields: SendMessageResponseHeader  # noqa: N815 - wire name
    flag: _Int32
    opaque: _Int32


_decode: Final = msgspec.json.Decoder(StoredAnswer, strict=False).decode


def read_stored_answer(data: memoryview, at: int, stop: int) -> StoredAnswer | None:
    """The frame at ``data[at:stop]`` (without its length word), if it is such an answer, with a JSON header and without a body."""
    if stop - at < 4 or _header_length(data, at)[0] != stop - at - 4:
        return None
    try:
        answer = _decode(data[at + 4 : stop])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return answer if answer.code == 0 and answer.flag & 1 else None
