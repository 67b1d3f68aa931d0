# SPDX-License-Identifier: Apache-2.0
"""A topic as a streaming table, and late flights to another topic. No registration and no JAR are needed."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table
def flights() -> DataFrame:
    """Each run appends the messages since the last one."""
    rows = spark.readStream.format("rocketmq").options(topic="flights", startingOffsets="earliest").load()
    return rows.selectExpr("tags AS carrier", "keys AS tailnum", "try_cast(string(body) AS int) AS dep_delay")


dp.create_sink("late_flights", format="rocketmq", options={"topic": "late-flights"})


@dp.append_flow(target="late_flights")
def late() -> DataFrame:
    """The topic as a sink. Spark has no SQL statement for sinks."""
    rows = spark.readStream.table("flights").where("dep_delay >= 5")
    return rows.selectExpr("carrier AS tags", "tailnum AS keys", "string(dep_delay) AS body")
