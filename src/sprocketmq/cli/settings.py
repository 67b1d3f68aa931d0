"""Settings of a server from ``--config FILE`` (Apache's broker.conf and namesrv.conf) and ``--set key=value``, as one text mapping.

The files are Java properties: ``key=value``, ``key: value`` or ``key value``, comments with ``#`` or ``!``, a line that ends in an odd
number of backslashes goes on in the next, escapes ``\\t \\n \\r \\f \\uXXXX`` (java.util.Properties.load). Read as UTF-8, which holds
every file that Java's Latin-1 reading got right in ASCII, and the ones people wrote with their editors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from sprocketmq.errors import ConfigurationError

__all__ = ["parse_properties", "settings_of"]

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY: Final = re.compile(r"((?:\\.|[^\\\s=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def settings_of(config: Path | None, assignments: Iterable[str]) -> dict[str, str]:
    """The settings of ``config``, then those of ``--set``, which win.

    Raises:
        ConfigurationError: the file cannot be read, or an assignment is not ``key=value``.
    """
    settings: dict[str, str] = {}
    if config is not None:
        try:
            settings.update(parse_properties(config.read_text("utf-8")))
        except OSError as error:
            raise ConfigurationError(
                f"--config {config} cannot be read: {error.strerror or error}; name a readable file in Apache's properties format"
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigurationError(
                f"--config {config} is not text in UTF-8 (byte {error.start}); save it as UTF-8"
            ) from error
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(
                f"--set {assignment!r} is given, key=value is allowed, as in --set flushDiskType=SYNC_FLUSH"
            )
        settings[key.strip()] = value.strip()
    return settings


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
