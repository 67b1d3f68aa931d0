# SPDX-License-Identifier: Apache-2.0
"""A table of MySQL, whose changes Canal sends, kept by Spark's AUTO CDC; messages that cannot be read become a table of their own.

The producer keeps the changes of a key in one queue. A pipeline has no row retry, which moves messages of a foreachBatch.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from sprocketmq.spark import change_events

spark = SparkSession.active()
# Spark parses no DDL in a function of a pipeline.
COLUMNS = t.StructType().add("tailnum", "string").add("airline", "string").add("seats", "int")


def events() -> DataFrame:
    messages = spark.readStream.format("rocketmq").options(topic="planes", startingOffsets="earliest").load()
    return change_events(messages, "canal-json", COLUMNS, table="fleet.planes", keys=["tailnum"])


@dp.temporary_view
def changes() -> DataFrame:
    read = events().where("NOT failed").withColumn("plane", f.coalesce("after", "before"))
    return read.selectExpr("plane.*", "operation", "struct(position, queueOffset, row) AS place")


dp.create_streaming_table("planes")
dp.create_auto_cdc_flow(
    target="planes",
    source="changes",
    keys=["tailnum"],
    sequence_by="place",
    apply_as_deletes="operation = 'delete'",
    except_column_list=["operation", "place"],
)


@dp.table(name="spark_catalog.default.unread_changes")
def unread_changes() -> DataFrame:
    return events().where("failed").selectExpr("messageId", "body", "reason")
