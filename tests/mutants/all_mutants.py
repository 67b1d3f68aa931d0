# SPDX-License-Identifier: Apache-2.0
"""All mutants: what the modules ``of_<part>.py`` beside this one hold in their lists ``..._MUTANTS``."""

from __future__ import annotations

import importlib
from pathlib import Path

from mutants.mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: list[Mutant] = [
    mutant
    for path in sorted(Path(__file__).parent.glob("of_*.py"))
    for name, found in sorted(vars(importlib.import_module(f"mutants.{path.stem}")).items())
    if name.endswith("_MUTANTS")
    for mutant in found
]
