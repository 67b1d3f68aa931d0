# SPDX-License-Identifier: Apache-2.0
"""Readers in the life that Spark gives them: pickled into other processes, in workers that are forked, with the limits of a trigger."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from inproc.spark.as_spark import Readers, ask, read, send
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ


def test_a_trigger_for_everything_gets_it_whatever_the_options_limit(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    mq.create_topic("trains", queues=1)
    send(mq, *range(10), topic="trains")
    limits = {"topics": "trains", "maxbytespertrigger": "1", "minoffsetspertrigger": "100"}
    reader = readers(startingoffsets="earliest", **limits)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert read(reader, start, end) == list(range(10))
    send(mq, 10, 11, topic="trains")
    assert ask(reader, end) == end  # too few for a trigger with limits
    after = reader.latestOffset(end, ReadAllAvailable())
    assert read(reader, end, after) == [10, 11]


def test_a_reader_and_its_partitions_read_the_same_after_pickling(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, *range(20))
    batch = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "flights"})
    batch_reader = batch.reader(batch.schema())
    stream_reader = readers(startingoffsets="earliest", group="delays")
    start = stream_reader.initialOffset()
    end = ask(stream_reader, start)  # it has asked brokers, joined its group
    for reader, partitions in (
        (batch_reader, batch_reader.partitions()),
        (stream_reader, stream_reader.partitions(start, end)),
    ):
        there = pickle.loads(pickle.dumps(reader))
        arrived = [pickle.loads(pickle.dumps(partition)) for partition in partitions]
        numbers = [
            int(body) for part in arrived for found in there.read(part) for body in found.column("body").to_pylist()
        ]
        assert sorted(numbers) == list(range(20))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_worker_makes_connections_of_its_own(mq: EmbeddedRocketMQ) -> None:
    """Spark forks its Python workers from one process, and uses them again for batch after batch."""
    send(mq, *range(20))
    program = """
import json, os, sys
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.source import RocketMQDataSource

def count():
    source = RocketMQDataSource({"namesrvaddr": sys.argv[1], "topic": "flights"})
    reader = source.reader(source.schema())
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))

before, cluster = count(), Cluster.at(sys.argv[1])
for _ in range(2):
    child = os.fork()
    if not child:
        same = Cluster.at(sys.argv[1]) is cluster
        print(json.dumps([count(), same, Cluster.at(sys.argv[1]) is Cluster.at(sys.argv[1])]), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(json.dumps([before, count(), Cluster.at(sys.argv[1]) is cluster]))
"""
    done = subprocess.run([sys.executable, "-c", program, mq.namesrv_addr], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *children, parent = map(json.loads, done.stdout.splitlines())
    assert children == [[20, False, True]] * 2
    assert parent == [20, 20, True]
