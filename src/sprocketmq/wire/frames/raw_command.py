# SPDX-License-Identifier: Apache-2.0
"""A command that keeps its header in the form of the wire; its fields are made at their first use, for example by an interceptor. A request
is decoded once, straight into the typed header of its code (``header_reader``); an answer may have the text of its header already, made of
constant parts.

1. ``ext_fields`` are what ``decode_command`` reads from the same bytes.
2. After a read of ``ext_fields``, or a change of any attribute, it is an ordinary command, which is written as its attributes say.
3. ``fields`` are the same fields for reading only, as in the check of a signature: the command keeps its header, typed and raw.
4. The kept header is a copy, so it does not keep the whole read alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.codes import ANNOUNCED_VERSION, LANGUAGE_NAMES
from sprocketmq.wire.frames.command import (
    BINARY_HEAD,
    FLAG_RESPONSE,
    SERIALIZE_JSON,
    SERIALIZE_ROCKETMQ,
    Command,
    H,
    decode_header,
)
from sprocketmq.wire.frames.header_shapes import HeaderShapes

# (header, body) -> the request, or None: the header is not what a typed decode understands.
HeaderReader = Callable[[bytes, memoryview], "Command | None"]

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Fields = dict[str, str]


class RawCommand(Command, gc=False):
    """``raw_header``: the header on the wire. ``typed_header``: the header of a request as its declared type. Both are None after
    ``ext_fields`` were made, because they may be changed; an answer has no ``typed_header``."""

    raw_header: bytes | None = None  # type: ignore[misc]  # of each one, not of the class
    typed_header: Any = None  # type: ignore[misc]

    @property  # type: ignore[misc]  # in front of the attribute of the same name
    def ext_fields(self) -> _Fields:
        fields = self.fields
        if self.raw_header is not None:
            self.ext_fields = fields
        return fields

    @ext_fields.setter
    def ext_fields(self, fields: _Fields) -> None:
        _set_fields(self, fields)
        _set_raw(self, None)
        _set_typed(self, None)

    @property
    def fields(self) -> _Fields:
        fields: _Fields = _get_fields(self)
        raw = self.raw_header
        if fields is _NOT_MADE and raw is not None:
            fields = _fields_of(self, raw)
            _set_fields(self, fields)
        return fields

    def __setattr__(self, name: str, value: Any) -> None:
        if self.raw_header is not None and name != "ext_fields":
            _ = self.ext_fields  # from here on an ordinary command
        super().__setattr__(name, value)

    def header(self, header_type: type[H]) -> H:
        typed = self.typed_header
        return typed if type(typed) is header_type else super().header(header_type)


_get_fields: Final = Command.__dict__["ext_fields"].__get__
_set_fields: Final = Command.__dict__["ext_fields"].__set__
_set_raw: Final = RawCommand.__dict__["raw_header"].__set__
_set_typed: Final = RawCommand.__dict__["typed_header"].__set__


class _OnlyFields(msgspec.Struct, gc=False):
    """The part of a JSON header that is read after a typed decode of the rest."""

    extFields: _Fields  # noqa: N815 - wire name


_decode_only_fields = msgspec.json.Decoder(_OnlyFields).decode


def _fields_of(command: RawCommand, raw: bytes) -> _Fields:
    if command.serialize_type == SERIALIZE_JSON:
        try:
            return _decode_only_fields(raw).extFields
        except (msgspec.ValidationError, RecursionError):
            pass  # values that are not texts; and the stack is deeper here than where the header was decoded first
    try:
        return decode_header(command.serialize_type, raw, memoryview(b"")).ext_fields
    except ProtocolError:  # a number beyond all bounds in a field that the header does not declare
        fields: _Fields = command.typed_header.to_ext()
        return fields


T = TypeVar("T")


def header_reader(code: int, header_type: type[T]) -> HeaderReader:
    """A reader of JSON headers of requests with ``code``. It returns None for headers that ``decode_command`` has to read: another
    code, numbers in place of texts, bytes that are not JSON."""

    header_struct = msgspec.defstruct(
        "Header",
        [
            ("code", Literal[code]),
            ("extFields", header_type),
            ("flag", _Int32, 0),
            ("language", str, "JAVA"),
            ("opaque", _Int32, 0),
            ("remark", str | None, None),
            ("version", _Int32, 0),
        ],
        gc=False,
    )
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(header_struct, strict=False).decode

    def read(header: bytes, body: memoryview) -> Command | None:
        try:
            known = decode(header)
            if not header.isascii():
                header.decode()  # what is skipped is UTF-8 as well
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return RawCommand(
            code,
            known.opaque,
            known.flag,
            known.version,
            known.language,
            known.remark,
            _NOT_MADE,
            body,
            SERIALIZE_JSON,
            header,
            known.extFields,
        )

    return read


_NOT_MADE: Final[_Fields] = {}  # stands for the fields until they are used


def binary_header_reader(header_type: type[T], varying: tuple[str, str]) -> HeaderReader:
    """Return the same for ROCKETMQ headers. Raises ProtocolError for headers that ``decode_command`` refuses. ``varying``: see
    ``HeaderShapes``."""
    find, unpack, fixed_bytes = HeaderShapes(header_type, varying).find, BINARY_HEAD.unpack_from, BINARY_HEAD.size

    def read(header: bytes, body: memoryview) -> Command | None:
        if len(header) > fixed_bytes:
            code, language, version, opaque, flag, remark_bytes, ext_bytes = unpack(header)
            if not remark_bytes and ext_bytes == len(header) - fixed_bytes:
                typed = find(header)
                if typed is not None:
                    name = LANGUAGE_NAMES.get(language, "OTHER")
                    return RawCommand(
                        code, opaque, flag, version, name, None, _NOT_MADE, body, SERIALIZE_ROCKETMQ, header, typed
                    )
        return decode(header, body)

    def decode(header: bytes, body: memoryview) -> Command:
        known = decode_header(SERIALIZE_ROCKETMQ, header, body)
        try:
            typed = msgspec.convert(known.ext_fields, header_type, strict=False)
        except msgspec.ValidationError:
            return known  # the handler reports which field it is
        return RawCommand(
            known.code,
            known.opaque,
            known.flag,
            known.version,
            known.language,
            known.remark,
            known.ext_fields,  # made by the decode; not made again for a signature
            body,
            SERIALIZE_ROCKETMQ,
            header,
            typed,
        )

    return read


def raw_answer(
    opaque: int, header: bytes, serialize_type: int = SERIALIZE_JSON, code: int = 0, remark: str | None = None
) -> RawCommand:
    """An answer whose header is encoded already: ``header`` has the same content as the other arguments."""
    return RawCommand(
        code, opaque, FLAG_RESPONSE, ANNOUNCED_VERSION, "PYTHON", remark, _NOT_MADE, b"", serialize_type, header
    )
