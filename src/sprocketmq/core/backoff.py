# SPDX-License-Identifier: Apache-2.0
"""Pauses between tries that become longer."""

from __future__ import annotations


class Backoff:
    """The first pause, then each one twice as long as the one before, at most the longest."""

    __slots__ = ("_longest_s", "_next_s")

    def __init__(self, first_s: float = 0.02, longest_s: float = 1.0) -> None:
        self._next_s, self._longest_s = first_s, longest_s

    def next_s(self) -> float:
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        return pause_s
