# SPDX-License-Identifier: Apache-2.0
"""A group as the overview shows it: its lag as reported by brokers, the doctor's verdict, and how urgent it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sprocketmq.core.doctor.group_doctor import GroupDiagnosis, GroupVerdict
from sprocketmq.wire.records.message import MessageQueue


class Level(Enum):
    """How urgent something is, the most urgent first; the overview is sorted in this order."""

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
    """The doctor's diagnosis, or why there is none; ``at_ms`` is its time."""

    at_ms: int
    diagnosis: GroupDiagnosis | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class QueueLag:
    """The offsets of one queue; ``consumer_offset`` is None without progress, ``min_offset`` 0 if it is not known."""

    broker_offset: int
    consumer_offset: int | None
    min_offset: int = 0

    @property
    def lag(self) -> int:
        return max(0, self.broker_offset - max(self.min_offset, self.consumer_offset or 0))


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group. ``queues``: as reported by brokers, without retry topics; those that brokers leave out of the progress of all groups (code
    317: of a group that the broker does not know, or that the topic does not let read) are as old as the verdict. ``silent``: brokers
    that did not answer; the true lag may be larger. ``per_second``: messages consumed, between the last two updates; None before the
    second one. ``missing``: why a proxy does not tell its lag. ``retried``: messages that its retry topic ever had."""

    group: str
    queues: dict[MessageQueue, QueueLag] = field(default_factory=dict)
    retry_lag: int = 0
    silent: tuple[str, ...] = ()
    verdict: Verdict | None = None
    per_second: float | None = None
    missing: str | None = None
    retried: int = 0

    @property
    def is_offline(self) -> bool:
        diagnosis = self.verdict.diagnosis if self.verdict is not None else None
        return diagnosis is not None and diagnosis.verdict is GroupVerdict.OFFLINE

    @property
    def retries_waiting(self) -> int | None:
        """Messages whose next try is not due yet, as of the verdict; None if unknown."""
        diagnosis = self.verdict.diagnosis if self.verdict is not None else None
        return diagnosis.retries_waiting if diagnosis is not None else None

    @property
    def lag(self) -> int | None:
        """Messages not consumed, including retries; None if no broker reported any progress."""
        return sum(queue.lag for queue in self.queues.values()) + self.retry_lag if self.queues else None

    @property
    def level(self) -> Level:
        return level_of(self.verdict, self.lag)


def urgency_of(one: GroupState) -> tuple[bool, int, int, str]:
    """A key that sorts groups: those with members first, then the most urgent, then those with the largest lag."""
    return one.is_offline, one.level.rank, -(one.lag or 0), one.group


def level_of(verdict: Verdict | None, lag: int | None) -> Level:
    """How urgent a verdict is. A group without members is urgent only if it has lag."""
    diagnosis = verdict.diagnosis if verdict is not None else None
    if diagnosis is None or diagnosis.verdict is GroupVerdict.UNKNOWN:
        return Level.UNKNOWN
    if diagnosis.verdict.is_well:
        return Level.WARN if diagnosis.advice else Level.WELL  # it makes progress but does not catch up
    if diagnosis.verdict is GroupVerdict.OFFLINE and not lag:
        return Level.IDLE
    if diagnosis.verdict in (GroupVerdict.FLOW_CONTROL, GroupVerdict.NO_SUCH_TOPIC, GroupVerdict.PAUSED):
        return Level.WARN
    return Level.BAD
