# SPDX-License-Identifier: Apache-2.0
"""The topic as a streaming table, and late flights to another topic. Nothing is registered, no jar is named."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table
def flights() -> DataFrame:
    """Each run appends what came since the last one."""
    rows = spark.readStream.format("rocketmq").options(topic="flights", startingOffsets="earliest").load()
    return rows.selectExpr("tags AS carrier", "keys AS tailnum", "try_cast(string(body) AS int) AS dep_delay")


dp.create_sink("late_flights", format="rocketmq", options={"topic": "late-flights"})


@dp.append_flow(target="late_flights")
def late() -> DataFrame:
    """A topic is a sink; in SQL alone Spark knows none."""
    rows = spark.readStream.table("flights").where("dep_delay >= 5")
    return rows.selectExpr("carrier AS tags", "tailnum AS keys", "string(dep_delay) AS body")
