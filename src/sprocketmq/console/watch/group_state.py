# SPDX-License-Identifier: Apache-2.0
"""One group as the overview shows it: its lag as brokers told it, the doctor's verdict, and how urgent that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sprocketmq.core.doctor.group_doctor import GroupDiagnosis, GroupVerdict
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["GroupState", "Level", "QueueLag", "Verdict", "level_of"]


class Level(Enum):
    """How urgent something is; the overview has the first ones at the top."""

    BAD = "bad"
    UNKNOWN = "unknown"
    WARN = "warn"
    IDLE = "idle"
    WELL = "well"

    @property
    def text(self) -> str:
        return _TEXTS[self]

    @property
    def rank(self) -> int:
        return list(Level).index(self)


_TEXTS = {
    Level.BAD: "needs attention",
    Level.UNKNOWN: "not known",
    Level.WARN: "look at it",
    Level.IDLE: "idle",
    Level.WELL: "well",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the doctor said, or why it said nothing; ``at_ms`` is when."""

    at_ms: int
    diagnosis: GroupDiagnosis | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class QueueLag:
    """One queue: ``consumer_offset`` None is no progress."""

    broker_offset: int
    consumer_offset: int | None

    @property
    def lag(self) -> int:
        return max(0, self.broker_offset - (self.consumer_offset or 0))


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group.

    Attributes:
        queues: as brokers told it, retry topics apart.
        retry_lag: of its retry topic.
        silent: brokers that did not tell, so that the lag is at least what is shown.
        verdict: None before the doctor was asked.
        per_second: how fast its progress moved between the last two looks; None before the second one.
    """

    group: str
    queues: dict[MessageQueue, QueueLag] = field(default_factory=dict)
    retry_lag: int = 0
    silent: tuple[str, ...] = ()
    verdict: Verdict | None = None
    per_second: float | None = None

    @property
    def lag(self) -> int | None:
        """Messages not consumed, retries among them; None where no broker told of any progress."""
        return sum(queue.lag for queue in self.queues.values()) + self.retry_lag if self.queues else None

    @property
    def level(self) -> Level:
        return level_of(self.verdict, self.lag)


def level_of(verdict: Verdict | None, lag: int | None) -> Level:
    """How urgent a verdict is. A group without members is so only where something waits for it."""
    diagnosis = verdict.diagnosis if verdict is not None else None
    if diagnosis is None or diagnosis.verdict is GroupVerdict.UNKNOWN:
        return Level.UNKNOWN
    if diagnosis.verdict.is_well:
        return Level.WARN if diagnosis.advice else Level.WELL  # it moves, and does not catch up
    if diagnosis.verdict is GroupVerdict.OFFLINE and not lag:
        return Level.IDLE
    if diagnosis.verdict is GroupVerdict.FLOW_CONTROL:
        return Level.WARN
    return Level.BAD
