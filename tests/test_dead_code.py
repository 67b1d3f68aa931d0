# SPDX-License-Identifier: Apache-2.0
"""Nothing in the package is there for tests alone."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from dead_code import Definition, Sources

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
# Called by what is not here to be read: by prometheus_client; by pytest; by Spark; by
# concurrent.futures.
CALLED_FROM_OUTSIDE = (
    "_OnLoop.describe",
    "sprocketmq.testing.pytest_plugin pytest_configure",
    "sprocketmq.client.produce.send_future SendFuture._",
    "sprocketmq.client.observe.instrumentor SprocketMQInstrumentor",
    "sprocketmq.testing.simulation.disk _Os.",
)
# The laws of each machine, which tests that drive it at random look at.
LAWS = "check_invariants"
# Decorators that leave a definition what it was; any other hands it to somebody.
OWN_DECORATORS = frozenset({"property", "staticmethod", "classmethod", "overload", "override", "final", "cache", "lru_cache", "setter",
                            "abstractmethod", "cached_property", "contextmanager", "asynccontextmanager", "dataclass"})  # fmt: skip


def is_given_away(definition: Definition) -> bool:
    """A decorator other than Python's own hands it to somebody, or it fulfils what a base class asks for."""
    for decorator in getattr(definition.node, "decorator_list", []):
        what = decorator.func if isinstance(decorator, ast.Call) else decorator
        if getattr(what, "attr", getattr(what, "id", "")) not in OWN_DECORATORS:
            return True
    *owners, name = definition.name.split(".")
    if not owners:
        return False
    owner: Any = functools.reduce(getattr, owners, importlib.import_module(definition.module))
    return any(name in vars(base) for base in owner.__mro__[1:])


def is_declared(definition: Definition) -> bool:
    """A request is found by ``wire.requests`` in its module, whatever its name there is."""
    value = getattr(definition.node, "value", None)
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") == "Request"


def dead(sources: Sources, documented: frozenset[str] = frozenset()) -> list[str]:
    found = []
    for definition in sources.definitions:
        first, *_ = parts = definition.name.split(".")
        name = parts[-1]
        is_public = first in documented and not name.startswith("_")
        is_called = any(part in str(definition) for part in CALLED_FROM_OUTSIDE)
        if name.startswith("__") or name in ("_", LAWS) or is_public or is_called or is_declared(definition):
            continue
        if not sources.is_read(definition) and not is_given_away(definition):
            found.append(str(definition))
    return found


def test_no_definition_is_there_for_tests_alone() -> None:
    documented = re.findall(r"^   (\w+)$", (ROOT / "docs/reference.rst").read_text("utf-8"), re.MULTILINE)
    assert len(documented) > 100
    found = dead(Sources([ROOT / "src"]), frozenset(documented))
    assert found == [], (
        "nothing in src uses these: delete them, or list them in CALLED_FROM_OUTSIDE if a library calls them"
    )


PART = """
from enum import Enum
import numpy as np

LIMIT_MS = 1
_PRIVATE = 2
TABLE = {"a": 1}
__all__ = ["diff", "Kept"]

def diff():
    return diff

def diff_of(values):
    return np.diff(values)

class Colour(Enum):
    RED = 1

class Kept:
    SIZE = 1
    USED = 2

    def start(self):
        return self._inner() + self.USED

    def _inner(self):
        return 0

    def stop(self):
        return self.stop()

class Other:
    def stop(self):
        return 0

    def run(self):
        return self.stop()
"""
USER = """
from package.part import Colour, Kept, Other, diff_of
from package import part

def main():
    "diff would be Kept.SIZE here"
    Kept().start()
    return Other().run(), diff_of([]), Colour.RED, part.TABLE, log.LIMIT_MS, LIMIT_MS
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "package").mkdir()
    for name, text in (
        ("__init__", ""),
        ("part", PART.replace("import numpy as np", "import math as np")),
        ("user", USER),
    ):
        (tmp_path / "package" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_name_that_something_else_shares_is_found(package: Path) -> None:
    """A function that a library has, too; a constant that a module reads of something else; a method of another class."""
    assert dead(Sources([package]), frozenset({"main"})) == [
        "package.part LIMIT_MS",
        "package.part _PRIVATE",
        "package.part diff",
        "package.part Kept.SIZE",
        "package.part Kept.stop",
    ]
