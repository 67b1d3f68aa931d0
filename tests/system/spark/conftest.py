# SPDX-License-Identifier: Apache-2.0
"""One embedded RocketMQ for each test of Spark; the session is one for the whole run (tests/conftest.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sprocketmq.spark.troubles import troubles
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture(autouse=True)
def nothing_was_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has logged it counts for a minute; the next test is another one."""
    monkeypatch.setattr(troubles, "_open", {})


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    """Real time: Spark's processes do not know a manual clock. The delays of retries and of checks of transactions are short instead."""
    with EmbeddedRocketMQ(
        clock="system",
        messageDelayLevel="1s 1s 1s 1s 1s 1s 1s",
        transactionTimeOut=2_000,
        transactionCheckInterval=1_000,
        transactionCheckMax=1_000,
    ) as embedded:
        yield embedded
