# SPDX-License-Identifier: Apache-2.0
"""Giving all data of a broker to its slave, so that the slave can become the master. Apache loses what is stored after the last copy.

    SERVING --begin--> WAITING --slave asks for offsets (43)--> FROZEN --its round ends (201), log acknowledged--> DRAINED --finish--> GIVEN
       ^                  ^                                       |                                                  |
       |                  +--------- round not ended in 5 s ------+                                                  |
       +---------------------------- cancel, or the time is over, in any state before GIVEN -------------------------+

A slave copies topics, offsets, delay progress and groups in one round: 21, 43, 45, 201 (each 60 s in 5.x, 10 s in 4.9). Writing is refused
from its request 43 on (FROZEN, DRAINED, GIVEN), so for milliseconds and the slave's restart. DRAINED: one slave has copied the topics in
their present version, then everything else of the frozen state, and acknowledged the whole log. Only GIVEN is final."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

ROUND_LIMIT_MS = 5_000
"""The longest round of a healthy slave; normally it takes milliseconds."""


class HandoverState(enum.Enum):
    SERVING = "serving"
    WAITING = "waiting"
    FROZEN = "frozen"
    DRAINED = "drained"
    GIVEN = "given"


class MetadataKind(enum.Enum):
    """What a slave asks for besides the log, in this order."""

    TOPICS = "topics"
    OFFSETS = "offsets"
    DELAY_OFFSETS = "delay offsets"
    GROUPS = "groups"


_OF_THE_ROUND = frozenset((MetadataKind.OFFSETS, MetadataKind.DELAY_OFFSETS, MetadataKind.GROUPS))


@dataclass(slots=True)
class Handover:
    """The state machine. ``host`` names a slave: it asks over several connections, all from one address. Times in ms."""

    state: HandoverState = HandoverState.SERVING
    deadline_ms: int = 0
    host: str = ""
    log_end: int = 0
    _frozen_at_ms: int = 0
    _copied: set[MetadataKind] = field(default_factory=set)
    _topics: dict[str, object] = field(default_factory=dict)

    @property
    def refuses_writes(self) -> bool:
        return self.state in (HandoverState.FROZEN, HandoverState.DRAINED, HandoverState.GIVEN)

    def begin(self, now_ms: int, timeout_ms: int) -> None:
        """Wait for the round of a slave, at most ``timeout_ms``. A second call only moves the deadline."""
        if self.state is HandoverState.GIVEN:
            return
        self.deadline_ms = now_ms + timeout_ms
        if self.state is HandoverState.SERVING:
            self.state = HandoverState.WAITING

    def asked(
        self, kind: MetadataKind, host: str, topics_version: object, is_slave: bool, log_end: int, now_ms: int
    ) -> None:
        """A request of ``host`` for metadata is about to be answered; ``is_slave``: a slave copies the log from there."""
        if kind is MetadataKind.TOPICS:
            self._topics[host] = topics_version
        elif kind is MetadataKind.OFFSETS and self.state is HandoverState.WAITING:
            if is_slave and self._topics.get(host) == topics_version:
                self.state, self.host, self.log_end = HandoverState.FROZEN, host, log_end
                self._frozen_at_ms, self._copied = now_ms, {kind}
        elif self.state is HandoverState.FROZEN and host == self.host:
            self._copied.add(kind)

    def poll(self, acknowledged: int, now_ms: int) -> None:
        """``acknowledged``: how much of the log the slaves at ``host`` hold, -1 without any. Call often while :attr:`state` can change."""
        if self.state in (HandoverState.SERVING, HandoverState.GIVEN):
            return
        if now_ms >= self.deadline_ms:
            self.state = HandoverState.SERVING
        elif self.state is HandoverState.FROZEN:
            if self._copied >= _OF_THE_ROUND and acknowledged >= self.log_end:
                self.state = HandoverState.DRAINED
            elif now_ms - self._frozen_at_ms > ROUND_LIMIT_MS:
                self.state = HandoverState.WAITING
        elif self.state is HandoverState.DRAINED and acknowledged < 0:
            self.state = HandoverState.WAITING  # the slave is gone, and what it has copied is unknown

    def finish(self) -> bool:
        """The last step, allowed in DRAINED only; whether the slave has everything now."""
        if self.state is HandoverState.DRAINED:
            self.state = HandoverState.GIVEN
        return self.state is HandoverState.GIVEN

    def cancel(self) -> None:
        if self.state is not HandoverState.GIVEN:
            self.state = HandoverState.SERVING

    def missing(self, slaves: int, acknowledged: int, log_end: int) -> str:
        """What the handover waits for, as part of a sentence."""
        if self.state is HandoverState.WAITING:
            if not slaves:
                return "a slave to connect"
            return f"the slave to ask for topics, offsets and groups; it holds {acknowledged} of {log_end} bytes of the log"
        if self.state is HandoverState.FROZEN:
            left = sorted(kind.value for kind in _OF_THE_ROUND - self._copied)
            parts = [f"the slave to copy the {' and the '.join(left)}"] if left else []
            if acknowledged < self.log_end:
                parts.append(f"{self.log_end - acknowledged} bytes of the log to reach it")
            return ", ".join(parts) or "nothing"
        return "nothing"
