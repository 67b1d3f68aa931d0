# SPDX-License-Identifier: Apache-2.0
"""Bodies of Protobuf: values as protobuf has them; whatever does not fit is its row's reason."""

from __future__ import annotations

import base64
import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from protobuf_files import enum, file, map_entry, message, message_class
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.values import protobuf_reader
from sprocketmq.spark.values.schema_registry import WIRE_FORMS

CONFLUENT = WIRE_FORMS["confluent", "protobuf"]
STATE = enum("State", NEW=0, PAID=1, ALSO_PAID=1, SENT=-5)
STATE.options.allow_alias = True
SHOP = file(
    message("First", "int32 x 1"),
    message(
        "Order",
        "int64 id 1",
        "string name 2",
        "bytes raw 3",
        ":shop.State state 4",
        "shop.Order.Line best 5",
        "repeated shop.Order.Line lines 6",
        "repeated sint32 numbers 7",
        "repeated shop.Order.CountsEntry counts 8",
        "repeated shop.Order.ByIdEntry by_id 9",
        "google.protobuf.Timestamp at 10",
        "google.protobuf.Duration took 11",
        "uint32 u32 12",
        "fixed64 u64 13",
        "optional bool paid 14",
        "double d 15",
        "float f 16",
        nested=(
            message("Line", "string sku 1", "optional int32 count 2"),
            map_entry("CountsEntry", "string", "uint64"),
            map_entry("ByIdEntry", "sfixed32", "shop.Order.Line"),
        ),
    ),
    enums=(STATE,),
)
ORDER = message_class(SHOP, "shop.Order")


def rows(bodies: list[bytes | None], files: bytes = SHOP, name: str = "shop.Order", form: Any = None) -> list[Any]:
    return protobuf_reader.values(pa.array(bodies, pa.binary()), files, name, form).to_pylist()


def test_each_type_has_its_value() -> None:
    order = ORDER(id=-1, name="é", raw=b"\xff", state=1, numbers=[1, -2], counts={"a": 2**64 - 1}, u32=2**32 - 1)
    order.by_id[-7].sku = "x"
    order.lines.add(sku="y", count=0)
    order.lines.add()
    order.at.FromDatetime(datetime.datetime.fromisoformat("2024-02-29T12:00:00.000001"))
    order.took.FromTimedelta(datetime.timedelta(seconds=-1, microseconds=5))
    order.u64 = 2**64 - 1
    order.d, order.f, order.paid = 0.1, 0.5, False
    assert rows([order.SerializeToString(), b""]) == [
        {
            "value": {
                "id": -1,
                "name": "é",
                "raw": b"\xff",
                "state": "PAID",
                "best": None,
                "lines": [{"sku": "y", "count": 0}, {"sku": "", "count": None}],
                "numbers": [1, -2],
                "counts": [("a", Decimal(2**64 - 1))],
                "by_id": [(-7, {"sku": "x", "count": None})],
                "at": datetime.datetime.fromisoformat("2024-02-29T12:00:00.000001+00:00"),
                "took": datetime.timedelta(seconds=-1, microseconds=5),
                "u32": 2**32 - 1,
                "u64": Decimal(2**64 - 1),
                "paid": False,
                "d": 0.1,
                "f": 0.5,
            },
            "reason": None,
        },
        {
            "value": {
                **dict.fromkeys(("best", "at", "took", "paid")),
                **{key: [] for key in ("lines", "numbers", "counts", "by_id")},
                **dict.fromkeys(("id", "u32", "d", "f"), 0),
                "u64": Decimal(0),
                "name": "",
                "raw": b"",
                "state": "NEW",
            },
            "reason": None,
        },
    ]
    assert protobuf_reader.spark_type(SHOP, "Order").simpleString() == (
        "struct<id:bigint,name:string,raw:binary,state:string,best:struct<sku:string,count:int>,lines:array<struct<sku:string,count:int>>,"
        "numbers:array<int>,counts:map<string,decimal(20,0)>,by_id:map<int,struct<sku:string,count:int>>,at:timestamp,"
        "took:interval day to second,u32:bigint,u64:decimal(20,0),paid:boolean,d:double,f:float>"
    )


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**64 - 1)),
    "bool": st.booleans(),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
}


def as_json_has_it(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_json_has_it(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [as_json_has_it(one) for one in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-44)  # JSON has the shortest digits of a float
    return str(ours) == str(theirs)  # JSON has numbers of 64 bits as texts


@given(st.data(), st.sampled_from(["proto2", "proto3"]))
def test_random_messages_have_the_values_that_protobuf_writes_as_json(data: st.DataObject, syntax: str) -> None:
    labels = st.sampled_from(["", "repeated", "optional"] if syntax == "proto3" else ["", "repeated"])
    kinds = data.draw(st.lists(st.tuples(labels, st.sampled_from(sorted(SCALARS))), min_size=1, max_size=8))
    fields = [f"{label} {kind} f{n} {n + 1}" for n, (label, kind) in enumerate(kinds)]
    files = file(message("Sub", *fields), message("Top", "shop.Sub one 1", "repeated shop.Sub many 2"), syntax=syntax)
    made = message_class(files, "shop.Top")()
    for sub in [made.one] * data.draw(st.integers(0, 1)) + [
        made.many.add() for _ in range(data.draw(st.integers(0, 2)))
    ]:
        for n, (label, kind) in enumerate(kinds):
            if label == "repeated":
                getattr(sub, f"f{n}").extend(data.draw(st.lists(SCALARS[kind], max_size=3)))
            elif data.draw(st.booleans()):
                setattr(sub, f"f{n}", data.draw(SCALARS[kind]))
    (row,) = rows([made.SerializeToString()], files, "shop.Top")
    assert row["reason"] is None
    expected = json_format.MessageToDict(
        made, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert same(as_json_has_it(row["value"]), expected)


def test_a_body_cut_within_a_field_fails_and_garbage_harms_no_other_row() -> None:
    body = ORDER(id=300, name="name", lines=[{"sku": "x"}], u64=1).SerializeToString()
    for end in range(len(body)):
        (row,) = rows([body[:end]])
        try:
            ORDER.FromString(body[:end])
        except Exception:  # noqa: BLE001 - whatever protobuf itself says
            assert row == {"value": None, "reason": "the body does not fit: it is no shop.Order"}
        else:
            assert row["reason"] is None  # a field more or less is what senders of another version write


@given(st.lists(st.binary(max_size=100), max_size=30))
def test_garbage_is_a_value_or_a_reason(bodies: list[bytes]) -> None:
    made = protobuf_reader.values(pa.array(bodies, pa.binary()), SHOP, "shop.Order", None)
    made.validate(full=True)
    assert made.field("value").is_null().to_pylist() == made.field("reason").is_valid().to_pylist()


def test_what_has_no_value_of_its_type_is_a_reason() -> None:
    far = ORDER(id=1)
    far.at.seconds = 2**62
    unknown, null, good = ORDER(state=7).SerializeToString(), None, ORDER(id=5).SerializeToString()
    found = rows([far.SerializeToString(), unknown, null, b"\x12\x01\xff", good])
    assert [row["value"] is None for row in found] == [True, True, True, True, False]
    assert found[1]["reason"] == "the body does not fit: state is 7, which is no number of shop.State"
    assert found[2]["reason"] == "the body does not fit: it is null"


def test_proto2_has_defaults_and_required_fields() -> None:
    given = message("Old", "required int32 id 1", "int32 count 2", "int32 left 3")
    given.field[1].default_value = "7"
    files = file(given, syntax="proto2")
    made = message_class(files, "shop.Old")
    good, bad = rows([made(id=1).SerializeToString(), made(count=1).SerializePartialToString()], files, "shop.Old")
    assert good["value"] == {"id": 1, "count": 7, "left": None}
    assert bad["reason"] == "the body does not fit: it lacks id, which shop.Old requires"


def test_confluents_indexes_say_which_message_it_is() -> None:
    """The bytes are those of Confluent's documentation: 0 for the first message alone, otherwise their number and each, in zigzag."""
    head = b"\0\0\0\0\1"
    first = message_class(SHOP, "shop.First")(x=5).SerializeToString()
    order, line = ORDER(id=5).SerializeToString(), ORDER.Line(sku="x").SerializeToString()
    assert (
        rows([head + b"\0" + first, head + b"\2\0" + first], name="First", form=CONFLUENT)
        == [{"value": {"x": 5}, "reason": None}] * 2
    )
    assert rows([head + b"\4\2\0" + line], name="shop.Order.Line", form=CONFLUENT)[0]["value"]["sku"] == "x"
    good, *bad = rows(
        [head + b"\2\2" + order, head + b"\0" + first, head[:3], b"\1" + head[1:] + b"\2\2" + order, head + b"\xff" * 20,
         head + b"\4\2", head + b"\1" + order, head],
        form=CONFLUENT,
    )  # fmt: skip
    assert good["value"]["id"] == 5
    assert [row["reason"].removeprefix("the body does not fit: ") for row in bad] == [
        "it is the message [0] of its schema, and shop.Order is [1]",
        "it begins with 000000, not with the byte 00 and an id of 4 bytes",
        "it begins with 0100000001, not with the byte 00 and an id of 4 bytes",
        "it ends within the indexes of its message",
        "it ends within the indexes of its message",
        "it begins with -1 indexes of a message",
        "it ends within the indexes of its message",
    ]


def test_a_file_that_cannot_be_read_is_refused() -> None:
    recursive = file(message("Node", "shop.Node next 1"))
    given = protobuf_reader.descriptor_pb2.FileDescriptorSet.FromString(SHOP)
    alone = protobuf_reader.descriptor_pb2.FileDescriptorSet(file=given.file[-1:]).SerializeToString()
    for files, name, said in [
        (b"\xff", "shop.Order", "schema is no descriptor file"),
        (
            SHOP,
            "shop.Nothing",
            "message_name is 'shop.Nothing'; schema has google.protobuf.Duration, google.protobuf.Timestamp, shop.First, ",
        ),
        (recursive, "Node", "the message shop.Node contains itself, which no type of Spark can"),
        (alone, "shop.Order", "make the file with: protoc --include_imports --descriptor_set_out=FILE"),
    ]:
        with pytest.raises(ConfigurationError) as error:
            protobuf_reader.spark_type(files, name)
        assert said in str(error.value)
