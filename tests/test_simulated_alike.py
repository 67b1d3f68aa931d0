# SPDX-License-Identifier: Apache-2.0
"""What runs in the simulator is what runs in production: no module of the product knows of it."""

from __future__ import annotations

import ast
from pathlib import Path

PRODUCT = Path(__file__).parents[1] / "src/sprocketmq"


def names_in(text: str) -> set[str]:
    """Identifiers and module names; words of texts and comments do not count."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name | ast.Attribute | ast.alias | ast.ImportFrom | ast.arg | ast.keyword):
            found |= {str(getattr(node, name, "") or "") for name in ("id", "attr", "name", "module", "arg")}
    return found


def test_no_module_of_the_product_asks_whether_it_is_simulated() -> None:
    files = [path for path in PRODUCT.rglob("*.py") if "simulation" not in path.parts]
    assert len(files) > 300
    asks = {}
    for path in files:
        text = path.read_text(encoding="utf-8")
        if "simulat" in text.lower():
            asks[str(path.relative_to(PRODUCT))] = [name for name in names_in(text) if "simulat" in name.lower()]
    asks = {path: names for path, names in asks.items() if names}
    assert asks == {}
