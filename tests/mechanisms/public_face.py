# SPDX-License-Identifier: Apache-2.0
"""The tests that use SprocketMQ as its users do: by the names of docs/reference.rst and the command line, and by nothing behind them.

A test counts when neither it, nor what it uses of its own file, nor a fixture of its folder, nor a module beside it imports a module of
``sprocketmq`` that the reference does not have, or touches an attribute that begins with an underscore.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

from mechanisms.mechanism import Mechanism

__all__ = ["ROOT", "WHOLE", "Source", "public_tests", "scenarios"]

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
# Where tests by the public API may be, and the files of which all are run, though no line of docs/internals/mechanisms.md names them.
FILES = ("inproc/client/test_*.py", "inproc/testing/test_*.py", "system/cli/test_*.py", "system/net/test_fork.py")
WHOLE = frozenset(
    {
        "inproc/client/test_client_admin.py",
        "inproc/client/test_client_bad_listeners.py",
        "inproc/client/test_client_rare_cases.py",
        "inproc/testing/test_embedded.py",
        "system/net/test_fork.py",
    }
)
# Faults are asked for by the number of a request (``sprocketmq.testing``).
_BESIDES = frozenset({"sprocketmq.wire.codes"})


@cache
def public_modules() -> frozenset[str]:
    reference = (ROOT / "docs" / "reference.rst").read_text("utf-8")
    return frozenset(re.findall(r"currentmodule:: (\S+)", reference)) | _BESIDES


class Source:
    """A file of tests, of fixtures, or beside them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text("utf-8"))

    @cached_property
    def internals(self) -> frozenset[str]:
        """Names that the file imports from behind the public API."""
        return frozenset(name for node in ast.walk(self.tree) for name in self._internals_of(node))

    def _internals_of(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("sprocketmq.") and alias.name not in public_modules():
                    yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if not self._is_public(node.module, alias.name):
                    yield alias.asname or alias.name

    def _is_public(self, module: str, name: str) -> bool:
        if module.partition(".")[0] == "sprocketmq":
            inner = ROOT / "src" / Path(*module.split(".")) / name
            if inner.is_dir() or inner.with_suffix(".py").is_file():  # a module
                return f"{module}.{name}" in public_modules()
            return module in public_modules()
        beside = self.path.parent / f"{module}.py"
        return not beside.is_file() or Source.of(beside).is_public_throughout

    @cached_property
    def is_public_throughout(self) -> bool:
        return not self.internals and not any(map(_is_private, ast.walk(self.tree)))

    @cached_property
    def tops(self) -> dict[str, ast.stmt]:
        """What the file defines: functions, classes and constants."""
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update({target.id: node for target in targets if isinstance(target, ast.Name)})
        return found

    def uses_internals(self, name: str, seen: set[str] | None = None) -> bool:
        """Whether the definition, or one of this file or of its folder's fixtures that it uses, goes behind the public API."""
        seen = set() if seen is None else seen
        node = self.tops.get(name)
        if node is None:
            fixtures = self.path.parent / "conftest.py"
            return self.path != fixtures and fixtures.is_file() and Source.of(fixtures).uses_internals(name)
        if name in seen:
            return False
        seen.add(name)
        used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        used |= {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
        if used & self.internals or any(map(_is_private, ast.walk(node))):
            return True
        return any(self.uses_internals(one, seen) for one in used)

    @staticmethod
    @cache
    def of(path: Path) -> Source:
        return Source(path)


def _is_private(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))


def public_tests() -> list[str]:
    """Node ids below the project's root."""
    found = []
    for path in sorted(path for pattern in FILES for path in TESTS.glob(pattern)):
        source = Source.of(path)
        tests = (name for name in source.tops if name.startswith("test_") and not source.uses_internals(name))
        found += [f"{path.relative_to(ROOT)}::{name}" for name in tests]
    return found


def scenarios(mechanisms: Iterable[Mechanism]) -> list[str]:
    """Of the public tests those that these mechanisms name, and those of ``WHOLE``."""
    named = {f"tests/{test}" for mechanism in mechanisms for test in mechanism.tests.split()}
    whole = tuple(f"tests/{file}::" for file in WHOLE)
    return [test for test in public_tests() if test in named or test.startswith(whole)]
