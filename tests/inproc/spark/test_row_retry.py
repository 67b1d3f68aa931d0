# SPDX-License-Identifier: Apache-2.0
"""What row retry promises of one batch, without Spark: good rows first, each row judged once, each message back once.

Columns (``_is_bad``, ``_columns_to_fetch``) and the store of verdicts need Spark: tests/system/spark has the same with a real session and
its checkpoint (test_verdict_store).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from inproc.spark.lazy_rows import Flag, LazyRows, Row
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.spark.retry import row_retry
from sprocketmq.spark.retry.query_sources import QuerySource
from sprocketmq.spark.retry.row_retry import RowRetry, foreach_batch
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ

Judge = Callable[[Row], bool]


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    """Ten numbers in one queue; on the manual clock what is sent back stays where it waits."""
    with EmbeddedRocketMQ() as embedded:
        embedded.create_topic("flights", queues=1)
        with embedded.producer() as producer:
            producer.send_batch([rmq.Message("flights", str(number).encode()) for number in range(10)])
        yield embedded


class KeptRows:
    """Stands in for ``VerdictStore``: rows that are kept are made once."""

    sources: tuple[QuerySource, ...] = ()

    def __init__(self, rows: LazyRows, batch_id: int, name: str, checkpoint_location: str | None) -> None:
        pass

    def load(self) -> None:
        return None

    def call_failed(self) -> None:
        pass

    def save(self, judged: LazyRows, is_bad: Flag) -> tuple[LazyRows, int]:
        return judged.persist(), len(judged.where(is_bad).rows())

    def complete(self) -> None:
        pass


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    def flagged(judged: LazyRows) -> Flag:
        return Flag(lambda row: bool(row["failed"]))

    monkeypatch.setattr(row_retry, "VerdictStore", KeptRows)
    monkeypatch.setattr(RowRetry, "_is_bad", staticmethod(flagged))
    monkeypatch.setattr(RowRetry, "_columns_to_fetch", staticmethod(lambda bad: bad))


def batch(mq: EmbeddedRocketMQ) -> LazyRows:
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "flights"})
    reader = source.reader(source.schema())

    def make() -> list[Row]:
        return [
            row for partition in reader.partitions() for found in reader.read(partition) for row in found.to_pylist()
        ]

    return LazyRows([field.name for field in source.schema()], make)


def judging(failed: Judge) -> Callable[[Any, int], Any]:
    """A judge that looks at each row whenever somebody looks at what it returned."""

    def judge(rows: LazyRows, batch_id: int) -> LazyRows:
        return LazyRows([*rows.columns, "failed"], lambda: [{**row, "failed": failed(row)} for row in rows.rows()])

    return judge


def numbers(rows: Any) -> list[int]:
    return sorted(int(row["body"]) for row in rows.rows())


def sent_back(mq: EmbeddedRocketMQ) -> list[int]:
    return sorted(int(message.body) for message in mq.messages("SCHEDULE_TOPIC_XXXX"))


def retry_of(mq: EmbeddedRocketMQ, failed: Judge, write: Callable[[Any, int], object]) -> RowRetry:
    return foreach_batch(judging(failed), write=write, group="delays", namesrv_addr=mq.namesrv_addr)


@pytest.mark.parametrize(
    ("options", "is_allowed"), [({}, False), ({"on_error": "dlq"}, True), ({"check_source": False}, True)]
)
def test_rows_to_be_retried_need_a_source_that_reads_them_again(
    mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], is_allowed: bool
) -> None:
    monkeypatch.setattr(KeptRows, "sources", (QuerySource("delays", False),))
    judge = judging(lambda row: row["body"] == b"3")
    retry = foreach_batch(judge, write=lambda *_: None, group="delays", namesrv_addr=mq.namesrv_addr, **options)
    with contextlib.nullcontext() if is_allowed else pytest.raises(ConfigurationError, match="nobody would read"):
        retry(batch(mq), 0)  # type: ignore[arg-type]
    assert retry.retried + retry.dead_lettered == is_allowed


def test_nothing_is_sent_back_before_the_good_rows_are_written(mq: EmbeddedRocketMQ) -> None:
    def fail(rows: LazyRows, batch_id: int) -> None:
        raise OSError("the lake is closed")

    retry = retry_of(mq, lambda row: row["body"] == b"7", fail)
    with pytest.raises(OSError, match="the lake is closed"):
        retry(batch(mq), 0)  # type: ignore[arg-type]
    assert sent_back(mq) == []  # the batch is replayed whole: a copy now would be one too many


@pytest.mark.parametrize(("dropped", "sentence"), [("brokerName", "lack brokerName; keep"), ("failed", "have neither")])
def test_a_judge_that_drops_the_place_of_a_message_or_the_verdict_stops_the_batch(
    mq: EmbeddedRocketMQ, dropped: str, sentence: str
) -> None:
    judge = judging(lambda row: False)
    retry = foreach_batch(
        lambda given, batch_id: judge(given, batch_id).drop(dropped),
        write=lambda good, batch_id: pytest.fail("written"),
        group="delays",
        namesrv_addr=mq.namesrv_addr,
    )
    with pytest.raises(ConfigurationError, match=sentence):
        retry(batch(mq), 0)  # type: ignore[arg-type]


Change = Callable[[Row], Row]
CANNOT_BE_SENT_BACK: list[tuple[Change, str]] = [
    (lambda row: {**row, "brokerName": None}, "a bad row has no brokerName"),
    (lambda row: {**row, "commitLogOffset": None}, "a bad row has no commitLogOffset"),
    (lambda row: {**row, "commitLogOffset": -1}, "commitLogOffset of a bad row is -1"),
    (lambda row: {**row, "brokerName": "nobody"}, "broker 'nobody' is not registered"),
]


@pytest.mark.parametrize(("change", "sentence"), CANNOT_BE_SENT_BACK)
def test_a_row_that_cannot_be_sent_back_stops_the_batch_before_its_verdicts_are_stored(
    mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch, change: Change, sentence: str
) -> None:
    stored: list[str] = []
    monkeypatch.setattr(KeptRows, "complete", lambda store: stored.append("verdicts"))
    retry = foreach_batch(
        changing(change),
        write=lambda rows, batch_id: stored.append("good rows"),
        group="delays",
        namesrv_addr=mq.namesrv_addr,
        retry_timeout_ms=50,
    )
    with pytest.raises(RocketMQError, match=sentence):
        retry(batch(mq), 0)  # type: ignore[arg-type]
    assert (stored, sent_back(mq)) == ([], [])


@pytest.mark.parametrize("lacking", ["body", "topic", "properties", "reconsumeTimes"])
def test_a_row_with_a_reason_and_without_what_a_copy_needs_goes_back_without_its_reason(
    mq: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture, lacking: str
) -> None:
    retry = foreach_batch(
        changing(lambda row: {**row, "reason": "late", lacking: None}),
        write=lambda rows, batch_id: None,
        group="delays",
        namesrv_addr=mq.namesrv_addr,
    )
    retry(batch(mq), 0)  # type: ignore[arg-type]
    (back,) = mq.messages("SCHEDULE_TOPIC_XXXX")
    assert (back.body, back.properties.get("RETRY_REASON")) == (b"3", None)
    assert "1 rows with a reason have no body, topic, properties or reconsumeTimes for a copy" in caplog.text


def test_stored_verdicts_that_cannot_be_carried_out_do_not_outlive_a_corrected_judge(
    mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = changing(lambda row: {**row, "brokerName": None})(batch(mq), 0)
    monkeypatch.setattr(KeptRows, "load", lambda store: broken)  # stored before rows were checked
    good: list[int] = []
    retry = retry_of(mq, lambda row: row["body"] == b"7", lambda rows, batch_id: good.extend(numbers(rows)))
    retry(batch(mq), 0)  # type: ignore[arg-type]
    assert (good, sent_back(mq)) == ([0, 1, 2, 3, 4, 5, 6, 8, 9], [7])
    assert "batch 0 was judged before, and it is judged again: a bad row has no brokerName" in caplog.text


def changing(change: Change) -> Callable[[Any, int], Any]:
    """A judge that fails one row and makes another of it."""

    def judge(rows: LazyRows, batch_id: int) -> LazyRows:
        def make() -> list[Row]:
            judged = [{**row, "reason": "", "failed": row["body"] == b"3"} for row in rows.rows()]
            return [change(row) if row["failed"] else row for row in judged]

        return LazyRows([*rows.columns, "reason", "failed"], make)

    return judge
