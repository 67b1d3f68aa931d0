# SPDX-License-Identifier: Apache-2.0
"""The body of one pull answer, before it is converted into columns."""

from __future__ import annotations

from dataclasses import dataclass

from sprocketmq.wire.frames.command import Buffer
from sprocketmq.wire.records.message import MessageQueue


@dataclass(frozen=True, slots=True)
class PullBody:
    """The body of one pull answer, and which of its messages to read: queue offsets ``start`` to ``end`` (exclusive) of ``queue``."""

    queue: MessageQueue
    start: int
    end: int
    body: Buffer
