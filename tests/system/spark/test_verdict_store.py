# SPDX-License-Identifier: Apache-2.0
"""A row is judged once, whoever dies between the write of the good rows and the way back of the others."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jobs import Numbers, last_words, publish, run_available_now, streaming
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import functions as f

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import foreach_batch
from sprocketmq.spark.retry import row_retry
from sprocketmq.spark.retry.row_retry import RowRetry
from sprocketmq.spark.retry.verdict_store import VerdictStore
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def sent_back(mq: EmbeddedRocketMQ) -> list[int]:
    """Rows on their way back, wherever they are on it."""
    return sorted(int(copy.body) for copy in mq.messages("SCHEDULE_TOPIC_XXXX"))


class Judge:
    """Rows whose numbers are in ``bad`` fail."""

    def __init__(self, *bad: int) -> None:
        self.bad, self.batches = bad, list[int]()

    def __call__(self, rows: DataFrame, batch_id: int) -> DataFrame:
        self.batches.append(batch_id)
        return rows.withColumn("failed", rows.body.cast("string").isin(*map(str, self.bad)))


def fail(rows: DataFrame, batch_id: int) -> None:
    raise OSError("the lake is closed")


Process = Callable[["DataFrame", int], "DataFrame"]
Write = Callable[["DataFrame", int], object]


class Job:
    """A stream of ``flights`` whose good rows come into ``good``."""

    def __init__(self, spark: SparkSession, mq: EmbeddedRocketMQ, checkpoint: Path) -> None:
        self.spark, self.mq, self.checkpoint = spark, mq, checkpoint
        self.good = Numbers()
        mq.create_topic("flights", queues=1)

    def retry(self, process: Process, write: Write | None = None, **options: Any) -> RowRetry:
        given = {"group": "delays", "namesrv_addr": self.mq.namesrv_addr, "check_source": False, **options}
        return foreach_batch(process, write=write or self.good, **given)

    def run(self, process: Process, write: Write | None = None, **options: Any) -> None:
        self.each(self.retry(process, write, **options))

    def each(self, function: Write) -> None:
        run_available_now(streaming(self.spark, self.mq, minPartitions=3).load(), function, self.checkpoint)

    def fails(self, words: str, process: Process, write: Write | None = None, **options: Any) -> None:
        with pytest.raises(StreamingQueryException) as error:
            self.run(process, write, **options)
        assert words in last_words(error.value)

    def lose_a_part(self) -> None:
        """As if a part of the verdicts lay on a disk of another machine."""
        parts = sorted((self.checkpoint / "sprocketmq" / "verdicts-delays").rglob("part-*.parquet"))
        parts[0].unlink()
        parts[0].with_name(f".{parts[0].name}.crc").unlink(missing_ok=True)


@pytest.fixture
def job(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> Job:
    """In a checkpoint whose name Spark's reads would take for a pattern."""
    return Job(spark, mq, tmp_path / "a[x]{b,c}")


ALL_BUT_THREE = [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_verdicts_of_a_batch_that_an_operator_took_back_count_for_nothing(job: Job) -> None:
    judge = Judge(3, 13, 23)
    for start in (0, 10):
        publish(job.mq, start, start + 10)
        job.run(judge)
    for log in ("offsets", "commits"):
        (job.checkpoint / log / "1").unlink()
        (job.checkpoint / log / ".1.crc").unlink(missing_ok=True)
    publish(job.mq, 20, 30)
    job.good.seen.clear()
    job.run(judge)
    assert judge.batches == [0, 1, 1]
    assert sorted(job.good.seen) == [at for at in range(10, 30) if at not in judge.bad]


def test_a_batch_that_failed_when_it_was_written_is_written_again_as_it_was_judged(job: Job) -> None:
    publish(job.mq, 0, 10)
    judge = Judge(3)
    job.fails("the lake is closed", judge, fail)
    judge.bad = (4,)
    job.run(judge)
    assert (judge.batches, sent_back(job.mq)) == ([0], [3])
    assert sorted(job.good.seen) == ALL_BUT_THREE


class DiesBeforeTheCheck(VerdictStore):
    def _stored(self, schema: StructType, judged: StructType) -> DataFrame:
        raise SystemError("the driver died")


def test_verdicts_that_nobody_checked_count_for_nothing(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver died between the last row that was written and the count, and a part is not there."""
    publish(job.mq, 0, 10)
    with monkeypatch.context() as patch:
        patch.setattr(row_retry, "VerdictStore", DiesBeforeTheCheck)
        job.fails("the driver died", Judge(4))
    job.lose_a_part()
    job.run(Judge(3))
    assert sorted(job.good.seen) == ALL_BUT_THREE
    assert sent_back(job.mq) == [3]


@pytest.mark.parametrize("all_of_them", [False, True])
def test_kept_verdicts_of_which_some_are_gone_are_not_taken_for_the_batch(
    job: Job, caplog: pytest.LogCaptureFixture, all_of_them: bool
) -> None:
    publish(job.mq, 0, 10)
    judge = Judge(3)
    job.fails("the lake is closed", judge, fail)
    if all_of_them:
        shutil.rmtree(job.checkpoint / "sprocketmq" / "verdicts-delays" / "rows")
    else:
        job.lose_a_part()
    job.run(judge)
    assert judge.batches == [0, 0]
    assert (sorted(job.good.seen), sent_back(job.mq)) == (ALL_BUT_THREE, [3])
    assert "batch 0 was judged before, and not all files of its 10 judged rows are at" in caplog.text


def test_a_call_that_failed_can_be_made_again(job: Job) -> None:
    publish(job.mq, 0, 10)
    judge, calls = Judge(3), list[int]()

    def fail_first(rows: DataFrame, batch_id: int) -> None:
        calls.append(batch_id)
        (fail if len(calls) == 1 else job.good)(rows, batch_id)

    retry = job.retry(judge, fail_first)

    def patient(rows: DataFrame, batch_id: int) -> None:
        try:
            retry(rows, batch_id)
        except OSError:
            retry(rows, batch_id)

    job.each(patient)
    assert (judge.batches, calls, sent_back(job.mq)) == ([0], [0, 0], [3])
    assert sorted(job.good.seen) == ALL_BUT_THREE


def test_a_judge_that_is_called_in_another_thread_is_of_the_query_whose_checkpoint_it_was_given(job: Job) -> None:
    publish(job.mq, 0, 10)
    judge = Judge(3)

    def run_with(write: Write, times: int = 1) -> None:
        retry = job.retry(judge, write, checkpoint_location=str(job.checkpoint))

        def elsewhere(rows: DataFrame, batch_id: int) -> None:
            with ThreadPoolExecutor(1) as threads:
                for _ in range(times):
                    threads.submit(retry, rows, batch_id).result()

        job.each(elsewhere)

    with pytest.raises(StreamingQueryException, match="the lake is closed"):
        run_with(fail)
    judge.bad = (4,)
    with pytest.raises(StreamingQueryException, match="batch 0 of one query is judged twice"):
        run_with(job.good, times=2)
    run_with(job.good)
    assert (judge.batches, sent_back(job.mq)) == ([0], [3, 3])
    assert sorted(job.good.seen) == sorted(2 * ALL_BUT_THREE)


def test_a_verdict_that_does_not_exist_stops_the_batch_before_anything_is_done_and_a_mended_judge_is_asked(
    job: Job,
) -> None:
    publish(job.mq, 0, 4)
    is_three = "cast(body AS string) = '3'"

    def judging(action: str, level: int) -> Process:
        columns = f"IF({is_three}, '{action}', ' ACK\t') AS action", f"IF({is_three}, {level}, NULL) AS delayLevel"
        return lambda rows, batch_id: rows.selectExpr("*", *columns)

    for words, judge in (("action is 'retri'", judging("retri", 2)), ("delayLevel is -1", judging("dlq", -1))):
        job.fails(f"{words}; allowed is null", judge)
        assert (job.good.seen, sent_back(job.mq)) == ([], [])
    job.run(judging(" Retry ", 2))
    assert (sorted(job.good.seen), sent_back(job.mq)) == ([0, 1, 2], [3])


def test_a_row_is_judged_once_however_often_it_is_written(job: Job, tmp_path: Path) -> None:
    """By a judge that throws dice, with a ``write`` of several actions, of which one fails in a task."""
    publish(job.mq, 0, 10)
    judged, looks = tmp_path / "judged", list[list[int]]()

    @f.udf("boolean")
    def throw_dice(body):
        with judged.open("a") as file:
            file.write(f"{int(body)}\n")
        return random.random() < 0.5

    @f.udf("int")
    def fail_in_a_task(body):
        raise OSError("the lake is closed")

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        return rows.withColumn("failed", throw_dice(rows.body))

    def write(good: DataFrame, batch_id: int) -> None:
        with pytest.raises(PythonException, match="the lake is closed"):
            good.select(fail_in_a_task("body")).collect()
        looks.extend(sorted(int(row.body) for row in good.collect()) for _ in range(2))

    job.run(judge, write)
    assert sorted(map(int, judged.read_text().split())) == list(range(10))
    assert looks[0] == looks[1]
    assert sorted(looks[0] + sent_back(job.mq)) == list(range(10))


@pytest.mark.parametrize(("bad", "jobs"), [((), 2), ((3,), 3)])
def test_a_batch_is_a_job_for_its_verdicts_one_for_write_and_one_for_its_bad_rows(
    job: Job, bad: tuple[int, ...], jobs: int
) -> None:
    publish(job.mq, 0, 10)
    counts: list[int] = []
    retry = job.retry(Judge(*bad), lambda good, batch_id: good.write.format("noop").mode("overwrite").save())

    def counted(rows: DataFrame, batch_id: int) -> None:
        context = rows.sparkSession.sparkContext
        group = context.getLocalProperty("spark.jobGroup.id")
        before = len(context.statusTracker().getJobIdsForGroup(group))
        retry(rows, batch_id)
        counts.append(len(context.statusTracker().getJobIdsForGroup(group)) - before)

    job.each(counted)
    assert counts == [jobs]


def test_two_judges_of_one_query_have_two_names(job: Job) -> None:
    publish(job.mq, 0, 10)

    def run_with(*names: str | None) -> None:
        retries = [job.retry(Judge(3, 4), name=name) for name in names]

        def both(rows: DataFrame, batch_id: int) -> None:
            for odd, retry in enumerate(retries):
                retry(rows.where(f"cast(cast(body AS string) AS int) % 2 = {odd}"), batch_id)

        job.each(both)

    with pytest.raises(StreamingQueryException, match="judged twice under the name 'delays'.*a name of its own"):
        run_with(None, None)
    job.good.seen.clear()
    shutil.rmtree(job.checkpoint)
    run_with("even", "odd")
    assert sorted(job.good.seen) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_the_checkpoint_of_another_query_is_refused(job: Job, tmp_path: Path) -> None:
    publish(job.mq, 0, 10)
    job.fails("another knows no batch 0", Judge(), checkpoint_location=str(tmp_path / "another"))
    rows = job.spark.read.format("rocketmq").options(namesrvAddr=job.mq.namesrv_addr, topic="flights").load()
    with pytest.raises(ConfigurationError, match="give checkpoint_location"):
        job.retry(Judge())(rows, 0)
    assert job.good.seen == []


def test_a_checkpoint_that_executors_do_not_share_stops_the_batch(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an executor had written its part to a disk of its own: fewer rows are there than were written."""
    publish(job.mq, 0, 10)

    class LosesRows(VerdictStore):
        def _stored(self, schema: StructType, judged: StructType) -> DataFrame:
            job.lose_a_part()
            return super()._stored(schema, judged)

    monkeypatch.setattr(row_retry, "VerdictStore", LosesRows)
    job.fails("can be read; the checkpoint location must be on storage that", Judge())
    assert job.good.seen == []


def test_bad_rows_that_the_broker_has_lost_are_sent_with_their_own_bodies(job: Job) -> None:
    publish(job.mq, 0, 6)
    ids = {message.body: message.message_id for message in job.mq.messages("flights")}

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        rows = rows.persist()
        rows.count()
        job.mq.restart_broker()  # it forgets everything
        number = "cast(body AS string)"
        action = f"CASE WHEN {number} IN ('1', '4') THEN 'retry' WHEN {number} = '2' THEN 'dlq' END"
        return rows.withColumn("action", f.expr(action)).persist()

    retry = job.retry(judge)
    writer = streaming(job.spark, job.mq).load().writeStream.foreachBatch(retry)
    once = writer.option("checkpointLocation", str(job.checkpoint)).trigger(
        once=True
    )  # it asks nothing after its batch
    assert once.start().awaitTermination(300)
    assert sorted(job.good.seen) == [0, 3, 5]
    job.mq.wait_until(lambda: len(job.mq.messages("%RETRY%delays")) == 2, 60_000)
    copies = job.mq.messages("%RETRY%delays")
    assert {copy.body: copy.message_id for copy in copies} == {body: ids[body] for body in (b"1", b"4")}
    assert {(copy.reconsume_times, copy.tags, copy.properties["RETRY_TOPIC"]) for copy in copies} == {
        (1, "UA", "flights")
    }
    assert [(dead.body, dead.message_id) for dead in job.mq.messages("%DLQ%delays")] == [(b"2", ids[b"2"])]
    assert (retry.retried, retry.dead_lettered) == (2, 1)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {
            **dict.fromkeys(("topic", "messageId", "keys"), "cast(X'ff' AS string)"),
            "body": "cast(body AS string)",
            "properties": "map(cast(X'ff' AS string), cast(X'fe' AS string))",
        },
    ],
    ids=["the reason", "all of them"],
)
def test_bytes_in_the_texts_of_a_bad_row_stop_nothing(job: Job, columns: dict[str, str]) -> None:
    with job.mq.producer() as producer:
        producer.send_batch([Message("flights", body) for body in (b"0", b"\xff\xfe", b"2")])

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        judged = rows.withColumns(
            {"reason": f.expr("cast(body AS string)"), **{n: f.expr(e) for n, e in columns.items()}}
        )
        return judged.withColumn("failed", f.expr("try_cast(reason AS int) IS NULL"))

    job.run(judge)
    assert sorted(job.good.seen) == [0, 2]
    job.mq.wait_until(lambda: job.mq.messages("%RETRY%delays"))
    (copy,) = job.mq.messages("%RETRY%delays")
    reason = None if "topic" in columns else "\ufffd\ufffd"  # a copy comes from its topic
    assert (copy.body, copy.properties.get("RETRY_REASON")) == (b"\xff\xfe", reason)


def test_settings_of_the_session_do_not_change_the_rows_for_write(job: Job) -> None:
    publish(job.mq, 0, 2)
    spark = job.spark
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
        job.run(judge, write)
    finally:
        for name, old in before.items():
            spark.conf.set(name, old)
    assert seen == set(times)


def test_the_first_batch_of_a_checkpoint_logs_no_stack_of_java(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    job = Job(spark, mq, tmp_path / "checkpoint")  # Spark itself logs one for a name that is a pattern
    publish(job.mq, 0, 3)
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
        job.run(Judge())
    finally:
        spark.sparkContext.setLogLevel("ERROR")
        root.removeAppender(appender)
    assert "does not exist" not in log.toString()
