# SPDX-License-Identifier: Apache-2.0
"""A body of JSON as a struct, by Spark's ``from_json``, which is made strict: what does not fit the schema is no null.

The body is put into an object, with a field after it. If that field is not read, the body is not one whole value: ``from_json`` would take
the first of two and leave the rest. If a value does not fit its type, ``from_json`` says so in a column for records that are corrupt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql import types as t

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.changes.change_values import parsed_once, quoted
from sprocketmq.spark.values.schema_registry import WireForm

if TYPE_CHECKING:
    from pyspark.sql import Column

_OURS: Final = ("mode", "columnNameOfCorruptRecord")
_SHOWN: Final = 60  # characters of a value in a reason


def json_steps(
    schema: t.StructType, form: WireForm | None, options: Mapping[str, str]
) -> tuple[dict[str, Column], str, str]:
    """Columns to make one after the other, and expressions of them: the value, and the reason why there is none.

    Raises ConfigurationError (an option is ours, or the schema has a tinyint).
    """
    for name in options:
        if name.lower() in (ours.lower() for ours in _OURS):
            raise ConfigurationError(f"options has {name!r}, which body_values sets itself; leave it out")
    whole = t.StructType(
        [
            t.StructField("v", _nullable(schema)),
            t.StructField("e", t.IntegerType()),
            t.StructField("__bad", t.StringType()),
        ]
    )
    given = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "__bad"}
    pairs = ", ".join(f"{quoted(str(key))}, {quoted(str(value))}" for key, value in given.items())
    payload = "body" if form is None else f"substring(body, {form.size + 1})"
    problems = ["WHEN body IS NULL THEN 'the body does not fit: it is null'"]
    if form is not None:
        begins = f"length(body) >= {form.size}"
        if form.begin:
            begins += f" AND substring(body, 1, {len(form.begin)}) = X'{form.begin.hex()}'"
        why = f"the body does not fit: it does not begin with {form.begin.hex() or 'a schema'} and an id of {form.id_bytes} bytes"
        problems.append(f"WHEN NOT ({begins}) THEN {quoted(why)}")
    problems.append("WHEN __text IS NULL THEN 'the body does not fit: it is not UTF-8'")
    misfits = [_misfit(field) for field in schema.fields]
    problems.append(
        "WHEN __json IS NULL OR __json.__bad IS NOT NULL OR __json.e IS NULL OR __json.v IS NULL "
        f"THEN coalesce({', '.join([*misfits, quoted('the body does not fit: it is no JSON object of the schema')])})"
    )
    problems += [
        f"WHEN {is_null} THEN {quoted(f'the body does not fit: {name} is null or not there')}"
        for is_null, name in _nulls("__json.v", schema)
    ]
    parsed = f"from_json(concat('{{\"v\":', __text, ',\"e\":1}}'), {quoted(whole.json())}, map({pairs}))"
    steps = {
        "__text": f"try_validate_utf8(cast({payload} AS string))",
        "__json": parsed_once(parsed),
        "__reason": f"CASE {' '.join(problems)} END",
    }
    value = "CASE WHEN __reason IS NULL THEN __json.v END"
    return {name: f.expr(step) for name, step in steps.items()}, value, "__reason"


def _misfit(field: t.StructField) -> str:
    """Why the body is refused, if it is JSON and this field is the reason; otherwise null."""
    if set(field.name) & set("'?\\"):
        return "NULL"  # no path of Spark's can name it
    path = quoted(f"$['{field.name}']")
    given = f"get_json_object(__text, {path})"
    why = quoted(f"', which is no {field.dataType.simpleString()}"[:_SHOWN])
    said = f"concat({quoted(f'the body does not fit: {field.name} is ')}, '\\'', left({given}, {_SHOWN}), {why})"
    return f"CASE WHEN __json.e IS NOT NULL AND {_part('__json.v', field.name)} IS NULL AND {given} IS NOT NULL THEN {said} END"


def _nulls(value: str, kind: t.DataType, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Conditions under which something is null that the schema declares NOT NULL, and its name."""
    if isinstance(kind, t.StructType):
        for field in kind.fields:
            part, part_name = _part(value, field.name), f"{name}.{field.name}" if name else field.name
            if not field.nullable:
                yield f"({value} IS NOT NULL AND {part} IS NULL)", part_name
            yield from _nulls(part, field.dataType, part_name, depth)
    elif isinstance(kind, (t.ArrayType, t.MapType)):
        if isinstance(kind, t.ArrayType):
            items, inner, may_be_null = value, kind.elementType, kind.containsNull
        else:
            items, inner, may_be_null = f"map_values({value})", kind.valueType, kind.valueContainsNull
        item, item_name = f"x{depth}", f"an item of {name}"
        conditions = list(_nulls(item, inner, item_name, depth + 1))
        if not may_be_null:
            conditions.append((f"{item} IS NULL", item_name))
        for condition, its_name in conditions:
            yield f"coalesce(exists({items}, {item} -> {condition}), false)", its_name


def _part(value: str, name: str) -> str:
    return f"{value}.`{name.replace('`', '``')}`"


def _nullable(kind: t.DataType) -> t.DataType:
    if isinstance(kind, t.StructType):
        return t.StructType([t.StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_nullable(kind.elementType))
    if isinstance(kind, t.MapType):
        return t.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    if isinstance(kind, t.ByteType):
        raise ConfigurationError(
            "schema has a tinyint, and Spark reads 200 of JSON as -56 there; declare it as smallint"
        )
    return kind
