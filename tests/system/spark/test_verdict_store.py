# SPDX-License-Identifier: Apache-2.0
"""A row is judged once, whoever dies between the write of the good rows and the way back of the others."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import Numbers, last_words, publish, run_available_now, streaming
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import foreach_batch
from sprocketmq.spark.retry import row_retry
from sprocketmq.spark.retry.verdict_store import VerdictStore
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).with_name("judged_on_a_cluster.py")
ROWS = 400


def run(kind: str, directory: Path, mq: EmbeddedRocketMQ) -> int:
    with open(directory / f"{kind}.log", "ab") as log:
        return subprocess.run(
            [sys.executable, PROGRAM, kind, str(directory), mq.namesrv_addr],
            cwd=directory, stdout=log, stderr=log, start_new_session=True, timeout=600,
        ).returncode  # fmt: skip


def sent_back(mq: EmbeddedRocketMQ) -> list[int]:
    """Rows on their way back, wherever they are on it."""
    return sorted(int(copy.body) for copy in mq.messages("SCHEDULE_TOPIC_XXXX"))


def written(directory: Path) -> list[list[int]]:
    return [json.loads(path.read_text()) for path in sorted(directory.glob("good-*"))]


@pytest.mark.nightly  # a Spark cluster of four processes
def test_executors_that_die_take_no_verdict_along(mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    mq.create_topic("flights", queues=4)
    publish(mq, 0, ROWS)
    assert run("executors", tmp_path, mq) == 0, (tmp_path / "executors.log").read_text()[-4_000:]
    (good,) = written(tmp_path)
    assert 0 < len(good) < ROWS
    assert sorted(good + sent_back(mq)) == list(range(ROWS))


@pytest.mark.nightly  # a Spark cluster of four processes
def test_a_batch_that_another_driver_repeats_keeps_its_verdicts(mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    mq.create_topic("flights", queues=4)
    publish(mq, 0, ROWS)
    assert run("driver", tmp_path, mq) == -signal.SIGKILL
    assert sent_back(mq) == []
    assert run("driver", tmp_path, mq) == 0, (tmp_path / "driver.log").read_text()[-4_000:]
    first, second = written(tmp_path)
    assert first == second
    assert sorted(first + sent_back(mq)) == list(range(ROWS))


class Judge:
    """Rows whose numbers are in ``bad`` fail."""

    def __init__(self, *bad: int) -> None:
        self.bad, self.batches = bad, list[int]()

    def __call__(self, rows: DataFrame, batch_id: int) -> DataFrame:
        self.batches.append(batch_id)
        return rows.withColumn("failed", rows.body.cast("string").isin(*map(str, self.bad)))


def test_verdicts_of_a_batch_that_an_operator_took_back_count_for_nothing(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("flights", queues=1)
    good, judge = Numbers(), Judge(3, 13, 23)

    def run_all() -> None:
        retry = foreach_batch(judge, write=good, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
        run_available_now(streaming(spark, mq).load(), retry, tmp_path)

    publish(mq, 0, 10)
    run_all()
    publish(mq, 10, 20)
    run_all()
    for log in ("offsets", "commits"):
        (tmp_path / log / "1").unlink()
        (tmp_path / log / ".1.crc").unlink(missing_ok=True)
    publish(mq, 20, 30)
    good.seen.clear()
    run_all()
    assert judge.batches == [0, 1, 1]
    assert sorted(good.seen) == [at for at in range(10, 30) if at not in judge.bad]


def test_a_batch_that_failed_when_it_was_written_is_written_again_as_it_was_judged(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 10)
    judge, good = Judge(3), Numbers()

    def fail(rows: DataFrame, batch_id: int) -> None:
        raise OSError("the lake is closed")

    def run_with(write: Callable[[DataFrame, int], object]) -> None:
        retry = foreach_batch(judge, write=write, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
        run_available_now(streaming(spark, mq).load(), retry, tmp_path)

    with pytest.raises(StreamingQueryException, match="the lake is closed"):
        run_with(fail)
    judge.bad = (4,)
    run_with(good)
    assert (judge.batches, sent_back(mq)) == ([0], [3])
    assert sorted(good.seen) == [at for at in range(10) if at != 3]


class DiesBeforeTheCheck(VerdictStore):
    def _check(self, kept: DataFrame, written: int) -> None:
        raise SystemError("the driver died")


def lose_a_part(checkpoint: Path) -> None:
    """As if a part of the verdicts lay on a disk of another machine."""
    parts = sorted((checkpoint / "sprocketmq" / "verdicts-delays").rglob("part-*.parquet"))
    parts[0].unlink()
    parts[0].with_name(f".{parts[0].name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(("three_says", "lost"), [("retry", True), ("retri", False)])
def test_verdicts_that_nobody_checked_count_for_nothing(
    spark: SparkSession,
    mq: EmbeddedRocketMQ,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    three_says: str,
    lost: bool,
) -> None:
    """The driver died between the last row that was written and the count: a part is not there, or a word is none."""
    mq.create_topic("flights", queues=4)
    publish(mq, 0, 10)
    good = Numbers()

    def run_with(three_says: str) -> None:
        def judge(rows: DataFrame, batch_id: int) -> DataFrame:
            return rows.withColumn("action", f.when(rows.body.cast("string") == "3", three_says))

        retry = foreach_batch(judge, write=good, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
        run_available_now(streaming(spark, mq, minPartitions=4).load(), retry, tmp_path)

    with monkeypatch.context() as patch:
        patch.setattr(row_retry, "VerdictStore", DiesBeforeTheCheck)
        with pytest.raises(StreamingQueryException, match="the driver died"):
            run_with(three_says)
    if lost:
        lose_a_part(tmp_path)
    run_with("retry")
    assert sorted(good.seen) == [at for at in range(10) if at != 3]
    assert sent_back(mq) == [3]


@pytest.mark.parametrize("all_of_them", [False, True])
def test_kept_verdicts_of_which_some_are_gone_are_not_taken_for_the_batch(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path, caplog: pytest.LogCaptureFixture, all_of_them: bool
) -> None:
    mq.create_topic("flights", queues=4)
    publish(mq, 0, 10)
    judge, good = Judge(3), Numbers()

    def fail(rows: DataFrame, batch_id: int) -> None:
        raise OSError("the lake is closed")

    def run_with(write: Callable[[DataFrame, int], object]) -> None:
        retry = foreach_batch(judge, write=write, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
        run_available_now(streaming(spark, mq, minPartitions=4).load(), retry, tmp_path)

    with pytest.raises(StreamingQueryException, match="the lake is closed"):
        run_with(fail)
    if all_of_them:
        shutil.rmtree(tmp_path / "sprocketmq" / "verdicts-delays" / "rows")
    else:
        lose_a_part(tmp_path)
    run_with(good)
    assert judge.batches == [0, 0]
    assert sorted(good.seen + sent_back(mq)) == list(range(10))
    assert "batch 0 was judged before, and of its 10 judged rows at" in caplog.text


def test_a_call_that_failed_can_be_made_again(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    """In a checkpoint whose name Spark's reads would take for a pattern."""
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 10)
    judge, good, calls = Judge(3), Numbers(), list[int]()

    def fail_first(rows: DataFrame, batch_id: int) -> None:
        calls.append(batch_id)
        if len(calls) == 1:
            raise OSError("the lake is busy")
        good(rows, batch_id)

    retry = foreach_batch(judge, write=fail_first, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)

    def patient(rows: DataFrame, batch_id: int) -> None:
        try:
            retry(rows, batch_id)
        except OSError:
            retry(rows, batch_id)

    run_available_now(streaming(spark, mq).load(), patient, tmp_path / "a[x]{b,c}")
    assert (judge.batches, calls, sent_back(mq)) == ([0], [0, 0], [3])
    assert sorted(good.seen) == [at for at in range(10) if at != 3]


def test_a_judge_that_is_called_in_another_thread_is_of_the_query_whose_checkpoint_it_was_given(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 10)
    judge, good = Judge(3), Numbers()

    def fail(rows: DataFrame, batch_id: int) -> None:
        raise OSError("the lake is closed")

    def run_with(write: Callable[[DataFrame, int], object], times: int = 1) -> None:
        retry = foreach_batch(
            judge,
            write=write,
            group="delays",
            namesrv_addr=mq.namesrv_addr,
            checkpoint_location=str(tmp_path),
            check_source=False,
        )

        def elsewhere(rows: DataFrame, batch_id: int) -> None:
            with ThreadPoolExecutor(1) as threads:
                for _ in range(times):
                    threads.submit(retry, rows, batch_id).result()

        run_available_now(streaming(spark, mq).load(), elsewhere, tmp_path)

    with pytest.raises(StreamingQueryException, match="the lake is closed"):
        run_with(fail)
    judge.bad = (4,)
    with pytest.raises(StreamingQueryException, match="batch 0 of one query is judged twice"):
        run_with(good, times=2)
    run_with(good)
    assert (judge.batches, sent_back(mq)) == ([0], [3, 3])
    assert sorted(good.seen) == sorted(2 * [at for at in range(10) if at != 3])


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("action", "''", "action is ''; allowed is null, ack, retry, dlq, drop"),
        ("action", "'retri'", "action is 'retri'; allowed is null, ack, retry, dlq, drop"),
        ("delayLevel", "-1", "delayLevel is -1; allowed is null, 0 (the broker chooses) or a level to 1000"),
    ],
)
def test_a_verdict_that_does_not_exist_stops_the_batch_before_anything_is_done_and_a_mended_judge_is_asked(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path, column: str, value: str, words: str
) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 4)
    good = Numbers()
    three = "cast(body AS string) = '3'"

    def run_with(three_says: str) -> None:
        def judge(rows: DataFrame, batch_id: int) -> DataFrame:
            rows = rows.withColumn("action", f.expr(f"IF({three}, ' Retry ', ' ACK\t')"))
            return rows.withColumn(column, f.expr(f"IF({three}, {three_says}, NULL)"))

        retry = foreach_batch(judge, write=good, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
        run_available_now(streaming(spark, mq).load(), retry, tmp_path)

    with pytest.raises(StreamingQueryException) as error:
        run_with(value)
    assert words in last_words(error.value)
    assert (good.seen, sent_back(mq)) == ([], [])
    run_with("' Retry '" if column == "action" else "2")
    assert sorted(good.seen) == [0, 1, 2]
    assert sent_back(mq) == [3]


def test_two_judges_of_one_query_have_two_names(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 10)
    good = Numbers()

    def run_with(*names: str | None) -> None:
        retries = [
            foreach_batch(
                Judge(3, 4), write=good, group="delays", namesrv_addr=mq.namesrv_addr, name=name, check_source=False
            )
            for name in names
        ]

        def both(rows: DataFrame, batch_id: int) -> None:
            for odd, retry in enumerate(retries):
                retry(rows.where(f"cast(body AS int) % 2 = {odd}"), batch_id)

        run_available_now(streaming(spark, mq).load().withColumn("body", f.col("body").cast("string")), both, tmp_path)

    with pytest.raises(StreamingQueryException, match="judged twice under the name 'delays'.*a name of its own"):
        run_with(None, None)
    good.seen.clear()
    shutil.rmtree(tmp_path)
    run_with("even", "odd")
    assert sorted(good.seen) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_the_checkpoint_of_another_query_is_refused(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 10)
    good = Numbers()
    retry = foreach_batch(
        Judge(),
        write=good,
        group="delays",
        namesrv_addr=mq.namesrv_addr,
        checkpoint_location=str(tmp_path / "another"),
        check_source=False,
    )
    with pytest.raises(StreamingQueryException, match="another knows no batch 0; give foreach_batch the checkpoint"):
        run_available_now(streaming(spark, mq).load(), retry, tmp_path / "checkpoint")
    rows = spark.read.format("rocketmq").options(namesrvAddr=mq.namesrv_addr, topic="flights").load()
    with pytest.raises(ConfigurationError, match="Spark does not say here where that is; give checkpoint_location"):
        foreach_batch(Judge(), write=good, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)(rows, 0)
    assert good.seen == []


def test_a_checkpoint_that_executors_do_not_share_stops_the_batch(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if an executor had written its part to a disk of its own: fewer rows are there than were written."""
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 10)
    good = Numbers()

    class LosesRows(VerdictStore):
        def _check(self, kept: DataFrame, written: int) -> None:
            super()._check(kept.limit(4), written)

    monkeypatch.setattr(row_retry, "VerdictStore", LosesRows)
    retry = foreach_batch(Judge(), write=good, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
    with pytest.raises(StreamingQueryException) as error:
        run_available_now(streaming(spark, mq).load(), retry, tmp_path)
    assert "10 judged rows were written to" in last_words(error.value)
    assert "and 4 can be read; the checkpoint location must be on storage that" in last_words(error.value)
    assert good.seen == []


def test_bad_rows_that_cannot_be_sent_back_stop_the_batch_and_a_reason_of_bytes_does_not(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("flights", queues=1)
    with mq.producer() as producer:
        producer.send_batch([Message("flights", body) for body in (b"0", b"\xff\xfe", b"2")])
    good = Numbers()

    def run_with(**columns: str) -> None:
        def judge(rows: DataFrame, batch_id: int) -> DataFrame:
            is_bad = "try_cast(try_cast(body AS string) AS int) IS NULL"
            judged = rows.withColumns({name: f.expr(f"IF({is_bad}, {made}, {name})") for name, made in columns.items()})
            return judged.selectExpr(
                "*", f"IF({is_bad}, coalesce(cast(body AS string), 'none'), NULL) AS reason", f"{is_bad} AS failed"
            )

        retry = foreach_batch(judge, write=good, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
        run_available_now(streaming(spark, mq).load(), retry, tmp_path)

    for columns, words in (
        ({"brokerName": "NULL"}, "a bad row has no brokerName"),
        ({"topic": "cast(X'ff' AS string)"}, "a text of a bad row is not UTF-8"),
        ({"body": "cast(NULL AS binary)"}, "has a reason and lacks body"),
    ):
        with pytest.raises(StreamingQueryException) as error:
            run_with(**columns)
        assert words in last_words(error.value)
        assert good.seen == []
    run_with()
    assert good.seen == [0, 2]
    mq.wait_until(lambda: mq.messages("%RETRY%delays"))
    (copy,) = mq.messages("%RETRY%delays")
    assert (copy.body, copy.properties["RETRY_REASON"]) == (b"\xff\xfe", "\ufffd\ufffd")


def test_settings_of_the_session_do_not_change_the_rows_for_write(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 2)
    settings = {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        "spark.sql.parquet.compression.codec": "lzo",  # which no jar of Spark has
        "spark.sql.parquet.datetimeRebaseModeInWrite": "EXCEPTION",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    }
    times, seen = ["0001-01-01 00:00:00.123456", "2026-01-31 08:00:00.123456"], set[str]()

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        at = f.when(rows.body == f.lit(b"0"), times[0]).otherwise(times[1]).cast("timestamp")
        return rows.withColumns({"at": at, "failed": f.lit(False)})

    def write(good: DataFrame, batch_id: int) -> None:
        seen.update(row.at for row in good.select(f.col("at").cast("string").alias("at")).collect())
        assert good.sparkSession.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MILLIS"

    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        retry = foreach_batch(judge, write=write, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
        run_available_now(streaming(spark, mq).load(), retry, tmp_path)
    finally:
        for name, old in before.items():
            spark.conf.set(name, old)
    assert seen == set(times)


def test_the_first_batch_of_a_checkpoint_logs_no_stack_of_java(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 3)
    jvm = spark._jvm
    log = jvm.java.io.StringWriter()
    appender = jvm.org.apache.logging.log4j.core.appender.WriterAppender.createAppender(
        None, None, log, "of a test", False, True
    )
    appender.start()
    root = jvm.org.apache.logging.log4j.LogManager.getContext(False).getRootLogger()
    root.addAppender(appender)
    spark.sparkContext.setLogLevel("WARN")
    try:
        judged = foreach_batch(
            Judge(), write=Numbers(), group="delays", namesrv_addr=mq.namesrv_addr, check_source=False
        )
        run_available_now(streaming(spark, mq).load(), judged, tmp_path)
    finally:
        spark.sparkContext.setLogLevel("ERROR")
        root.removeAppender(appender)
    assert "does not exist" not in log.toString()
