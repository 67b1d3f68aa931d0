# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md names every room, and modules that are there. No file imports itself by way of others."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Set
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/sprocketmq"


def test_the_rooms_of_the_architecture_are_the_folders() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    rooms = {room for cell in cells for room in re.findall(r"`([a-z0-9_/]+)`", cell)}
    folders = {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    folders = {folder for folder in folders if "/" in folder}
    assert sorted(folders - rooms) == [], "give each a row in the table of rooms in docs/architecture.md"
    assert sorted(rooms - folders) == [], "docs/architecture.md has rows of rooms that are not there"


def test_modules_that_the_architecture_names_are_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    modules = set(re.findall(r"`((?:wire|core|net|store|broker|client|spark)(?:\.[a-z0-9_]+)+)`", page))
    assert len(modules) > 20
    named = {name: PACKAGE / name.replace(".", "/") for name in modules}
    assert (
        sorted(name for name, path in named.items() if not path.is_dir() and not path.with_suffix(".py").exists()) == []
    )


def test_test_modules_outside_packages_have_names_of_their_own() -> None:
    """pytest imports them by their bare name: two of one name cannot be collected in one run, only apart."""
    loose = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if not (path.parent / "__init__.py").exists() and path.name != "conftest.py"
    ]
    names = Counter(path.name for path in loose)
    assert [str(path.relative_to(ROOT)) for path in loose if names[path.name] > 1] == [], "rename one of each pair"


def test_no_file_imports_itself_by_way_of_others() -> None:
    """A cycle has no first file to read. Imports for types alone do not count: a part may name its owner."""
    graph = grimp.build_graph("sprocketmq", cache_dir=None, exclude_type_checking_imports=True)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert cycles(imports) == [], "these files import each other: move what both need into a third, below them"


def test_a_cycle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set[str](), "f": {"g"}, "g": {"f"}}
    assert cycles(imports) == [["a", "b", "c"], ["f", "g"]]


def test_handlers_touch_only_what_they_may() -> None:
    files = sorted((PACKAGE / "broker/handlers").rglob("*.py"))
    assert len(files) > 20
    found = [f"{path.name}: {what}" for path in files for what in forbidden(path.read_text("utf-8"))]
    assert found == [], 'see "What a handler may touch" in docs/architecture.md'


def test_what_a_handler_may_not_touch_is_found() -> None:
    text = "broker.config = None\nbroker._ports.close()\nbroker.store.append(message, 0)\nbroker.put(message, 0)\nbroker.schedule.x = 1\n"
    assert forbidden(text) == ["broker._ports", "broker.config = ...", "broker.schedule.x = ...", "broker.store.append"]


def forbidden(text: str) -> list[str]:
    """Of the code of handlers: what docs/architecture.md says that they do not touch."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute):
            continue
        of = ast.unparse(node.value)
        of_broker = of == "broker" or of.startswith("broker.")
        if of_broker and isinstance(node.ctx, ast.Store):
            found.append(f"{of}.{node.attr} = ...")
        elif (of_broker and node.attr.startswith("_")) or (of.endswith("store") and node.attr.startswith("append")):
            found.append(f"{of}.{node.attr}")
    return sorted(found)


def cycles(imports: Mapping[str, Set[str]]) -> list[list[str]]:
    """The files of each cycle: those that reach each other."""
    reached: dict[str, set[str]] = {}
    for name in imports:
        seen: set[str] = set()
        ahead = list(imports[name])
        while ahead:
            if (one := ahead.pop()) not in seen:
                seen.add(one)
                ahead += imports[one]
        reached[name] = seen
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in imports
        if name in reached[name]
    }
    return sorted(map(list, found))
