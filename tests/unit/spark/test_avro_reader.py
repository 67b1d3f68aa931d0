# SPDX-License-Identifier: Apache-2.0
"""Bodies of Avro: values as fastavro has them, resolved to the schema that is wanted; whatever does not fit is its row's reason."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avro_schemas import encoded, records
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.values import avro_reader
from sprocketmq.spark.values.schema_registry import WIRE_FORMS

CONFLUENT = WIRE_FORMS["confluent", "avro"]


def record(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "shop.Order", "fields": listed, **more}


def rows(bodies: list[bytes | None], schema: Any) -> list[dict[str, Any]]:
    return avro_reader.values(pa.array(bodies, pa.binary()), json.dumps(schema), None, None).to_pylist()


def resolved(written: Any, wanted: Any, *bodies: bytes) -> list[dict[str, Any]]:
    """Of bodies after Confluent's id 7, whose schema is ``written``."""
    column = pa.array([b"\0\0\0\0\7" + body for body in bodies], pa.binary())
    return avro_reader.values(column, json.dumps(wanted), CONFLUENT, {7: json.dumps(written)}).to_pylist()


def without_pairs(value: Any) -> Any:
    """Maps are lists of pairs in Arrow; an empty one is a list as one of an empty array."""
    if isinstance(value, dict):
        return {key: without_pairs(one) for key, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: without_pairs(one) for key, one in value}
    return [without_pairs(one) for one in value] if isinstance(value, list) else value


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_empty(one) for key, one in value.items()} or []
    return [without_empty(one) for one in value] if isinstance(value, list) else value


@given(st.data())
def test_values_are_those_of_fastavro_and_a_body_that_is_cut_or_longer_fails(data: st.DataObject) -> None:
    schema, values = data.draw(records())
    some = [data.draw(values) for _ in range(3)]
    bodies = [encoded(schema, value) for value in some]
    good = rows([*bodies], schema)
    assert [row["reason"] for row in good] == [None] * 3
    for row, body in zip(good, bodies, strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(body), schema)
        assert without_empty(without_pairs(row["value"])) == without_empty(read)
    (body, *_) = bodies
    for row in rows([body[:end] for end in range(len(body))] + [body + b"\0"], schema):
        assert row["value"] is None
        assert row["reason"].startswith("the body does not fit: ")
    # The same, as bodies of a writer from whose fields none are wanted: each is skipped.
    wanted = record(("new", "int"), name="shop.R")
    wanted["fields"][0]["default"] = 3
    whole, *cut = resolved(schema, wanted, body, *(body[:end] for end in range(len(body))), body + b"\0")
    assert whole == {"value": {"new": 3}, "reason": None}
    assert [row["value"] for row in cut] == [None] * len(cut)


@given(st.data(), st.lists(st.binary(max_size=200), min_size=1, max_size=50))
def test_garbage_is_a_value_or_a_reason(data: st.DataObject, bodies: list[bytes]) -> None:
    schema, _ = data.draw(records())
    made = avro_reader.values(pa.array(bodies, pa.binary()), json.dumps(schema), None, None)
    made.validate(full=True)
    assert made.field("value").is_null().to_pylist() == made.field("reason").is_valid().to_pylist()


def test_the_bytes_of_avros_specification_have_its_values_after_either_id() -> None:
    """27 and "foo" of a record, and -64; before them Confluent's id, or that of RocketMQ's schema registry as Avro's type bytes."""
    schema = json.dumps(record(("a", "long"), ("b", "string"), ("c", "long")))
    body = bytes.fromhex("36 06 66 6f 6f 7f")
    for form, begin, schema_id in (
        (CONFLUENT, "00 ff ff ff fe", 2**32 - 2),
        (WIRE_FORMS["rocketmq", "avro"], "10 00 00 01 00 00 00 00 01", 2**40 + 1),
    ):
        column = pa.array([bytes.fromhex(begin) + body], pa.binary())
        (row,) = avro_reader.values(column, schema, form, {schema_id: schema}).to_pylist()
        assert row == {"value": {"a": 27, "b": "foo", "c": -64}, "reason": None}


MANY = record(("items", {"type": "array", "items": "long"}), ("name", "string"))


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="2^63 - 1 items"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", id="-2^62 items"),
        pytest.param(b"\0\xfe\xff\xff\xff\x0f", id="a text of 2 GB"),
        pytest.param(b"\0\x01", id="a text of -1 bytes"),
        pytest.param(b"\xff" * 64, id="a number without end"),
    ],
)
def test_huge_lengths_take_no_memory(begin: bytes) -> None:
    good = encoded(MANY, {"items": [1, 2], "name": "x"})
    before, row, after = rows([good, begin + good, good], MANY)
    assert row["value"] is None
    assert before["value"] == after["value"] == {"items": [1, 2], "name": "x"}


def test_an_index_below_zero_is_not_the_last_one() -> None:
    schema = record(
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}), ("u", ["null", "string"]), ("again", ["null", "E"])
    )
    good = encoded(schema, {"e": "B", "u": "x", "again": "A"})
    assert good == b"\x02\x02\x02x\x02\x00"
    bad = [b"\x01\x02\x02x\x02\x00", b"\x02\x01\x02x\x02\x00", b"\x02\x02\x02x\x02\x01", b"\x04\x02\x02x\x02\x00"]
    first, *others = rows([good, *bad], schema)
    assert first["value"] == {"e": "B", "u": "x", "again": "A"}
    for row in others:
        assert row["reason"] == (
            "the body does not fit: it has a number for which a union has no part, or an enum no symbol"
        )


def test_numbers_that_are_too_large_for_their_type_are_reasons() -> None:
    schema = record(
        ("i", "int"),
        ("d", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
        ("t", {"type": "long", "logicalType": "timestamp-millis"}),
    )
    raw = record(("i", "long"), ("d", "bytes"), ("t", "long"))
    bodies = [
        encoded(raw, {"i": i, "d": d, "t": t})
        for i, d, t in [
            (1, b"\x04\xd2", 5),
            (2**31, b"", 0),
            (0, b"\x27\x10", 0),
            (0, b"\x7f" * 100_000, 0),
            (0, b"", 2**62),
            (-1, b"\xff", -1),
        ]
    ]
    good, *bad, last = rows([*bodies], schema)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert good["value"] == {"i": 1, "d": Decimal("12.34"), "t": epoch + datetime.timedelta(milliseconds=5)}
    assert last["value"] == {"i": -1, "d": Decimal("-0.01"), "t": epoch - datetime.timedelta(milliseconds=1)}
    assert [row["value"] for row in bad] == [None] * 4
    assert all(row["reason"] for row in bad)
    assert bad[2]["reason"].endswith("a decimal of 100000 bytes has more than 38 digits")  # and no time goes into them


def test_unions_of_several_types_are_members() -> None:
    point = {"type": "record", "name": "shop.P", "fields": [{"name": "x", "type": "int"}]}
    fixed = {"type": "fixed", "name": "shop.F", "size": 2}
    schema = record(
        ("u", ["null", "string", "bytes", point, fixed, {"type": "array", "items": "int"}]), ("n", ["int", "long"])
    )
    given_values: list[Any] = [None, "a", b"b", ("shop.P", {"x": 1}), ("shop.F", b"ff"), [1, 2]]
    members = {f"member{n}": None for n in range(5)}
    read = rows([encoded(schema, {"u": value, "n": 2**40}) for value in given_values], schema)
    assert [row["value"] for row in read] == [
        {"u": None, "n": 2**40},
        *(
            {"u": {**members, f"member{n}": one}, "n": 2**40}
            for n, one in enumerate(["a", b"b", {"x": 1}, b"ff", [1, 2]])
        ),
    ]
    assert avro_reader.spark_type(json.dumps(schema)).simpleString() == (
        "struct<u:struct<member0:string,member1:binary,member2:struct<x:int>,member3:binary,member4:array<int>>,n:bigint>"
    )


@pytest.mark.parametrize(
    ("written", "wanted", "value", "expected"),
    [
        ("int", "long", 5, 5),
        ("int", "double", 5, 5.0),
        ("long", "float", 5, 5.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", "é".encode(), "é"),
        ("int", ["null", "double"], 5, 5.0),
        (["null", "int"], ["null", "long"], 5, 5),
        (["null", "int"], "long", 5, 5),
        ("string", ["null", "int", "string"], "x", {"member0": None, "member1": "x"}),
        (["int", "string"], ["string", "null", "double"], 5, {"member0": None, "member1": 5.0}),
        ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "long"]}, [5], [5]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, {"a": 5}, [("a", 5.0)]),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "NEW"]},
            {"type": "enum", "name": "E", "symbols": ["OTHER", "A"], "default": "OTHER"},
            "NEW",
            "OTHER",
        ),
        (
            "bytes",
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            b"\x04\xd2",
            Decimal("12.34"),
        ),
        (
            {"type": "record", "name": "a.P", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]},
            {"type": "record", "name": "b.P", "fields": [{"name": "z", "aliases": ["y"], "type": "long"}]},
            {"x": 1, "y": 2},
            {"z": 2},
        ),
    ],
)
def test_a_written_type_is_resolved_to_the_wanted_one(written: Any, wanted: Any, value: Any, expected: Any) -> None:
    body = encoded(record(("f", written)), {"f": value})
    assert resolved(record(("f", written)), record(("f", wanted)), body) == [{"value": {"f": expected}, "reason": None}]


def test_defaults_are_values_of_their_types() -> None:
    wanted = record(("id", "int"))
    for name, kind, default in [
        ("raw", "bytes", "\u00ff"),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0004\u00d2"),
        ("nothing", ["null", "string"], None),
        ("text", ["string", "null"], "x"),
        ("either", ["int", "string"], 3),
        ("sub", record(("a", "int"), ("b", ["null", "int"]), name="Sub"), {"a": 1, "b": None}),
        ("list", {"type": "array", "items": "double"}, [1, 2.5]),
        ("map", {"type": "map", "values": "long"}, {"k": 1}),
    ]:
        wanted["fields"].append({"name": name, "type": kind, "default": default})
    written = record(("id", "int"))
    assert resolved(written, wanted, encoded(written, {"id": 9}))[0]["value"] == {
        "id": 9,
        "raw": b"\xff",
        "price": Decimal("12.34"),
        "nothing": None,
        "text": "x",
        "either": {"member0": 3, "member1": None},
        "sub": {"a": 1, "b": None},
        "list": [1.0, 2.5],
        "map": [("k", 1)],
    }


@pytest.mark.parametrize(
    ("written", "wanted", "said"),
    [
        ("string", "int", "shop.Order.f is a string, wanted is a int"),
        ("long", "int", "shop.Order.f is a long, wanted is a int"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "shop.Order.f is a decimal(9, 3), wanted is a decimal(9, 2)",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "shop.Order.f is a timestamp-millis, wanted is a timestamp-micros",
        ),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            "shop.Order.f is a fixed shop.F of 2 bytes, wanted is shop.F of 3",
        ),
    ],
)
def test_a_schema_that_does_not_resolve_is_the_reason_of_its_rows(written: Any, wanted: Any, said: str) -> None:
    column = pa.array([b"\0\0\0\0\1\2", b"\0\0\0\0\2\2"], pa.binary())
    ids = {1: json.dumps(record(("f", written))), 2: json.dumps(record(("f", wanted)))}
    bad, other = avro_reader.values(column, json.dumps(record(("f", wanted))), CONFLUENT, ids).to_pylist()
    assert bad["reason"] == f"the body does not fit: its schema 1 cannot be read: {said}"
    assert other["reason"] is None or "schema 2" not in other["reason"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "this is no schema of Avro"),
        ('"string"', "a record is allowed"),
        (
            json.dumps(record(("next", ["null", "shop.Order"]))),
            "the schema shop.Order contains itself, which no type of Spark can; leave it out",
        ),
        (json.dumps(record(("n", {"type": "array", "items": "null"}))), "an array whose items have no bytes"),
        (
            json.dumps(record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0}))),
            "a decimal of 39 digits; up to 38 are allowed",
        ),
        (json.dumps(record(("u", ["int", "long", "string"]))), "whose numbers cannot be told apart"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(schema: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        avro_reader.spark_type(schema)
    assert said in str(error.value)
