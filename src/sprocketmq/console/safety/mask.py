# SPDX-License-Identifier: Apache-2.0
"""Hiding parts of messages: text that matches one of the operator's regular expressions is never sent to a browser.

1. A whole body is masked before it is cut, converted or downloaded, and the result of a conversion is masked again: in indented JSON, for
   example, escapes have become text.
2. A body that is not UTF-8 is masked, too; bytes that are not text are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

MASKED: Final = "•••"


class Mask:
    def __init__(self, patterns: Sequence[re.Pattern[str]] = ()) -> None:
        self._patterns = tuple(patterns)

    def text(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(MASKED, text)
        return text

    def body(self, body: bytes) -> bytes:
        if not self._patterns:
            return body
        return self.text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def words(self, words: Iterable[str]) -> list[str]:
        """Words that are shown next to each other, such as keys: matches in one word and across words are hidden."""
        return self.text(" ".join(map(self.text, words))).split()

    def properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        return {name: self.text(value) for name, value in properties.items()}
