# SPDX-License-Identifier: Apache-2.0
"""Java properties as text: broker.conf and namesrv.conf, the bodies of requests that read and change settings (java.util.Properties)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = {character: f"\\{letter}" for letter, character in _PLAIN.items()}
_KEY: Final = re.compile(r"((?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Java properties as a mapping; of a key given twice the last value counts. Never fails: any text is a properties file."""
    settings: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None  # both groups may be empty
        settings[_unescape(match[1])] = _unescape(match[2]).rstrip()
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    held: list[str] = []
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            held.append(line[:-1])
            continue
        yield "".join((*held, line))
        held = []
    if any(held):
        yield "".join(held)


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        mark = match[1]
        return chr(int(mark[1:], 16)) if len(mark) == 5 else _PLAIN.get(mark, mark)

    return _ESCAPE.sub(plain, text) if "\\" in text else text


def format_properties(settings: Mapping[str, str]) -> str:
    """One ``key=value`` a line, in the order of ``settings``, escaped: Apache writes no escapes (MixAll.properties2String) but reads
    them, and a value with a line break would come back as two settings."""
    return "".join(f"{_escaped(key, ' =:')}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str, marks: str = "") -> str:
    if text.isascii() and text.isalnum():
        return text
    out = [
        f"\\{character}"
        if character == "\\" or character in marks
        else _WRITTEN.get(character)
        or (f"\\u{ord(character):04x}" if character < " " or character in "\x7f\x85" else character)
        for character in text
    ]
    if out and (out[0] == " " or (marks and out[0] in "#!")):
        out[0] = "\\" + out[0]
    return "".join(out)


def replace_properties(text: str, changes: Mapping[str, str]) -> str:
    """A properties file with ``changes`` in it: in place of the lines that set them, or at its end. All other lines stay as they are."""
    left, out = dict(changes), list[str]()
    for logical in _with_continuations(text):
        named = [key for key in parse_properties("\n".join(logical)) if key in changes]
        if named:
            out.append(format_properties({named[0]: changes[named[0]]}).rstrip("\n"))
            left.pop(named[0], None)
        else:
            out += logical
    return "\n".join([*out, *format_properties(left).splitlines()]) + "\n"


def _with_continuations(text: str) -> Iterator[list[str]]:
    """The lines of a file, each with those that it goes on in."""
    held: list[str] = []
    for line in re.split(r"\r\n|\n|\r", text.rstrip("\r\n")) if text else ():
        is_comment = not held and line.lstrip(" \t\f")[:1] in ("#", "!", "")
        held.append(line)
        if is_comment or (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            yield held
            held = []
    if held:
        yield held
