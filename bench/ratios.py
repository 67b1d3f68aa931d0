# SPDX-License-Identifier: Apache-2.0
"""Ratios with their goals, in the form that all benchmarks print."""

from __future__ import annotations

__all__ = ["at_least", "at_most"]


def at_least(ratio: float, goal: float) -> str:
    """A ratio for which more is better; 0 is no goal: ``1.62x of 1.5 ok``."""
    return f"{ratio:.2f}x of {goal:.1f} {_verdict(ratio >= goal)}" if goal else f"{ratio:.2f}x"


def at_most(ratio: float, goal: float) -> str:
    """A ratio for which less is better: ``1.05x of at most 1.2 ok``."""
    return f"{ratio:.2f}x of at most {goal:.1f} {_verdict(ratio <= goal)}"


def _verdict(kept: bool) -> str:
    return "[green]ok[/green]" if kept else "[red]missed[/red]"
