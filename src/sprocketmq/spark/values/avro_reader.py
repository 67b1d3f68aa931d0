# SPDX-License-Identifier: Apache-2.0
"""Bodies of Avro as values for Arrow: read with the schema of who wrote them, by fastavro, and resolved to the schema that is wanted.

fastavro has a resolution of its own, which is not used: it takes a body for whole that ends within a skipped field, applies the
writer's logical types, and gives defaults as JSON has them. Its other liberties are in ``_strict``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa
from pyspark.sql import types as t

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.values.avro_schema import AvroSchema, decimal_of, in_microseconds, without_null
from sprocketmq.spark.values.decoded_bodies import Read, decoded
from sprocketmq.spark.values.schema_registry import WireForm, written_schema

Convert = Callable[[Any], Any]
_WHOLE: Final = Context(prec=80)  # no digit of 38 is rounded
_PROMOTED: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
}
_PYTHON: Final = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes, "string": str,
    "array": list, "map": dict,
}  # fmt: skip


def spark_type(wanted: str) -> t.DataType:
    return schema_of(wanted).type.spark


def values(
    bodies: pa.Array, wanted: str, form: WireForm | None, registry: str | Mapping[int, str] | None
) -> pa.StructArray:
    """The column of ``decoded``. ``wanted``: the text of the reader's schema, and of the writer's where no ``form`` names one."""
    if form is None or registry is None:
        read: Read = avro_reader(wanted, wanted)
    else:
        readers: dict[int, Read] = {}

        def read(body: bytes) -> Any:
            schema_id = form.id_of(body)
            if schema_id not in readers:
                readers[schema_id] = _reader_of(written_schema(registry, form, schema_id), wanted, schema_id)
            return readers[schema_id](body[form.size :])

    typed = schema_of(wanted).type
    return decoded(bodies, read, typed.arrow, in_microseconds(typed.arrow))


def _reader_of(written: str, wanted: str, schema_id: int) -> Read:
    try:
        return avro_reader(written, wanted)
    except (UnfitSchema, ConfigurationError, RecursionError) as error:
        return _refused(f"its schema {schema_id} cannot be read: {error}")


class UnfitSchema(ValueError):
    """The schema of the writer cannot be resolved to the reader's."""


@lru_cache(maxsize=1024)
def schema_of(text: str) -> AvroSchema:
    return AvroSchema(text)


@lru_cache(maxsize=1024)
def avro_reader(written: str, wanted: str) -> Read:
    """What makes a value of a body.

    Raises UnfitSchema, ConfigurationError (``AvroSchema``).
    """
    writer, reader = schema_of(written), schema_of(wanted)
    convert = _Resolution(writer, reader).record(writer.root, reader.root)
    names_branches = _has_wide_union(writer, writer.root)
    parsed = _strict(fastavro.parse_schema(_without_logical_types(writer.json)), {})

    def read(body: bytes) -> dict[str, Any]:
        stream = BytesIO(body)
        value: Any = fastavro.schemaless_reader(stream, parsed, None, return_named_type=names_branches)
        if stream.tell() != len(body):
            raise ValueError(f"{len(body) - stream.tell()} bytes are left after the value")
        return convert(value) if convert else value  # type: ignore[no-any-return]

    return read


def _without_logical_types(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_logical_types(one) for one in node]
    if isinstance(node, dict):
        return {
            key: _without_logical_types(value) for key, value in node.items() if key not in ("logicalType", "default")
        }
    return node


def _strict(node: Any, done: dict[int, Any]) -> Any:
    """The parsed schema with dicts for the lists into which an index from the body goes: in a list, -1 is the last one."""
    if isinstance(node, list):
        return {"type": "union", **{n: _strict(branch, done) for n, branch in enumerate(node)}}
    if isinstance(node, dict) and id(node) not in done:
        done[id(node)] = node
        for field in node.get("fields", ()):
            field["type"] = _strict(field["type"], done)
        for inner in ("items", "values"):
            if inner in node:
                node[inner] = _strict(node[inner], done)
        if node["type"] == "enum":
            node["symbols"] = dict(enumerate(node["symbols"]))
    return node


def _has_wide_union(schema: AvroSchema, part: Any) -> bool:
    node = schema.node(part)
    if isinstance(node, list):
        return len(without_null(node)) > 1 or any(_has_wide_union(schema, branch) for branch in node)
    inner = [field["type"] for field in node.get("fields", ())] + [
        node[key] for key in ("items", "values") if key in node
    ]
    return any(_has_wide_union(schema, part) for part in inner)


class _Resolution:
    """From values as fastavro reads them to values of the reader's Arrow type. A conversion of None leaves the value."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self._writer = writer
        self._reader = reader
        self._names_branches = _has_wide_union(writer, writer.root)

    def record(self, w: dict[str, Any], r: dict[str, Any]) -> Convert | None:
        written = {field["name"]: field for field in w["fields"]}
        changed: list[tuple[str, str, Convert]] = []
        given: dict[str, Any] = {}
        for field in r["fields"]:
            name = field["name"]
            source = next((one for one in (name, *field.get("aliases", ())) if one in written), None)
            if source is not None:
                convert = self._of(written[source]["type"], field["type"], f"{r['name']}.{name}")
                if convert or source != name:
                    changed.append((name, source, convert or _as_it_is))
            elif "default" in field:
                given[name] = self._default(field["type"], field["default"])
            else:
                raise UnfitSchema(f"the writer's schema lacks the field {name} of {r['name']}, which has no default")
        if not changed and not given:
            return None

        def resolve(value: dict[str, Any]) -> dict[str, Any]:
            return {**value, **given, **{name: convert(value[source]) for name, source, convert in changed}}

        return resolve

    def _of(self, written: Any, wanted: Any, at: str) -> Convert | None:
        w, r = self._writer.node(written), self._reader.node(wanted)
        if isinstance(w, list):
            return self._from_union(w, r, at)
        if isinstance(r, list):
            return self._into_union(w, r, at)
        source, target = w["type"], r["type"]
        if source == target and source in ("record", "error"):
            return self.record(w, r)
        if source == target == "array":
            return _each_item(self._of(w["items"], r["items"], at))
        if source == target == "map":
            return _each_value(self._of(w["values"], r["values"], at))
        if source == target == "enum" and _same_name(w, r):
            return _symbol(w, r)
        if source == target == "fixed" and not (_same_name(w, r) and w["size"] == r["size"]):
            raise UnfitSchema(f"{at} is a fixed {w['name']} of {w['size']} bytes, wanted is {r['name']} of {r['size']}")
        digits = decimal_of(r)
        if digits and decimal_of(w) not in (digits, None):
            raise UnfitSchema(f"{at} is a decimal{decimal_of(w)}, wanted is a decimal{digits}")
        units = {node.get("logicalType", "").partition("timestamp-")[2] for node in (w, r)} - {""}
        if len(units) > 1:
            raise UnfitSchema(f"{at} is a {w['logicalType']}, wanted is a {r['logicalType']}")
        if source == target and source != "enum":
            return _decimal(digits[1]) if digits else None
        if (source, target) in _PROMOTED:
            return float if target in ("float", "double") else None
        if (source, target) in (("bytes", "string"), ("string", "bytes")) and not digits:
            return None  # Arrow encodes and decodes
        raise UnfitSchema(f"{at} is a {source}, wanted is a {target}")

    def _into_union(self, w: dict[str, Any], branches: list[Any], at: str) -> Convert | None:
        kept = without_null(branches)
        if w["type"] == "null" and len(kept) < len(branches):
            return None
        if wider := self._reader.wider(kept):
            return self._of(w, {"type": wider}, at)
        # Avro: the first of the same type, otherwise the first into which the value goes.
        for is_alike in (True, False):
            for n, branch in enumerate(kept):
                if is_alike and not self._alike(w, self._reader.node(branch)):
                    continue
                try:
                    convert = self._of(w, branch, at)
                except UnfitSchema:
                    continue
                return convert if len(kept) == 1 else _member(n, convert)
        raise UnfitSchema(f"{at} is a {w['type']}, which is in no part of the union that is wanted")

    def _alike(self, w: dict[str, Any], r: dict[str, Any]) -> bool:
        return bool(w["type"] == r["type"]) and ("name" not in w or _same_name(w, r))

    def _from_union(self, branches: list[Any], r: Any, at: str) -> Convert | None:
        by_type: dict[type, Convert] = {}
        by_name: dict[str, Convert] = {}
        for branch in branches:
            w = self._writer.node(branch)
            try:
                convert = (self._into_union if isinstance(r, list) else self._of)(w, r, at) or _as_it_is
            except UnfitSchema as error:
                convert = _refused(str(error))
            if "name" in w and self._names_branches:
                by_name[w["name"]] = convert
            else:
                by_type[dict if "fields" in w else bytes if w["type"] == "fixed" else _PYTHON.get(w["type"], str)] = (
                    convert
                )
        if not by_name and all(convert is _as_it_is for convert in by_type.values()):
            return None

        def resolve(value: Any) -> Any:
            if type(value) is tuple:
                return by_name[value[0]](value[1])
            return by_type[type(value)](value)

        return resolve

    def _default(self, part: Any, given: Any) -> Any:
        """A default, which is JSON, as a value for Arrow."""
        r = self._reader.node(part)
        if isinstance(r, list):
            if given is None and without_null(r) != r:
                return None
            kept = without_null(r)
            for n, branch in enumerate(kept):
                try:
                    value = self._default(branch, given)
                except (UnfitSchema, TypeError, ValueError, AttributeError):
                    continue
                return value if len(kept) == 1 or self._reader.wider(kept) else {f"member{n}": value}
            raise UnfitSchema(f"the default {given!r} is in no part of its union")
        kind = r["type"]
        if kind in ("record", "error"):
            return {
                field["name"]: self._default(field["type"], given.get(field["name"], field.get("default")))
                for field in r["fields"]
            }
        if kind == "array":
            return [self._default(r["items"], one) for one in given]
        if kind == "map":
            return [(key, self._default(r["values"], one)) for key, one in given.items()]
        if kind in ("bytes", "fixed"):
            raw = given.encode("latin-1")
            return _decimal(digits[1])(raw) if (digits := decimal_of(r)) else raw
        python = _PYTHON.get(kind, str)
        if python is float and type(given) is int:
            return float(given)
        if type(given) is not python:
            raise UnfitSchema(f"the default {given!r} is no {kind}")
        return given


def _same_name(w: dict[str, Any], r: dict[str, Any]) -> bool:
    short = w["name"].rpartition(".")[2]
    return short == r["name"].rpartition(".")[2] or not {short, w["name"]}.isdisjoint(r.get("aliases", ()))


def _as_it_is(value: Any) -> Any:
    return value


def _refused(why: str) -> Convert:
    def refuse(value: Any) -> Any:
        raise UnfitSchema(why)

    return refuse


def _member(n: int, convert: Convert | None) -> Convert:
    name = f"member{n}"
    return lambda value: {name: convert(value) if convert else value}


def _each_item(convert: Convert | None) -> Convert | None:
    return convert and (lambda items: [convert(item) for item in items])


def _each_value(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda values: list(values.items())
    return lambda values: [(key, convert(value)) for key, value in values.items()]


def _symbol(w: dict[str, Any], r: dict[str, Any]) -> Convert | None:
    known = set(r["symbols"])
    if known.issuperset(w["symbols"]):
        return None

    def resolve(symbol: str) -> Any:
        if symbol in known:
            return symbol
        if "default" in r:
            return r["default"]
        raise ValueError(f"{symbol!r} is no symbol of {r['name']}, which has no default")

    return resolve


def _decimal(scale: int) -> Convert:
    def resolve(digits: bytes) -> Decimal:
        unscaled = int.from_bytes(digits, "big", signed=True)
        if unscaled.bit_length() > 127:
            raise ValueError(f"a decimal of {len(digits)} bytes has more than 38 digits")
        return Decimal(unscaled).scaleb(-scale, _WHOLE)

    return resolve
