# SPDX-License-Identifier: Apache-2.0
"""What production has to run for a mechanism to be there: the statements that its mutants break, the function of core that decides it.

row --its tests--> mutants that they notice --old and new text--> changed lines --> statements of functions
                                                                                    a constant's: those that use it
row --its function--> statements of its body
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mechanisms.mechanism import Mechanism

__all__ = ["BARRIERS", "Anchor", "anchors_of", "unreached"]

# What only a fault of our own would run, by what goes wrong without it.
BARRIERS = frozenset({"what breaks when one consumer's failing progress keeps that of the others from being written"})

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sprocketmq"
Place = tuple[str, int, int]  # file, first and last line of a statement


@dataclass(frozen=True)
class Anchor:
    """What one mutant breaks, or what one function of core does: it is reached when one of these statements has run."""

    what: str
    places: tuple[Place, ...]

    def is_reached(self, lines: Mapping[str, set[int]]) -> bool:
        return any(not lines.get(file, set()).isdisjoint(range(first, last + 1)) for file, first, last in self.places)


def anchors_of(mechanism: Mechanism, mutants: Iterable[Any]) -> list[Anchor]:
    """Of the mutants of its row that its own tests notice, and of the function that decides it."""
    tests = {f"tests/{test}" for test in mechanism.tests.split()}
    noticed = [
        mutant
        for mutant in mutants
        if mutant.mechanism == mechanism.row and tests & {test.partition("[")[0] for test in mutant.test.split()}
    ]
    anchors = [Anchor(f"what breaks when {mutant.what}", tuple(_places(mutant))) for mutant in noticed]
    if mechanism.function:
        file = f"src/sprocketmq/{mechanism.file}"
        anchors.append(Anchor(mechanism.function, tuple(_body(file, mechanism.function))))
    return anchors


def unreached(mechanism: Mechanism, mutants: Iterable[Any], lines: Mapping[str, set[int]]) -> list[Anchor]:
    """What of a mechanism no line of ``lines`` (by file, from the project's root) has reached."""
    wanted = (anchor for anchor in anchors_of(mechanism, mutants) if anchor.what not in BARRIERS)
    return [anchor for anchor in wanted if not anchor.is_reached(lines)]


def _body(file: str, function: str) -> Iterator[Place]:
    found: Any = ast.parse(_text(file))
    for name in function.split("."):
        found = next(node for node in found.body if getattr(node, "name", None) == name)
    for statement in found.body:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):  # the docstring
            yield file, *_extent(statement)


def _places(mutant: Any) -> Iterator[Place]:
    text = _text(mutant.file)
    first_line = text[: text.index(mutant.old)].count("\n") + 1
    changed = [first_line + line for line in _changed_lines(mutant.old, mutant.new)]
    hit = [
        one
        for one in _statements(mutant.file)
        if any(_extent(one[0])[0] <= line <= _extent(one[0])[1] for line in changed)
    ]
    if not hit:  # a comment: what stands behind it
        hit = [next(one for one in _statements(mutant.file) if one[0].lineno > changed[-1])]
    for statement, function in hit:
        if function is None:
            yield from _users(_names(statement), _class_of(mutant.file, statement))
            yield from _called_later(mutant.file, statement)
        elif statement is function or isinstance(
            statement, ast.ExceptHandler
        ):  # a head: a default, a decorator; what it catches
            yield mutant.file, *_extent(statement.body[0])
        else:
            yield mutant.file, *_extent(statement)


def _called_later(file: str, statement: Statement) -> Iterator[Place]:
    """The functions that a statement of the module hands to somebody."""
    named = (
        {node.id for node in _head_nodes(statement) if isinstance(node, ast.Name)}
        if isinstance(statement, ast.Expr)
        else set()
    )
    for one, function in _statements(file):
        if one is function and one.name in named:
            yield file, *_extent(one.body[0])


def _changed_lines(old: str, new: str) -> list[int]:
    """Of ``old``, counted from 0: without the lines that ``new`` begins and ends with, too; all where nothing but those is there."""
    before, after = old.splitlines(), new.splitlines()
    begin, end = 0, len(before)
    while begin < min(end, len(after)) and before[begin] == after[begin]:
        begin += 1
    while end > begin and len(after) - (len(before) - end) > begin and before[end - 1] == after[end - 1 - len(before)]:
        end -= 1
    return list(range(begin, end)) or list(range(len(before)))


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text("utf-8")


Function = ast.FunctionDef | ast.AsyncFunctionDef
Statement = ast.stmt | ast.ExceptHandler


@cache
def _statements(file: str) -> list[tuple[Statement, Function | None]]:
    """In their order, each with the function that it is in, or is the head of; None: it runs when the module is imported."""
    found: list[tuple[Statement, Function | None]] = []

    def walk(node: ast.AST, function: Function | None) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, Function) else function
            if isinstance(child, Statement) and not isinstance(child, ast.ClassDef):
                found.append((child, inner))
            walk(child, inner)

    walk(ast.parse(_text(file)), None)
    return sorted(found, key=lambda one: one[0].lineno)


def _extent(statement: Statement) -> tuple[int, int]:
    """Lines of a statement, of a compound one the head's."""
    body = getattr(statement, "body", None)
    last = statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, body[0].lineno - 1) if body else last


def _names(statement: Statement) -> set[str]:
    """What a statement of a module or class defines."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return {
        node.id for target in targets if target is not None for node in ast.walk(target) if isinstance(node, ast.Name)
    }


def _class_of(file: str, statement: Statement) -> str | None:
    classes = (node for node in ast.walk(ast.parse(_text(file))) if isinstance(node, ast.ClassDef))
    return next(
        (node.name for node in classes if statement.lineno in range(node.lineno, (node.end_lineno or 0) + 1)), None
    )


def _users(names: set[str], owner: str | None, seen: frozenset[str] = frozenset()) -> Iterator[Place]:
    """Statements in functions that read one of these, call the class that has them (an enum finds its members by value), or read what a
    module or class makes of either."""
    names = names - seen
    if not names:
        return
    wanted = names | ({owner} if owner else set())
    for path in sorted(SOURCE.rglob("*.py")):
        file = str(path.relative_to(ROOT))
        if not any(name in _text(file) for name in wanted):
            continue
        for statement, function in _statements(file):
            nodes = list(_head_nodes(statement))
            read = {_name(node) for node in nodes}
            called = {_name(node.func) for node in nodes if isinstance(node, ast.Call)}
            if function is None:
                if wanted & read and isinstance(statement, ast.Assign | ast.AnnAssign):
                    yield from _users(_names(statement), _class_of(file, statement), seen | names)
            elif statement is not function and (names & read or owner in called - {None}):
                yield file, *_extent(statement)


def _name(node: ast.AST) -> str | None:
    return getattr(node, "id", getattr(node, "attr", None))


def _head_nodes(statement: Statement) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(statement):
        if name not in ("body", "orelse", "finalbody", "handlers", "cases"):
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.AST):
                    yield from ast.walk(node)
