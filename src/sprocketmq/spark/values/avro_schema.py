# SPDX-License-Identifier: Apache-2.0
"""A schema of Avro, checked, and the types of its values in Spark and in Arrow.

The types are those of Spark's Avro data source (``SchemaConverters``): unions of null and one type are that type, other unions are structs
with ``member0``, ``member1`` and so on, and logical types that it does not know leave the type below them.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
from pyspark.sql import types as t

from sprocketmq.errors import ConfigurationError

NAMED: Final = ("record", "error", "enum", "fixed")
_PLAIN: Final[dict[str, tuple[t.DataType, pa.DataType]]] = {
    "null": (t.NullType(), pa.null()),
    "boolean": (t.BooleanType(), pa.bool_()),
    "int": (t.IntegerType(), pa.int32()),
    "long": (t.LongType(), pa.int64()),
    "float": (t.FloatType(), pa.float32()),
    "double": (t.DoubleType(), pa.float64()),
    "bytes": (t.BinaryType(), pa.binary()),
    "fixed": (t.BinaryType(), pa.binary()),
    "string": (t.StringType(), pa.string()),
    "enum": (t.StringType(), pa.string()),
}
# Arrow takes the numbers as Avro has them, and turns milliseconds into Spark's microseconds.
_LOGICAL: Final[dict[tuple[str, str], tuple[t.DataType, pa.DataType]]] = {
    ("int", "date"): (t.DateType(), pa.date32()),
    ("long", "timestamp-millis"): (t.TimestampType(), pa.timestamp("ms", "UTC")),
    ("long", "timestamp-micros"): (t.TimestampType(), pa.timestamp("us", "UTC")),
    ("long", "local-timestamp-millis"): (t.TimestampNTZType(), pa.timestamp("ms")),
    ("long", "local-timestamp-micros"): (t.TimestampNTZType(), pa.timestamp("us")),
}
_MOST_NODES: Final = 10_000


class Typed(NamedTuple):
    spark: t.DataType
    arrow: pa.DataType  # of the values as they are read


class AvroSchema:
    """A record's schema. ``root`` and what ``node`` gives are parts of it with their names written out.

    Raises ConfigurationError (it is none, is no record, contains itself, or has a type that Spark has not).
    """

    def __init__(self, text: str) -> None:
        try:
            self.json = json.loads(text)
            parsed = fastavro.parse_schema(self.json)
        except Exception as error:
            raise ConfigurationError(
                f"this is no schema of Avro: {text[:100]!r} ({type(error).__name__}: {error}); give its JSON, or the path of its file"
            ) from error
        if not isinstance(parsed, dict) or parsed.get("type") != "record":
            raise ConfigurationError(f"schema is {text[:100]!r}; a record is allowed")
        self._named: dict[str, Any] = parsed["__named_schemas"]
        self.root: dict[str, Any] = parsed
        self._nodes = 0
        self._checked(parsed, ())
        self.type = self.typed(parsed)

    def node(self, part: Any) -> Any:
        """``part`` as a dict with ``type``, or a list: a union."""
        if isinstance(part, str):
            return self._named.get(part) or {"type": part}
        return part

    def typed(self, part: Any) -> Typed:
        node = self.node(part)
        if isinstance(node, list):
            return self._of_union(node)
        kind = node["type"]
        if kind == "array":
            items = self.typed(node["items"])
            return Typed(t.ArrayType(items.spark), pa.list_(items.arrow))
        if kind == "map":
            values = self.typed(node["values"])
            return Typed(t.MapType(t.StringType(), values.spark), pa.map_(pa.string(), values.arrow))
        if kind in ("record", "error"):
            return _struct([(field["name"], self.typed(field["type"])) for field in node["fields"]])
        if digits := decimal_of(node):
            return Typed(t.DecimalType(*digits), pa.decimal128(*digits))
        return Typed(*_LOGICAL.get((kind, node.get("logicalType", "")), _PLAIN[kind]))

    def _of_union(self, branches: list[Any]) -> Typed:
        kept = without_null(branches)
        if not kept:
            return Typed(*_PLAIN["null"])
        if len(kept) == 1:
            return self.typed(kept[0])
        if wider := self.wider(kept):
            return Typed(*_PLAIN[wider])
        return _struct([(f"member{n}", self.typed(branch)) for n, branch in enumerate(kept)])

    def wider(self, kept: list[Any]) -> str | None:
        """The type of a union of two numbers that Spark takes for one."""
        kinds = sorted(self.kind(branch) for branch in kept)
        return "long" if kinds == ["int", "long"] else "double" if kinds == ["double", "float"] else None

    def kind(self, part: Any) -> str:
        node = self.node(part)
        return "union" if isinstance(node, list) else str(node["type"])

    def _checked(self, part: Any, above: tuple[str, ...]) -> int:
        """The fewest bytes of a value. What is refused here could not be read within bounds."""
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise ConfigurationError(
                f"the schema {self.root['name']} has more than {_MOST_NODES} parts, names written out"
            )
        node = self.node(part)
        if isinstance(node, list):
            kept = without_null(node)
            kinds = {self.kind(branch) for branch in kept}
            if not self.wider(kept) and (kinds >= {"int", "long"} or kinds >= {"float", "double"}):
                raise ConfigurationError(
                    f"the schema {self.root['name']} has a union of {', '.join(sorted(kinds))}, whose numbers cannot be told apart; "
                    "leave one of the two number types out"
                )
            return 1 + min((self._checked(branch, above) for branch in node), default=0)
        kind = node["type"]
        if kind in NAMED:
            if node["name"] in above:
                raise ConfigurationError(
                    f"the schema {node['name']} contains itself, which no type of Spark can; leave it out"
                )
            above = (*above, node["name"])
        if kind in ("record", "error"):
            return sum(self._checked(field["type"], above) for field in node["fields"])
        if kind == "array":
            if not self._checked(node["items"], above):
                raise ConfigurationError(
                    f"the schema {self.root['name']} has an array whose items have no bytes, so any number of them fits into a body; "
                    "leave it out"
                )
        elif kind == "map":
            self._checked(node["values"], above)
        if (digits := decimal_of(node)) and digits[0] > 38:
            raise ConfigurationError(
                f"the schema {self.root['name']} has a decimal of {digits[0]} digits; up to 38 are allowed"
            )
        return {"null": 0, "fixed": int(node.get("size", 0)), "float": 4, "double": 8}.get(kind, 1)


def _struct(fields: list[tuple[str, Typed]]) -> Typed:
    return Typed(
        t.StructType([t.StructField(name, typed.spark) for name, typed in fields]),
        pa.struct([pa.field(name, typed.arrow) for name, typed in fields]),
    )


def without_null(branches: list[Any]) -> list[Any]:
    return [branch for branch in branches if branch != "null" and branch != {"type": "null"}]


def decimal_of(node: dict[str, Any]) -> tuple[int, int] | None:
    """Precision and scale. Numbers that are none leave bytes, as Avro demands."""
    if node.get("logicalType") != "decimal" or node["type"] not in ("bytes", "fixed"):
        return None
    precision, scale = node.get("precision", 0), node.get("scale", 0)
    return (precision, scale) if 0 <= scale <= precision and precision else None


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    """The type with Spark's unit of time."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(in_microseconds(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, in_microseconds(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, in_microseconds(field.type)) for field in kind])
    return kind
