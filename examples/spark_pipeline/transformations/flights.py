"""The topic as a streaming table: each run appends what came since the last one. Nothing is registered, no jar is named."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table
def flights() -> DataFrame:
    rows = spark.readStream.format("rocketmq").options(topic="flights", startingOffsets="earliest").load()
    return rows.selectExpr("tags AS carrier", "keys AS tailnum", "cast(cast(body AS string) AS int) AS dep_delay")
