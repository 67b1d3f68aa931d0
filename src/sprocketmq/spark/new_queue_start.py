# SPDX-License-Identifier: Apache-2.0
"""Where a queue begins whose broker was unreachable when the query began. No I/O.

    {"v":1,"q":...,"late":{"rule":"latest","ms":1700000000000,"of":"flights,trains","seen":["broker-a"]}}

If its broker was there when the query began (``seen``), a queue that appears later is new and begins at its first message, whatever the
clocks say. For another broker nobody knows, and the starting point of the query is right in both cases: all messages of a new queue were
stored after the query began. A topic that is added later begins at its smallest offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sprocketmq.wire.records.message import MessageQueue

_PATTERN: Final = "/"


@dataclass(frozen=True)
class NewQueueStart:
    """The rule for queues of brokers that were not seen when the query began. ``rule``: ``latest`` (the first message stored at or
    after ``ms``) or ``group`` (the group's committed offset; ``ms`` if there is none). ``of``: topics, or a pattern between slashes."""

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
    ) -> NewQueueStart:
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
    def from_json(cls, document: Mapping[str, Any] | None) -> NewQueueStart | None:
        """Raises KeyError, TypeError or ValueError for what is not a rule."""
        if document is None:
            return None
        rule, ms, of, seen = document["rule"], document["ms"], document["of"], document["seen"]
        is_strange = type(ms) is not int or not isinstance(of, str) or not isinstance(seen, list)
        if rule not in ("latest", "group") or is_strange or not all(isinstance(name, str) for name in seen):
            raise ValueError(f"{document!r} is not a rule for queues that appear late")
        return cls(rule, ms, of, tuple(seen))
