"""RemotingCommand: one request or response, and its two header encodings (Java: RemotingCommand, RocketMQSerializable).

Frame on the wire, all integers big-endian::

    0        4        8                  8+headerLen
    | length | t  hl  | header           | body ...
    length    int32, bytes that follow it (4 + headerLen + bodyLen)
    t         1 byte, header encoding: 0 JSON, 1 ROCKETMQ (binary)
    hl        3 bytes, headerLen

The ROCKETMQ header is ``code i16, language i8, version i16, opaque i32, flag i32, remark(i32 len), ext(i32 len)`` and ext is a run of
``key(i16 len) value(i32 len)``; its 16-bit ``code`` cannot carry the POP codes, so it is never offered, only understood and mirrored.
A peer answers in its own configured encoding, not in that of the request, so both are decoded on every connection at any time.
"""

from __future__ import annotations

import struct
from typing import Annotated, Final, Protocol, TypeVar

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.codes import ANNOUNCED_VERSION, LANGUAGE_CODES, LANGUAGE_NAMES

__all__ = [
    "FLAG_ONEWAY",
    "FLAG_RESPONSE",
    "Command",
    "Header",
    "decode_command",
    "encode_command",
    "request",
    "response",
]

FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2

Buffer = bytes | bytearray | memoryview


class Header(Protocol):
    """A typed header (see ``wire/headers``): anything that turns itself into ext fields."""

    def to_ext(self) -> dict[str, str]: ...


H = TypeVar("H")


class Command(msgspec.Struct):
    """One request or response.

    Attributes:
        code: request code, or response code of an answer.
        opaque: number that pairs a response with its request; each side counts its own requests.
        flag: bit 0 response, bit 1 one-way (no answer wanted, not even an error).
        version: ``MQVersion`` ordinal of the sender.
        language: name of the sender's language, ``"PYTHON"`` for ours.
        remark: human text; carries the error of a failed request.
        ext_fields: the typed header as strings; read with :meth:`header`.
        body: the payload, empty when absent (the wire cannot tell the two apart).
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

    @property
    def is_oneway(self) -> bool:
        return self.flag & FLAG_ONEWAY != 0

    def header(self, header_type: type[H]) -> H:
        """The ext fields as ``header_type``. Extra fields are ignored; a missing or unreadable one raises ProtocolError naming it."""
        try:
            return msgspec.convert(self.ext_fields, header_type, strict=False)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"request code {self.code}: {header_type.__name__}: {error}") from error


def request(code: int, header: Header | None = None, body: Buffer = b"", *, oneway: bool = False) -> Command:
    """A new request; the connection that sends it gives it its opaque."""
    return Command(
        code=int(code),
        flag=FLAG_ONEWAY if oneway else 0,
        ext_fields=header.to_ext() if header is not None else {},
        body=body,
    )


def response(
    to: Command, code: int = 0, remark: str | None = None, header: Header | None = None, body: Buffer = b""
) -> Command:
    """The answer to ``to``: same opaque, response flag set."""
    return Command(
        code=int(code),
        opaque=to.opaque,
        flag=FLAG_RESPONSE,
        remark=remark,
        ext_fields=header.to_ext() if header is not None else {},
        body=body,
        serialize_type=to.serialize_type,
    )


_JSON: Final = 0
_ROCKETMQ: Final = 1


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
    """What is read of a JSON header: no value in it is null, which is all but always so."""

    code: _Int32
    extFields: dict[str, str] = {}  # noqa: N815 - wire name; msgspec copies an empty default
    flag: _Int32 = 0
    language: str = "JAVA"
    opaque: _Int32 = 0
    remark: str | None = None
    version: _Int32 = 0


class _ReadHeaderWithNulls(msgspec.Struct):
    """The same from a peer that writes nulls, or numbers where texts belong, as Apache's C++ client does: fastjson makes texts of them."""

    code: _Int32
    extFields: dict[str, str | int | float | bool | None] | None = None  # noqa: N815
    flag: _Int32 | None = 0
    language: str | None = None
    opaque: _Int32 | None = 0
    remark: str | None = None
    version: _Int32 | None = 0


_decode_json = msgspec.json.Decoder(_ReadHeader).decode
_decode_json_with_nulls = msgspec.json.Decoder(_ReadHeaderWithNulls, strict=False).decode
_encode_json = msgspec.json.Encoder().encode
_FIXED = struct.Struct(">hbhii")
_PREFIX = struct.Struct(">ii")
_I32 = struct.Struct(">i")
_I16 = struct.Struct(">h")
_TYPE_SHIFT = 24
_HEADER_LENGTH_MASK = 0xFFFFFF


def encode_command(command: Command) -> bytes:
    """The head of the frame **with** the body appended: ready to write."""
    return encode_head(command, len(command.body)) + bytes(command.body)


def encode_head(command: Command, body_bytes: int) -> bytes:
    """Frame up to, not including, the body: lets a pull answer go out as head + views of the commit log without a copy."""
    header = _encode_binary(command) if command.serialize_type == _ROCKETMQ else _encode_text(command)
    size = len(header)
    return _PREFIX.pack(4 + size + body_bytes, (command.serialize_type << _TYPE_SHIFT) | size) + header


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
    ext = bytearray()
    for key, value in command.ext_fields.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        ext += _I16.pack(len(key_bytes)) + key_bytes + _I32.pack(len(value_bytes)) + value_bytes
    remark = (command.remark or "").encode()
    language = LANGUAGE_CODES.get(command.language, LANGUAGE_CODES["OTHER"])
    fixed = _FIXED.pack(command.code, language, command.version & 0x7FFF, command.opaque, command.flag)
    return b"".join((fixed, _I32.pack(len(remark)), remark, _I32.pack(len(ext)), ext))


def decode_command(frame: memoryview, max_header_bytes: int = _HEADER_LENGTH_MASK) -> Command:
    """One frame without its length word (as FrameDecoder cuts it): ``t hl header body``. The body stays a view of ``frame``.

    Raises:
        ProtocolError: the header length, encoding or content is not of the protocol.
    """
    if len(frame) < 4:
        raise ProtocolError(f"a frame of {len(frame)} bytes has no room for its header length")
    (word,) = _I32.unpack_from(frame, 0)
    serialize_type, header_length = (word >> _TYPE_SHIFT) & 0xFF, word & _HEADER_LENGTH_MASK
    if header_length > len(frame) - 4:
        raise ProtocolError(f"header length {header_length} exceeds the frame's {len(frame) - 4} bytes")
    if header_length > max_header_bytes:
        raise ProtocolError(f"a header has {header_length} bytes, {max_header_bytes} are allowed")
    header, body = frame[4 : 4 + header_length], frame[4 + header_length :]
    if serialize_type == _JSON:
        return _decode_text(header, body)
    if serialize_type == _ROCKETMQ:
        return _decode_binary(header, body)
    raise ProtocolError(f"header encoding {serialize_type} is unknown, 0 (JSON) or 1 (ROCKETMQ) are allowed")


def _decode_text(header: memoryview, body: memoryview) -> Command:
    try:
        text = _decode_json(header)
    except msgspec.ValidationError:
        return _decode_text_with_nulls(header, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the JSON header cannot be read: {error}") from error
    return Command(
        text.code, text.opaque, text.flag, text.version, text.language, text.remark, text.extFields, body, _JSON
    )


def _decode_text_with_nulls(header: memoryview, body: memoryview) -> Command:
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
        _JSON,
    )


def _as_text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decode_binary(header: memoryview, body: memoryview) -> Command:
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header, 0)
        at = _FIXED.size
        (remark_length,) = _I32.unpack_from(header, at)
        remark, at = _text(header, at + 4, remark_length)
        (ext_length,) = _I32.unpack_from(header, at)
        at += 4
        if ext_length < 0 or at + ext_length > len(header):
            raise ProtocolError(f"ext length {ext_length} exceeds the header's {len(header)} bytes")
        end, ext = at + ext_length, {}
        while at < end:
            (key_length,) = _I16.unpack_from(header, at)
            key, at = _text(header, at + 2, key_length)
            (value_length,) = _I32.unpack_from(header, at)
            value, at = _text(header, at + 4, value_length)
            if key and value:
                ext[key] = value
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"the ROCKETMQ header cannot be read: {error}") from error
    name = LANGUAGE_NAMES.get(language, "OTHER")
    return Command(code, opaque, flag, version, name, remark or None, ext, body, _ROCKETMQ)


def _text(header: memoryview, at: int, length: int) -> tuple[str, int]:
    if length < 0 or at + length > len(header):
        raise ProtocolError(f"a text of {length} bytes at {at} exceeds the header's {len(header)} bytes")
    return str(header[at : at + length], "utf-8"), at + length
