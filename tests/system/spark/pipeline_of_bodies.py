# SPDX-License-Identifier: Apache-2.0
"""What a pipeline makes of bodies, in functions in which Spark analyses nothing: test_deploying runs it beside the example."""

from __future__ import annotations

from collections.abc import Callable

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import body_values, change_events

COLUMNS = StructType([StructField("id", IntegerType()), StructField("seen", ArrayType(IntegerType()))])


def rows(topic: str) -> DataFrame:
    return SparkSession.active().readStream.format("rocketmq").options(topic=topic, startingOffsets="earliest").load()


@dp.table
def changes() -> DataFrame:
    return change_events(rows("changes"), "maxwell", COLUMNS).selectExpr("operation", "after.id")


@dp.table
def values_of_bodies() -> DataFrame:
    return body_values(rows("flights"), "json", COLUMNS).selectExpr("value.id", "reason")


@dp.table
def refused() -> DataFrame:
    functions: tuple[Callable[[DataFrame], DataFrame], ...] = (
        lambda rows: change_events(rows, "maxwell", "id int"),
        lambda rows: body_values(rows, "json", "id int"),
    )
    said = []
    for function in functions:
        try:
            function(rows("flights"))
        except ConfigurationError as error:
            said.append(str(error))
    return rows("flights").selectExpr(f"{len(said)} AS times", f"'{said[0]}' AS sentence".replace("'id int'", "id int"))
