# SPDX-License-Identifier: Apache-2.0
"""What the product has during a run in the place of modules, functions and locks."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any


class Replacements(contextlib.ExitStack):
    """At its end everything is as it was."""

    def set(self, owner: object, name: str, value: object) -> None:
        self.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def in_modules(self, rooms: str | tuple[str, ...], *pairs: tuple[object, object]) -> None:
        """Wherever the modules of ``rooms`` have the first one of a pair, let them have the second one."""
        for module, name, value in attributes_of(rooms):
            for old, new in pairs:
                if value is old:
                    self.set(module, name, new)


def attributes_of(rooms: str | tuple[str, ...]) -> Iterator[tuple[ModuleType, str, Any]]:
    """Of all loaded modules whose names begin so, but for the simulator's own."""
    for name, module in list(sys.modules.items()):
        if name.startswith(rooms) and not name.startswith("sprocketmq.testing.simulation"):
            for attribute, value in list(vars(module).items()):
                yield module, attribute, value


def copied(module: ModuleType, **others: object) -> ModuleType:
    copy = ModuleType(module.__name__)
    vars(copy).update(vars(module), **others)
    return copy


@contextlib.contextmanager
def silence(level: int = logging.CRITICAL) -> Iterator[None]:
    """Nothing up to this level is logged meanwhile."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(before)
