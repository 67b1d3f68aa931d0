# SPDX-License-Identifier: Apache-2.0
"""An embedded broker that tells of a topic's queues what Java's does, and whose answers say that they are Java's."""

from __future__ import annotations

from typing import Any

import pytest

from sprocketmq.broker.handlers.admin import stats
from sprocketmq.net.connection import Connection
from sprocketmq.wire.frames.command import Command


def as_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache's brokers list no queues that a topic does not let read."""
    invoke = Connection.invoke

    async def invoke_java(self: Connection, command: Command, *more: Any) -> Command:
        answer = await invoke(self, command, *more)
        answer.language = "JAVA"
        return answer

    monkeypatch.setattr(Connection, "invoke", invoke_java)
    monkeypatch.setattr(stats, "_queue_ids", lambda broker, topic, count: range(count))
