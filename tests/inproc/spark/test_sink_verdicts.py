# SPDX-License-Identifier: Apache-2.0
"""The sink's modes ack and replay as Spark calls them, without a JVM: tasks write, the driver commits once for the batch."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

import sprocketmq as rmq
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.write.writer import StreamWriter
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    """On the manual clock: the delays are Apache's own."""
    with EmbeddedRocketMQ() as embedded:
        embedded.create_topic("flights", queues=1)
        with embedded.producer() as producer:
            producer.send_batch([rmq.Message("flights", b"%d" % number, tags="UA") for number in range(6)])
        yield embedded


def read(mq: EmbeddedRocketMQ, **options: str) -> pa.Table:
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, **options})
    schema = source.schema()
    reader = source.reader(schema)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC"))


def judged(rows: pa.Table, verdicts: dict[int, str], **more: list[Any]) -> pa.Table:
    """``verdicts`` by body; every other row has none."""
    actions = [verdicts.get(int(body)) for body in rows.column("body").to_pylist()]
    rows = rows.append_column("action", pa.array(actions, pa.string()))
    for name, values in more.items():
        rows = rows.append_column(name, pa.array(values, pa.int32() if name == "delayLevel" else pa.string()))
    return rows


def writer(mq: EmbeddedRocketMQ, rows: pa.Table, **options: str) -> StreamWriter:
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, **options})
    made = source.streamWriter(from_arrow_schema(rows.schema), overwrite=False)
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return] # as it travels


def ack(mq: EmbeddedRocketMQ, rows: pa.Table, *, tries: int = 1, **options: str) -> None:
    """One batch of two tasks, each run ``tries`` times; Spark hands over what its last run said."""
    half = rows.num_rows // 2
    said = []
    for part in (rows.slice(0, half), rows.slice(half)):
        for _ in range(tries):
            message = writer(mq, rows, mode="ack", group="delays", **options).write(iter(part.to_batches()))
        said.append(pickle.loads(pickle.dumps(message)))
    writer(mq, rows, mode="ack", group="delays", **options).commit(said, 7)


def test_each_row_goes_where_its_action_says(mq: EmbeddedRocketMQ) -> None:
    ack(mq, judged(read(mq, topic="flights"), {0: "ack", 1: "retry", 2: "DLQ", 3: "drop"}))
    mq.advance(10_000)
    assert [(copy.body, copy.reconsume_times) for copy in mq.messages("%RETRY%delays")] == [(b"1", 1)]
    assert [dead.body for dead in mq.messages("%DLQ%delays")] == [b"2"]


def test_a_task_that_ran_twice_sends_nothing_twice(mq: EmbeddedRocketMQ) -> None:
    ack(mq, judged(read(mq, topic="flights"), {1: "retry", 5: "retry"}), tries=2)
    mq.advance(10_000)
    assert sorted(copy.body for copy in mq.messages("%RETRY%delays")) == [b"1", b"5"]


def test_a_message_with_bad_rows_in_two_tasks_goes_back_once(mq: EmbeddedRocketMQ) -> None:
    rows = judged(read(mq, topic="flights"), {1: "retry"})
    ack(mq, pa.concat_tables([rows, rows]))
    mq.advance(10_000)
    assert len(mq.messages("%RETRY%delays")) == 1


def test_levels_and_reasons_are_by_row_and_the_option_is_for_the_others(mq: EmbeddedRocketMQ) -> None:
    rows = judged(
        read(mq, topic="flights"),
        {1: "retry", 2: "retry", 4: "dlq"},
        delayLevel=[None, 1, None, None, None, None],
        reason=[None, "late", None, None, "hopeless", "not bad at all"],
    )
    ack(mq, rows, delayLevel="2")
    mq.advance(1_000)
    assert [(one.body, one.properties["RETRY_REASON"]) for one in mq.messages("%RETRY%delays")] == [(b"1", "late")]
    mq.advance(4_000)
    assert sorted(one.body for one in mq.messages("%RETRY%delays")) == [b"1", b"2"]
    assert [one.properties["RETRY_REASON"] for one in mq.messages("%DLQ%delays")] == ["hopeless"]


def test_rows_whose_stored_copies_are_gone_are_not_sent_anew_without_their_content(mq: EmbeddedRocketMQ) -> None:
    rows = read(mq, topic="flights")
    places = judged(rows.select(["brokerName", "commitLogOffset", "body"]), {1: "retry"})
    mq.restart_broker()
    with pytest.raises(
        ConfigurationError, match=r"1 messages of batch 7 cannot be sent back.*keep the columns topic, body"
    ):
        ack(mq, places)


def test_dead_letters_are_replayed_to_where_they_came_from_mended_and_as_themselves(mq: EmbeddedRocketMQ) -> None:
    ack(mq, judged(read(mq, topic="flights"), {2: "dlq"}, reason=["x"] * 6))
    # The first dead letter makes the topic; the name server hears of it a moment later.
    mq.wait_until(lambda: read(mq, deadlettersof="delays").num_rows > 0)
    letters = read(mq, deadlettersof="delays")
    at = letters.schema.get_field_index("body")
    mended = letters.set_column(at, "body", pa.array([b"two"]))
    sink = writer(mq, mended, mode="replay")
    sink.commit([sink.write(iter(mended.to_batches()))], 0)
    *first, again = mq.messages("flights")
    assert (again.body, again.tags, again.reconsume_times) == (b"two", "UA", 0)
    assert again.message_id == first[2].message_id
    assert "RETRY_REASON" not in again.properties


@pytest.mark.parametrize(
    ("left_out", "options", "sentence"),
    [
        (["body"], {"mode": "ack", "group": "delays"}, "have a column 'reason' and lack body: a reason is sent"),
        (["properties"], {"mode": "replay"}, "no column 'properties', which a write with mode replay needs"),
    ],
)
def test_an_invalid_write_is_refused_before_a_task_runs(
    mq: EmbeddedRocketMQ, left_out: list[str], options: dict[str, str], sentence: str
) -> None:
    rows = judged(read(mq, topic="flights"), {}, reason=[None] * 5 + ["x"])
    with pytest.raises(ConfigurationError) as error:
        writer(mq, rows.drop_columns(left_out), **options)
    assert sentence in str(error.value)


def test_an_unknown_action_fails_its_task(mq: EmbeddedRocketMQ) -> None:
    with pytest.raises(ConfigurationError, match="action is 'again'; allowed is null, ack, retry, dlq, drop"):
        ack(mq, judged(read(mq, topic="flights"), {1: "again"}))


def test_the_log_says_when_nobody_is_there_who_would_read_the_retries(
    mq: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture
) -> None:
    rows = read(mq, topic="flights")
    ack(mq, judged(rows, {2: "dlq"}))
    assert "no member is online" not in caplog.text
    ack(mq, judged(rows, {1: "retry"}))
    assert "batch 7 sends rows back to group delays, of which no member is online" in caplog.text
    caplog.clear()
    consumer = mq.push_consumer("delays")
    consumer.subscribe("flights")
    consumer.on_message(lambda message: None)
    with consumer:
        ack(mq, judged(rows, {3: "retry"}))
    assert "no member is online" not in caplog.text
