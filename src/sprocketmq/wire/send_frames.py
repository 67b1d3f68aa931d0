# SPDX-License-Identifier: Apache-2.0
"""The two frames of a send, written and read without a Command between (Java: RemotingCommand of SEND_MESSAGE_V2 and its answer).

All but six values of a send's request stay the same from message to message of one queue: they are written once, and the six are put
between. The answer of a send that was stored is read straight into its typed header.

Laws
1. A template's frame is, byte for byte, what ``encode_command`` makes of the same header.
2. An answer is read here as ``decode_command`` and ``Command.header`` read it, or not at all: None means that they are to be asked.
"""

from __future__ import annotations

import struct
from typing import Annotated, Final

import msgspec

from sprocketmq.wire.codes import ANNOUNCED_VERSION
from sprocketmq.wire.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader

__all__ = ["STORED_ANSWER_BEGINS", "SendTemplate", "StoredAnswer", "read_stored_answer"]

STORED_ANSWER_BEGINS: Final = b'0,"e'
"""The four bytes behind ``{"code":`` of an answer with code 0 and fields; what else begins so is told apart by its fields."""

_encode: Final = msgspec.json.Encoder().encode
_pack_lengths: Final = struct.Struct(">ii").pack
_header_length: Final = struct.Struct(">I").unpack_from


class SendTemplate:
    """The request of messages to one queue.

    Args:
        code: SEND_MESSAGE_V2, SEND_BATCH_MESSAGE or SEND_REPLY_MESSAGE_V2.
        header: of any such message; only what stays the same is read of it: all but ``sys_flag``, ``born_timestamp``, ``flag`` and
            ``properties``. For a retry topic it would not stay the same.
    """

    __slots__ = ("_text",)

    def __init__(self, code: int, header: SendMessageRequestHeaderV2) -> None:
        ext = header.to_ext()
        before = b",".join([_pair(name, ext[name]) for name in "abcde"])
        behind = b",".join([_pair(name, ext[name]) for name in "jklmn" if name in ext])
        self._text = (
            b'{"code":%d,"extFields":{' % code
            + before
            + b',"f":"%d","g":"%d","h":"%d","i":%b,'
            + behind
            + b'},"flag":0,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":'
            + b"%d}" % ANNOUNCED_VERSION
        )

    def frame(
        self, opaque: int, sys_flag: int, born_timestamp_ms: int, flag: int, properties_text: str, body: bytes
    ) -> bytes:
        """The whole frame, ready to write."""
        header = self._text % (sys_flag, born_timestamp_ms, flag, _encode(properties_text), opaque)
        size = len(header)
        return _pack_lengths(4 + size + len(body), size) + header + body


def _pair(name: str, value: str) -> bytes:
    """One field, ready to stand in a template."""
    return b'"%b":%b' % (name.encode(), _encode(value).replace(b"%", b"%%"))


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class StoredAnswer(msgspec.Struct):
    """The answer to a send that was stored, without a "but": ``code`` is 0.

    Attributes:
        extFields: its header.
    """

    code: _Int32
    extFields: SendMessageResponseHeader  # noqa: N815 - wire name
    flag: _Int32
    opaque: _Int32


_decode: Final = msgspec.json.Decoder(StoredAnswer, strict=False).decode


def read_stored_answer(read: memoryview, at: int, stop: int) -> StoredAnswer | None:
    """The frame at ``read[at:stop]`` (without its length word), if it is such an answer, with a JSON header and without a body."""
    if stop - at < 4 or _header_length(read, at)[0] != stop - at - 4:
        return None
    try:
        answer = _decode(read[at + 4 : stop])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return answer if answer.code == 0 and answer.flag & 1 else None
