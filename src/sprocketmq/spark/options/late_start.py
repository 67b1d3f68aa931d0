"""How a queue begins that a stream could not see when it was new: its broker was away. Pure.

    {"v":1,"q":...,"late":{"rule":"latest","ms":1700000000000,"of":"flights,trains","seen":["broker-a"]}}

A queue that appears later is new, or it was there before. If its broker was there when the query began (``seen``), it is new, and begins at
its first message, whatever the clocks say. Another broker does not say which, and it need not: by the rule of the query's own start both
begin where they should, as all messages of a new queue were stored after the query began.

The rule covers the topics (or the pattern) that the query had then: one that is added to it later begins at its smallest offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sprocketmq.wire.records.message import MessageQueue

__all__ = ["LateStart"]

_PATTERN: Final = "/"


@dataclass(frozen=True)
class LateStart:
    """``rule``: ``latest`` (the first message stored at or after ``ms``), or ``group`` (where the group is; ``ms`` where it has no progress
    and the fall-back is latest). ``of``: topics with commas between, or a pattern between slashes. ``seen``: the brokers that were there,
    sorted."""

    rule: Literal["latest", "group"]
    ms: int
    of: str
    seen: tuple[str, ...] = ()

    @classmethod
    def of_topics(
        cls,
        rule: Literal["latest", "group"],
        ms: int,
        topics: tuple[str, ...],
        pattern: str | None,
        seen: Iterable[str],
    ) -> LateStart:
        """The rule of a query that reads these topics, or all that match, and began while the brokers ``seen`` were there."""
        of = ",".join(topics) if pattern is None else f"{_PATTERN}{pattern}{_PATTERN}"
        return cls(rule, ms, of, tuple(sorted(seen)))

    def covers(self, queue: MessageQueue) -> bool:
        """Whether the query would have read ``queue`` when it began, had its broker been there."""
        if queue.broker_name in self.seen:
            return False
        if self.of.startswith(_PATTERN):
            return re.fullmatch(self.of[1:-1], queue.topic) is not None
        return queue.topic in self.of.split(",")

    def to_json(self) -> dict[str, Any]:
        return {"rule": self.rule, "ms": self.ms, "of": self.of, "seen": list(self.seen)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> LateStart | None:
        """None where there is none; raises KeyError, TypeError or ValueError for anything else."""
        if document is None:
            return None
        rule, ms, of, seen = document["rule"], document["ms"], document["of"], document["seen"]
        is_strange = type(ms) is not int or not isinstance(of, str) or not isinstance(seen, list)
        if rule not in ("latest", "group") or is_strange or not all(isinstance(name, str) for name in seen):
            raise ValueError(f"{document!r} is no rule for queues that come late")
        return cls(rule, ms, of, tuple(seen))
