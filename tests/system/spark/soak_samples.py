# SPDX-License-Identifier: Apache-2.0
"""What processes hold in memory over time, and whether that is flat. Linux: /proc.

Only what a process has for itself counts (RssAnon): the files that a broker maps belong to the page cache, and go with retention.

Flat, over the samples after the first quarter (pools fill, code is compiled, what is remembered of old batches reaches its bound):
    the line through the medians (Theil and Sen's: half of the samples may be outliers) rises over that time by at most a twentieth of the
    median, and never less than 4 MiB are borne: an allocator takes and keeps arenas of 1 MiB, a thread of one's own some more.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

_MIB: Final = 1 << 20
_ALLOWED_SHARE: Final = 0.05
_ALLOWED_BYTES: Final = 4 * _MIB
_PAIRS: Final = 20_000


@dataclass(frozen=True)
class Series:
    """Samples (seconds, value) in order."""

    points: Sequence[tuple[float, float]]

    def rest(self) -> Series:
        """Without the first quarter of the time."""
        first, last = self.points[0][0], self.points[-1][0]
        return Series([point for point in self.points if point[0] >= first + (last - first) / 4])

    @property
    def median(self) -> float:
        return median(value for _, value in self.points)

    @property
    def span_s(self) -> float:
        return self.points[-1][0] - self.points[0][0]

    def slope(self) -> float:
        """Of the line, per second: the median of the slopes of pairs, of which a seeded choice is looked at when there are many."""
        points, dice = self.points, random.Random(1)
        every = [(one, two) for one in range(len(points)) for two in range(one)]
        pairs = every if len(every) <= _PAIRS else dice.sample(every, _PAIRS)
        slopes = [
            (points[one][1] - points[two][1]) / (points[one][0] - points[two][0])
            for one, two in pairs
            if points[one][0] > points[two][0]
        ]
        return median(slopes) if slopes else 0.0

    def growth(self) -> float:
        """How much the line rises after the first quarter."""
        rest = self.rest()
        return rest.slope() * rest.span_s

    def allowed_bytes(self) -> float:
        return max(_ALLOWED_BYTES, _ALLOWED_SHARE * self.rest().median)

    def is_flat(self) -> bool:
        """Of memory."""
        return self.growth() <= self.allowed_bytes()


def children_of(pid: int) -> list[int]:
    """Its children, theirs, and so on."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:  # gone between the two looks
            continue
        for child in children:
            found += [child, *children_of(child)]
    return found


def memory_by_role(driver: int) -> dict[str, list[int]]:
    """Bytes of each process of a Spark driver, by what it does: ``driver``, ``jvm``, ``source``, and the workers' modules."""
    found: dict[str, list[int]] = {}
    for pid in (driver, *children_of(driver)):
        with contextlib.suppress(OSError, LookupError):
            size = anonymous_bytes(pid)
            role = "driver" if pid == driver else _role(Path(f"/proc/{pid}/cmdline").read_bytes())
            found.setdefault(role, []).append(size)
    return found


def _role(command_line: bytes) -> str:
    words = command_line.rstrip(b"\0").decode(errors="replace").split("\0")
    if os.path.basename(words[0]) == "java":
        return "jvm"
    if words[-1].endswith("python_streaming_source_runner"):
        return "source"
    return words[-1].rpartition(".")[2]


def anonymous_bytes(pid: int) -> int:
    """Raises OSError or LookupError: the process is gone, or going (such a one has no memory any more)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise LookupError(pid)
