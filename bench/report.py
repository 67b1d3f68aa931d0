# SPDX-License-Identifier: Apache-2.0
"""What the programs print: ratios with their goals, tables of figures, and a file of all figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def at_least(ratio: float, goal: float) -> str:
    """A ratio for which more is better; 0 is no goal: ``1.62x of 1.5 ok``."""
    return f"{ratio:.2f}x of {goal:.1f} {mark(ratio >= goal)}" if goal else f"{ratio:.2f}x"


def at_most(ratio: float, goal: float) -> str:
    """A ratio for which less is better: ``1.05x of at most 1.2 ok``."""
    return f"{ratio:.2f}x of at most {goal:.1f} {mark(ratio <= goal)}"


def mark(is_reached: bool) -> str:
    return "[green]ok[/green]" if is_reached else "[red]missed[/red]"


def new_console(width: int) -> Console:
    """``width``: of the output in a file."""
    return Console(width=None if sys.stdout.isatty() else width)


def figures_table(title: str, names: tuple[str, ...], *figures: str) -> Table:
    """A table whose first columns are names, and the others numbers."""
    table = Table(*names, title=title)
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def write_figures(path: Path | None, figures: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
