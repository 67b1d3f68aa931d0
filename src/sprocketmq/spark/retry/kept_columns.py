# SPDX-License-Identifier: Apache-2.0
"""Judged rows as Parquet can hold them (``verdict_store``), and back. A value of a type that Parquet lacks is kept as a string, also inside
of arrays, maps and structs; the casts there and back are exact. What is void comes back as what it is kept as: nothing casts to void.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.retry.verdict_columns import check_names, type_of_nothing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_NOTHING: Final = "void"
_INTERVAL: Final = "interval"
_TIME: Final = "time"
_TIME_SETTING: Final = "spark.sql.timeType.enabled"


def check_fields(judged: DataFrame) -> None:
    """Raises ConfigurationError (two fields of a struct have one name by Spark's rule of case, or a type is one that Spark keeps for
    itself)."""
    from pyspark.sql.types import StructType

    for field in judged.schema.fields:
        for kind in _parts(field.dataType):
            if isinstance(kind, StructType):
                check_names(f"column {field.name!r} of the judged rows has two fields", kind.names, judged)
            if kind.typeName() == _TIME and judged.sparkSession.conf.get(_TIME_SETTING, "false") != "true":
                raise ConfigurationError(
                    f"column {field.name!r} of the judged rows has the type TIME, which Spark writes only with {_TIME_SETTING}=true; "
                    "set it, or cast the column to string"
                )


def as_kept(judged: DataFrame) -> DataFrame:
    if _is_kept_as_it_is(judged.schema):
        return judged

    def column(name: str, kind: DataType) -> Column:
        if kind.typeName() == _NOTHING:
            return _column(name).cast(type_of_nothing(name)).alias(name)
        return _cast(name, kind, _replaced(kind, {_NOTHING, _INTERVAL}))

    return judged.select(*(column(field.name, field.dataType) for field in judged.schema.fields))


def as_judged(kept: DataFrame, schema: StructType) -> DataFrame:
    """``schema``: of the rows that were given to ``as_kept``."""
    if _is_kept_as_it_is(schema):
        return kept

    def column(name: str, kind: DataType) -> Column:
        return _cast(name, _replaced(kind, {_NOTHING, _INTERVAL}), _replaced(kind, {_NOTHING}))

    return kept.select(*(column(field.name, field.dataType) for field in schema.fields))


def _is_kept_as_it_is(schema: StructType) -> bool:
    return _replaced(schema, {_NOTHING, _INTERVAL}).simpleString() == schema.simpleString()


def _cast(name: str, has: DataType, wants: DataType) -> Column:
    is_same = has.simpleString() == wants.simpleString()
    return _column(name) if is_same else _column(name).cast(wants).alias(name)


def _column(name: str) -> Column:
    """A name may have a dot."""
    from pyspark.sql import functions as f

    return f.col("`" + name.replace("`", "``") + "`")


def _replaced(kind: DataType, types: set[str]) -> DataType:
    """``kind`` with strings in the place of ``types``."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    if isinstance(kind, ArrayType):
        return ArrayType(_replaced(kind.elementType, types))
    if isinstance(kind, MapType):
        return MapType(_replaced(kind.keyType, types), _replaced(kind.valueType, types))
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _replaced(field.dataType, types)) for field in kind.fields])
    return StringType() if kind.typeName() in types else kind


def _parts(kind: DataType) -> Iterator[DataType]:
    """The type, and all that it consists of."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    yield kind
    inner: list[DataType] = []
    if isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    for part in inner:
        yield from _parts(part)
