# SPDX-License-Identifier: Apache-2.0
"""``change_events``: bodies of Canal, Debezium and Maxwell become typed rows; a body that does not fit becomes a failed row."""

from __future__ import annotations

import base64
import datetime
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from test_pages import flights, names, run_page

import sprocketmq as rmq
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import change_events
from sprocketmq.spark.changes.change_formats import FORMATS
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

__all__ = ["flights", "names"]  # fixtures

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, name string, price decimal(30,2), day date, at timestamp, raw binary"
AT = datetime.datetime.fromisoformat("2024-01-01T10:00:00.123")
TYPED = {
    "id": 1,
    "name": "é",
    "price": Decimal("-123.45"),
    "day": datetime.date(2024, 2, 29),
    "at": AT,
    "raw": bytes([0, 255]),
}
EVENT_MS = 1_700_000_000_000

CANAL_ROW = {
    "id": "1",
    "name": "é",
    "price": "-123.45",
    "day": "2024-02-29",
    "at": "2024-01-01 10:00:00.123",
    "raw": "\x00\xff",
}
CANAL = {
    "database": "shop",
    "table": "orders",
    "pkNames": ["id"],
    "isDdl": False,
    "es": EVENT_MS,
    "ts": EVENT_MS + 100,
    "id": 5,
    "sql": "",
    "sqlType": {"id": -5},
    "mysqlType": {"id": "bigint"},
    "old": None,
}
MAXWELL_ROW = {**CANAL_ROW, "id": 1, "price": -123.45, "raw": base64.b64encode(bytes([0, 255])).decode()}
MAXWELL = {
    "database": "shop",
    "table": "orders",
    "ts": EVENT_MS // 1000,
    "xid": 7,
    "commit": True,
    "position": "mysql-bin.000012:345",
}


def base64_number(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


DEBEZIUM_ROW = {
    "id": 1,
    "name": "é",
    "price": base64_number(-12345),
    "day": 19782,
    "at": 1704103200123,
    "raw": MAXWELL_ROW["raw"],
}
DEBEZIUM_SOURCE = {
    "connector": "mysql",
    "ts_ms": EVENT_MS,
    "db": "shop",
    "table": "orders",
    "file": "bin.000003",
    "pos": 154,
    "row": 2,
}
COLUMNS = [
    {"type": "int64", "field": "id"},
    {"type": "bytes", "field": "price", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    {"type": "int32", "field": "day", "name": "io.debezium.time.Date"},
    {"type": "int64", "field": "at", "name": "io.debezium.time.Timestamp"},
]
DEBEZIUM_SCHEMA = {
    "type": "struct",
    "fields": [{"field": "before", "fields": COLUMNS}, {"field": "after", "fields": COLUMNS}],
}


def changes(spark: SparkSession, format: Any, *bodies: object, schema: str = SCHEMA, **options: Any) -> list[Row]:
    rows = [(n, body if isinstance(body, bytes) else json.dumps(body).encode()) for n, body in enumerate(bodies)]
    made = change_events(spark.createDataFrame(rows, "queueOffset bigint, body binary"), format, schema, **options)
    return made.orderBy("queueOffset", "row").collect()


def debezium(op: str, before: object, after: object, **source: object) -> dict[str, object]:
    envelope = {
        "op": op,
        "before": before,
        "after": after,
        "source": {**DEBEZIUM_SOURCE, **source},
        "ts_ms": EVENT_MS + 9,
    }
    return {"schema": DEBEZIUM_SCHEMA, "payload": envelope}


def written(format: str) -> list[object]:
    """An insert, an update of ``name`` (which was null) and a delete of one row."""
    if format == "canal-json":
        update = {**CANAL, "type": "UPDATE", "data": [CANAL_ROW], "old": [{"name": None}]}
        return [
            {**CANAL, "type": "INSERT", "data": [CANAL_ROW]},
            update,
            {**CANAL, "type": "DELETE", "data": [CANAL_ROW]},
        ]
    if format == "maxwell":
        update = {**MAXWELL, "type": "update", "data": MAXWELL_ROW, "old": {"name": None}}
        return [
            {**MAXWELL, "type": "insert", "data": MAXWELL_ROW},
            update,
            {**MAXWELL, "type": "delete", "data": MAXWELL_ROW},
        ]
    return [
        debezium("c", None, DEBEZIUM_ROW),
        debezium("u", {**DEBEZIUM_ROW, "name": None}, DEBEZIUM_ROW),
        debezium("d", DEBEZIUM_ROW, None),
    ]


def test_a_filter_parses_no_body_again(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(bytearray(b"{}"),)], "body binary")
    for format in FORMATS:
        made = change_events(rows, format, "id bigint, name string", keys=["id"])  # type: ignore[arg-type]
        plans = [
            frame.select("after.*", "reason")._jdf.queryExecution().optimizedPlan().toString()
            for frame in (made, made.where("NOT failed"), made.where("failed AND reason LIKE '%UTF-8'"))
        ]
        for call in ("from_json(", "transform("):
            counts = [plan.count(call) for plan in plans]
            assert counts == counts[:1] * 3, (format, call)
            assert counts[0] > 0


@pytest.mark.parametrize(
    ("format", "position"), [("canal-json", []), ("maxwell", [12, 345]), ("debezium", [3, 154, 2])]
)
def test_insert_update_and_delete_have_typed_rows(spark: SparkSession, format: str, position: list[int]) -> None:
    insert, update, delete = changes(spark, format, *written(format), table="shop.orders")

    assert [row.operation for row in (insert, update, delete)] == ["insert", "update", "delete"]
    assert insert.before is None
    assert insert.after.asDict() == TYPED
    assert update.before.asDict() == {**TYPED, "name": None}
    assert update.after.asDict() == TYPED
    assert delete.before.asDict() == TYPED
    assert delete.after is None
    for row in (insert, update, delete):
        assert (row.table, row.position, row.missing, row.failed, row.reason) == (
            "shop.orders",
            position,
            [],
            False,
            None,
        )
        assert row.time == datetime.datetime.fromtimestamp(EVENT_MS / 1000, datetime.UTC).replace(tzinfo=None)


def test_rows_of_one_statement_are_events_in_its_order(spark: SparkSession) -> None:
    statement = {**CANAL, "type": "INSERT", "data": [{**CANAL_ROW, "id": str(n)} for n in range(3)]}
    assert [(row.after.id, row.row) for row in changes(spark, "canal-json", statement)] == [(0, 0), (1, 1), (2, 2)]


def test_an_update_of_the_key_is_a_delete_and_an_insert(spark: SparkSession) -> None:
    moved = {
        **CANAL,
        "type": "UPDATE",
        "data": [{**CANAL_ROW, "id": "2"}, CANAL_ROW],
        "old": [{"id": "1"}, {"name": "x"}],
    }
    gone, came, other = changes(spark, "canal-json", moved, keys=["id"])
    assert (gone.operation, gone.before.id, gone.after) == ("delete", 1, None)
    assert (came.operation, came.before, came.after.id) == ("insert", None, 2)
    assert (other.operation, other.before.name) == ("update", "x")
    assert [gone.row, came.row, other.row] == [0, 1, 2]


@pytest.mark.parametrize(
    ("format", "bodies"),
    [
        (
            "canal-json",
            [
                {**CANAL, "isDdl": True, "type": "ALTER", "data": None, "sql": "ALTER TABLE orders ADD x int"},
                {**CANAL, "type": "TIDB_WATERMARK", "data": None, "_tidb": {"watermarkTs": 1}},
            ],
        ),
        (
            "maxwell",
            [
                {"type": "table-alter", "database": "shop", "table": "orders", "ts": EVENT_MS, "sql": "ALTER"},
                {"type": "bootstrap-start", "database": "shop", "table": "orders", "ts": 1, "data": {}},
            ],
        ),
        (
            "debezium",
            [
                {"ts_ms": EVENT_MS},  # a heartbeat
                {"status": "BEGIN", "id": "571", "event_count": None, "ts_ms": EVENT_MS},
                {
                    "source": DEBEZIUM_SOURCE,
                    "ts_ms": EVENT_MS,
                    "databaseName": "shop",
                    "ddl": "ALTER",
                    "tableChanges": [],
                },
                {
                    "op": "m",
                    "ts_ms": EVENT_MS,
                    "source": DEBEZIUM_SOURCE,
                    "message": {"prefix": "p", "content": "YQ=="},
                },
                b"",  # a tombstone
                debezium("c", None, DEBEZIUM_ROW, table="other"),
            ],
        ),
    ],
)
def test_what_changes_no_row_gives_none(spark: SparkSession, format: str, bodies: list[object]) -> None:
    assert changes(spark, format, *bodies, table="shop.orders") == []


@pytest.mark.parametrize(
    ("format", "bodies"),
    [
        (
            "canal-json",
            [
                b"\xff\xfe",
                b"{",
                b"[]",
                {},
                {**CANAL, "type": "INSERT", "data": None},
                {**CANAL, "type": "INSERT", "data": [CANAL_ROW, {**CANAL_ROW, "price": "x"}]},
                {**CANAL, "type": "INSERT", "data": [{**CANAL_ROW, "day": "0000-00-00"}]},
                {**CANAL, "type": "INSERT", "data": [{**CANAL_ROW, "id": None}]},
                {**CANAL, "type": "INSERT", "data": [{"id": "1"}]},
            ],
        ),
        (
            "maxwell",
            [{**MAXWELL, "type": "insert"}, {**MAXWELL, "type": "insert", "data": {**MAXWELL_ROW, "raw": "?"}}],
        ),
        (
            "debezium",
            [
                {"id": 1, "name": "x"},
                {"id": 1, "__op": "c", "__deleted": "false"},  # flattened
                {"op": "d", "before": None, "after": None, "source": DEBEZIUM_SOURCE},
                debezium("c", None, DEBEZIUM_ROW)["payload"],  # a time whose unit only the schema tells
                debezium("u", None, {**DEBEZIUM_ROW, "name": "__debezium_unavailable_value"}),
                debezium("c", None, {**DEBEZIUM_ROW, "price": base64_number(10**40)}),
            ],
        ),
    ],
)
def test_a_message_that_does_not_fit_is_one_failed_row(spark: SparkSession, format: str, bodies: list[object]) -> None:
    rows = changes(spark, format, *bodies, keys=["id"])
    assert [row.queueOffset for row in rows] == list(range(len(bodies)))
    for row in rows:
        assert row.failed
        assert row.reason
        assert row.operation is row.after is row.before is row.row is None


def test_columns_that_an_event_lacks_are_named_if_that_is_allowed(spark: SparkSession) -> None:
    (row,) = changes(
        spark, "canal-json", {**CANAL, "type": "UPDATE", "data": [{"id": "1", "name": None}]}, partial=True
    )
    assert row.missing == ["price", "day", "at", "raw"]
    assert not row.failed


def test_decimals_of_debezium_are_exact(spark: SparkSession) -> None:
    numbers = [0, 1, -1, 127, -128, 255, -256, 12345678901234567890123456789, -(10**29)]
    rows = changes(
        spark, "debezium", *(debezium("c", None, {**DEBEZIUM_ROW, "price": base64_number(n)}) for n in numbers)
    )
    assert [row.after.price for row in rows] == [Decimal(f"{n}e-2") for n in numbers]


def test_numbers_of_json_are_exact(spark: SparkSession) -> None:
    body = b'{"type":"insert","database":"d","table":"t","ts":1,"data":{"id":9007199254740993,"price":1234567890123456789.12}}'
    (row,) = changes(spark, "maxwell", body, schema="id bigint, price decimal(30,2)")
    assert (row.after.id, row.after.price) == (9007199254740993, Decimal("1234567890123456789.12"))


def test_positions_of_other_databases(spark: SparkSession) -> None:
    no_file = {"file": None, "pos": None, "row": None}
    rows = changes(
        spark,
        "debezium",
        debezium("r", None, DEBEZIUM_ROW, **no_file, schema="public", lsn=77),
        debezium("r", None, DEBEZIUM_ROW, **no_file, change_lsn="00000027:00000ac0:0002", event_serial_no=1),
        debezium("r", None, DEBEZIUM_ROW, **no_file, scn="1234"),
        debezium("r", None, DEBEZIUM_ROW, **no_file),
    )
    assert [row.position for row in rows] == [[77], [39, 2752, 2, 1], [1234], [EVENT_MS]]
    assert rows[0].table == "shop.public.orders"
    assert {row.operation for row in rows} == {"read"}
    tidb = {**CANAL, "type": "INSERT", "data": [CANAL_ROW], "_tidb": {"commitTs": 451234567890}}
    assert [row.position for row in changes(spark, "canal-json", tidb)] == [[451234567890]]


def test_canal_tells_a_position_if_it_writes_gtids(spark: SparkSession) -> None:
    """The number of transactions in the set: it rises by one with each, whichever server of a failover committed it."""
    one, other = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
    sets = [f"{one}:1-7", f"{one}:1-7,{other}:1", f"{one}:1-7:9-11:13,{other}:1-2", "", None, "0-1-100"]
    statements = [{**CANAL, "type": "INSERT", "data": [CANAL_ROW], "gtid": gtids} for gtids in sets]
    assert [row.position for row in changes(spark, "canal-json", *statements)] == [[7], [8], [13], [], [], []]


def test_maxwell_without_positions_leaves_the_order_to_the_queue(spark: SparkSession) -> None:
    bodies = [{**MAXWELL, "type": "insert", "data": MAXWELL_ROW, "position": None, "xoffset": n} for n in (1, 0)]
    assert [row.position for row in changes(spark, "maxwell", *bodies)] == [[], []]


@pytest.mark.parametrize(
    "wrong", [{"format": "canal"}, {"schema": ""}, {"schema": "id interval year"}, {"keys": "id"}, {"keys": ["no"]}]
)
def test_wrong_arguments_are_refused_before_a_query_begins(spark: SparkSession, wrong: dict[str, Any]) -> None:
    rows = spark.createDataFrame([], "body binary")
    with pytest.raises(ConfigurationError):
        change_events(rows, **{"format": "maxwell", "schema": "id bigint", **wrong})


def test_the_page_about_changes_is_true(names: dict[str, Any], flights: EmbeddedRocketMQ) -> None:
    common = {**CANAL, "table": "products", "type": "INSERT"}
    insert = {**common, "data": [{"id": "1", "name": "cup", "price": "2.50"}]}
    update = {
        **common,
        "type": "UPDATE",
        "data": [{"id": "1", "name": "cup", "price": "3"}],
        "old": [{"price": "2.50"}],
    }
    wrong = {**common, "data": [{"id": "2", "name": "pot", "price": "dear"}]}
    with flights.producer() as producer:
        for body in (insert, update, wrong):
            producer.send(rmq.Message("shop-changes", json.dumps(body).encode()), sharding_key="1")
    run_page("changes.md", {**names, "spark_address": flights.namesrv_addr})
    made = names["spark"].read.parquet(names["path"]).orderBy("price").collect()
    assert [(row.operation, row.id, row.price) for row in made] == [
        ("insert", 1, Decimal("2.50")),
        ("update", 1, Decimal("3")),
    ]
    (dead,) = flights.messages("%DLQ%products")
    assert json.loads(dead.body) == wrong
