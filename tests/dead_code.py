# SPDX-License-Identifier: Apache-2.0
"""Finds definitions of the package that only tests use.

A name of a module is used where its own module reads it, or where another imports it from there, through as many packages
as it likes; the same name elsewhere is another thing. What a class has is found by name, as nobody knows types here, but
``self.name`` and ``Class.name`` only speak of their own classes, and ``numpy.diff`` of none.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign)
# Classes whose attributes are members or fields: others read them without naming them.
_FIELDS_BY_BASE = frozenset({"Enum", "IntEnum", "IntFlag", "StrEnum", "NamedTuple", "Protocol", "Struct", "TypedDict"})


class Place(NamedTuple):
    module: str
    line: int


class Home(NamedTuple):
    """Where a name is defined: a module, or a name in it."""

    module: str
    name: str | None


@dataclass(frozen=True)
class Definition:
    module: str
    name: str  # Class.method
    node: ast.stmt

    def __str__(self) -> str:
        return f"{self.module} {self.name}"

    @property
    def own(self) -> range:
        return range(self.node.lineno, (self.node.end_lineno or self.node.lineno) + 1)


@dataclass
class Module:
    name: str
    tree: ast.Module
    imported: dict[str, Home] = field(default_factory=dict)
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    listed: set[int] = field(default_factory=set)  # nodes of __all__: to list is not to read

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self.imported |= {one.asname or one.name: Home(node.module, one.name) for one in node.names}
            elif isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    self.imported[one.asname or top] = Home(one.name if one.asname else top, None)
        for node in _statements(self.tree.body):
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                self.defined.setdefault(node.name, node)
            for name in _assigned(node):
                self.defined.setdefault(name, node)
                if (
                    name == "__all__"
                    and isinstance(node, ast.Assign | ast.AnnAssign)
                    and isinstance(node.value, ast.List)
                ):
                    self.listed |= {id(inner) for inner in ast.walk(node)}


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements(node.body + node.orelse)


def _assigned(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, _ASSIGNMENTS):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name))


class Sources:
    """All modules below ``roots`` (name of the first package -> folder that holds it), and who reads what in them."""

    def __init__(self, folders: list[Path]) -> None:
        self.modules: dict[str, Module] = {}
        for folder in folders:
            for path in sorted(folder.rglob("*.py")):
                name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
                self.modules[name] = Module(name, ast.parse(path.read_text("utf-8")))
        self.read: dict[Home, list[Place]] = defaultdict(list)
        self.texts: dict[str, list[Place]] = defaultdict(list)
        # attribute -> where, and of which class it is known to be, if it is
        self.attributes: dict[str, list[tuple[Place, Home | None]]] = defaultdict(list)
        for module in self.modules.values():
            self._read(module, module.tree, None)

    def home(self, module: str, name: str) -> Home | None:
        """Where ``name``, as ``module`` has it, is defined; None: not here."""
        seen: set[Home] = set()
        while module in self.modules and Home(module, name) not in seen:
            seen.add(Home(module, name))
            if name in self.modules[module].defined:
                return Home(module, name)
            if f"{module}.{name}" in self.modules:
                return Home(f"{module}.{name}", None)
            home = self.modules[module].imported.get(name)
            if home is None:
                return None
            if home.name is None:
                return home if home.module in self.modules else None
            module, name = home.module, home.name
        return None

    def _read(self, module: Module, node: ast.AST, owner: Home | None) -> None:
        if id(node) in module.listed:
            return
        if isinstance(node, ast.ClassDef) and owner is None and node.name in module.defined:
            for outer in (*node.bases, *node.keywords, *node.decorator_list):
                self._read(module, outer, None)
            for inner in node.body:
                self._read(module, inner, Home(module.name, node.name))
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            self._use(self.home(module.name, node.id), module, node)
            if owner is not None:  # a class reads what stands in it by its bare name
                self.attributes[node.id].append((Place(module.name, node.lineno), owner))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if self._read_attribute(module, node, owner):
                return
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # what describes a definition does not use what it names
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # getattr, or a table of public names
            for word in node.value.split() if "names_of" in module.imported else [node.value]:
                self.texts[word].append(Place(module.name, node.lineno))
        for child in ast.iter_child_nodes(node):
            self._read(module, child, owner)

    def _read_attribute(self, module: Module, node: ast.Attribute, owner: Home | None) -> bool:
        """Whether all is said of it: it is a name of a module."""
        place, known = Place(module.name, node.lineno), None
        if isinstance(node.value, ast.Name):
            name = node.value.id
            if name in ("self", "cls"):
                known = owner
            elif name in module.imported or name in module.defined:
                home = self.home(module.name, name)
                if home is None:  # of a library
                    return False
                if home.name is None:
                    self._use(self.home(home.module, node.attr), module, node)
                    return True
                if isinstance(self.modules[home.module].defined[home.name], ast.ClassDef):
                    known = home
        self.attributes[node.attr].append((place, known))
        return False

    def _use(self, home: Home | None, module: Module, node: ast.expr) -> None:
        if home is not None:
            self.read[home].append(Place(module.name, node.lineno))

    @cached_property
    def definitions(self) -> list[Definition]:
        """Functions, classes, constants, methods and attributes of classes."""
        found = []
        for module in self.modules.values():
            for name, node in module.defined.items():
                found.append(Definition(module.name, name, node))
                if isinstance(node, ast.ClassDef):
                    found += self._of_class(module, node)
        return found

    def _of_class(self, module: Module, owner: ast.ClassDef) -> Iterator[Definition]:
        has_fields = any(
            getattr(base, "attr", getattr(base, "id", "")) in _FIELDS_BY_BASE for base in self._bases(module, owner)
        ) or any("dataclass" in ast.unparse(one) for one in owner.decorator_list)
        for node in owner.body:
            if isinstance(node, _FUNCTIONS):
                yield Definition(module.name, f"{owner.name}.{node.name}", node)
            elif not has_fields:
                for name in _assigned(node):
                    yield Definition(module.name, f"{owner.name}.{name}", node)

    def _bases(self, module: Module, owner: ast.ClassDef) -> Iterator[ast.expr]:
        for base in owner.bases:
            yield base
            home = self.home(module.name, base.id) if isinstance(base, ast.Name) else None
            if home is not None and home.name is not None:
                node = self.modules[home.module].defined[home.name]
                if isinstance(node, ast.ClassDef):
                    yield from self._bases(self.modules[home.module], node)

    @cached_property
    def _families(self) -> dict[Home, set[Home]]:
        """Each class with those that it inherits from, and the other way round."""
        family: dict[Home, set[Home]] = defaultdict(set)

        def above(home: Home) -> set[Home]:
            node = self.modules[home.module].defined.get(home.name or "")
            found = {home}
            for base in getattr(node, "bases", ()):
                base = base.value if isinstance(base, ast.Subscript) else base
                parent = self.home(home.module, base.id) if isinstance(base, ast.Name) else None
                if parent is not None and parent.name is not None:
                    found |= above(parent)
            return found

        for module in self.modules.values():
            for name, node in module.defined.items():
                if isinstance(node, ast.ClassDef):
                    ancestors = above(Home(module.name, name))
                    for one in ancestors:
                        for other in ancestors:
                            family[one].add(other)
        return family

    def is_read(self, definition: Definition) -> bool:
        """By something outside of itself."""

        def outside(place: Place) -> bool:
            return place.module != definition.module or place.line not in definition.own

        first, _, rest = definition.name.partition(".")
        name = rest or first
        if any(outside(place) for place in self.texts[name]):
            return True
        if not rest:
            if any(outside(place) for place in self.read[Home(definition.module, name)]):
                return True
            # A module that is handed about, as one of a list: whoever reads the name of something unknown may mean its own.
            is_value = bool(self.read[Home(definition.module, None)])
            return is_value and any(known is None for _, known in self.attributes[name])
        family = self._families[Home(definition.module, first)]
        return any(outside(place) and (known is None or known in family) for place, known in self.attributes[name])
