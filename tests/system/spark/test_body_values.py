# SPDX-License-Identifier: Apache-2.0
"""``body_values``: bodies of JSON, Avro and Protobuf become columns; a body that does not fit becomes a failed row."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from test_pages import flights, names, run_page

import sprocketmq as rmq
from avro_schemas import encoded
from protobuf_files import file, map_entry, message, message_class
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import body_values
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["flights", "names"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
    ],
}
OLD_ORDER = {
    **ORDER,
    "fields": [{"name": "id", "type": "int"}, *ORDER["fields"][1:], {"name": "gone", "type": "bytes"}],
}
VALUE = {"id": 7, "at": 1_700_000_000_123, "tags": {"a": None, "b": "x"}}
BODY = encoded({**ORDER, "fields": [ORDER["fields"][0], {"name": "at", "type": "long"}, ORDER["fields"][2]]}, VALUE)
SHOP = file(
    message(
        "Order",
        "int64 id 1",
        "google.protobuf.Timestamp at 2",
        "repeated string tags 3",
        "google.protobuf.Duration took 4",
        "uint64 size 5",
        "repeated shop.Order.LinesEntry lines 6",
        nested=(message("Line", "optional int32 count 1"), map_entry("LinesEntry", "bool", "shop.Order.Line")),
    )
)


def rows_of(spark: SparkSession, bodies: list[bytes | None]) -> DataFrame:
    return spark.createDataFrame(list(enumerate(bodies)), "queueOffset bigint, body binary")


def values(spark: SparkSession, format: Any, schema: Any, bodies: list[Any], **options: Any) -> list[Row]:
    given = [body.encode() if isinstance(body, str) else body for body in bodies]
    return body_values(rows_of(spark, given), format, schema, **options).orderBy("queueOffset").collect()


def reasons(rows: list[Row]) -> list[str | None]:
    for row in rows:
        assert row.failed == (row.reason is not None) == (row.value is None)
    return [row.reason and row.reason.removeprefix("the body does not fit: ") for row in rows]


@pytest.mark.smoke("values of bodies")
def test_json_that_does_not_fit_is_a_failure_and_no_null(spark: SparkSession) -> None:
    schema = (
        "id bigint NOT NULL, price decimal(6,2), at timestamp, sub struct<n: int NOT NULL, s: string>, list array<int>"
    )
    rows = values(
        spark,
        "json",
        schema,
        [
            '{"id": 1, "price": 12.5, "at": "2024-01-01T00:00:00Z", "sub": {"n": 1}, "list": [1, null], "more": {}}',
            ' {"id": 2}\n',
            "",
            "null",
            "5",
            "[]",
            '[{"id": 1}]',
            '{"id": 1',
            '{"id": 1}}',
            '{"id": 1} {"id": 2}',
            '{"id": 1}, "x": 2}',
            b'{"id": 1, "sub": {"s": "\xff", "n": 1}}',
            '{"id": "x"}',
            '{"id": 1.5}',
            '{"id": 92233720368547758070}',
            '{"id": 1, "price": 12345.5}',
            '{"id": 1, "at": "yesterday"}',
            '{"id": 1, "sub": {"n": "x"}}',
            '{"id": 1, "sub": 5}',
            '{"id": 1, "list": [1, "x"]}',
            "{}",
            '{"id": null}',
            '{"id": 1, "sub": {"s": "x"}}',
            None,
        ],
    )
    no_object = "it is no JSON object of the schema"
    said = reasons(rows)
    assert said[:12] == [None, None, *[no_object] * 9, "it is not UTF-8"]
    assert rows[0].value.asDict(recursive=True) | {"at": None, "price": None} == {
        "id": 1, "price": None, "at": None, "sub": {"n": 1, "s": None}, "list": [1, None],
    }  # fmt: skip
    assert rows[0].value.at.timestamp() == 1_704_067_200
    assert said[12:17] == [
        "id is 'x', which is no bigint",
        "id is '1.5', which is no bigint",
        "id is '92233720368547758070', which is no bigint",
        "price is '12345.5', which is no decimal(6,2)",
        "at is 'yesterday', which is no timestamp",
    ]
    assert None not in said[17:20]
    assert said[20:] == [
        "id is null or not there",
        "id is null or not there",
        "sub.n is null or not there",
        "it is null",
    ]


def test_json_has_options_odd_names_and_wire_formats(spark: SparkSession) -> None:
    rows = values(
        spark,
        "json",
        "`a b` int, `c.d` int, `e'f` int, `g``h` int",
        ['{"a b": 1, "c.d": 2, "e\'f": 3, "g`h": 4}', '{"c.d": "x"}'],
    )
    assert tuple(rows[0].value) == (1, 2, 3, 4)
    assert reasons(rows)[1] == "c.d is 'x', which is no int"
    (row,) = values(spark, "json", "day date", ['{"day": "29.02.2024"}'], options={"dateFormat": "dd.MM.yyyy"})
    assert str(row.value.day) == "2024-02-29"
    confluent = values(
        spark, "json", "id int", [b'\0\0\0\0\1{"id":1}', '{"id":1}', b"\0\0", b"\1\0\0\0\1{}"], wire_format="confluent"
    )
    assert [row.value and row.value.id for row in confluent] == [1, None, None, None]
    assert reasons(confluent)[1:] == ["it does not begin with 00 and an id of 4 bytes"] * 3
    rocketmq = values(spark, "json", "id int", [bytes(8) + b'{"id":1}', bytes(7)], wire_format="rocketmq")
    assert [row.value and row.value.id for row in rocketmq] == [1, None]


@pytest.mark.smoke("values of bodies")
def test_avro_and_protobuf_are_columns_beside_those_of_the_message(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    good, bad = values(spark, "avro", tmp_path / "order.avsc", [BODY, BODY[:-1]])
    assert good.asDict(recursive=True) | {"value": None} == {
        "queueOffset": 0, "body": BODY, "value": None, "failed": False, "reason": None,
    }  # fmt: skip
    assert (good.value.id, good.value.at.timestamp(), good.value.tags) == (7, 1_700_000_000.123, VALUE["tags"])
    assert (bad.value, bad.failed, bad.reason) == (None, True, "the body does not fit: it ends within the value")
    nothing = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]}
    (empty,) = values(spark, "avro", json.dumps(nothing), [b""])
    assert empty.value.asDict() == {"n": None}
    (tmp_path / "shop.desc").write_bytes(SHOP)
    order = message_class(SHOP, "shop.Order")(id=5, tags=["a"])
    order.at.seconds, order.took.seconds, order.size, order.lines[True].count = 1, 90, 2**64 - 1, 0
    good, bad = values(
        spark, "protobuf", str(tmp_path / "shop.desc"), [order.SerializeToString(), b"\xff"], message_name="shop.Order"
    )
    assert (good.value.id, good.value.at.timestamp(), good.value.tags) == (5, 1.0, ["a"])
    assert (good.value.took.total_seconds(), good.value.size, good.value.lines[True]["count"]) == (90, 2**64 - 1, 0)
    assert reasons([bad]) == ["it is no shop.Order"]


def test_a_filter_and_several_columns_read_each_body_once(spark: SparkSession) -> None:
    for format, schema, call in (
        ("avro", json.dumps(ORDER), "decoded_body("),
        ("json", "id int NOT NULL", "from_json("),
    ):
        made = body_values(rows_of(spark, [BODY, b""]), format, schema)
        plan = made.where("NOT failed").select("value.*", "reason")._jdf.queryExecution().optimizedPlan().toString()
        assert plan.count(call) == 1


class Registry(http.server.BaseHTTPRequestHandler):
    schemas: ClassVar[dict[str, Any]]
    asked: ClassVar[list[tuple[str, str | None]]]
    failures: ClassVar[list[int]]

    def do_GET(self) -> None:
        kind = type(self)
        kind.asked.append((self.path, self.headers["Authorization"]))
        found = self.schemas.get(self.path)
        if kind.failures:
            self.send_error(kind.failures.pop())
            return
        answer = json.dumps(found or {"error_code": 40403, "message": "Schema not found"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.asked, Registry.schemas, Registry.failures = [], {}, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://me:p%40ss@127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_registry_is_asked_once_for_each_id(spark: SparkSession, registry: str) -> None:
    Registry.schemas = {
        f"/schemas/ids/{n}": {"schema": json.dumps(schema)} for n, schema in ((1, ORDER), (2, OLD_ORDER))
    }
    Registry.failures = [503]
    old = encoded(OLD_ORDER, {**VALUE, "at": 5, "gone": b"x" * 100})
    bodies = [b"\0\0\0\0\1" + BODY, b"\0\0\0\0\2" + old, b"\0\0\0\0\3" + BODY, BODY] * 5
    rows = body_values(
        rows_of(spark, bodies).coalesce(1), "avro", json.dumps(ORDER), wire_format="confluent", registry=registry
    )
    found = rows.collect()  # in one task: to sort them, Spark would read twice
    assert [row.value and row.value.id for row in found] == [7, 7, None, None] * 5
    assert reasons(found)[2:4] == [
        "registry has no schema of the id 3",
        f"it begins with {BODY[:5].hex()}, not with the byte 00 and an id of 4 bytes",
    ]
    assert sorted(path for path, _ in Registry.asked) == sorted(
        ["/schemas/ids/1", *(f"/schemas/ids/{n}" for n in (1, 2, 3))]
    )
    assert {login for _, login in Registry.asked} == {"Basic bWU6cEBzcw=="}


def test_rocketmqs_registry_and_a_table_of_schemas(spark: SparkSession, registry: str, tmp_path: Path) -> None:
    subject = "/schema-registry/v1/subject/orders"
    Registry.schemas = {f"{subject}/recordId/{2**40}/schema": {"idl": json.dumps(ORDER)}}
    body = b"\x10" + (2**40).to_bytes(8, "big") + BODY
    (row,) = values(spark, "avro", json.dumps(ORDER), [body], wire_format="rocketmq", registry=registry + subject)
    assert row.value.id == 7
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    table = {1: tmp_path / "order.avsc", 2: json.dumps(OLD_ORDER)}
    (row,) = values(spark, "avro", json.dumps(ORDER), [b"\0\0\0\0\1" + BODY], wire_format="confluent", registry=table)
    assert row.value.id == 7


@pytest.mark.parametrize("status", [401, 404])
def test_a_registry_that_does_not_answer_is_no_fault_of_a_row(spark: SparkSession, registry: str, status: int) -> None:
    """The 404 is one of a server that is no registry: it does not say that the schema is unknown."""
    Registry.failures = [status] * 10
    with pytest.raises(Exception, match=rf"the schema registry does not give .* \(HTTP {status}\)") as error:
        values(spark, "avro", json.dumps(ORDER), [bytes(9)], wire_format="confluent", registry=registry)
    assert "p%40ss" not in str(error.value)


def test_the_page_is_true(
    names: dict[str, Any],
    flights: EmbeddedRocketMQ,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("order.avsc").write_text(json.dumps(ORDER))
    Path("order-1.avsc").write_text(json.dumps(OLD_ORDER))
    old = encoded(OLD_ORDER, {"id": 9, "at": 5, "tags": {}, "gone": b""})
    with flights.producer() as producer:
        for topic, body in [("orders", BODY), ("orders", b"none"), ("orders-by-id", b"\0\0\0\0\1" + old)]:
            producer.send(rmq.Message(topic, body))
    run_page("values.md", {**names, "spark_address": flights.namesrv_addr})
    assert [row.id for row in names["spark"].read.parquet(names["path"]).collect()] == [7]
    (dead,) = flights.messages("%DLQ%orders-table")
    assert dead.body == b"none"
    assert dead.properties["RETRY_REASON"].startswith("the body does not fit: ")
    assert "|  9|" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("format", "schema", "options", "said"),
    [
        ("xml", "id int", {}, "format is 'xml'; json, avro and protobuf are allowed"),
        ("json", "", {}, "schema is ''; the columns of the body are allowed, as in 'id bigint, name string'"),
        ("json", "a array<struct<b: tinyint>>", {}, "schema has a tinyint, and Spark reads 200 of JSON as -56 there"),
        ("json", "id int", {"options": {"MODE": "FAILFAST"}}, "options has 'MODE', which body_values sets itself"),
        ("avro", "{}", {"options": {"mode": "x"}}, "it is allowed with format='json'"),
        ("avro", "{}", {}, "this is no schema of Avro"),
        ("avro", "gone.avsc", {}, "schema is 'gone.avsc', which cannot be read"),
        ("avro", 5, {}, "schema is of the type int; the JSON of a schema, or the path of its file is allowed"),
        ("avro", "{}", {"wire_format": "confluent"}, "registry is None; it is needed with format='avro'"),
        (
            "avro",
            "{}",
            {"wire_format": "confluent", "registry": "file:///x"},
            "registry is 'file:///x'; a table from ids to schemas, or",
        ),
        ("avro", "{}", {"registry": {}}, "registry is {}; it is not allowed with format='avro' and wire_format=None"),
        ("protobuf", b"", {}, "message_name is None; it is needed with format='protobuf'"),
        (
            "protobuf",
            b"",
            {"message_name": "a", "wire_format": "rocketmq"},
            "wire_format is 'rocketmq' and format 'protobuf'",
        ),
    ],
)
def test_what_cannot_work_is_said_before_the_query_runs(
    spark: SparkSession, format: Any, schema: Any, options: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError) as error:
        body_values(rows_of(spark, []), format, schema, **options)
    assert said in str(error.value)


def test_an_older_spark_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pyspark.sql.functions.arrow_udf")
    with pytest.raises(ConfigurationError, match=r"needs PySpark 4\.1 or later; install it, or send JSON"):
        body_values(rows_of(spark, []), "avro", json.dumps(ORDER))


def test_columns_that_are_missing_or_taken_are_named(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="lack the column body; keep it"):
        body_values(spark.range(1), "json", "id int")
    with pytest.raises(ConfigurationError, match="have a column 'value', which body_values makes; rename it"):
        body_values(spark.range(1).selectExpr("X'' AS body", "1 AS value"), "json", "id int")


@pytest.mark.parametrize(
    ("format", "library", "package"), [("avro", "fastavro", "fastavro"), ("protobuf", "google", "protobuf")]
)
def test_a_library_that_is_missing_is_one_sentence_with_the_command(format: str, library: str, package: str) -> None:
    program = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from sprocketmq.spark.values.body_values import _reader\n"
        f"try: _reader({format!r})\nexcept Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == (
        f"ConfigurationError body_values with {format} needs the package {package}, which is not installed; "
        f"install it with: pip install 'sprocketmq[{format}]'\n"
    )
