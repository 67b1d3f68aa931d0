# SPDX-License-Identifier: Apache-2.0
"""The result of a check of a store: problems, and what was checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """``where``: file, or topic/queue/offset. ``note``: no rule is broken, but it is worth knowing."""

    where: str
    what: str
    note: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass
class StoreSummary:
    record_count: int = 0
    record_bytes: int = 0
    newest_timestamp_ms: int = 0
    queue_count: int = 0
    entry_count: int = 0
    index_file_count: int = 0
    key_count: int = 0
    offset_count: int = 0
