# SPDX-License-Identifier: Apache-2.0
"""What type checkers see of the packages whose names load when they are used is what the interpreter has."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from sprocketmq.names import names_of

PACKAGES = ("sprocketmq", "sprocketmq.wire.bodies", "sprocketmq.wire.headers")


def defined_in(module: str) -> list[str]:
    """The public names that a module defines itself."""
    file = importlib.import_module(module).__file__
    assert file is not None
    names: list[str] = []
    for node in ast.parse(Path(file).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def seen_by_checkers(package: str) -> dict[str, str]:
    """Name -> module, out of the block that only type checkers read."""
    file = importlib.import_module(package).__file__
    assert file is not None
    block = next(node for node in ast.parse(Path(file).read_text("utf-8")).body if isinstance(node, ast.If))
    found: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        module = str(node.module)
        for name in node.names:
            assert name.asname == name.name or name.name == "*", (
                f"{name.name} is not handed on without 'as {name.name}'"
            )
            found |= dict.fromkeys(defined_in(module) if name.name == "*" else [name.name], module)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_checkers_and_the_interpreter_see_the_same_names(package: str) -> None:
    module, checked = importlib.import_module(package), seen_by_checkers(package)
    assert sorted(set(module.__all__) - {"__version__"}) == sorted(checked)
    for name, where in checked.items():
        assert getattr(module, name) is getattr(importlib.import_module(where), name), name
        assert name in vars(module), f"{name} is looked up anew with each use"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_reported_as_missing(package: str) -> None:
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        module.Nothing  # noqa: B018
    assert set(module.__all__) <= set(dir(module))


def test_a_name_is_loaded_once() -> None:
    load, _, names = names_of("sprocketmq.wire.bodies", {"route": "TopicRouteData"})
    assert names == ["TopicRouteData"]
    assert load("TopicRouteData") is importlib.import_module("sprocketmq.wire.bodies.route").TopicRouteData
