"""docs/architecture.md is true of the code: its file map names every module, and every module it names exists; no definition is dead."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).resolve().parents[1]
MAP = re.compile(r"^\| `(?P<path>src/[^`]+)` \|", re.MULTILINE)


def test_the_file_map_names_every_module_and_only_those() -> None:
    mapped = MAP.findall((ROOT / "docs/architecture.md").read_text())
    present = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "__init__.py"
        or path.read_text().count("\n") > 40  # an __init__ that only re-exports needs no row
    }
    assert sorted(set(mapped)) == sorted(mapped), "a module is mapped twice"
    assert sorted(present - set(mapped)) == [], "modules that the map does not name"
    assert sorted(set(mapped) - present) == [], "modules that the map names and the code does not have"


def test_every_map_row_says_what_the_file_is() -> None:
    for line in (ROOT / "docs/architecture.md").read_text().splitlines():
        if MAP.match(line):
            assert len(line.split("|")[2].strip()) > 10, line


def test_test_modules_outside_packages_have_names_of_their_own() -> None:
    """pytest imports them by their bare name: two of one name cannot be collected in one run, only apart."""
    loose = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if not (path.parent / "__init__.py").exists() and path.name != "conftest.py"
    ]
    names = Counter(path.name for path in loose)
    assert [str(path.relative_to(ROOT)) for path in loose if names[path.name] > 1] == []


# The broker's parts know the whole broker.
CYCLE_OF_THE_BROKER = "sprocketmq.broker.broker"


def test_no_file_imports_itself_by_way_of_others() -> None:
    """A cycle has no first file to read. Imports for types alone count, too."""
    graph = grimp.build_graph("sprocketmq", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert [cycle for cycle in cycles(imports) if CYCLE_OF_THE_BROKER not in cycle] == []


def test_a_cycle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set[str](), "f": {"g"}, "g": {"f"}}
    assert cycles(imports) == [["a", "b", "c"], ["f", "g"]]


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


PACKAGES = ROOT / "src"
# Called by what is not here to be read: by lark, for a rule of the grammar; by prometheus_client; by pytest.
CALLED_FROM_OUTSIDE = ("sprocketmq/core/sql92/parser.py _Builder.", "sprocketmq/broker/observe/metrics.py _OnLoop.describe",
                       "sprocketmq/testing/pytest_plugin.py pytest_configure")  # fmt: skip
# The laws of each machine, which tests that drive it at random look at.
LAWS = "check_invariants"
# Decorators that leave a definition what it was; any other hands it to somebody.
OWN_DECORATORS = frozenset({"property", "staticmethod", "classmethod", "overload", "override", "final", "cache", "lru_cache", "setter",
                            "abstractmethod", "cached_property", "contextmanager", "asynccontextmanager", "dataclass"})  # fmt: skip


@dataclass(frozen=True)
class Definition:
    path: Path
    name: str  # Class.method
    node: ast.stmt

    def __str__(self) -> str:
        return f"{self.path.relative_to(PACKAGES)} {self.name}"


def definitions(path: Path) -> Iterator[Definition]:
    """Functions, classes, methods and constants of a module."""

    def below(body: list[ast.stmt], owner: str) -> Iterator[Definition]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield Definition(path, owner + node.name, node)
                if isinstance(node, ast.ClassDef):
                    yield from below(node.body, f"{owner}{node.name}.")
            elif isinstance(node, ast.If | ast.Try) and not owner:
                yield from below(node.body, owner)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and not owner:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    names = (inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name))
                    yield from (Definition(path, name, node) for name in names)

    yield from below(ast.parse(path.read_text("utf-8")).body, "")


def references(path: Path) -> Iterator[tuple[str, int]]:
    """Names that a module reads, as variables, attributes or texts (``getattr``); what ``__all__`` lists is not read by that."""
    tree = ast.parse(path.read_text("utf-8"))
    listed: set[int] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets
        ):
            listed |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr, node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in listed:
            yield node.value, node.lineno


def is_given_away(definition: Definition) -> bool:
    """A decorator other than Python's own hands it to somebody, or it fulfils what a base class asks for."""
    for decorator in getattr(definition.node, "decorator_list", []):
        what = decorator.func if isinstance(decorator, ast.Call) else decorator
        if getattr(what, "attr", getattr(what, "id", "")) not in OWN_DECORATORS:
            return True
    *owners, name = definition.name.split(".")
    if not owners:
        return False
    module = ".".join(definition.path.relative_to(PACKAGES).with_suffix("").parts).removesuffix(".__init__")
    owner: Any = functools.reduce(getattr, owners, importlib.import_module(module))
    return any(name in vars(base) for base in owner.__mro__[1:])


def test_no_definition_is_there_for_tests_alone() -> None:
    """By name: one that another definition shares its name with is not found."""
    read: dict[str, list[tuple[Path, int]]] = {}
    for path in [*PACKAGES.rglob("*.py"), *(ROOT / "examples").rglob("*.py")]:
        for name, line in references(path):
            read.setdefault(name, []).append((path, line))
    documented = re.findall(r"auto\w+:: (?:\S+\.)?(\w+)", (ROOT / "docs/reference.rst").read_text("utf-8"))

    def is_used(definition: Definition) -> bool:
        first, *_ = parts = definition.name.split(".")
        name, node = parts[-1], definition.node
        if name.startswith("__") or name in ("_", LAWS) or str(definition).startswith(CALLED_FROM_OUTSIDE):
            return True
        if first in documented and not name.startswith("_"):
            return True
        own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        elsewhere = any(path != definition.path or line not in own for path, line in read.get(name, ()))
        return elsewhere or is_given_away(definition)

    found = (definition for path in sorted(PACKAGES.rglob("*.py")) for definition in definitions(path))
    assert [str(definition) for definition in found if not is_used(definition)] == []
