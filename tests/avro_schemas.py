# SPDX-License-Identifier: Apache-2.0
"""Records of Avro drawn at random: a schema, and values as fastavro writes them."""

from __future__ import annotations

import datetime
import io
from decimal import Decimal
from itertools import count
from typing import Any

import fastavro
from hypothesis import strategies as st

Drawn = tuple[Any, st.SearchStrategy[Any]]  # a schema, and its values

_UTC = datetime.UTC
_TIMES = st.datetimes(*map(datetime.datetime.fromisoformat, ("1900-01-01", "2200-01-01")))
_MILLIS = _TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))


def _of(primitive: str, logical: str, values: st.SearchStrategy[Any], **more: Any) -> Drawn:
    return {"type": primitive, "logicalType": logical, **more}, values


_LEAVES: list[Drawn] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=20)),
    ("string", st.text(max_size=20)),
    _of("int", "date", st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1))),
    _of("long", "timestamp-millis", _MILLIS.map(lambda time: time.replace(tzinfo=_UTC))),
    _of("long", "timestamp-micros", _TIMES.map(lambda time: time.replace(tzinfo=_UTC))),
    _of("long", "local-timestamp-millis", _MILLIS),
    _of("long", "local-timestamp-micros", _TIMES),
    _of("bytes", "decimal", st.decimals(-(10**6), 10**6, places=3), precision=12, scale=3),
    _of("bytes", "decimal", st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), precision=38, scale=0),
]


@st.composite
def schemas(draw: st.DrawFn, names: count[int] | None = None, depth: int = 2) -> Drawn:
    """Any type but a union."""
    names = names or count()
    kinds = ["leaf"] * 4 + ["enum", "fixed"] + (["array", "map", "record"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "leaf":
            leaf: Drawn = draw(st.sampled_from(_LEAVES))
            return leaf
        case "enum":
            symbols = [f"S{n}" for n in range(draw(st.integers(1, 4)))]
            return {"type": "enum", "name": f"shop.E{next(names)}", "symbols": symbols}, st.sampled_from(symbols)
        case "fixed":
            size = draw(st.integers(1, 6))
            return {"type": "fixed", "name": f"shop.F{next(names)}", "size": size}, st.binary(
                min_size=size, max_size=size
            )
        case "array":
            items, values = draw(nullables(names, depth - 1))
            return {"type": "array", "items": items}, st.lists(values, max_size=4)
        case "map":
            inner, values = draw(nullables(names, depth - 1))
            return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=5), values, max_size=4)
    record: Drawn = draw(records(names, depth - 1))
    return record


@st.composite
def nullables(draw: st.DrawFn, names: count[int], depth: int) -> Drawn:
    schema, values = draw(schemas(names, depth))
    forms: list[Drawn] = [
        (schema, values),
        (["null", schema], st.none() | values),
        ([schema, "null"], values | st.none()),
    ]
    return forms[draw(st.integers(0, 2))]


@st.composite
def records(draw: st.DrawFn, names: count[int] | None = None, depth: int = 2) -> Drawn:
    names = names or count()
    fields = [draw(nullables(names, depth)) for _ in range(draw(st.integers(1, 5)))]
    schema = {
        "type": "record",
        "name": f"shop.R{next(names)}",
        "fields": [{"name": f"f{n}", "type": field} for n, (field, _) in enumerate(fields)],
    }
    return schema, st.fixed_dictionaries({f"f{n}": values for n, (_, values) in enumerate(fields)})


def encoded(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()
