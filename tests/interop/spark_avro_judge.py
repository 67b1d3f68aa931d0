# SPDX-License-Identifier: Apache-2.0
"""Run by test_spark_avro as a process of its own, because its session has a jar: random bodies through ``from_avro`` and ``body_values``.

python spark_avro_judge.py JAR WAREHOUSE
"""

from __future__ import annotations

import json
import sys
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.avro.functions import from_avro

from avro_schemas import encoded, records
from examples import examples
from spark_session import spark_session
from sprocketmq.spark import body_values


def check(data: st.DataObject, spark: Any) -> None:
    schema, values = data.draw(records())
    wanted = data.draw(evolved(schema))
    whole = [encoded(schema, data.draw(values)) for _ in range(8)]
    cut = [body[: data.draw(st.integers(0, len(body)))] for body in whole]
    bodies = [*whole, *cut, *data.draw(st.lists(st.binary(max_size=60), max_size=8))]
    rows = spark.createDataFrame([(n, b"\0\0\0\0\1" + body) for n, body in enumerate(bodies)], "n int, body binary")
    theirs = from_avro(
        rows.body.substr(6, 1 << 20), json.dumps(schema), {"mode": "PERMISSIVE", "avroSchema": json.dumps(wanted)}
    )
    ours = body_values(rows, "avro", json.dumps(wanted), wire_format="confluent", registry={1: json.dumps(schema)})
    for row in ours.withColumn("theirs", theirs).collect():
        is_whole = row.n < len(whole)
        theirs_failed = row.theirs is None or all(part is None for part in row.theirs)
        said = f"{json.dumps(schema)} as {json.dumps(wanted)}: {bodies[row.n].hex()} is {row.value} ({row.reason}), Spark: {row.theirs}"
        if row.failed:  # Spark leaves bytes after a value alone, and what is not UTF-8
            assert not is_whole, said
        elif is_whole:
            assert same(row.value, row.theirs), said
        else:
            assert theirs_failed or same(row.value, row.theirs), said
            assert not theirs_failed or all(part is None for part in row.value), said


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """Some of the fields, in another order, with a new one and numbers of wider types."""
    kept = draw(st.lists(st.sampled_from(schema["fields"]), unique_by=lambda field: field["name"]))
    wider = {"int": "double", "float": "double"}
    fields = [
        {**field, "type": wider.get(field["type"], field["type"]) if isinstance(field["type"], str) else field["type"]}
        for field in kept
    ]
    return {**schema, "fields": [*fields, {"name": "new", "type": ["null", "long"], "default": None}]}


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, Row):
        return isinstance(theirs, Row) and all(map(same, ours, theirs))
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    return bool(ours == theirs or (ours != ours and theirs != theirs))


def main(jar: str, warehouse: str) -> None:
    spark = spark_session("judge", warehouse, settings={"spark.jars": jar})
    try:

        @settings(
            max_examples=examples(20),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def judged(data: st.DataObject) -> None:
            check(data, spark)

        judged()
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
