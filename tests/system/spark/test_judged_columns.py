# SPDX-License-Identifier: Apache-2.0
"""Columns of a user's among judged rows: types of Spark x where they are; names by Spark's rule of case. Each arrives in ``write`` as it
was judged, or is refused with one sentence before anything runs."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from jobs import publish, reading
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.sql import functions as f
from pyspark.sql import types

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import foreach_batch
from sprocketmq.spark.retry.row_retry import RowRetry
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SAMPLES: Final[dict[type[types.DataType], str]] = {
    types.NullType: "NULL",
    types.StringType: "'späť'",
    types.BinaryType: "X'c328'",
    types.BooleanType: "true",
    types.DateType: "DATE'0001-02-28'",
    types.TimeType: "TIME'23:59:59.123456'",
    types.TimestampType: "TIMESTAMP'1582-10-10 12:34:56.123456'",
    types.TimestampNTZType: "TIMESTAMP_NTZ'2024-02-29 12:34:56.123456'",
    types.DecimalType: "CAST('-12345678901234567890.123456789012345678' AS DECIMAL(38, 18))",
    types.DoubleType: "CAST('NaN' AS DOUBLE)",
    types.FloatType: "CAST('-0.1' AS FLOAT)",
    types.ByteType: "-7Y",
    types.ShortType: "-7S",
    types.IntegerType: "-7",
    types.LongType: "-7L",
    types.DayTimeIntervalType: "INTERVAL '-1 02:03:04.000005' DAY TO SECOND",
    types.YearMonthIntervalType: "INTERVAL '-1-2' YEAR TO MONTH",
    types.CalendarIntervalType: "make_interval(-1, 2, 3, -4, 5, -6, 7.000008)",
    types.VariantType: """parse_json('{"a": [1, null, "x"]}')""",
    types.GeometryType: "ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040')",
    types.GeographyType: "ST_GeogFromWKB(X'0101000000000000000000F03F0000000000000040')",
    types.ArrayType: "array(1, NULL)",
    types.MapType: "map('k', 1)",
    types.StructType: "named_struct('x', 1, 'y', NULL)",
}
ABSTRACT: Final = {
    types.DataType, types.AtomicType, types.NumericType, types.IntegralType, types.FractionalType, types.DatetimeType, types.AnyTimeType,
    types.SpatialType, types.AnsiIntervalType,
    types.StructField,
    types.CharType, types.VarcharType,  # of tables; a DataFrame has strings
    types.UserDefinedType,  # VECTOR
}  # fmt: skip
VECTOR: Final = "vector"
# Where a value is: the column that holds it, and how it is found there.
PLACES: Final[dict[str, tuple[str, str]]] = {
    "top": ("{}", "{}"),
    "a.b": ("{}", "{}"),
    "an `odd`, (name);=": ("{}", "{}"),
    "struct": ("named_struct('in.side', {})", "{}.`in.side`"),
    "array": ("array({}, {})", "{}[1]"),
    "map": ("map('key', {})", "{}['key']"),
    "deep": ("array(named_struct('m', map('key', array({}))))", "{}[0].m['key'][0]"),
    "map key": ("map({}, 'value')", "map_keys({})[0]"),
}
NO_KEYS: Final = (
    types.NullType,
    types.VariantType,
    types.MapType,
    types.CalendarIntervalType,
    types.GeometryType,
    types.GeographyType,
)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def columns() -> Iterator[tuple[str, str, str]]:
    """The name of each column, its value, and a text of what was put there."""
    for kind, value in SAMPLES.items():
        shown = "hex(ST_AsBinary({}))" if issubclass(kind, types.SpatialType) else "cast({} AS string)"
        if kind is types.BinaryType:
            shown = "hex({})"
        for place, (holder, found) in PLACES.items():
            if place != "map key" or kind not in NO_KEYS:
                name = f"{kind.typeName()} {place}" if kind is not types.NullType else f"void {place}"
                yield name, holder.replace("{}", value), shown.replace("{}", found.replace("{}", quoted(name)))


def judged_kind(kind: str) -> str:
    """What is void arrives as a text, of which there is none either."""
    return kind.replace("void", "string")


@contextlib.contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


class Batch:
    """A batch of four messages, the first of which is bad."""

    def __init__(self, spark: SparkSession, mq: EmbeddedRocketMQ, checkpoint: Path) -> None:
        publish(mq, 0, 4)
        self.mq, self.spark = mq, spark
        self.rows = reading(spark, mq)
        (checkpoint / "offsets").mkdir(parents=True)
        (checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")
        self._checkpoint = str(checkpoint)

    def retry(
        self, judge: Callable[[DataFrame], DataFrame], write: Callable[[DataFrame], Any], **options: Any
    ) -> RowRetry:
        retry = foreach_batch(
            lambda rows, batch_id: judge(rows),
            write=lambda rows, batch_id: write(rows),
            group="delays",
            on_error="dlq",
            namesrv_addr=self.mq.namesrv_addr,
            checkpoint_location=self._checkpoint,
            **options,
        )
        retry(self.rows, 0)
        return retry


@pytest.fixture
def batch(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> Batch:
    return Batch(spark, mq, tmp_path / "checkpoint")


def test_each_type_of_spark_has_a_sample() -> None:
    kinds = {kind for _, kind in inspect.getmembers(types, inspect.isclass) if issubclass(kind, types.DataType)}
    assert kinds == {*SAMPLES, *ABSTRACT}


@pytest.fixture
def with_times(spark: SparkSession) -> Iterator[None]:
    with setting(spark, "spark.sql.timeType.enabled", "true"):
        yield


@pytest.mark.usefixtures("with_times")
def test_each_type_arrives_as_it_was_judged_wherever_it_is(batch: Batch) -> None:
    made = list(columns())
    assert len(made) > 170

    def judge(rows: DataFrame) -> DataFrame:
        plain = rows.selectExpr("*", *(f"{value} AS {quoted(name)}" for name, value, _ in made))
        return plain.withColumns({VECTOR: array_to_vector(f.array(f.lit(0.5))), "failed": f.expr(BAD)})

    seen: list[tuple[dict[str, str], list[Any]]] = []

    def look(rows: DataFrame) -> None:
        view = [f.expr(shown).alias(name) for name, _, shown in made]
        kinds = dict(rows.select(*(f.col(quoted(name)) for name, _, _ in made), VECTOR).dtypes)
        vector: Column = vector_to_array(f.col(VECTOR)).cast("string").alias(VECTOR)
        seen.append((kinds, sorted(rows.select("body", *view, vector).collect())))

    batch.retry(judge, look)
    batch.retry(lambda rows: pytest.fail("judged twice"), look)  # the verdicts are found again
    look(judge(batch.rows).where("NOT failed"))
    first, again, (kinds, values) = seen
    assert len(values) == 3
    assert first == again == ({name: judged_kind(kind) for name, kind in kinds.items()}, values)
    assert [dead.body for dead in batch.mq.messages("%DLQ%delays")] == [b"0", b"0"]


@pytest.mark.parametrize("place", ["top", "deep", "map key"])
def test_a_type_that_spark_itself_does_not_write_is_refused_first(batch: Batch, place: str) -> None:
    """TIME, as long as Spark's own setting does not allow it."""
    holder, _ = PLACES[place]
    value = holder.replace("{}", SAMPLES[types.TimeType])
    with pytest.raises(
        ConfigurationError, match=r"^column 'at.all' of the judged rows has the type TIME, [^\n]*; set it, or cast"
    ):
        batch.retry(lambda rows: rows.selectExpr("*", f"{value} AS `at.all`", "false AS failed"), lambda rows: None)


BAD: Final = "body = X'30'"
NEITHER: Final = "neither an action nor a failed column"
TWICE: Final = "rename one of them, or drop it"
# What is judged; then with spark.sql.caseSensitive=false and true the columns of ``write`` besides the source's, or the end of a sentence.
NAMES: Final[tuple[tuple[dict[str, str], list[str] | str, list[str] | str], ...]] = (
    ({"ACTION": "IF(body = X'30', 'dlq', 'ack')"}, [], NEITHER),
    ({"FAILED": "NULL"}, [], NEITHER),
    ({"action": "IF(body = X'30', 'dlq', NULL)", "Failed": "false"}, "both an action and a failed column", ["Failed"]),
    ({"failed": BAD, "FAILED": "'mine'"}, TWICE, ["FAILED"]),
    ({"failed": BAD, "REASON": "'why'", "DelayLEVEL": "1"}, [], ["REASON", "DelayLEVEL"]),
    ({"failed": BAD, "x": "1", "X": "2"}, TWICE, ["x", "X"]),
    ({"failed": BAD, "s": "array(named_struct('x', 1, 'X', 2))"}, TWICE, ["s"]),
    ({"failed": BAD, "s": "map('k', named_struct('x', 1, 'x', 2))"}, TWICE, TWICE),
)


@pytest.mark.parametrize("is_case_sensitive", [False, True])
@pytest.mark.parametrize(("judged", "insensitive", "sensitive"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_names_are_read_by_sparks_rule_of_case(
    batch: Batch,
    judged: dict[str, str],
    insensitive: list[str] | str,
    sensitive: list[str] | str,
    is_case_sensitive: bool,
) -> None:
    expected = sensitive if is_case_sensitive else insensitive
    arrived: list[list[str]] = []

    def judge(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("*", *(f"{value} AS {name}" for name, value in judged.items()))

    def write(rows: DataFrame) -> None:
        arrived.append(rows.columns)
        assert rows.count() == (4 if "NULL" in judged.values() else 3)

    tracker = batch.spark.sparkContext.statusTracker()
    with setting(batch.spark, "spark.sql.caseSensitive", str(is_case_sensitive).lower()):
        if isinstance(expected, str):
            before = len(tracker.getJobIdsForGroup(None))
            with pytest.raises(ConfigurationError, match=f"^[^\n]*{expected}[^\n]*$"):
                batch.retry(judge, write)
            assert len(tracker.getJobIdsForGroup(None)) - before <= 2, (
                "what the checkpoint says is read, and nothing more"
            )
            return
        retry = batch.retry(judge, write)
    assert arrived == [[*batch.rows.columns, *expected]]
    assert retry.dead_lettered == ("NULL" not in judged.values())
    if "REASON" in judged:
        (letter,) = batch.mq.messages("%DLQ%delays")
        assert letter.properties.get("RETRY_REASON") == (None if is_case_sensitive else "why")


def test_two_columns_of_one_name_after_a_join_are_refused(batch: Batch) -> None:
    def judge(rows: DataFrame) -> DataFrame:
        other = rows.select("commitLogOffset", f.lit(1).alias("x"))
        return rows.join(other, rows.commitLogOffset == other.commitLogOffset).withColumn("failed", f.lit(False))

    with pytest.raises(ConfigurationError, match=r"two columns 'commitLogOffset' and 'commitLogOffset'; rename one of"):
        batch.retry(judge, lambda rows: pytest.fail("written"))


@pytest.mark.parametrize("column", ["body", "properties"])
def test_a_bad_row_whose_own_columns_are_null_goes_back(batch: Batch, column: str) -> None:
    null = "NULL" if column == "body" else f"IF(failed, NULL, {column})"  # of no type, or of its own

    def judge(rows: DataFrame) -> DataFrame:
        judged = rows.selectExpr("*", "body = X'30' AS failed", "'why' AS reason")
        return judged.withColumn(column, f.expr(null))

    retry = batch.retry(judge, lambda rows: rows.count())
    assert retry.dead_lettered == 1
    (letter,) = batch.mq.messages("%DLQ%delays")
    assert (letter.body, letter.properties.get("RETRY_REASON")) == (b"0", None)
