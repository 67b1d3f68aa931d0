"""Java properties as text: broker.conf and namesrv.conf, the bodies of requests that read and change settings (java.util.Properties).

``key=value``, ``key: value`` or ``key value``, comments with ``#`` or ``!``, a line that ends in an odd number of backslashes goes on in
the next, escapes ``\\t \\n \\r \\f \\uXXXX``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["format_properties", "parse_properties"]

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY: Final = re.compile(r"((?:\\.|[^\\\s=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Java properties as a mapping; of a key given twice the last value counts. Never fails: any text is a properties file."""
    settings: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None  # both groups may be empty
        settings[_unescape(match[1])] = _unescape(match[2]).rstrip()
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    held = ""
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        line = held + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            held = line[:-1]
            continue
        held = ""
        yield line
    if held:
        yield held


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        mark = match[1]
        return chr(int(mark[1:], 16)) if len(mark) == 5 else _PLAIN.get(mark, mark)

    return _ESCAPE.sub(plain, text) if "\\" in text else text


def format_properties(settings: Mapping[str, str]) -> str:
    """One ``key=value`` a line, in the order of ``settings``, as Apache writes them: without escapes (Java: MixAll.properties2String)."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())
