# SPDX-License-Identifier: Apache-2.0
"""Hiding parts of messages: what fits one of the operator's regular expressions is never sent to a browser.

Laws
    1. A body is masked as a whole before anything of it is cut, converted or downloaded.
    2. What a conversion made of a masked body (indented JSON, whose escapes are text then) is masked again.
    3. A body that is no UTF-8 is masked, too: bytes that are no text stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

__all__ = ["MASKED", "Mask"]

MASKED: Final = "•••"


class Mask:
    """Args: ``patterns`` are the regular expressions; none hides nothing."""

    def __init__(self, patterns: Sequence[re.Pattern[str]] = ()) -> None:
        self._patterns = tuple(patterns)

    def text(self, text: str) -> str:
        """``text`` without what is hidden."""
        for pattern in self._patterns:
            text = pattern.sub(MASKED, text)
        return text

    def body(self, body: bytes) -> bytes:
        """``body`` without what is hidden (laws 1 and 3)."""
        if not self._patterns:
            return body
        return self.text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def words(self, words: Iterable[str]) -> list[str]:
        """Words that are shown beside each other, as keys: what fits one of them or all of them together is hidden."""
        return self.text(" ".join(map(self.text, words))).split()

    def properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Values without what is hidden; names stay."""
        return {name: self.text(value) for name, value in properties.items()}
