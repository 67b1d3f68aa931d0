# SPDX-License-Identifier: Apache-2.0
"""Packages whose names load when they are first used: ``sprocketmq``, ``sprocketmq.testing`` and rooms of ``sprocketmq.wire``. Type
checkers see imports, the interpreter a table of the same names by module; ``tests/unit/test_names.py`` compares them::

    if TYPE_CHECKING:
        from package.module import Name as Name  # or: import *
    else:
        __getattr__, __dir__, __all__ = names_of(__name__, {"module": "Name ..."})

After its first use a name is an ordinary global of its package, so later uses do not call ``__getattr__``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names_of(package: str, where: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package. ``package``: the ``__name__`` of the package. ``where``: for each
    module, relative to the package, the names in it, separated by blanks."""
    own = vars(sys.modules[package])
    module_of = {name: f".{module}" for module, names in where.items() for name in names.split()}

    def load(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = own[name] = getattr(importlib.import_module(module, package), name)
        return value

    return load, lambda: sorted({*own, *module_of}), sorted(module_of)
