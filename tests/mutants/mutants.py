"""All mutants, in the order of docs/architecture.md."""

from __future__ import annotations

from mutant import Mutant
from of_the_client import CLIENT_MUTANTS
from of_the_parts_below import LOWER_MUTANTS

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: list[Mutant] = [*CLIENT_MUTANTS, *LOWER_MUTANTS]
