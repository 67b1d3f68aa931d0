# SPDX-License-Identifier: Apache-2.0
"""Avro of two versions of a schema to Parquet; what cannot be read becomes a dead letter.

    python examples/spark_avro_to_parquet.py                               # brings its own broker, with orders in it
    python examples/spark_avro_to_parquet.py --namesrv-addr 127.0.0.1:9876 --out /data/orders --follow

Each message begins with the id of the schema that its sender used, as Confluent's serializers write it. Here a table has the schemas; give
the address of a registry instead. The table has the columns of the newest schema, with its default in the orders of old senders.
Needs ``pip install 'sprocketmq[spark,avro]'``.
"""

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from stage import arguments, stage, wait

import sprocketmq as rmq
from sprocketmq.spark import body_values, foreach_batch

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
OLD: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": PRICE}],
}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
SCHEMAS = {1: json.dumps(OLD), 2: json.dumps(NEW)}


def judge(rows: DataFrame, batch_id: int) -> DataFrame:
    return body_values(rows, "avro", SCHEMAS[2], wire_format="confluent", registry=SCHEMAS)


def run(spark: SparkSession, namesrv_addr: str, folder: Path, follow: bool = False) -> StreamingQuery:
    """Write all present orders (``follow``: and future ones)."""
    mq = {"namesrvAddr": namesrv_addr}

    def write(good: DataFrame, batch_id: int) -> None:
        good.select("messageId", "value.*").write.mode("append").parquet(str(folder / "orders"))

    orders = spark.readStream.format("rocketmq").options(
        **mq, topic="orders", group="orders-table", startingOffsets="earliest"
    )
    into_table = foreach_batch(judge, write=write, group="orders-table", options=mq, on_error="dlq")
    return (
        orders.load()
        .writeStream.foreachBatch(into_table)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**({"processingTime": "1 second"} if follow else {"availableNow": True}))
        .start()
    )


def publish(namesrv_addr: str, schema_id: int, *orders: dict[str, Any]) -> None:
    schema = fastavro.parse_schema(json.loads(SCHEMAS[schema_id]))
    with rmq.Producer("orders-publisher", namesrv_addr=namesrv_addr) as producer:
        for order in orders:
            body = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
            body.seek(5)
            fastavro.schemaless_writer(body, schema, order)
            producer.send(rmq.Message("orders", body.getvalue()))


def publish_some(namesrv_addr: str) -> None:
    publish(namesrv_addr, 1, {"id": 1, "price": Decimal("12.50")}, {"id": 2, "price": Decimal("7.00")})
    publish(namesrv_addr, 2, {"id": 3, "price": Decimal("99.90"), "currency": "CNY"})
    with rmq.Producer("orders-publisher", namesrv_addr=namesrv_addr) as producer:
        producer.send(rmq.Message("orders", b"\0\0\0\0\7 an order of a schema that nobody knows"))


if __name__ == "__main__":
    parser = arguments(__doc__, rows=None)
    parser.add_argument("--out", help="the folder of the table and its checkpoint (one that is gone afterwards)")
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    with stage(parser, lambda given: publish_some(given.namesrv_addr)) as (session, given):
        wait(run(session, given.namesrv_addr, Path(given.out), given.follow))
        session.read.parquet(given.out + "/orders").orderBy("id").show()
        letters = (
            session.read.format("rocketmq").options(namesrvAddr=given.namesrv_addr, deadLettersOf="orders-table").load()
        )
        print("orders that could not be read:")
        letters.selectExpr("body", "properties['RETRY_REASON'] AS reason").show(truncate=80)
