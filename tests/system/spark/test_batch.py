# SPDX-License-Identifier: Apache-2.0
"""Batch reads and writes through a real Spark."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

import sprocketmq as rmq
from sprocketmq.spark import message_schema
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def publish(mq: EmbeddedRocketMQ, count: int, topic: str = "flights") -> None:
    with mq.producer() as producer:
        for start in range(0, count, 250):
            messages = [
                Message(
                    topic,
                    b"flight %d" % at,
                    tags="UA" if at % 3 else "DL",
                    keys=[f"N{at}"],
                    properties={"year": "2013"},
                )
                for at in range(start, min(count, start + 250))
            ]
            producer.send_batch(messages)


def reading(spark: SparkSession, mq: EmbeddedRocketMQ, topic: str = "flights", **options: object) -> DataFrameReader:
    return (
        spark.read.format("rocketmq").option("namesrvAddr", mq.namesrv_addr).option("topic", topic).options(**options)
    )


def bodies(rows: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in rows.select("body").collect())


@pytest.mark.smoke("P13")
def test_a_batch_read_gives_what_was_sent_in_all_columns(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    publish(mq, 1000)
    rows = reading(spark, mq).load()
    assert rows.schema == message_schema()
    assert bodies(rows) == sorted(b"flight %d" % at for at in range(1000))
    stored = {message.message_id: message for message in mq.messages("flights")}
    for row in rows.collect():
        message = stored.pop(row.messageId)
        assert (row.topic, row.brokerName, row.queueId, row.queueOffset) == (
            "flights",
            "broker-a",
            message.queue_id,
            message.queue_offset,
        )
        assert (row.commitLogOffset, bytes(row.body), row.tags, row["keys"]) == (
            message.commit_log_offset,
            message.body,
            message.tags,
            message.keys[0],
        )
        assert row.properties == message.properties
        assert (row.bornHost, row.storeHost) == (message.born_host, message.store_host)
        assert (row.reconsumeTimes, row.sysFlag) == (0, 0)
        stored_at = row.storeTimestamp.replace(tzinfo=datetime.UTC)
        assert round(stored_at.timestamp() * 1000) == message.store_timestamp_ms
    assert not stored


@pytest.mark.smoke("P2", "P5", "P6")
def test_options_choose_columns_tags_offsets_and_tasks(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    publish(mq, 300)
    assert reading(spark, mq, columns="body,tags").load().columns == ["body", "tags"]
    of_user = reading(spark, mq).schema("queueOffset bigint, body binary").load()
    assert (of_user.columns, of_user.count()) == (["queueOffset", "body"], 300)
    assert reading(spark, mq, tags="DL").load().count() == 100
    assert reading(spark, mq, tags="DL || UA").load().count() == 300
    assert reading(spark, mq, minPartitions=4).load().rdd.getNumPartitions() == 4
    first = mq.messages("flights")[0]
    some = json.dumps({"flights": {"broker-a": {str(first.queue_id): 5}}})
    rows = reading(spark, mq, endingOffsets=some).load().where(f"queueId = {first.queue_id}")
    assert rows.count() == 5


@pytest.mark.smoke("P3")
def test_a_read_begins_where_the_group_is_on_the_broker(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    mq.create_topic("flights", queues=2)
    first, second = (rmq.MessageQueue("flights", "broker-a", number) for number in (0, 1))
    with mq.producer() as producer:
        for queue in (first, second):
            producer.send_batch([rmq.Message("flights", b"%d" % number) for number in range(5)], queue=queue)
    with mq.admin() as admin:
        admin.create_group("delays")
        admin.set_consumer_offset("delays", first, 3)

    def read(fallback: str) -> list[tuple[int, bytes]]:
        rows = reading(spark, mq, startingOffsets="group", group="delays", groupOffsetsFallback=fallback).load()
        return sorted((row.queueId, bytes(row.body)) for row in rows.select("queueId", "body").collect())

    of_first = [(0, b"3"), (0, b"4")]
    assert read("latest") == of_first
    assert read("earliest") == [*of_first, *((1, b"%d" % number) for number in range(5))]


@pytest.mark.smoke("P14")
def test_a_table_needs_no_registration(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    publish(mq, 20)
    given = f"(namesrvAddr '{mq.namesrv_addr}', topic 'flights')"
    tables = [
        f"USING rocketmq OPTIONS {given}",
        f"USING rocketmq TBLPROPERTIES {given.replace(' ', ' = ').replace(', = ', ', ')}",
    ]
    tables.append(f"(topic STRING, body BINARY) USING rocketmq OPTIONS {given}")
    for at, words in enumerate(tables):
        spark.sql(f"CREATE TABLE flights_table_{at} {words}")
    try:
        for at in range(2):
            assert spark.sql(f"SELECT count(*) AS n FROM flights_table_{at} WHERE tags = 'DL'").first().n == 7
            made = spark.sql(f"SHOW CREATE TABLE flights_table_{at}").first()[0]
            assert f"USING rocketmq OPTIONS (namesrvAddr \\'{mq.namesrv_addr}\\', topic \\'flights\\')" in made
        with pytest.raises(AnalysisException, match="a table that was made with a list of columns has no options"):
            spark.sql("SELECT * FROM flights_table_2").collect()
    finally:
        for at in range(len(tables)):
            spark.sql(f"DROP TABLE flights_table_{at}")


def test_statements_about_a_table_do_what_the_page_says(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    publish(mq, 20)
    publish(mq, 3, "trains")
    at = f"namesrvAddr '{mq.namesrv_addr}'"

    def count(words: str = "") -> int:
        return int(spark.sql(f"SELECT count(*) AS n FROM of_topic {words}").first().n)

    spark.sql(
        f"CREATE TABLE of_topic USING rocketmq OPTIONS ({at}, topic 'flights') COMMENT 'departures' "
        "TBLPROPERTIES ('department' = 'planning', 'group' = 'a name of a team')"
    )
    try:
        spark.sql("COMMENT ON TABLE of_topic IS 'all departures'")
        spark.sql("ALTER TABLE of_topic SET TBLPROPERTIES ('retention.days' = '3')")
        assert spark.readStream.table("of_topic").columns == spark.table("of_topic").columns
        spark.sql(spark.sql("SHOW CREATE TABLE of_topic").first()[0].replace("of_topic", "shown_table"))
        assert spark.table("shown_table").count() == 0
        assert "USING parquet" in spark.sql("SHOW CREATE TABLE shown_table").first()[0]
        spark.sql("ALTER TABLE of_topic SET TBLPROPERTIES ('topic' = 'trains', 'option.topic' = 'trains')")
        assert count() == 20
        assert count("WITH (topic = 'trains')") == 3
        for words in (
            "INSERT INTO of_topic SELECT * FROM of_topic",
            f"CREATE TABLE new_table USING rocketmq OPTIONS ({at}, topic 'flights') AS SELECT 'x' AS body",
            f"INSERT INTO of_topic WITH (namesrvAddr = '{mq.namesrv_addr}') SELECT * FROM of_topic",
        ):
            with pytest.raises(AnalysisException, match="Spark does not pass those of a table"):
                spark.sql(words)
        out = {"namesrvAddr": mq.namesrv_addr, "topic": "out"}
        whole = spark.table("of_topic").limit(1)
        for write in (
            lambda: whole.writeTo("of_topic").append(),
            lambda: whole.write.options(**out).insertInto("of_topic"),
            lambda: whole.write.format("rocketmq").mode("append").saveAsTable("of_topic"),
        ):
            with pytest.raises(
                AnalysisException, match=r'writeTo\("name"\).options\(.*\).append\(\), as insertInto passes none'
            ):
                write()
        whole.writeTo("of_topic").options(**out).append()
        whole.write.format("rocketmq").options(**out).mode("append").saveAsTable("of_topic")
        spark.sql(
            f"INSERT INTO of_topic WITH (namesrvAddr = '{mq.namesrv_addr}', topic = 'out') SELECT * FROM of_topic LIMIT 1"
        )
        assert len(mq.messages("out")) == 3
        for words in (
            "ALTER TABLE of_topic SET SERDEPROPERTIES ('topic' = 'trains')",
            "CREATE TABLE new_table LIKE of_topic",
            "TRUNCATE TABLE of_topic",
            "DELETE FROM of_topic WHERE tags = 'UA'",
        ):
            with pytest.raises(PySparkException, match="not support"):
                spark.sql(words)
        spark.sql(f"CREATE OR REPLACE TABLE of_topic USING rocketmq OPTIONS ({at}, topic 'trains')")
        assert count() == 3
        trains = spark.table("of_topic")

        def mirror(rows: DataFrame) -> None:
            rows.write.format("rocketmq").option("namesrvAddr", mq.namesrv_addr).mode("append").save()

        with pytest.raises(AnalysisException, match="names no topic.*functions.concat"):
            mirror(trains)
        mirror(trains.withColumn("topic", f.concat("topic")))
        assert count() == 6
    finally:
        for table in ("of_topic", "shown_table", "new_table"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")
    assert len(mq.messages("trains")) == 6


def test_a_column_of_another_type_is_refused(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    publish(mq, 1)
    with pytest.raises(AnalysisException, match="column 'body' of the schema is string; binary is allowed"):
        reading(spark, mq).schema("body string").load().collect()


# -- writing -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.smoke("P10")
def test_a_write_is_over_when_every_row_is_stored(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    mq.create_topic("out")
    rows = spark.range(5000).selectExpr(
        "concat('row ', id) AS body",
        "IF(id % 2 = 0, 'even', 'odd') AS tags",
        "array(concat('K', id)) AS keys",
        "map('id', cast(id AS string)) AS properties",
        "cast(id % 7 AS string) AS shardingKey",
    )
    rows.write.format("rocketmq").mode("append").option("namesrvAddr", mq.namesrv_addr).option("topic", "out").save()
    stored = mq.messages("out")
    assert sorted(int(message.properties["id"]) for message in stored) == list(range(5000))
    for message in stored:
        number = int(message.properties["id"])
        assert message.body == b"row %d" % number
        assert (message.tags, message.keys) == ("odd" if number % 2 else "even", [f"K{number}"])
    queue_of_key = {message.properties["__SHARDINGKEY"]: message.queue_id for message in stored}
    for message in stored:
        assert message.queue_id == queue_of_key[message.properties["__SHARDINGKEY"]]


def test_overwriting_a_topic_is_refused(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    with pytest.raises(PySparkException, match="a topic can only be appended to; use append"):
        spark.range(1).selectExpr("'x' AS body").write.format("rocketmq").mode("overwrite").option(
            "namesrvAddr", mq.namesrv_addr
        ).option("topic", "t").save()
