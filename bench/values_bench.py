# SPDX-License-Identifier: Apache-2.0
"""What ``body_values`` costs beside Spark's own functions: `python bench/values_bench.py [--rows N] [--rounds N] [--json FILE]`.

Bodies of orders (nine fields; a decimal, a time, a map and an array among them) lie in Parquet. Each way reads them into noop, in turns;
the processor time of the JVM and its Python workers counts, less that of a read without decoding. Ratios of the medians: above 1, ours is
cheaper. Spark has ``from_json``, and ``from_avro`` in a jar of Maven Central; of ``from_protobuf`` no jar for Spark 4 is there, so Protobuf
is beside ``from_avro``, too.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

_HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE.parent / "tests"), str(_HERE)]

import fastavro  # noqa: E402

from interop.java_peers import maven_jars  # noqa: E402
from protobuf_files import file, map_entry, message, message_class  # noqa: E402
from report import figures_table, new_console, write_figures  # noqa: E402
from spark_cpu import cpu_s, spark_pids  # noqa: E402
from spark_session import spark_session  # noqa: E402
from sprocketmq.spark import body_values  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    "id bigint, customer string, price decimal(10,2), at timestamp, state string, paid boolean, weight double, tags map<string,string>, "
    "lines array<bigint>"
)
AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": ["null", "string"]},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"]}},
            {"name": "paid", "type": "boolean"},
            {"name": "weight", "type": "double"},
            {"name": "tags", "type": {"type": "map", "values": "string"}},
            {"name": "lines", "type": {"type": "array", "items": "long"}},
        ],
    }
)
PROTOBUF: Final = file(
    message(
        "Order",
        "int64 id 1",
        "optional string customer 2",
        "string price 3",
        "google.protobuf.Timestamp at 4",
        "int32 state 5",
        "bool paid 6",
        "double weight 7",
        "repeated shop.Order.TagsEntry tags 8",
        "repeated int64 lines 9",
        nested=(map_entry("TagsEntry", "string", "string"),),
    )
)


def bodies(count: int) -> list[tuple[bytes, bytes, bytes]]:
    schema = fastavro.parse_schema(json.loads(AVRO))
    kind = message_class(PROTOBUF, "shop.Order")
    made = []
    for n in range(count):
        cents, at_s, tags, lines = n % 99_999, 1_700_000_000 + n, {"shop": "web", "country": "de"}, [n, n + 1, n + 2]
        avro = io.BytesIO()
        order: dict[str, Any] = {
            "id": n, "customer": f"customer {n}", "state": "PAID", "paid": True, "weight": n / 7, "tags": tags, "lines": lines,
        }  # fmt: skip
        price = Decimal(cents).scaleb(-2)
        fastavro.schemaless_writer(avro, schema, {**order, "price": price, "at": at_s * 1_000_000})
        text = json.dumps({**order, "price": float(price), "at": f"2024-01-01T00:00:{n % 60:02d}.123Z"})
        proto = kind(**{**order, "state": 1}, price=str(price))
        proto.at.seconds = at_s
        made.append((text.encode(), avro.getvalue(), proto.SerializeToString()))
    return made


def ways(spark: SparkSession, folder: Path) -> dict[str, Callable[[], DataFrame]]:
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    def of(name: str) -> DataFrame:
        return spark.read.parquet(str(folder)).select(f.col(name).alias("body"))

    return {
        "json, read": lambda: of("json"),
        "json, Spark": lambda: of("json").select(f.from_json(f.col("body").cast("string"), COLUMNS)),
        "json, ours": lambda: body_values(of("json"), "json", COLUMNS),
        "avro, read": lambda: of("avro"),
        "avro, Spark": lambda: of("avro").select(from_avro("body", AVRO, {"mode": "PERMISSIVE"})),
        "avro, ours": lambda: body_values(of("avro"), "avro", AVRO),
        "protobuf, ours": lambda: body_values(of("protobuf"), "protobuf", PROTOBUF, message_name="shop.Order"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    (jar,) = maven_jars(
        "spark-avro", _HERE.parent / "tests/interop/maven/spark-avro/pom.xml", "Spark's from_avro"
    ).glob("*.jar")
    with tempfile.TemporaryDirectory(prefix="bench-values-") as scratch:
        spark = spark_session("values_bench", scratch, settings={"spark.jars": str(jar)})
        folder = Path(scratch) / "bodies"
        some = spark.createDataFrame(bodies(20_000), "json binary, avro binary, protobuf binary")
        for _ in range(max(1, options.rows // 20_000)):
            some.coalesce(1).write.mode("append").parquet(str(folder))
        spent: dict[str, list[float]] = {}
        for one in range(options.rounds + 1):
            for name, rows in ways(spark, folder).items():
                before = cpu_s(spark_pids(spark))
                rows().write.format("noop").mode("overwrite").save()
                if one:  # the first round warms up
                    spent.setdefault(name, []).append(cpu_s(spark_pids(spark)) - before)
        spark.stop()
    median = {name: statistics.median(found) for name, found in spent.items()}
    least = {name: min(found) for name, found in spent.items()}
    figures: dict[str, Any] = {}
    for name, theirs, ours in (
        ("json", "json", "json"),
        ("avro", "avro", "avro"),
        ("protobuf to from_avro", "avro", "protobuf"),
    ):
        figures[name] = {
            kind: (times[f"{theirs}, Spark"] - times[f"{theirs}, read"])
            / (times[f"{ours}, ours"] - times[f"{theirs}, read"])
            for kind, times in (("median", median), ("minimum", least))
        }
    table = figures_table("processor time of Spark's function to that of body_values", ("format",), "medians", "minima")
    for name, found in figures.items():
        table.add_row(name, f"{found['median']:.2f}", f"{found['minimum']:.2f}")
    new_console(100).print(table)
    write_figures(options.json, figures)


if __name__ == "__main__":
    main()
