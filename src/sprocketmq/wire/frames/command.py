# SPDX-License-Identifier: Apache-2.0
"""RemotingCommand: one request or response, and its two header encodings (Java: RemotingCommand, RocketMQSerializable).

    0        4        8                  8+headerLen         integers are big-endian
    | length | t  hl  | header           | body ...
    length    int32, bytes that follow it (4 + headerLen + bodyLen)
    t         1 byte, header encoding: 0 JSON, 1 ROCKETMQ (binary)
    hl        3 bytes, headerLen
    ROCKETMQ  code i16, language i8, version i16, opaque i32, flag i32, remark(i32 len), ext(i32 len): key(i16 len) value(i32 len) ...

The 16-bit ``code`` of ROCKETMQ cannot carry the POP codes, so our requests never use it; we only read and answer it. A peer answers in
its own configured encoding, so both are decoded on every connection at any time.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Protocol, TypeVar

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.codes import ANNOUNCED_VERSION, LANGUAGE_CODES, LANGUAGE_NAMES

# Ext fields of a signed request (Java: SessionCredentials). They are here because a client that signs nothing loads no hashes.
ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"

FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2

# The encodings of a header (Java: SerializeType).
SERIALIZE_JSON: Final = 0
SERIALIZE_ROCKETMQ: Final = 1

Buffer = bytes | bytearray | memoryview


class Header(Protocol):
    """A typed header (see ``wire/headers``): any object that converts itself into ext fields."""

    def to_ext(self) -> dict[str, str]: ...


H = TypeVar("H")


class Command(msgspec.Struct):
    """One request or response.

    Attributes:
        code: request code, or response code of an answer.
        opaque: number that pairs a response with its request; each side counts its own requests.
        flag: bit 0 response, bit 1 one-way (no answer is expected, not even an error).
        version: ``MQVersion`` ordinal of the sender.
        remark: text for people; holds the error of a failed request.
        ext_fields: the typed header as strings; read with :meth:`header`.
        body: empty when absent: the wire cannot tell the two apart.
        serialize_type: encoding this command was received in, or will be written in.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    version: int = ANNOUNCED_VERSION
    language: str = "PYTHON"
    remark: str | None = None
    ext_fields: dict[str, str] = {}
    body: Buffer = b""
    serialize_type: int = 0

    raw_header: ClassVar[bytes | None] = None
    """The written header, if it exists already (``RawCommand``)."""

    typed_header: ClassVar[Any] = None
    """The header of a request as its declared type, if it was decoded into that (``RawCommand``)."""

    @property
    def is_oneway(self) -> bool:
        return self.flag & FLAG_ONEWAY != 0

    @property
    def fields(self) -> Mapping[str, str]:
        """The ext fields for reading only, so that a command can keep its header in the received form (``RawCommand``)."""
        return self.ext_fields

    def header(self, header_type: type[H]) -> H:
        """Decode the ext fields as ``header_type``. Extra fields are ignored; ProtocolError names a missing or unreadable one."""
        try:
            return msgspec.convert(self.ext_fields, header_type, strict=False)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"request code {self.code}: {header_type.__name__}: {error}") from error

    def header_bytes(self) -> bytes:
        """Encode the header. Raises ProtocolError if the encoding cannot carry it."""
        return _encode_binary(self) if self.serialize_type == SERIALIZE_ROCKETMQ else _encode_text(self)


def request(code: int, header: Header | None = None, body: Buffer = b"", *, oneway: bool = False) -> Command:
    """Make a request; the connection that sends it sets its opaque."""
    return Command(
        code=int(code),
        flag=FLAG_ONEWAY if oneway else 0,
        ext_fields=header.to_ext() if header is not None else {},
        body=body,
    )


def response(
    to: Command, code: int = 0, remark: str | None = None, header: Header | None = None, body: Buffer = b""
) -> Command:
    """Make the answer to ``to``: the same opaque, response flag set."""
    return Command(
        code=int(code),
        opaque=to.opaque,
        flag=FLAG_RESPONSE,
        remark=remark,
        ext_fields=header.to_ext() if header is not None else {},
        body=body,
        serialize_type=to.serialize_type,
    )


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _WrittenHeader(msgspec.Struct):
    """Keys in alphabetical order, as fastjson writes them; an absent remark or ext map is left out."""

    code: int
    extFields: dict[str, str] | msgspec.UnsetType  # noqa: N815 - wire names
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str  # noqa: N815
    version: int


class _ReadHeader(msgspec.Struct):
    """The fields of a JSON header without nulls, which is nearly every header."""

    code: _Int32
    extFields: dict[str, str] = {}  # noqa: N815 - wire name; msgspec copies an empty default
    flag: _Int32 = 0
    language: str = "JAVA"
    opaque: _Int32 = 0
    remark: str | None = None
    version: _Int32 = 0


class _ReadHeaderWithNulls(msgspec.Struct):
    """The same with nulls, or numbers in place of texts, as Apache's C++ client writes them: fastjson converts them, objects and arrays
    to texts."""

    code: _Int32
    extFields: dict[str, Any] | None = None  # noqa: N815
    flag: _Int32 | None = 0
    language: str | None = "JAVA"
    opaque: _Int32 | None = 0
    remark: str | None = None
    version: _Int32 | None = 0


_decode_json = msgspec.json.Decoder(_ReadHeader).decode
_decode_json_with_nulls = msgspec.json.Decoder(_ReadHeaderWithNulls, strict=False).decode
_encode_json = msgspec.json.Encoder().encode
_FIXED = struct.Struct(">hbhii")
BINARY_HEAD: Final = struct.Struct(">hbhiiii")
"""The begin of a ROCKETMQ header without a remark: code, language, version, opaque, flag, 0 for the remark, bytes of the ext fields."""
PREFIX: Final = struct.Struct(">ii")
"""What stands in front of a header: the length of the frame without this number, and the encoding and length of the header."""
_pack_prefix = PREFIX.pack
_I32 = struct.Struct(">i")
_I16 = struct.Struct(">h")
TYPE_SHIFT = 24
_HEADER_LENGTH_MASK = 0xFFFFFF


def encode_command(command: Command) -> bytes:
    """Return the whole frame, body included, ready to write."""
    header, body = command.raw_header or command.header_bytes(), command.body
    size = len(header)
    word = (command.serialize_type << TYPE_SHIFT) | size
    return _pack_prefix(4 + size + len(body), word) + header + body if body else _pack_prefix(4 + size, word) + header


def _encode_text(command: Command) -> bytes:
    remark = command.remark
    return _encode_json(
        _WrittenHeader(
            command.code,
            command.ext_fields or msgspec.UNSET,
            command.flag,
            command.language,
            command.opaque,
            msgspec.UNSET if remark is None else remark,
            "JSON",
            command.version,
        )
    )


def _encode_binary(command: Command) -> bytes:
    if not -0x8000 <= command.code <= 0x7FFF:
        raise ProtocolError(
            f"code {command.code} does not fit the 16 bits of a ROCKETMQ header; send it with a JSON header"
        )
    ext = b"".join([binary_field(key, value.encode()) for key, value in command.ext_fields.items()])
    remark, language = (command.remark or "").encode(), LANGUAGE_CODES.get(command.language, LANGUAGE_CODES["OTHER"])
    fixed = _FIXED.pack(command.code, language, command.version & 0x7FFF, command.opaque, command.flag)
    return b"".join((fixed, _I32.pack(len(remark)), remark, _I32.pack(len(ext)), ext))


def binary_field(key: str, value: bytes) -> bytes:
    key_bytes = key.encode()
    return _I16.pack(len(key_bytes)) + key_bytes + _I32.pack(len(value)) + value


def decode_command(frame: memoryview, max_header_bytes: int = _HEADER_LENGTH_MASK) -> Command:
    """One frame without its length word (as FrameDecoder cuts it): ``t hl header body``. The body stays a view of ``frame``. Raises
    ProtocolError (the header length, encoding or content is not of the protocol)."""
    if len(frame) < 4:
        raise ProtocolError(f"a frame of {len(frame)} bytes has no room for its header length")
    (word,) = _I32.unpack_from(frame, 0)
    serialize_type, header_length = (word >> TYPE_SHIFT) & 0xFF, word & _HEADER_LENGTH_MASK
    if header_length > len(frame) - 4:
        raise ProtocolError(f"header length {header_length} exceeds the frame's {len(frame) - 4} bytes")
    if header_length > max_header_bytes:
        raise ProtocolError(f"a header has {header_length} bytes, {max_header_bytes} are allowed")
    return decode_header(serialize_type, frame[4 : 4 + header_length], frame[4 + header_length :])


def decode_header(serialize_type: int, header: bytes | memoryview, body: memoryview) -> Command:
    """A command of its two parts. Raises ProtocolError."""
    if serialize_type == SERIALIZE_JSON:
        return _decode_text(header, body)
    if serialize_type == SERIALIZE_ROCKETMQ:
        return _decode_binary(header, body)
    raise ProtocolError(f"header encoding {serialize_type} is unknown, 0 (JSON) or 1 (ROCKETMQ) are allowed")


def _decode_text(header: bytes | memoryview, body: memoryview) -> Command:
    try:
        text = _decode_json(header)
    except msgspec.ValidationError:
        return _decode_text_with_nulls(header, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the JSON header cannot be read: {error}") from error
    return Command(
        text.code,
        text.opaque,
        text.flag,
        text.version,
        text.language,
        text.remark,
        text.extFields,
        body,
        SERIALIZE_JSON,
    )


def _decode_text_with_nulls(header: bytes | memoryview, body: memoryview) -> Command:
    try:
        text = _decode_json_with_nulls(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the JSON header cannot be read: {error}") from error
    ext = {key: _as_text(value) for key, value in (text.extFields or {}).items() if value is not None}
    return Command(
        text.code,
        text.opaque or 0,
        text.flag or 0,
        text.version or 0,
        text.language or "OTHER",
        text.remark,
        ext,
        body,
        SERIALIZE_JSON,
    )


def _as_text(value: Any) -> str:
    if isinstance(value, dict | list):
        return _encode_json(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decode_binary(header: bytes | memoryview, body: memoryview) -> Command:
    data = bytes(header)  # no copy of bytes; a memoryview gives numbers and pieces at twice the time
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(data, 0)
        at = _FIXED.size
        (remark_length,) = _I32.unpack_from(data, at)
        remark, at = _text(data, at + 4, remark_length)
        (ext_length,) = _I32.unpack_from(data, at)
        at += 4
        if ext_length < 0 or at + ext_length > len(data):
            raise ProtocolError(f"ext length {ext_length} exceeds the header's {len(data)} bytes")
        ext = decode_fields(data, at, at + ext_length)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"the ROCKETMQ header cannot be read: {error}") from error
    name = LANGUAGE_NAMES.get(language, "OTHER")
    return Command(code, opaque, flag, version, name, remark or None, ext, body, SERIALIZE_ROCKETMQ)


def decode_fields(data: bytes, at: int, end: int) -> dict[str, str]:
    """The ext fields in ``data[at:end]``. The last one may reach into what follows. A loop with hardly a call: each request of a
    binary client has a dozen fields. Raises as bad bytes do: ProtocolError, struct.error, UnicodeDecodeError."""
    ext: dict[str, str] = {}
    limit, text = len(data), data.decode("latin-1")  # of which the pieces that are ASCII are taken as they are
    unpack_i32 = _I32.unpack_from
    while at < end:
        key_at = at + 2
        if key_at > limit:
            raise struct.error("a field is cut in its length")
        key_end = key_at + (data[at] << 8 | data[at + 1])
        if key_end - key_at > 0x7FFF or key_end > limit:
            _text(data, key_at, key_end - key_at if key_end - key_at <= 0x7FFF else key_end - key_at - 0x10000)
        (length,) = unpack_i32(data, key_end)
        value_at = key_end + 4
        at = value_at + length
        if length < 0 or at > limit:
            _text(data, value_at, length)
        key, value = text[key_at:key_end], text[value_at:at]
        if not value.isascii():
            value = data[value_at:at].decode()
        if not key.isascii():
            key = data[key_at:key_end].decode()
        if key and value:
            ext[key] = value
    return ext


def _text(header: bytes, at: int, length: int) -> tuple[str, int]:
    if length < 0 or at + length > len(header):
        raise ProtocolError(f"a text of {length} bytes at {at} exceeds the header's {len(header)} bytes")
    return str(header[at : at + length], "utf-8"), at + length
