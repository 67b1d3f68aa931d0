# SPDX-License-Identifier: Apache-2.0
"""A batch that was planned anew under its number, though the ledger has decided the old plan: no row is lost or written twice."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from inproc.spark.transactional_sink import NEVER_ASKED, appeared, rocketmq, stream_writer, write
from spark_task import Task
from sprocketmq.errors import ConfigurationError
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedRocketMQ]:
    Task.begin(monkeypatch)
    with rocketmq(**NEVER_ASKED) as mq:
        yield mq


def run(mq: EmbeddedRocketMQ, *parts: range, **options: str) -> None:
    """One try of a batch whose tasks have these rows."""
    given = {"settletimeoutms": "1ms", **options}
    stream_writer(mq, **given).commit(write(stream_writer(mq, **given), *parts), Task.batch)


@pytest.mark.parametrize("again", [range(15), range(5)], ids=["more rows", "less rows"])
def test_a_decided_batch_that_comes_again_with_other_rows_is_refused(flights: EmbeddedRocketMQ, again: range) -> None:
    """Its file in offsets/ was lost: more rows than were decided would be skipped with it, less would come again with the next one."""
    run(flights, range(6), range(6, 10))
    with pytest.raises(
        ConfigurationError, match=rf"batch 0 of q-1 was decided with 10 rows, and now it has {len(again)}"
    ):
        run(flights, again)
    assert appeared(flights) == Counter(range(10))


@pytest.mark.parametrize("again", [range(15), range(5)], ids=["more rows", "less rows"])
def test_with_pass_a_decided_batch_with_other_rows_counts_as_done(
    flights: EmbeddedRocketMQ, again: range, caplog: pytest.LogCaptureFixture
) -> None:
    """A table that it is joined with grew, or rows expired: what was decided is all that the batch ever writes."""
    run(flights, range(10))
    with caplog.at_level(logging.WARNING):
        run(flights, again, onDecidedBatch="pass")
    assert f"batch 0 of q-1 was decided with 10 rows, and now it has {len(again)}: onDecidedBatch=pass" in caplog.text
    Task.batch = 1
    run(flights, range(20, 22), onDecidedBatch="pass")
    with pytest.raises(ConfigurationError, match=r"failOnDataLoss=false.* onDecidedBatch=pass"):
        run(flights, range(1))
    assert appeared(flights) == Counter([*range(10), 20, 21])


def test_a_decided_batch_that_comes_again_in_other_tasks_is_done(flights: EmbeddedRocketMQ) -> None:
    run(flights, range(6), range(6, 10))
    run(flights, range(10), range(0))
    Task.batch = 1
    run(flights, range(10, 12))
    assert appeared(flights) == Counter(range(12))
