# SPDX-License-Identifier: Apache-2.0
"""Numbers with their units, as people read them: ``1 message``, ``12,000 messages``, ``12.5 s``."""

from __future__ import annotations


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number and its noun: ``1 message``, ``3,000 messages``; ``many`` is the plural, default ``one`` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(span_ms: int) -> str:
    """A span of time for people: ``250 ms``, ``12.5 s``, ``15 min 0 s``, ``3 h 5 min``, ``4 d 0 h``."""
    if span_ms < 1_000:
        return f"{span_ms} ms"
    if span_ms < 120_000:
        return f"{span_ms / 1000:.1f} s"
    if span_ms < 7_200_000:
        return f"{span_ms // 60_000} min {span_ms // 1000 % 60} s"
    if span_ms < 172_800_000:
        return f"{span_ms // 3_600_000} h {span_ms // 60_000 % 60} min"
    return f"{span_ms // 86_400_000} d {span_ms // 3_600_000 % 24} h"
