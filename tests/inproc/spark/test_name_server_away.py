# SPDX-License-Identifier: Apache-2.0
"""No name server to be asked: a new query says so, one that has a place to go on from waits, unless its user wants it to fail."""

from __future__ import annotations

import pytest

from inproc.spark.as_spark import Readers, ask, first_batch, next_batch, send
from sprocketmq.errors import NetworkError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.testing import EmbeddedRocketMQ

NOBODY = {"namesrvaddr": "127.0.0.1:1", "retrytimeoutms": "100"}
SAYS = "cannot connect to 127.0.0.1:1: Connection refused; is a server listening there"


def test_a_new_stream_names_the_brokers_that_it_cannot_reach(readers: Readers) -> None:
    for options in ({}, {"sql92": "a > 1"}, {"startingoffsets": "group", "group": "delays"}):
        reader = readers(**NOBODY, **options)
        with pytest.raises(NetworkError, match=SAYS):
            ask(reader, reader.initialOffset())
    with pytest.raises(NetworkError, match=SAYS):
        readers(**NOBODY).prepareForTriggerAvailableNow()


def test_a_stream_with_a_checkpoint_waits_and_goes_on_where_it_was(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1, 2)
    end, _ = first_batch(readers(startingoffsets="earliest"))
    for options in ({}, {"sql92": "TRUE"}):
        assert ask(readers(**NOBODY, **options), end) == end
    with pytest.raises(NetworkError, match=SAYS):
        ask(readers(**NOBODY, brokerunavailable="fail"), end)
    send(mq, 3, 4)
    assert next_batch(readers(), end)[1] == [3, 4]


def test_nobody_waits_for_a_server_in_silence(
    mq: EmbeddedRocketMQ, readers: Readers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sprocketmq.client.remoting.cluster._QUIET_S", 0.1)
    waiting = {**NOBODY, "retrytimeoutms": "1s"}
    reader = readers(**waiting)
    with pytest.raises(NetworkError, match=SAYS):
        ask(reader, reader.initialOffset())
    lost, waits = (record.getMessage() for record in caplog.records)
    assert lost.startswith("Spark: name server 127.0.0.1:1 cannot be reached")
    assert waits.startswith("trying for 0 s more (retryTimeoutMs): " + SAYS)
    caplog.clear()
    Cluster.at("127.0.0.1:1", 1_000).outages.troubles._open.clear()  # a task is another process
    send(mq, 0, 1, 2)
    there = readers(startingoffsets="earliest")
    start = there.initialOffset()
    end = ask(there, start)
    (partition,) = there.partitions(start, end)
    with pytest.raises(NetworkError, match=SAYS):
        list(readers(**waiting).read(partition))  # a task
    _, waits = (record.getMessage() for record in caplog.records)
    assert waits.startswith("reading flights/broker-a/")
    assert waits.endswith(SAYS + "?")
