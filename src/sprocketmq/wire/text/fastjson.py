# SPDX-License-Identifier: Apache-2.0
"""JSON bodies in the dialect that Java peers write and read (fastjson 1.2), and in standard JSON. Beyond standard JSON the dialect knows::

    {0:"10.0.0.1:10911"}                                     integer keys without quotes
    {{"brokerName":"b","queueId":0,"topic":"t"}:5}           whole objects as keys (Map<MessageQueue, ...>)
    {"a":{...},"b":{"$ref":"$.a"}}                           a repeated object, named by its path from the root ("$", "@", ".." too)

Fields are sorted by name and absent when null; enums go by name. Standard JSON takes a fast path, anything else a parser of our own,
which is linear, limits its depth, and says at which character it gave up. Long texts are read in pieces of small objects, so that no
single call holds the GIL for long. A Java reader accepts integer keys with or without quotes, but a MessageQueue key only as an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeVar, cast, get_args, get_origin

import msgspec

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.text.json_references import MAX_DEPTH, resolve_references

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

# A reference costs a few bytes and stands for a whole subtree: without a limit a small text could describe a huge object. What references
# are written out to may be this many values and four times the text's bytes, so that the work stays linear in the text.
_FREE_NODES: Final = 10_000
# Other JSON than plain JSON of the expected types takes 1 to 4 us for each byte, plain JSON some 10 ns. A server has one loop for all
# clients, and clients use such JSON only in small bodies. So this is the limit for requests.
MAX_ODD_REQUEST_BYTES: Final = 8 * 1024
MAX_REQUEST_BYTES: Final = 1024 * 1024
"""The limit of a JSON body that a server reads in one step."""
_MOST_PIECES: Final = (
    1_000_000  # values that the parser reads one by one: some two seconds. 70,000 rows fill the largest frame.
)


class ObjectKey(tuple[tuple[str, Any], ...]):
    """An object used as a key that is no MessageQueue: its ``(name, value)`` pairs sorted by name."""

    __slots__ = ()


# --- reading -------------------------------------------------------------------------------------------------------------------------


def loads(data: Buffer) -> Any:
    """Any JSON text of either dialect as dicts, lists and scalars. Object keys become :class:`MessageQueue` where they are one, else
    :class:`ObjectKey`; integer keys without quotes ``int``, quoted ones ``str``; references the very object they name. Raises
    ProtocolError: neither dialect, not UTF-8, or nested deeper than 64."""
    raw = bytes(data)
    if b'"$ref"' not in raw:
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return _parsed(raw)


def _parsed(raw: bytes) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"a JSON body is not UTF-8: {error}") from error
    value = _Parser(text).document()
    return resolve_references(value) if '"$ref"' in text else value


def pairs(data: Buffer, field: str, most_chars: int) -> Iterator[tuple[Any, Any]]:
    """Keys and values of the object called ``field`` in a long text from a stranger, one pair at a time: nothing is read beyond it. A
    pair may have ``most_chars`` characters, as may the other fields, which are passed over. References are not resolved. Raises
    ProtocolError: as :func:`loads`, once the place is reached; something is longer; or there are many other fields."""
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"a JSON body is not UTF-8: {error}") from error
    return _Parser(text).pairs(field, most_chars)


def decode(data: Buffer, as_type: type[T], max_odd_bytes: int | None = None) -> T:
    """A JSON text of either dialect as ``as_type``. Unknown fields are ignored, null counts as absent, numbers may be quoted.
    ``max_odd_bytes``: the limit of a text that is not standard JSON of exactly this shape; None: no limit. Raises ProtocolError: also if
    a required field is missing or of the wrong kind."""
    problem: Exception | str = "it has references ($ref)"
    is_long = len(data) > MAX_REQUEST_BYTES
    if not is_long and b'"$ref"' not in bytes(data):
        try:
            decoder: msgspec.json.Decoder[T] = _decoder(as_type)  # type: ignore[arg-type]
            return decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = error
    if max_odd_bytes is not None and len(data) > max_odd_bytes:
        raise ProtocolError(
            f"a JSON body of {len(data)} bytes is not standard JSON of a {as_type.__name__} ({problem}); "
            f"in fastjson's own dialect at most {max_odd_bytes} bytes are allowed"
        )
    plain = _without_nulls(_parsed(bytes(data)) if is_long else loads(data), _FREE_NODES + 4 * len(data))
    try:
        return cast("T", _in_pieces(plain, as_type)) if is_long else msgspec.convert(plain, as_type, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"a JSON body is not a {as_type.__name__}: {error}") from error


_ROWS: Final = 256
_ROW_VALUES: Final = 64


def _in_pieces(value: Any, as_type: Any) -> Any:
    """As ``msgspec.convert`` of what was parsed, some rows of a table or list with each call."""
    of, parts = get_origin(as_type), get_args(as_type)
    if isinstance(value, dict) and of is dict and len(parts) == 2:
        keys: list[Any] = []
        for share in _shares(list(value)):
            keys += msgspec.convert(share, list[parts[0]], strict=False)  # type: ignore[valid-type]
        return dict(zip(keys, _in_pieces(list(value.values()), list[parts[1]]), strict=True))  # type: ignore[valid-type]
    if isinstance(value, list) and of is list and len(parts) == 1:
        rows: list[Any] = []
        for share in _shares(value):
            if all(map(_is_row, share)):
                rows += msgspec.convert(share, as_type, strict=False)
            else:
                rows += [_in_pieces(item, parts[0]) for item in share]
        return rows
    if isinstance(value, dict) and isinstance(as_type, type) and issubclass(as_type, msgspec.Struct):
        long = {
            field.encode_name: field
            for field in msgspec.structs.fields(as_type)
            if not _is_row(value.get(field.encode_name))
        }
        made = msgspec.convert({**value, **{name: type(value[name])() for name in long}}, as_type, strict=False)
        for name, field in long.items():
            setattr(made, field.name, _in_pieces(value[name], field.type))
        return made
    return msgspec.convert(value, as_type, strict=False)


def _shares(items: list[Any]) -> Iterator[list[Any]]:
    return (items[at : at + _ROWS] for at in range(0, len(items), _ROWS))


def _is_row(value: Any) -> bool:
    """Whether a value is small, with all that is in it."""
    left, within = _ROW_VALUES, [value]
    while within:
        one = within.pop()
        if isinstance(one, dict | list):
            left -= len(one)
            if left < 0:
                return False
            within += one.values() if isinstance(one, dict) else one
    return True


@lru_cache(maxsize=256)
def _decoder(as_type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(as_type, strict=False)


def _without_nulls(value: Any, budget: int) -> Any:
    """A copy without null fields, each reference written out in full; refuses circles and what grows beyond the budget."""
    left = budget

    def copy(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise ProtocolError("the references ($ref) of a JSON body form a cycle, or expand to far too much")
        if isinstance(value, dict):
            return {key: copy(item, depth + 1) for key, item in value.items() if item is not None}
        if isinstance(value, list):
            return [copy(item, depth + 1) for item in value]
        return value

    return copy(value, 0)


# An object of standard JSON, or what looks like one, with objects in it that have none: one step of msgspec reads it.
_FLAT: Final = r'\{[^{}"\\]*+(?:"[^"\\]*+"[^{}"\\]*+)*+\}'
_SMALL_OBJECT: Final = re.compile(rf'\{{[^{{}}"\\]*+(?:(?:"[^"\\]*+"|{_FLAT})[^{{}}"\\]*+)*+\}}')
_SMALL_CHARS: Final = 4_096
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_UNESCAPED: Final = re.compile(r'[^"\\]*')
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7\"'\\/bfnrtvF])")
_ESCAPES: Final = {"b": "\b", "f": "\f", "F": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {
    digit: chr(int(digit)) for digit in "01234567"
}
_LITERALS: Final = {"true": True, "false": False, "null": None}
_MAX_DIGITS: Final = 400
_MOST_OTHER_FIELDS: Final = 16


class _Parser:
    """Recursive descent over the dialect. ``at`` only moves forward, so the work is linear in the text, which ends at ``end``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at, self.end = 0, len(text)
        self.depth = self.pieces = 0

    def pairs(self, field: str, most_chars: int) -> Iterator[tuple[Any, Any]]:
        others = 0
        for name in self.fields(most_chars):
            if name != field or self.skip() != "{":
                others += 1
                if others > _MOST_OTHER_FIELDS:
                    self.fail(f"at most {_MOST_OTHER_FIELDS} other fields are allowed")
                self.value()
                continue
            for key in self.fields(most_chars):
                yield key, self.value()
        self.skip()
        if self.at != len(self.text):
            self.fail("the text should end")

    def fields(self, most_chars: int) -> Iterator[Any]:
        """The keys of an object, ``at`` behind the colon: the caller reads the value before it requests the next key. Each pair ends
        within its limit."""
        text_end = len(self.text)
        self.end = min(text_end, self.at + most_chars)
        if self.skip() != "{":
            self.fail("'{' should stand")
        self.at += 1
        if self.skip() == "}":
            self.at += 1
            return
        while True:
            yield self.named()
            self.end = min(text_end, self.at + most_chars)
            if self.skip() == "}":
                self.at += 1
                return
            self.comma()

    def document(self) -> Any:
        value = self.value()
        self.skip()
        if self.at != len(self.text):
            self.fail("the text should end")
        return value

    def fail(self, expected: str) -> NoReturn:
        found = repr(self.text[self.at : self.at + 12]) if self.at < len(self.text) else "the end"
        raise ProtocolError(f"a JSON body cannot be read: at character {self.at} {expected}, found {found}")

    def skip(self) -> str:
        self.at = self.over(_SPACE)
        return self.text[self.at : self.at + 1] if self.at < self.end else ""

    def value(self) -> Any:
        self.pieces += 1
        if self.pieces > _MOST_PIECES:
            self.fail(f"at most {_MOST_PIECES:,} values are allowed")
        char = self.skip()
        if char == '"':
            return self.string()
        if char == "{" or char == "[":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.fail(f"nesting deeper than {MAX_DEPTH} is not allowed")
            container = self.object() if char == "{" else self.array()
            self.depth -= 1
            return container
        if char == "-" or char.isdigit():
            return self.number()
        word = next((word for word in _LITERALS if self.text.startswith(word, self.at)), None)
        if word is None:
            self.fail("a value is expected")
        self.at += len(word)
        return _LITERALS[word]

    def object(self) -> dict[Any, Any]:
        small = _SMALL_OBJECT.match(self.text, self.at, min(self.end, self.at + _SMALL_CHARS))
        if small is not None:
            try:
                found: dict[Any, Any] = msgspec.json.decode(small[0])
            except (msgspec.DecodeError, UnicodeEncodeError):
                pass
            else:
                self.at = small.end()
                return found
        self.at += 1
        result: dict[Any, Any] = {}
        if self.skip() == "}":
            self.at += 1
            return result
        while True:
            key = self.named()
            result[key] = self.value()
            if self.skip() == "}":
                self.at += 1
                return result
            self.comma()

    def named(self) -> Any:
        key = self.key()
        if self.skip() != ":":
            self.fail("':' should follow a key")
        self.at += 1
        return key

    def comma(self) -> None:
        if self.skip() != ",":
            self.fail("',' or '}' should follow a field")
        self.at += 1

    def key(self) -> Any:
        start = self.at
        key = self.value()
        if isinstance(key, dict):
            return self.object_key(key, start)
        if isinstance(key, list):
            self.at = start
            self.fail("a list cannot be a key")
        return key

    def object_key(self, key: dict[Any, Any], start: int) -> MessageQueue | ObjectKey:
        if key.keys() == {"topic", "brokerName", "queueId"}:
            try:
                return msgspec.convert(key, MessageQueue, strict=False)
            except msgspec.ValidationError:
                pass
        try:
            pairs = ObjectKey(sorted(key.items(), key=lambda pair: str(pair[0])))
            hash(pairs)
        except TypeError:
            self.at = start
            self.fail("an object that is a key must hold plain values")
        return pairs

    def array(self) -> list[Any]:
        self.at += 1
        result: list[Any] = []
        if self.skip() == "]":
            self.at += 1
            return result
        while True:
            result.append(self.value())
            char = self.skip()
            if char not in (",", "]"):
                self.fail("',' or ']' should follow an element")
            self.at += 1
            if char == "]":
                return result

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at, self.end)
        if match is None or match.end() - self.at > _MAX_DIGITS:
            self.fail(f"a number of at most {_MAX_DIGITS} digits is expected")
        self.at = match.end()
        return float(match[0]) if match[1] or match[2] else int(match[0])

    def string(self) -> str:
        self.at += 1
        parts: list[str] = []
        while True:
            start = self.at
            self.at = self.over(_UNESCAPED)
            parts.append(self.text[start : self.at])
            char = self.text[self.at : self.at + 1] if self.at < self.end else ""
            if char == '"':
                self.at += 1
                return parts[0] if len(parts) == 1 else _joined("".join(parts))
            if not char:
                self.fail("a string should end with a quote")
            match = _ESCAPE.match(self.text, self.at + 1, self.end)
            if match is None:
                self.fail("an escape is expected")
            code = match[1] or match[2]
            parts.append(chr(int(code, 16)) if code else _ESCAPES.get(match[3], match[3]))
            self.at = match.end()

    def over(self, pattern: re.Pattern[str]) -> int:
        """Where a pattern that may match nothing stops matching."""
        match = pattern.match(self.text, self.at, self.end)
        return match.end() if match else self.at


def _joined(text: str) -> str:
    """Surrogate pairs that came as two escapes become one character; a lone one becomes U+FFFD, so that the text can be encoded."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


# --- writing -------------------------------------------------------------------------------------------------------------------------


def to_builtins(value: Any) -> Any:
    """Structs, sets and enums as dicts, lists and scalars: fields sorted by wire name, None left out, keys unchanged."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value
    if isinstance(value, msgspec.Struct):
        return {
            name: to_builtins(item)
            for name, field in _sorted_fields(type(value))
            if (item := getattr(value, field)) is not None
        }
    if isinstance(value, Mapping):
        pairs = sorted(value.items(), key=_key_order)
        return {
            key.value if isinstance(key, Enum) else key: to_builtins(item) for key, item in pairs if item is not None
        }
    if isinstance(value, set | frozenset):
        return [to_builtins(item) for item in sorted(value)]
    if isinstance(value, list | tuple):
        return [to_builtins(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


@lru_cache(maxsize=256)
def _sorted_fields(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)))


def _key_order(pair: tuple[Any, Any]) -> tuple[bool, Any]:
    key = pair[0]
    return (False, key) if isinstance(key, int) else (True, str(key))


def dumps(value: Any, *, pretty: bool = False) -> bytes:
    """``value`` (structs, mappings with text, int or MessageQueue as keys, lists, sets, enums, scalars) in the dialect, as a Java peer
    writes it. ``pretty``: with tabs and newlines, as in its config files."""
    out: list[bytes] = []
    _write(to_builtins(value), out, b"\n" if pretty else b"")
    return b"".join(out)


_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def dumps_sorted(struct: msgspec.Struct) -> bytes:
    """What :func:`dumps` writes, thirty times as fast, of a struct that holds nothing but text, numbers, booleans, lists, sets, other such
    structs, and mappings with text as keys; no None anywhere. For tables that are written whole after each change, and heartbeats."""
    return _encode_sorted(struct)


def _write(value: Any, out: list[bytes], line: bytes) -> None:
    """``line`` is the newline and the indentation of the line that is being written, empty when all goes on one line."""
    if isinstance(value, dict) and value:
        inner = line and line + b"\t"
        lead = b"{" + inner
        for key, item in value.items():
            out += (lead, _key(key), b":")
            _write(item, out, inner)
            lead = b"," + inner
        out.append(line + b"}")
    elif isinstance(value, list) and value:
        inner = line and line + b"\t"
        lead = b"[" + inner
        for item in value:
            out.append(lead)
            _write(item, out, inner)
            lead = b"," + inner
        out.append(line + b"]")
    else:
        out.append(msgspec.json.encode(value))


def _key(key: Any) -> bytes:
    if isinstance(key, str):
        return msgspec.json.encode(key)
    if isinstance(key, int):
        return b"%d" % key
    return dumps(dict(key) if isinstance(key, ObjectKey) else key)


def dumps_standard(value: Any) -> bytes:
    """``value`` in standard JSON: integer keys quoted, for clients that request it. Raises TypeError: a mapping with object keys."""
    return msgspec.json.encode(to_builtins(value))
