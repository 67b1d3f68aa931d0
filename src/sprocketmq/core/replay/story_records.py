# SPDX-License-Identifier: Apache-2.0
"""What a story consists of: deliveries of messages, stalls of queues, and lines of text. ``decision_story`` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One line of a story; ``why`` may be empty."""

    at_ms: int
    what: str
    why: str = ""


@dataclass(slots=True)
class Delivery:
    """One stored copy of a message, from the pull to its end in this consumer.

    Attributes:
        status: the listener's last answer.
        pulled_ms, taken_ms, begun_ms, ended_ms, settled_ms: None for a step that it did not reach.
        sent_back, dead_lettered, timed_out: what happened to it.
        dropped: its queue was dropped before it was settled.
        late: the listener answered after a retry copy was stored.
    """

    life: str
    queue: str
    offset: int
    message_id: str
    keys: list[str]
    tags: str | None
    size: int
    tries: int
    born_ms: int
    stored_ms: int
    pulled_ms: int
    taken_ms: int | None = None
    begun_ms: int | None = None
    ended_ms: int | None = None
    settled_ms: int | None = None
    status: str | None = None
    sent_back: bool = False
    sent_back_ms: int | None = None
    level: int = 0
    dead_lettered: bool = False
    timed_out: bool = False
    dropped: bool = False
    late: bool = False
    story: list[StoryEvent] | None = None

    @property
    def running(self) -> bool:
        return self.begun_ms is not None and self.ended_ms is None

    @property
    def lost(self) -> bool:
        """It failed, and is not retried, because the group is broadcasting."""
        return (
            self.settled_ms is not None
            and self.status == "RECONSUME_LATER"
            and not self.sent_back
            and not self.dead_lettered
        )

    @property
    def consumed(self) -> bool:
        return self.settled_ms is not None and not (self.sent_back or self.dead_lettered or self.lost)


@dataclass(slots=True)
class Stall:
    """A span in which a queue made no progress. ``kind`` is "pull", "progress" or "turn"; ``to_ms`` None: until the end of the record."""

    queue: str
    kind: str
    reason: str
    from_ms: int
    to_ms: int | None = None
    offset: int = -1
    done_behind: int = 0
    message_id: str = ""


@dataclass(slots=True)
class QueueStory:
    """What happened to one queue of this consumer. ``added`` and ``dropped`` are times; ``committed`` is the progress in memory and
    ``persisted`` that of the broker or the file."""

    queue: str
    added: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    committed: int = -1
    persisted: int = -1
    consumed: int = 0
    story: list[StoryEvent] = field(default_factory=list)
