# SPDX-License-Identifier: Apache-2.0
"""A broker that goes away under a task: one that comes back costs time, one that does not is told, and neither costs a message."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import sprocketmq as rmq
from inproc.spark.as_spark import batch_rows
from sprocketmq.errors import NetworkError, RocketMQError
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode

COUNT = 600


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system", store_dir=tmp_path) as embedded:
        embedded.create_topic("flights", queues=1)
        with embedded.producer() as producer:
            producer.send_batch([rmq.Message("flights", b"%d" % number) for number in range(COUNT)])
        yield embedded


def numbers(mq: EmbeddedRocketMQ, **options: str) -> list[int]:
    """What one task of a batch reads."""
    rows = batch_rows(namesrvaddr=mq.namesrv_addr, topic="flights", maxpartitions="1", **options)
    return [int(row["body"]) for row in rows]


def test_a_broker_that_restarts_under_a_task_is_waited_for(stored: EmbeddedRocketMQ) -> None:
    """A broker that stops says so to the name server, where its topics have no route until it is back."""
    failures: list[RocketMQError] = []

    def restart() -> None:
        try:
            stored.wait_until(lambda: slowed.hits > 4)
            stored.restart_broker()
        except RocketMQError as error:
            failures.append(error)

    with stored.faults.delay(RequestCode.PULL_MESSAGE, 20, times=None) as slowed:
        restarting = threading.Thread(target=restart)
        restarting.start()
        read = numbers(stored, pullbatchsize="8", pullpipelining="2")
        restarting.join()
    assert not failures
    assert read == list(range(COUNT))


def test_a_broker_that_stopped_answering_is_an_error_after_the_retry_timeout(
    stored: EmbeddedRocketMQ,
) -> None:
    with (
        stored.faults.close_connection(RequestCode.PULL_MESSAGE, times=None),
        pytest.raises(NetworkError, match=r"connection .*closed"),
    ):
        numbers(stored, retrytimeoutms="100")
    assert numbers(stored) == list(range(COUNT))
