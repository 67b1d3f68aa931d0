# SPDX-License-Identifier: Apache-2.0
"""What mqadmin prints, without what differs between two runs of the same server: addresses, dates, counters."""

from __future__ import annotations

import re
from typing import Final

from interop.answer_shape import scrubbed

_VOLATILE: Final = (
    (re.compile(r"(127\.0\.0\.1|localhost|\b[\w-]+(\.[\w-]+)*)?[:@]\d{4,5}\b"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([:,.]\d+)?"), "DATE"),
    (re.compile(r"/tmp/\S+"), "PATH"),
    (re.compile(r"-?\d+\.\d+(E-?\d+)?%?"), "N"),
    (re.compile(r"\d{4,}"), "N"),
    (re.compile(r"\d+ ?ms\b"), "N ms"),
    (re.compile(r"\s+"), " "),
)


def steady(line: str) -> str:
    """A printed line without what differs between two runs of the same server."""
    line = scrubbed(line)
    for pattern, word in _VOLATILE:
        line = pattern.sub(word, line)
    return line.strip()


def printed_lines(text: str, rates: bool) -> list[str]:
    """The lines, steady and sorted, as many have no order of their own; `rates`: small numbers are measurements, too."""
    lines = filter(None, map(steady, text.splitlines()))
    return sorted(re.sub(r"\d+", "N", line).replace("N N N", "N") if rates else line for line in lines)
