# SPDX-License-Identifier: Apache-2.0
"""What Spark tells a task of itself, and a death: for tests that call the transactional sink as Spark calls it."""

from __future__ import annotations

import pytest

from sprocketmq.spark.transactions import transactional_write
from sprocketmq.spark.transactions.responder import Responder


class Task:
    """A task's TaskContext; ``query`` and ``batch`` are those that run now."""

    query = "q-1"
    batch = 0

    @classmethod
    def get(cls) -> type[Task]:
        return cls

    @classmethod
    def getLocalProperty(cls, name: str) -> str | None:
        return {"sql.streaming.queryId": cls.query, "streaming.sql.batchId": str(cls.batch)}.get(name)

    @classmethod
    def partitionId(cls) -> int:
        return 0

    @classmethod
    def begin(cls, monkeypatch: pytest.MonkeyPatch, query: str = "q-1") -> None:
        """From now on tasks of ``query`` run here, its batch 0 first."""
        monkeypatch.setattr(transactional_write, "TaskContext", cls)
        monkeypatch.setattr(cls, "query", query)
        monkeypatch.setattr(cls, "batch", 0)


class Died(Exception):
    """A process was killed here."""


async def dies(*_: object) -> None:
    raise Died


def leave_group() -> None:
    """The members of producer groups in this process go."""
    for member in Responder.shared.values():
        member.close()
