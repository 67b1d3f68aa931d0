# SPDX-License-Identifier: Apache-2.0
"""Queues with messages that a topic does not let read any more: in the lag of a stream, and in a warning of each read."""

from __future__ import annotations

import pytest

import sprocketmq as rmq
from inproc.spark.as_spark import Readers, ask, first_batch, lag_at, send
from java_broker import as_java
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode

HIDDEN = rmq.MessageQueue("flights", "broker-a", 1)


@pytest.fixture(params=["ours", "Java"])
def hiding(request: pytest.FixtureRequest, mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> EmbeddedRocketMQ:
    """Three messages in each of two queues, of which one may be read; group ``spark`` has read one of the other."""
    if request.param == "Java":
        as_java(monkeypatch)
    for queue_id in (0, 1):
        send(mq, 0, 1, 2, queue=rmq.MessageQueue("flights", "broker-a", queue_id))
    with mq.admin() as admin:
        admin.create_group("spark")
        admin.reset_offset("spark", HIDDEN, 1)
        admin.create_topic("flights", queues=1)
    Cluster.at(mq.namesrv_addr).routes.forget()
    return mq


def test_the_lag_of_a_stream_has_what_its_topic_hides(
    hiding: EmbeddedRocketMQ, readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    reader = readers(startingoffsets="earliest")
    end, numbers = first_batch(reader)
    assert numbers == [0, 1, 2]
    assert ask(reader, end) == end
    assert lag_at(reader, end).by_queue == {rmq.MessageQueue("flights", "broker-a", 0): 0, HIDDEN: 3}
    (warning,) = [record.getMessage() for record in caplog.records if str(HIDDEN) in record.getMessage()]
    assert f"{HIDDEN}: 3" in warning

    of_group = readers(startingoffsets="earliest", group="spark", commitoffsets="off")
    end, _ = first_batch(of_group)
    assert ask(of_group, end) == end
    assert lag_at(of_group, end).by_queue[HIDDEN] == 2


def test_a_stream_is_not_delayed_by_a_broker_that_does_not_tell_progress_in_hidden_queues(
    hiding: EmbeddedRocketMQ, readers: Readers
) -> None:
    reader = readers(startingoffsets="earliest", group="spark", commitoffsets="off")
    first_batch(reader)
    with hiding.faults.fail(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.NO_PERMISSION, "not yours", times=None):
        assert reader._planner.poller.bounds() != {}
    assert reader._planner.poller.is_answered


def test_a_queue_that_may_be_read_again_is_not_hidden(hiding: EmbeddedRocketMQ, readers: Readers) -> None:
    reader = readers(startingoffsets="earliest")
    end, _ = first_batch(reader)
    assert ask(reader, end) == end
    with hiding.admin() as admin:
        admin.create_topic("flights", queues=2)
    reader._planner.poller.cluster.routes.forget()
    reader._planner.poller._hidden_until_s = 0.0
    end = ask(reader, end)
    assert HIDDEN not in reader._planner.poller.hidden
    assert lag_at(reader, end).by_queue[HIDDEN] == 0


def test_a_batch_warns_of_what_its_topic_hides(hiding: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture) -> None:
    source = RocketMQDataSource({"namesrvaddr": hiding.namesrv_addr, "topic": "flights"})
    source.reader(source.schema()).partitions()
    assert f"{HIDDEN}: 3" in caplog.text
