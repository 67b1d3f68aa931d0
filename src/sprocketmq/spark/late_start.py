"""How a queue begins that a stream could not see when it was new: its broker was away. Pure.

    {"v":1,"q":...,"late":{"rule":"latest","ms":1700000000000,"of":"flights,trains"}}

A queue that appears later is new, or it was there before. Its broker does not say which, and it need not: by the rule of the query's own
start both begin where they should. All messages of a new queue were stored after the query began, so "from then on" is its first one.

The rule covers the topics (or the pattern) that the query had then: one that is added to it later begins at its smallest offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["LateStart"]

_PATTERN: Final = "/"


@dataclass(frozen=True)
class LateStart:
    """``rule``: ``latest`` (the first message stored at or after ``ms``), or ``group`` (where the group is; ``ms`` where it has no progress
    and the fall-back is latest). ``of``: topics with commas between, or a pattern between slashes."""

    rule: Literal["latest", "group"]
    ms: int
    of: str

    @classmethod
    def of_topics(
        cls, rule: Literal["latest", "group"], ms: int, topics: tuple[str, ...], pattern: str | None
    ) -> LateStart:
        """The rule of a query that reads these topics, or all that match."""
        return cls(rule, ms, ",".join(topics) if pattern is None else f"{_PATTERN}{pattern}{_PATTERN}")

    def covers(self, topic: str) -> bool:
        """Whether the query read ``topic`` when it began."""
        if self.of.startswith(_PATTERN):
            return re.fullmatch(self.of[1:-1], topic) is not None
        return topic in self.of.split(",")

    def to_json(self) -> dict[str, Any]:
        return {"rule": self.rule, "ms": self.ms, "of": self.of}

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> LateStart | None:
        """None where there is none; raises KeyError, TypeError or ValueError for anything else."""
        if document is None:
            return None
        rule, ms, of = document["rule"], document["ms"], document["of"]
        if rule not in ("latest", "group") or type(ms) is not int or not isinstance(of, str):
            raise ValueError(f"{document!r} is no rule for queues that come late")
        return cls(rule, ms, of)
