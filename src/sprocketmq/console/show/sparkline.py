# SPDX-License-Identifier: Apache-2.0
"""A small line chart for a row of a table; unknown values are gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WIDTH: Final = 100
HEIGHT: Final = 24


def sparkline(values: Sequence[int | None]) -> list[str]:
    """The points of each piece of the line, for SVG's ``polyline``; 0 is at the bottom."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return []
    top = max(known) or 1
    step = WIDTH / max(1, len(values) - 1)
    pieces: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            y = HEIGHT - 2 - (HEIGHT - 4) * value / top
            pieces[-1].append(f"{number * step:.1f},{y:.1f}")
    return [" ".join(piece) for piece in pieces if len(piece) > 1]
