# SPDX-License-Identifier: Apache-2.0
"""What the program says, as the pages quote it: each text of src, with … for its values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OMITTED = "…"


def _texts_of(node: ast.AST) -> Iterator[str]:
    """Each text of a module, values left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            yield "".join(
                str(part.value)
                if isinstance(part, ast.Constant)
                else f"'{OMITTED}'"
                if isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
                else OMITTED
                for part in child.values
            )
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield re.sub(r"%[sd]", OMITTED, child.value.replace("%r", f"'{OMITTED}'"))
        yield from _texts_of(child)


@cache
def code_texts() -> str:
    paths = sorted((ROOT / "src").rglob("*.py"))
    return "\n".join(" ".join(text.split()) for path in paths for text in _texts_of(ast.parse(path.read_text("utf-8"))))


def not_in_the_code(sentences: list[str]) -> list[str]:
    """Those of the sentences that no text of the code has; … stands for a value, or for words that are left out."""
    code = code_texts()
    patterns = {
        sentence: ".*".join(re.escape(part.strip()) for part in sentence.split(OMITTED)) for sentence in sentences
    }
    return [sentence for sentence, pattern in patterns.items() if not re.search(pattern, code)]
