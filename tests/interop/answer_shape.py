# SPDX-License-Identifier: Apache-2.0
"""What of an answer two servers must agree on: code, header fields, the shape of the body. Addresses, times and ids are taken out.

Bodies are read with a reader of its own, not with the code under test. Apache writes three JSON dialects: plain, with bare numbers as
keys, and with objects as keys (fastjson 1); all become the same shape.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any, Final, NamedTuple

from interop.remoting import Answer

# Apache's remark where its handler forgot one.
_NO_REMARK: Final = "not set any response code"
_OPAQUE_FIELDS: Final = ("recallHandle", "version", "commitLogOffset", "tranStateTableOffset")
# In place of an answer's code.
SILENT: Final = -1
CLOSED: Final = -2

_SCRUBS: Final = (
    (re.compile(r"\d{1,3}(?:\.\d{1,3}){3}:\d+"), "ADDRESS"),
    (re.compile(r"\b[0-9A-F]{32}(?:[0-9A-F]{24})?\b"), "ID"),
    (re.compile(r"(?<=commitLogDiskRatio_)\S+"), "PATH"),
    (re.compile(r"\b1[5-9]\d{11}\b"), "TIME"),
)
_BARE: Final = re.compile(r"-?[\w.+$-]+")
_SPACE: Final = re.compile(r"\s*")


class Shape(NamedTuple):
    """A comparable answer. `body` is the key tree of JSON, the keys of properties, the lengths of records, or the size."""

    code: int
    remark: bool
    fields: dict[str, str]
    body: Any

    def differs_in(self, other: Shape, roughly: bool = False) -> str:
        """Words for what is not the same, the receiver's side first; empty when nothing is.

        `roughly` compares code and names of fields only: what a server stored of earlier ill-formed requests changes later values.
        """
        if self.code != other.code:
            return f"code {_code(self.code)}, ours {_code(other.code)}"
        if roughly:
            apart = sorted(self.fields.keys() ^ other.fields.keys())
            return "; ".join(f"{name} {'missing' if name in self.fields else 'only ours'}" for name in apart)
        found = []
        for name in sorted(self.fields.keys() | other.fields.keys()):
            mine, theirs = self.fields.get(name), other.fields.get(name)
            if mine != theirs:
                found.append(f"{name}={mine}, ours {theirs}")
        if self.remark != other.remark:
            found.append(f"remark {'given' if self.remark else 'none'}, ours {'given' if other.remark else 'none'}")
        if self.body != other.body:
            found.append("body " + "; ".join(_tree_differences(self.body, other.body, "")))
        return "; ".join(found)


def unanswered(why: int) -> Shape:
    return Shape(why, False, {}, None)


def shape_of(answer: Answer, opaque: tuple[str, ...] = ()) -> Shape:
    """`opaque`: fields that must be given, whatever their value, besides those that always are so."""
    fields = {name: scrubbed(value) for name, value in (answer.header.get("extFields") or {}).items()}
    fields.update({name: "GIVEN" for name in (*_OPAQUE_FIELDS, *opaque) if name in fields})
    remark = answer.header.get("remark")
    return Shape(answer.code, bool(remark) and remark != _NO_REMARK, fields, _body(answer.body))


def scrubbed(text: str) -> str:
    """The text without addresses, message ids and times in milliseconds; message properties sorted by name."""
    if "\x01" in text:
        text = ", ".join(sorted(pair.replace("\x01", "=") for pair in text.split("\x02") if pair))
    for pattern, word in _SCRUBS:
        text = pattern.sub(word, text)
    return text


def key_tree(value: Any) -> Any:
    """Keys with the types of their values; a list becomes the distinct shapes of its elements."""
    if isinstance(value, dict):
        return {scrubbed(key): key_tree(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        distinct = {json.dumps(key_tree(inner), sort_keys=True) for inner in value}
        return [json.loads(text) for text in sorted(distinct)]
    return {bool: "bool", int: "number", float: "number", str: "text"}.get(type(value))


def read_json(text: str) -> Any:
    """Any of Apache's JSON dialects; an object that is a key comes back as its text.

    Raises:
        ValueError: it is none of them.
    """
    value, at = _value(text, 0)
    if text[at:].strip():
        raise ValueError(f"more behind the value: {text[at : at + 40]!r}")
    return value


def _body(body: bytes) -> Any:
    if not body:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return _records(body)
    try:
        return key_tree(read_json(text))
    except (ValueError, IndexError):
        pass
    if "\x00" in text:
        return _records(body)
    if all("=" in line for line in text.split("\n") if line):
        return {"properties": {line.partition("=")[0]: "text" for line in text.split("\n") if line}}
    return scrubbed(text)


def _records(body: bytes) -> dict[str, Any]:
    lengths, at = [], 0
    while at + 8 <= len(body):
        (length,) = struct.unpack_from(">i", body, at)
        if length <= 0 or at + length > len(body):
            return {"bytes": len(body)}
        lengths.append(length)
        at += length
    return {"records": lengths}


def _value(text: str, at: int) -> tuple[Any, int]:
    at = _space(text, at)
    if text[at] == "{":
        return _object(text, at + 1)
    if text[at] == "[":
        items = []
        at = _space(text, at + 1)
        while text[at] != "]":
            item, at = _value(text, at)
            items.append(item)
            at = _comma(text, at, "]")
        return items, at + 1
    if text[at] == '"':
        return json.JSONDecoder(strict=False).raw_decode(text, at)
    bare = _BARE.match(text, at)
    if bare is None:
        raise ValueError(f"no value at {text[at : at + 40]!r}")
    return json.loads(bare[0]), bare.end()


def _object(text: str, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _space(text, at)
    while text[at] != "}":
        key, at = _value(text, at)
        at = _space(text, at)
        if text[at] != ":":
            raise ValueError(f"no colon at {text[at : at + 40]!r}")
        value, at = _value(text, at + 1)
        found[key if isinstance(key, str) else json.dumps(key, sort_keys=True)] = value
        at = _comma(text, at, "}")
    return found, at + 1


def _comma(text: str, at: int, end: str) -> int:
    at = _space(text, at)
    if text[at] == ",":
        return _space(text, at + 1)
    if text[at] != end:
        raise ValueError(f"neither , nor {end} at {text[at : at + 40]!r}")
    return at


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _code(code: int) -> str:
    return {SILENT: "(no answer)", CLOSED: "(connection closed)"}.get(code, str(code))


def _tree_differences(theirs: Any, ours: Any, path: str) -> list[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        found = []
        for key in sorted(theirs.keys() | ours.keys()):
            inside = f"{path}.{key}" if path else key
            if key not in ours:
                found.append(f"{inside} missing")
            elif key not in theirs:
                found.append(f"{inside} only ours")
            elif theirs[key] != ours[key]:
                found += _tree_differences(theirs[key], ours[key], inside)
        return found
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours) == 1:
        return _tree_differences(theirs[0], ours[0], f"{path}[]")
    return [f"{path or 'all'} {json.dumps(theirs)[:300]}, ours {json.dumps(ours)[:300]}"]
