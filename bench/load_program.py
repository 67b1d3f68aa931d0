# SPDX-License-Identifier: Apache-2.0
"""The load generator load.c, for the benches that run it; `make -C bench` compiles it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["LOAD", "Form", "random_form"]

LOAD: Final = Path(__file__).resolve().parent / "build/load"
Form = tuple[str, ...]


def random_form(seed: int) -> Form:
    """The options for messages that are drawn at random."""
    return "--form", "random", "--seed", str(seed)
