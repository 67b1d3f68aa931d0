# SPDX-License-Identifier: Apache-2.0
"""P4 and P5 through a real Spark at Apache's brokers, both generations: how much a micro-batch holds, and how it is shared out to tasks."""

from __future__ import annotations

import pytest
from pyspark.sql.functions import col, collect_list, lit, spark_partition_id

from interop.spark_flow import Flow, Kept

pytestmark = pytest.mark.spark


def test_available_now_reads_what_was_there_in_fair_shares_and_leaves_what_comes(flow: Flow) -> None:
    topic = flow.topic(2)
    flow.send(topic, range(60), 0)
    flow.send(topic, [100, 101], 1)

    def more(batch_id: int) -> None:
        if batch_id == 0:
            flow.topic(3, topic)
            flow.send(topic, range(200, 205), 2)
            flow.send(topic, range(60, 65), 0)

    first = flow.bounded(topic, startingOffsets="earliest", maxOffsetsPerTrigger=25, kept=Kept(more))
    first.until_over()
    assert first.kept.numbers == [*range(60), 100, 101]
    sizes = [len(batch) for batch in first.kept.batches]
    assert len(sizes) == 3
    assert max(sizes) <= 25
    assert 100 in first.kept.batches[0], "a small queue moves with the first batch"
    second = flow.bounded(topic)
    second.until_over()
    assert second.kept.numbers == [*range(60, 65), *range(200, 205)]


def test_a_batch_holds_about_so_many_bytes(flow: Flow) -> None:
    topic = flow.topic()
    flow.send(topic, range(60), size=1000)
    stream = flow.bounded(topic, startingOffsets="earliest", maxBytesPerTrigger=25_000)
    stream.until_over()
    assert stream.kept.numbers == list(range(60))
    # A record of 1,000 bytes takes 1,150 to 1,250 in the store.
    assert all(18 <= len(batch) <= 23 for batch in stream.kept.batches[:-1])


def test_a_small_trigger_waits_for_its_minimum_but_not_longer_than_its_delay(flow: Flow) -> None:
    topic = flow.topic()
    with flow.stream(topic, checkpoint="patient", minOffsetsPerTrigger=20) as patient:
        patient.until_begun()
        with flow.stream(topic, checkpoint="hasty", minOffsetsPerTrigger=20, maxTriggerDelay="1s") as hasty:
            hasty.until_begun()
            flow.send(topic, range(5))
            hasty.until_read(range(5))
            assert patient.kept.numbers == []
            flow.send(topic, range(5, 30))
            hasty.until_read(range(30))
            patient.until(lambda: len(patient.kept.numbers) >= 20, "its minimum")
            assert len(next(batch for batch in patient.kept.batches if batch)) >= 20


def test_a_hot_queue_is_split_small_ones_are_packed_and_ordered_splits_none(flow: Flow) -> None:
    topic = flow.topic(4)
    flow.send(topic, range(3000), 0)
    for queue in (1, 2, 3):
        flow.send(topic, range(queue * 10_000, queue * 10_000 + 10), queue)
    reads = {"split": {"maxRecordsPerPartition": 1000}, "ordered": {"ordered": "true", "minPartitions": 8}}
    parts = [
        flow.read(topic, **how).select(
            lit(name).alias("read"), spark_partition_id().alias("part"), "queueId", "queueOffset"
        )
        for name, how in reads.items()
    ]
    rows = (
        parts[0]
        .union(parts[1])
        .groupBy("read", "part")
        .agg(collect_list("queueId").alias("queues"), collect_list("queueOffset").alias("offsets"))
        .orderBy(col("read"), col("part"))
        .collect()
    )
    tasks = {
        name: [list(zip(row.queues, row.offsets, strict=True)) for row in rows if row["read"] == name] for name in reads
    }
    everything = sorted([(0, at) for at in range(3000)] + [(queue, at) for queue in (1, 2, 3) for at in range(10)])
    for found in tasks.values():
        assert sorted(place for task in found for place in task) == everything
    with_hot = [task for task in tasks["split"] if any(queue == 0 for queue, _ in task)]
    assert len(with_hot) >= 3
    assert len(tasks["split"]) <= 4, "the three small queues share a task"
    for queue in range(4):
        (task,) = [task for task in tasks["ordered"] if any(number == queue for number, _ in task)]
        in_order = [at for number, at in task if number == queue]
        assert in_order == sorted(in_order)
